"""Seeing mail through: hand over, note what is known, store or release the answer.

Each hand-over is a task of its own, which no caller can cancel by hanging up.

Why it may be killed between any two instructions, and keep its contract (``q`` queued, ``h`` handing):

========================  =====================  ======================================================
killed                    left on disk           after the restart
========================  =====================  ======================================================
before the claim commits  nothing                the retry is the first request
before the hand-over      entry, message q       handed over now; the retry waits or gets the answer
from ``handing`` on       entry, message h       handed over again if the provider deduplicates, else
                                                 unknown: nobody can know, so nobody guesses
outcome noted             message sent/refused   the answer is stored from it
provider was busy         message q, or nothing  handed over, or the retry is the first request
answer stored             all of it              the retry gets a replay
========================  =====================  ======================================================

One more rule keeps unknown honest: after a hand-over whose outcome is not known, a provider that is busy or
refuses says something about the repetition only. The first may have been taken, so the message is not free
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import sqlite3
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts.model import AnswerClass, Contract
from sendtwice.fake_provider.emulator.answers import Told, render
from sendtwice.fake_provider.emulator.store import Message, State, Store
from sendtwice.fake_provider.emulator.upstream import Kind, Upstream

_log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0
_OPEN = frozenset({State.QUEUED, State.HANDING})


@dataclass(frozen=True, slots=True)
class Job:
    """Messages that one request asked for, and the entry that guards them."""

    entry: int | None
    messages: Sequence[Message]
    batch: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the messages, in the order of the request."""
        return tuple(message.id for message in self.messages)


