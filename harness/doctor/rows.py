"""What the doctor finds: one row for each thing that was looked at, with what was seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sendtwice.fake_provider.faults import GARBLES, STAGED, VERBS, Fault, Place, Verb

#: Seconds for what is let go, or happens by itself, to happen.
LONGEST = 5.0
#: Seconds in which nothing happens while something is held.
QUIET = 0.015
#: Seconds, of a delay.
DELAY = 0.03
#: Bytes, of a cut: in the middle of a head.
CUT = 17


class State(StrEnum):
    """What can be said of a row."""

    OK = "ok"
    WRONG = "wrong"
    MISSING = "not here"


class WrongError(Exception):
    """Something does not do what it is called; its text is what was seen."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing: on which wire, or of which kind; what; what was seen; and what should have been."""

    where: str
    what: str
    state: State
    seen: str
    should: str | None = None
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "where": self.where,
            "what": self.what,
            "state": str(self.state),
            "seen": self.seen,
            "should": self.should,
            "seconds": round(self.seconds, 4),
        }


@dataclass(frozen=True, slots=True)
class Seen:
    """What a probe saw, and what it should have seen: both in the same words."""

    seen: str
    should: str


def deadline() -> asyncio.Timeout:
    """Return the time in which whatever happens by itself must have happened."""
    return asyncio.timeout(LONGEST)


async def probed(where: str, what: str, probe: Callable[[], Awaitable[Seen]]) -> Row:
    """Do one probe. Whatever it runs into is what was seen: a probe that cannot end is no proof."""
    begun = time.perf_counter()
    should: str | None = None
    try:
        async with deadline():
            found = await probe()
        seen, should = found.seen, found.should
    except TimeoutError:
        seen = f"it did not come to its end within {LONGEST:g} s"
    except WrongError as wrong:
        seen = str(wrong)
    except Exception as error:  # noqa: BLE001  # what is broken may raise anything
        seen = " ".join(f"{type(error).__name__}: {error}".split())
    seconds = time.perf_counter() - begun
    good = seen == should
    return Row(where, what, State.OK if good else State.WRONG, seen, None if good else should, seconds)


def faults_of(*places: Place, served: bool = False) -> Iterator[Fault]:
    """Return every fault of some crossings, with every kind of argument that it takes.

    ``served``: it is we who answer there, and what only a server can do to an answer is among them.
    """
    for place in places:
        for verb in (verb for verb in Verb if verb in VERBS[place]):
            for argument in (*_arguments(place, verb), *(_served(place, verb) if served else ())):
                yield Fault(place, verb, argument)


def early_faults_of(place: Place) -> Iterator[Fault]:
    """Return what can be done to a message of which not all is there."""
    for stage in STAGED.get(place, ()):
        for verb in (Verb.LOSE, Verb.HOLD, Verb.DELAY, Verb.RESET, Verb.CLOSE, Verb.ANSWER):
            if verb in VERBS[place]:
                yield Fault(place, verb, _arguments(place, verb)[0], stage=stage)


def _arguments(place: Place, verb: Verb) -> tuple[str | float | None, ...]:
    match verb:
        case Verb.LOSE if place is Place.CLIENT_RESPONSE:
            return ("before-answer", "first-byte", "in-body")
        case Verb.DELAY:
            return (DELAY,)
        case Verb.CUT:
            return (CUT,)
        case Verb.ANSWER:
            return (503,)
        case Verb.GARBLE | Verb.DRIP:
            return ()
        case _:
            return (None,)


def _served(place: Place, verb: Verb) -> tuple[str | float | None, ...]:
    match verb:
        case Verb.GARBLE:
            return GARBLES
        case Verb.DRIP:
            return (DELAY,)
        case Verb.LOSE if place.endswith(".response"):
            return ("in-chunks",)
        case Verb.CLOSE if place.endswith(".response"):
            return ("after-answer",)
        case _:
            return ()


def times(count: int) -> str:
    """Return how often something happened, in words."""
    return {0: "no effect", 1: "one effect", 2: "two effects"}.get(count, f"{count} effects")


def size(count: int) -> str:
    """Return a number of bytes, in words."""
    return f"{count} byte{'' if count == 1 else 's'}"


def late(seconds: float, wanted: float) -> str:
    """Return how late something was: as late as it should be, or what is wrong about it."""
    return f"{wanted:g} s late or more" if seconds >= wanted else f"only {seconds:.3f} s late"
