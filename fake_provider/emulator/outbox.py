"""The API's own events on their way to whoever listens: at least once, off the path of any request.

An event is written by whoever changes the state, in the same transaction, into an :class:`EventLog`; the outbox
reads it from there, so a process that dies in between loses none::

    pending -> delivered            any 2xx
       ^  `--> dead                 the schedule is at its end, or 410: the address is gone for good
       `-- redrive (of a dead one), redeliver (of a delivered one: a duplicate on purpose)

An attempt is counted on disk before its first byte goes out. What was pending when a process died is sent again by
the next one: that is why a consumer must know an event by its id. Two claims of the contract can be played otherwise:
``events.ids: fresh`` gives every attempt an id of its own, ``events.redrive: new-id`` every redrive.

Waiting goes by the clock that is passed in, so whoever moves it moves what is due.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts.groups import Events

_log = logging.getLogger(__name__)

#: Seconds from one attempt to the next, as Standard Webhooks recommends them.
SCHEDULE = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)

_LONGEST_WAIT = 86_400.0
_STOPPING = 5.0
_GONE = 410


class EventState(StrEnum):
    """How far an event has come."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class OutEvent:
    """One thing that happened, to be told to others. ``created`` is in seconds since the epoch."""

    number: int
    id: str
    type: str
    created: float
    data: dict[str, Any]
    state: EventState = EventState.PENDING
    attempts: int = 0


class EventLog(Protocol):
    """Where events are kept, in the order in which they happened."""

    def after(self, number: int) -> Sequence[OutEvent]:
        """Return the events after the one with this number."""

    def mark(self, event: OutEvent) -> None:
        """Note the state, the attempts and the id of an event; of one that was forgotten nothing."""


