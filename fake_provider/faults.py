"""Crossings, faults and gates: the one interleaving primitive.

A **crossing** is a message passing a boundary in one direction. Whoever owns the wire announces it with
:meth:`Faults.meet`, and does on its socket what the returned fault says. A **hold** is a gate: the crossing
waits at it until it is released, so a window is held open rather than hoped for. Every firing is recorded;
a fault that never fired proves nothing, and :attr:`Armed.fired` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Place(StrEnum):
    """The crossings that a fault can be put on."""

    CLIENT_REQUEST = "client.request"
    CLIENT_RESPONSE = "client.response"
    PROVIDER_REQUEST = "provider.request"
    PROVIDER_RESPONSE = "provider.response"
    WEBHOOK_REQUEST = "webhook.request"
    WEBHOOK_RESPONSE = "webhook.response"
    STORE_REQUEST = "store.request"
    STORE_RESPONSE = "store.response"


class Verb(StrEnum):
    """What a fault does to a crossing."""

    LOSE = "lose"
    HOLD = "hold"
    DELAY = "delay"
    CUT = "cut"
    RESET = "reset"
    CLOSE = "close"
    TWICE = "twice"
    ANSWER = "answer"
    GARBLE = "garble"
    DRIP = "drip"


#: What each verb's argument is, in the words of an error message.
ARGUMENT = {
    Verb.LOSE: "before-answer, first-byte, in-body or in-chunks (only at client.response)",
    Verb.HOLD: "a label",
    Verb.DELAY: "seconds",
    Verb.CUT: "a number of bytes",
    Verb.RESET: "nothing",
    Verb.CLOSE: "nothing, or after-answer (only at client.response)",
    Verb.TWICE: "nothing",
    Verb.ANSWER: "a status, or an answer class such as conflict",
    Verb.GARBLE: "html, empty, half or gzip",
    Verb.DRIP: "seconds",
}
#: What a whole answer can say that is none: a page of some proxy, nothing, half of its JSON, half of its gzip.
GARBLES = ("html", "empty", "half", "gzip")
#: What a garbled or dripping answer, and one with a header of its own, is for: a caller of the fake send API.
_OF_CALLERS = frozenset({Verb.GARBLE, Verb.DRIP})

#: Which verbs a crossing knows. A provider that receives a message twice would be our own duplicate.
VERBS: dict[Place, frozenset[Verb]] = {
    Place.CLIENT_REQUEST: frozenset(Verb) - {Verb.DRIP},
    Place.CLIENT_RESPONSE: frozenset(Verb) - {Verb.TWICE},
    Place.PROVIDER_REQUEST: frozenset(Verb) - {Verb.TWICE, Verb.CUT} - _OF_CALLERS,
    Place.PROVIDER_RESPONSE: frozenset(Verb) - {Verb.TWICE} - _OF_CALLERS,
    Place.WEBHOOK_REQUEST: frozenset(Verb) - {Verb.ANSWER} - _OF_CALLERS,
    Place.WEBHOOK_RESPONSE: frozenset({Verb.LOSE, Verb.HOLD, Verb.DELAY, Verb.ANSWER}),
    Place.STORE_REQUEST: frozenset({Verb.HOLD, Verb.DELAY, Verb.RESET, Verb.CLOSE, Verb.LOSE, Verb.CUT}),
    Place.STORE_RESPONSE: frozenset({Verb.HOLD, Verb.DELAY, Verb.RESET, Verb.CLOSE, Verb.LOSE, Verb.CUT}),
}

#: Points before the message is complete; no operation is known there yet. Which places have them:
STAGES = ("connect", "headers")
STAGED: dict[Place, tuple[str, ...]] = {
    Place.CLIENT_REQUEST: STAGES,
    Place.PROVIDER_REQUEST: STAGES,
    Place.STORE_REQUEST: ("connect",),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault and its place. ``nth`` counts matching crossings from 1; ``times`` of them are hit.

    On the wire to a store, ``store`` is its name and ``message`` a part of what the message says, in any case.
    ``owner`` is whoever put it there, for those who hear of its firing. Of an answer, ``retry_after`` is how many
    seconds its header asks for, as a number or, with ``as_date``, as a date; ``location`` sends the caller to the
    ``same`` origin or to an ``other`` one; ``headers`` and ``body`` replace its own.
    """

    place: Place
    verb: Verb
    argument: str | float | None = None
    operation: str | None = None
    attempt: str | None = None
    key: str | None = None
    nth: int = 1
    times: int = 1
    stage: str | None = None
    label: str | None = None
    to: str | None = None
    store: str | None = None
    message: str | None = None
    owner: str | None = None
    retry_after: float | None = None
    as_date: bool = False
    location: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None

    def __str__(self) -> str:
        """Return the fault in the words of the scenario language."""
        argument = f" {self.argument}" if self.argument is not None and self.verb is not Verb.HOLD else ""
        if self.retry_after is not None:
            argument += f", retry after {self.retry_after:g} s{' (a date)' if self.as_date else ''}"
        if self.location is not None:
            argument += f", to {'the same' if self.location == 'same' else 'another'} origin"
        own = [*(["headers"] if self.headers else []), *(["a body"] if self.body is not None else [])]
        argument += f", with {' and '.join(own)} of its own" if own else ""
        about = " ".join(word for word in (self.store, self.stage, self.message and repr(self.message)) if word)
        return f"{self.place}{f' ({about})' if about else ''}: {self.verb}{argument}"