class Courier:
    """Takes stored messages to the provider."""

    def __init__(
        self, contract: Contract, upstream: Upstream, store: Store, clock: Clock, *, retries_for: float
    ) -> None:
        """Hand over to ``upstream``; one that is busy is tried again for ``retries_for`` seconds."""
        self.contract, self.upstream, self.store, self.clock = contract, upstream, store, clock
        self._retries_for = retries_for
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Take up what an earlier process left."""
        self._stopping.clear()
        unfinished = self.store.unfinished()
        guarded = sorted((m for m in unfinished if m.entry is not None), key=lambda m: m.entry or 0)
        for number, group in itertools.groupby(guarded, key=lambda m: m.entry):
            entry = self.store.entry(number or 0)
            self._take_up(Job(number, list(group), batch=entry.batch if entry else False))
        for message in unfinished:
            if message.entry is None:
                self._take_up(Job(None, [message]))

    async def stop(self) -> None:
        """Let hand-overs that have begun come to their end; what waits stays queued on disk."""
        self._stopping.set()
        tasks = list(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=10)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def settled(self) -> None:
        """Wait until no message is on its way."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def running(self, entry: int) -> asyncio.Task[Any] | None:
        """Return the task that works on an entry."""
        return self._running.get(entry)

    def send(self, job: Job) -> asyncio.Task[Told]:
        """Hand over once, for a caller that waits for the answer."""
        return self._spawn(self._send(job), job.entry)

    def queue(self, job: Job) -> None:
        """Hand over with patience, after the answer was given."""
        self._spawn(self._see_through(job, job.messages), job.entry)

    def _spawn(self, work: Coroutine[Any, Any, Any], entry: int | None) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        if entry is not None:
            self._running[entry] = task

        def over(ended: asyncio.Task[Any]) -> None:
            self._tasks.discard(ended)
            if entry is not None and self._running.get(entry) is ended:
                del self._running[entry]

        task.add_done_callback(over)
        return task

    async def _send(self, job: Job) -> Told:
        """Hand over once, while the caller waits for the answer."""
        try:
            states = [await self._hand_over(message, doubtful=False) for message in job.messages]
            told, goes_on = self._conclude(job, states)
        except sqlite3.Error as error:
            # The mail may be out, and that could not be written down: what is on disk says handing.
            return render(self.contract, AnswerClass.UNKNOWN, message=f"The store failed: {error}.")
        if goes_on and not self._stopping.is_set():
            left = [_at(m, state) for m, state in zip(job.messages, states, strict=True) if state in _OPEN]
            self._spawn(self._see_through(job, left), job.entry)
        return told

    async def _see_through(self, job: Job, messages: Sequence[Message]) -> None:
        """Hand over with patience, with nobody waiting."""
        try:
            await self._to_the_end(job, messages)
        except sqlite3.Error:
            # What is on disk is true as far as it goes: the next start takes it up from there.
            _log.exception("the store failed; what was being sent goes on after a restart")

    async def _to_the_end(self, job: Job, messages: Sequence[Message]) -> None:
        states = await asyncio.gather(*map(self._patiently, messages))
        ended = {message.id: state for message, state in zip(messages, states, strict=True)}
        if self._stopping.is_set() and _OPEN & set(ended.values()):
            return  # it goes on from here when the store is opened again
        entry = None if job.entry is None else self.store.entry(job.entry)
        if entry is not None and entry.answer is None:
            known = [ended.get(m.id, m.state) for m in self.store.messages(entry.number)]
            self._conclude(job, known, final=True)
            return
        for message in messages:
            if ended[message.id] is State.QUEUED:
                self.store.mark(message, State.REFUSED)

    async def _patiently(self, message: Message) -> State:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._retries_for
        wait, state = _FIRST_WAIT, message.state
        while True:
            state = await self._hand_over(message, doubtful=state is State.HANDING)
            if state not in _OPEN:
                return state
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)
            if self._stopping.is_set():
                return state
            if loop.time() >= until:
                break
            wait = min(wait * 2, _LONGEST_WAIT)
        if state is State.HANDING:
            state = State.UNKNOWN
            self.store.mark(message, state)
        return state

    async def _hand_over(self, message: Message, *, doubtful: bool) -> State:
        """Hand a message over and note what is known of it: HANDING when asking again is safe and needed."""
        self.store.mark(message, State.HANDING)
        outcome = await self.upstream.send(message.mail, message.id)
        in_doubt = State.HANDING if self._repeatable(message) else State.UNKNOWN
        match outcome.kind:
            case Kind.SENT:
                state = State.SENT
            case Kind.REFUSED:
                state = State.UNKNOWN if doubtful else State.REFUSED
            case Kind.BUSY:
                state = in_doubt if doubtful else State.QUEUED
            case _:
                state = in_doubt
        self.store.mark(message, state, provider=outcome.id)
        return state

    def _repeatable(self, message: Message) -> bool:
        """Whether the provider would still know the key under which it may have taken this message."""
        age = self.clock.now() - message.created
        return self.upstream.deduplicates and age < self.upstream.remembers

    def _conclude(self, job: Job, states: Sequence[State], *, final: bool = False) -> tuple[Told, bool]:
        """Store or release what came of a request; return its answer, and whether the hand-over goes on.

        ``final``: patience is at its end, so nothing may be left open.
        """
        outcomes = self.contract.outcomes
        if State.HANDING in states or State.UNKNOWN in states:
            told, policy = AnswerClass.UNKNOWN, outcomes.unknown.played("kept")
        elif State.SENT in states:
            told, policy = AnswerClass.ACCEPTED, "stored"
        elif State.QUEUED in states:
            told, policy = AnswerClass.FAILED, outcomes.provider_busy.played("released")
        else:
            told, policy = AnswerClass.REFUSED, outcomes.provider_refused.played("stored")
        goes_on = not final and bool(_OPEN & set(states)) and policy != "released"
        if job.entry is None:
            if told is AnswerClass.FAILED:
                self.store.release(None, job.messages)
                goes_on = False
        elif policy == "released":
            self.store.release(job.entry, job.messages)
        elif policy == "stored" or (final and told is AnswerClass.FAILED):
            start = self.contract.retention.start.played("first-receipt")
            counted = self.clock.now() if start in {"completion", "first-success"} else None
            self.store.settle(job.entry, told, counted=counted)
        if final and policy != "released":
            for message, state in zip(job.messages, states, strict=True):
                if state is State.QUEUED:
                    self.store.mark(message, State.REFUSED)
        return render(self.contract, told, ids=job.ids, batch=job.batch), goes_on

    def _take_up(self, job: Job) -> None:
        """Go on with what a dead process left."""
        left: list[Message] = []
        for message in job.messages:
            if message.state is State.HANDING and not self._repeatable(message):
                self.store.mark(message, State.UNKNOWN)
            elif message.state in _OPEN:
                left.append(message)
        if left:
            self._spawn(self._see_through(job, left), job.entry)
        elif job.entry is not None:
            entry = self.store.entry(job.entry)
            if entry is not None and entry.answer is None:
                self._conclude(job, [m.state for m in self.store.messages(job.entry)], final=True)


def _at(message: Message, state: State) -> Message:
    return Message(message.id, message.entry, state, message.created, message.mail)