@dataclass(slots=True)
class MemoryLog:
    """Events that live as long as their process."""

    events: dict[int, OutEvent] = field(default_factory=dict)

    def add(self, kind: str, data: dict[str, Any], *, now: float) -> OutEvent:
        """Append an event and return it."""
        number = max(self.events, default=0) + 1
        event = self.events[number] = OutEvent(number, new_id(), kind, now, data)
        return event

    def after(self, number: int) -> Sequence[OutEvent]:
        """Return the events after the one with this number."""
        return [event for event in self.events.values() if event.number > number]

    def mark(self, event: OutEvent) -> None:
        """Note the state, the attempts and the id of an event."""
        if event.number in self.events:
            self.events[event.number] = event


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one attempt: a status, or what went wrong before there was any."""

    status: int | None = None
    problem: str | None = None
    retry_after: float | None = None

    @property
    def taken(self) -> bool:
        """Whether the event was acknowledged; a redirection is not."""
        return self.status is not None and 200 <= self.status < 300


#: Sends an event once, under the id of this attempt; never raises for what the other side does.
Send = Callable[[OutEvent], Awaitable[Answer]]


class NotPossibleError(Exception):
    """What was asked for cannot be done with this event; the text says why, and what can."""


def new_id() -> str:
    """Return an id that no other event has."""
    return f"evt_{uuid.uuid4().hex}"


class Outbox:
    """Sees events through."""

    def __init__(
        self,
        log: EventLog,
        send: Send,
        *,
        clock: Clock,
        rules: Events | None = None,
        schedule: Sequence[float] = SCHEDULE,
    ) -> None:
        """Deliver what is in ``log`` with ``send``, and after a failure again as the ``schedule`` says."""
        rules = rules or Events()
        self.log = log
        self._send, self._clock = send, clock
        self._fresh_ids = rules.ids.played("stable") == "fresh"
        self._redrive_renames = rules.redrive.played("same-id") == "new-id"
        self._once = rules.delivery.played("at-least-once") == "at-most-once"
        self._schedule = () if self._once else tuple(schedule)
        self._read = 0
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._last: dict[int, Answer] = {}
        self._due: dict[int, float] = {}
        self._moved = asyncio.Event()
        self._stopping = asyncio.Event()
        self._woken = self._running = False

    # --- From outside --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take up what an earlier process left, and from now on whatever is woken for."""
        self._running = True
        self._look()

    async def stop(self) -> None:
        """Let attempts that have begun come to their end; what is not delivered stays pending."""
        self._running = False
        self._stopping.set()
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_STOPPING)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Look for new events, as soon as whoever calls has ended its transaction."""
        if self._running and not self._woken:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._look)

    def events(self) -> Sequence[OutEvent]:
        """Return every event."""
        return self.log.after(0)

    def last(self, event: OutEvent) -> Answer | None:
        """Return what came of the latest attempt of this process."""
        return self._last.get(event.number)

    def due(self, event: OutEvent) -> float | None:
        """Return when an event that failed is tried again."""
        return self._due.get(event.number)

    def redrive(self, event_id: str) -> OutEvent:
        """Send a dead event again, with the whole schedule before it."""
        event = self._named(event_id)
        if event.state is not EventState.DEAD:
            hint = "redeliver sends it again" if event.state is EventState.DELIVERED else "it is being sent"
            raise NotPossibleError(f"{event_id!r} is {event.state}, not dead; {hint}")
        return self._again(replace(event, id=new_id()) if self._redrive_renames else event)

    def redrive_dead(self) -> list[OutEvent]:
        """Send every dead event again."""
        return [self.redrive(event.id) for event in self.events() if event.state is EventState.DEAD]

    def redeliver(self, event_id: str) -> OutEvent:
        """Send an event again that was delivered already."""
        event = self._named(event_id)
        if event.state is not EventState.DELIVERED:
            hint = "redrive sends it again" if event.state is EventState.DEAD else "wait until it is"
            raise NotPossibleError(f"{event_id!r} is {event.state}, not delivered; {hint}")
        return self._again(event)

    def forget(self) -> None:
        """Give up whatever is on its way: the log was emptied."""
        for task in self._tasks.values():
            task.cancel()
        self._last.clear()
        self._due.clear()
        self._read = 0

    async def wait(self, done: Callable[[], bool], *, timeout: float) -> bool:
        """Wait until ``done()`` holds, looking again after each step of an event; False after ``timeout`` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while not done():
                    await self._moved.wait()
        except TimeoutError:
            return done()
        return True

    async def settled(self, *, timeout: float) -> bool:
        """Wait until no event is pending."""
        return await self.wait(lambda: not self._woken and not self._tasks, timeout=timeout)

    # --- Inside --------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._woken = False
        if not self._running:
            return
        for event in self.log.after(self._read):
            self._read = max(self._read, event.number)
            if event.state is not EventState.PENDING:
                continue
            if self._once and event.attempts > 0:  # a dead process may have sent it, and nobody may send it twice
                self._mark(replace(event, state=EventState.DEAD))
            else:
                self._take_up(event)
        self._stir()

    def _take_up(self, event: OutEvent) -> None:
        task = asyncio.get_running_loop().create_task(self._see_through(event))
        self._tasks[event.number] = task

        def over(ended: asyncio.Task[None]) -> None:
            if self._tasks.get(event.number) is ended:
                del self._tasks[event.number]
            if not ended.cancelled() and (error := ended.exception()) is not None:
                _log.error("event %s was given up; a restart takes it up again", event.id, exc_info=error)
            self._stir()

        task.add_done_callback(over)

    def _again(self, event: OutEvent) -> OutEvent:
        event = self._mark(replace(event, state=EventState.PENDING))
        self._take_up(event)
        return event

    async def _see_through(self, event: OutEvent) -> None:
        waits = iter(self._schedule)
        while not self._stopping.is_set():
            event = self._mark(replace(event, attempts=event.attempts + 1))
            answer = await self._send(replace(event, id=new_id()) if self._fresh_ids else event)
            self._last[event.number] = answer
            if answer.taken:
                self._mark(replace(event, state=EventState.DELIVERED))
                return
            wait = next(waits, None)
            if wait is None or answer.status == _GONE:
                self._mark(replace(event, state=EventState.DEAD))
                return
            wait = max(wait, min(answer.retry_after or 0.0, _LONGEST_WAIT))
            await self._until(event, self._clock.now() + wait)

    async def _until(self, event: OutEvent, due: float) -> None:
        self._due[event.number] = due
        self._stir()
        waits = [asyncio.ensure_future(self._clock.reached(due)), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            self._due.pop(event.number, None)

    def _mark(self, event: OutEvent) -> OutEvent:
        self.log.mark(event)
        self._stir()
        return event

    def _stir(self) -> None:
        """Wake all who wait now; who waits later waits for the next step."""
        self._moved.set()
        self._moved = asyncio.Event()

    def _named(self, event_id: str) -> OutEvent:
        found = next((event for event in self.events() if event.id == event_id), None)
        if found is None:
            raise NotPossibleError(f"there is no event {event_id!r}; GET webhooks lists them")
        return found
