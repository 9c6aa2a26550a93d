"""Seeing mail through: hand over, note what is known, go on with patience.

Each hand-over is a task of its own, which no caller can cancel by hanging up. What becomes of the key in the end is
decided in :mod:`endings`.

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
draft stored              message pending        a person approves it, once
approval committed        message q              handed over now; to approve it again is refused
========================  =====================  ======================================================

(A contract that says what becomes of the key in a crash is kept to that instead.)

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
from typing import Any

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts.model import AnswerClass, Contract
from sendtwice.fake_provider.emulator.answers import Told, render
from sendtwice.fake_provider.emulator.endings import Endings, Job
from sendtwice.fake_provider.emulator.events import Telling
from sendtwice.fake_provider.emulator.records import OPEN, Message, State
from sendtwice.fake_provider.emulator.store import Store
from sendtwice.fake_provider.emulator.upstream import Kind, LedgerUpstream, Upstream

__all__ = ["Courier", "Job"]

_log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0


class Courier:
    """Takes stored messages to the provider."""

    def __init__(
        self,
        contract: Contract,
        upstream: Upstream,
        store: Store,
        clock: Clock,
        *,
        telling: Telling,
        retries_for: float,
    ) -> None:
        """Hand over to ``upstream``; one that is busy is tried again for ``retries_for`` seconds."""
        self.contract, self.upstream, self.store, self.clock = contract, upstream, store, clock
        self.endings = Endings(contract, store, clock, telling)
        self.telling = telling
        #: Where mail is delivered at once, with nothing to wait for and nothing that can fail.
        self.ledger = upstream if isinstance(upstream, LedgerUpstream) else None
        self._retries_for = retries_for
        self._forwards = contract.propagation.played("not-forwarded") == "forwarded"
        self._tasks: set[asyncio.Task[Any]] = set()
        self._later: set[asyncio.Task[Any]] = set()
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Take up what an earlier process left."""
        self._stopping.clear()
        unfinished = self.store.unfinished()
        guarded = sorted((m for m in unfinished if m.entry is not None), key=lambda m: m.entry or 0)
        for number, group in itertools.groupby(guarded, key=lambda m: m.entry):
            entry = self.store.entry(number or 0)
            assert entry is not None  # a message leaves its entry in the transaction that deletes it
            self._take_up(Job(number, list(group), entry.batch, entry.route))
        for message in unfinished:
            if message.entry is None:
                self._take_up(Job(None, [message]))

    async def stop(self) -> None:
        """Let hand-overs that have begun come to their end; what waits stays queued on disk."""
        self._stopping.set()
        for task in self._later:
            task.cancel()
        tasks = [*self._tasks, *self._later]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=10)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def settled(self) -> None:
        """Wait until no message is on its way; one that waits for its time is not."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def running(self, entry: int) -> asyncio.Task[Any] | None:
        """Return the task that works on an entry."""
        return self._running.get(entry)

    def resumable(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages of a request that stopped; those in doubt may go on where the provider deduplicates."""
        for message in messages:
            if message.state is State.UNKNOWN and self._repeatable(message):
                self.endings.mark(message, State.HANDING)
        return [self.store.message(message.id) or message for message in messages]

    def send(self, job: Job) -> asyncio.Task[Told]:
        """Hand over once, for a caller that waits for the answer."""
        return self._spawn(self._send(job), job.entry)

    def queue(self, job: Job, messages: Sequence[Message] | None = None) -> None:
        """Hand over with patience what is left of a job; what has a time of its own not before it."""
        left = job.messages if messages is None else messages
        due = max((message.due or 0.0 for message in left), default=0.0)
        if due <= self.clock.now():
            self._spawn(self._see_through(job, left), job.entry)
            return
        task = asyncio.get_running_loop().create_task(self._wait_for(due, job, left))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _wait_for(self, due: float, job: Job, left: Sequence[Message]) -> None:
        await self.clock.reached(due)
        self._spawn(self._see_through(job, left), job.entry)

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
            states = [
                await self._hand_over(job, message, doubtful=message.state is State.HANDING) for message in job.messages
            ]
            told, goes_on = self.endings.conclude(job, states)
        except sqlite3.Error as error:
            # The mail may be out, and that could not be written down: what is on disk says handing.
            return render(self.contract, AnswerClass.UNKNOWN, route=job.route, message=f"The store failed: {error}.")
        if goes_on and not self._stopping.is_set():
            left = [m for m, state in zip(job.messages, states, strict=True) if state in OPEN]
            doubtful = frozenset(m.id for m, state in zip(job.messages, states, strict=True) if state is State.HANDING)
            self._spawn(self._see_through(job, left, doubtful), job.entry)
        return told

    async def _see_through(self, job: Job, messages: Sequence[Message], doubtful: frozenset[str] | None = None) -> None:
        """Hand over with patience, with nobody waiting."""
        if doubtful is None:
            doubtful = frozenset(message.id for message in messages if message.state is State.HANDING)
        try:
            states = await asyncio.gather(*(self._patiently(job, m, doubtful=m.id in doubtful) for m in messages))
            if not (self._stopping.is_set() and OPEN & set(states)):  # else it goes on from here after the next start
                self.endings.conclude(job, self._states(job, messages, states), final=True)
        except sqlite3.Error:
            # What is on disk is true as far as it goes: the next start takes it up from there.
            _log.exception("the store failed; what was being sent goes on after a restart")

    def _states(self, job: Job, messages: Sequence[Message], states: Sequence[State]) -> list[State]:
        """Return the states of all messages of a job, of which some were at their end before."""
        ended = {message.id: state for message, state in zip(messages, states, strict=True)}
        known = {} if job.entry is None else {m.id: m.state for m in self.store.messages(job.entry)}
        return [ended.get(m.id) or known.get(m.id) or m.state for m in job.messages]

    async def _patiently(self, job: Job, message: Message, *, doubtful: bool) -> State:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._retries_for
        wait = _FIRST_WAIT
        while True:
            state = await self._hand_over(job, message, doubtful=doubtful)
            doubtful = state is State.HANDING
            if state not in OPEN:
                return state
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)
            if self._stopping.is_set():
                return state
            if loop.time() >= until:
                break
            wait = min(wait * 2, _LONGEST_WAIT)
        if doubtful:
            state = State.UNKNOWN
            self.endings.mark(message, state)
        return state

    async def _hand_over(self, job: Job, message: Message, *, doubtful: bool) -> State:
        """Hand a message over and note what is known of it: HANDING when asking again is safe and needed."""
        if not self.store.begin(message, self.clock.now()):
            # Somebody else has ended it: a repeat that took its key over, or an event that told its outcome.
            known = self.store.message(message.id)
            return State.REFUSED if known is None else known.state
        forwarded = message.mail.key if self._forwards and not job.batch else None
        outcome = await self.upstream.send(message.mail, forwarded or message.id)
        known = self.store.message(message.id) or message
        in_doubt = State.HANDING if self._repeatable(known) else State.UNKNOWN
        match outcome.kind:
            case Kind.SENT:
                state = State.SENT
            case Kind.REFUSED:
                state = State.UNKNOWN if doubtful else State.REFUSED
            case Kind.BUSY:
                state = in_doubt if doubtful else State.QUEUED
            case _:
                state = in_doubt
        if known.reconciled and state is not State.SENT:
            return known.state  # an event came before the answer, and knows more than that
        self.endings.mark(message, state, provider=outcome.id)
        return state

    def _repeatable(self, message: Message) -> bool:
        """Whether the provider would still know the key under which it may have taken this message."""
        age = self.clock.now() - (message.handed or message.created)
        return self.upstream.deduplicates and age < self.upstream.remembers

    def _take_up(self, job: Job) -> None:
        """Go on with what a dead process left."""
        repeatable = all(map(self._repeatable, job.messages))
        left = self.endings.after_crash(job, repeatable=repeatable)
        if left:
            self.queue(job, left)