@dataclass(slots=True)
class Crossing:
    """A message at a boundary, as far as it is known at this stage."""

    place: Place
    stage: str | None = None
    operation: str | None = None
    attempt: str | None = None
    key: str | None = None
    recipients: tuple[str, ...] = ()
    store: str | None = None
    message: str = ""


@dataclass(slots=True)
class Armed:
    """A fault that was put on a wire: how often it was met and fired, and the gate of a hold."""

    fault: Fault
    met: int = 0
    fired: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    withdrawn: bool = False
    _again: asyncio.Event = field(default_factory=asyncio.Event)

    def fire(self) -> None:
        """Count a firing and wake whoever waits for it."""
        self.fired += 1
        self.reached.set()
        self._again.set()

    async def fired_times(self, times: int) -> None:
        """Wait until the fault has fired so often."""
        while self.fired < times:
            self._again.clear()
            await self._again.wait()

    def matches(self, crossing: Crossing) -> bool:
        """Whether the crossing is at this fault's place; unset parts match everything."""
        fault = self.fault
        return (
            not self.withdrawn
            and fault.place is crossing.place
            and fault.stage == crossing.stage
            and (fault.operation is None or fault.operation == crossing.operation)
            and (fault.attempt is None or fault.attempt == crossing.attempt)
            and (fault.key is None or fault.key == crossing.key)
            and (fault.to is None or fault.to in crossing.recipients)
            and (fault.store is None or fault.store == crossing.store)
            and (fault.message is None or fault.message.casefold() in crossing.message.casefold())
        )


class Faults:
    """The faults that lie on one set of wires."""

    def __init__(self, notice: Callable[[Fault, Crossing], None] | None = None) -> None:
        """Call ``notice`` for every firing."""
        self._armed: dict[tuple[Place, str | None], list[Armed]] = {}
        self._notice = notice

    def lie_on(self, place: Place, stage: str | None = None) -> bool:
        """Whether any fault lies there: most messages cross where there is none."""
        return (place, stage) in self._armed

    def arm(self, fault: Fault) -> Armed:
        """Put a fault on its wire."""
        if fault.verb not in VERBS[fault.place]:
            known = ", ".join(sorted(VERBS[fault.place]))
            raise ValueError(f"{fault.place} cannot be hit by {fault.verb!r}; it knows: {known}")
        armed = Armed(fault)
        self._armed.setdefault((fault.place, fault.stage), []).append(armed)
        return armed

    def withdraw(self, armed: Armed) -> None:
        """Take a fault away and let go whatever it holds."""
        armed.withdrawn = True
        armed.gate.set()
        there = (armed.fault.place, armed.fault.stage)
        # By identity: two faults that say the same are two faults.
        left = [other for other in self._armed.pop(there, ()) if other is not armed]
        if left:
            self._armed[there] = left

    def withdraw_all(self) -> None:
        """Take every fault away."""
        for armed in [armed for there in self._armed.values() for armed in there]:
            self.withdraw(armed)

    def peek(self, crossing: Crossing) -> Armed | None:
        """Return the fault that the next such crossing will meet, without counting it."""
        for armed in self._at(crossing):
            nth, times = armed.fault.nth, armed.fault.times
            if armed.matches(crossing) and nth <= armed.met + 1 < nth + times:
                return armed
        return None

    def meet(self, crossing: Crossing) -> Armed | None:
        """Return the fault that this crossing meets now, counted and noted as fired."""
        hit: Armed | None = None
        for armed in self._at(crossing):
            if not armed.matches(crossing):
                continue
            armed.met += 1
            if hit is None and armed.fault.nth <= armed.met < armed.fault.nth + armed.fault.times:
                hit = armed
        if hit is not None:
            if self._notice is not None:
                self._notice(hit.fault, crossing)
            hit.fire()
        return hit

    def _at(self, crossing: Crossing) -> Sequence[Armed]:
        return self._armed.get((crossing.place, crossing.stage), ())
