"""What can be done at a point: data, so that a new deed is a line.

Faults of equal effect on the wire stand here once: at the provider's edge and a store's, to lose a message and to
reset its connection are the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from sendtwice.fake_provider.faults import Place, Verb
from sendtwice.harness.explore.points import Point


class How(StrEnum):
    """How a deed is done."""

    FAULT = "fault"  # a fault of the wire, once
    OUTAGE = "outage"  # from here on until the attempt has ended
    CRASH = "crash"  # held here, killed, restarted
    CRASH_ONE = "crash-one"  # the instance that has it is killed; the next attempt meets another one
    PAUSE = "pause"  # held here, paused; another attempt comes; resumed
    PAST_LEASE = "past-lease"  # held here until its lease has run out; another attempt comes; released
    PREEMPT = "preempt"  # held here, while the same request comes again
    PREEMPT_OTHER = "preempt-other"  # held here, while other content comes under the same key
    HANG_UP = "hang-up"  # held here, while its caller goes away and asks again


#: What is cheap, and holds a window open for as long as it takes, comes first: the first counterexample is found soon.
ORDER = (
    How.PREEMPT,
    How.PREEMPT_OTHER,
    How.HANG_UP,
    How.FAULT,
    How.OUTAGE,
    How.PAUSE,
    How.PAST_LEASE,
    How.CRASH,
    How.CRASH_ONE,
)


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that is done at a point."""

    name: str
    how: How
    verb: Verb = Verb.HOLD
    argument: str | float | None = None


def _fault(verb: Verb, argument: str | float | None = None) -> Deed:
    name = str(verb.value) if argument is None else f"{verb.value} {argument}"
    return Deed(name, How.FAULT, verb, argument)


_KILLED = (Deed("crash", How.CRASH), Deed("crash of one", How.CRASH_ONE))
_PAUSED = (Deed("pause", How.PAUSE), Deed("held past its lease", How.PAST_LEASE))
_MET = (
    Deed("met by a repeat", How.PREEMPT),
    Deed("met by other content", How.PREEMPT_OTHER),
    Deed("hang-up", How.HANG_UP),
)
_HELD = (*_KILLED, *_PAUSED, *_MET)

#: Every deed at every place, in the order of the coverage table.
DEEDS: dict[Place, tuple[Deed, ...]] = {
    Place.CLIENT_REQUEST: (_fault(Verb.RESET), _fault(Verb.CLOSE), _fault(Verb.TWICE)),
    Place.CLIENT_RESPONSE: (
        _fault(Verb.LOSE, "before-answer"),
        _fault(Verb.LOSE, "first-byte"),
        _fault(Verb.LOSE, "in-body"),
        *_KILLED,
    ),
    Place.PROVIDER_REQUEST: (
        _fault(Verb.RESET),
        _fault(Verb.CLOSE),
        *(_fault(Verb.ANSWER, status) for status in (400, 429, 500, 503)),
        *_HELD,
    ),
    Place.PROVIDER_RESPONSE: (
        _fault(Verb.RESET),
        _fault(Verb.CLOSE),
        _fault(Verb.CUT, 20),
        *(_fault(Verb.ANSWER, status) for status in (500, 504)),
        *_HELD,
    ),
    Place.STORE_REQUEST: (_fault(Verb.RESET), Deed("store down", How.OUTAGE, Verb.RESET), *_HELD),
    Place.STORE_RESPONSE: (_fault(Verb.RESET), Deed("store down", How.OUTAGE, Verb.RESET), *_HELD),
}


def at(point: Point) -> Iterator[Deed]:
    """Return what can be done at a point."""
    yield from DEEDS.get(point.place, ())
