"""The points of a plan: what crossed the target's wires while it was played, and in whose time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sendtwice.fake_provider.faults import Place, Verb
from sendtwice.harness.fault_specs import STORE
from sendtwice.harness.history import Event, Kind

_CROSSINGS = {
    Kind.CLIENT_REQUEST: Place.CLIENT_REQUEST,
    Kind.PROVIDER_REQUEST: Place.PROVIDER_REQUEST,
    Kind.PROVIDER_RESPONSE: Place.PROVIDER_RESPONSE,
    Kind.STORE_REQUEST: Place.STORE_REQUEST,
    Kind.STORE_RESPONSE: Place.STORE_RESPONSE,
}


@dataclass(frozen=True, slots=True)
class Point:
    """The ``nth`` such message after ``attempt`` began and before the next one did.

    A message to a store is known by what it says; at the provider's edge it belongs to the operation, and so to its
    latest attempt.
    """

    attempt: str
    place: Place
    nth: int = 1
    store: str | None = None
    message: str | None = None
    order: int = field(default=1, compare=False)  # among all messages to that store, whatever they say

    def __str__(self) -> str:
        """Return the point in the words of a report."""
        number = f" #{self.nth}" if self.nth > 1 else ""
        about = f" {self.store} {self.message!r}" if self.store is not None else ""
        return f"{self.attempt}: {self.place.value}{about}{number}"


def found(events: Sequence[Event], *, since: int = 0) -> list[Point]:
    """Return the points of a history that were passed after the event ``since``, in their order."""
    points: list[Point] = []
    attempt: str | None = None
    latest: dict[str | None, str] = {}  # of each operation
    said: list[tuple[Place, str, str]] = []
    counts: Counter[tuple[Place, str]] = Counter()
    asking: int | None = None  # the connection of the latest message to the provider
    refused: set[int | None] = set()  # connections on which a fault answers instead of the provider
    for event in events:
        if event.kind is Kind.ATTEMPT and event.attempt is not None:
            attempt, said = event.attempt, []
            latest[event.operation] = attempt
        passed = len(points)
        place = _CROSSINGS.get(event.kind)
        if event.kind is Kind.ENDED and event.attempt == attempt and event.data.get("outcome") == "answered":
            place = Place.CLIENT_RESPONSE
        if place is Place.PROVIDER_REQUEST:
            asking = event.connection
        elif event.kind is Kind.FIRED and _answers(event):
            refused.add(asking)
        elif place is Place.PROVIDER_RESPONSE and event.connection in refused:
            # It meets no fault, and so is none of those that faults count.
            refused.discard(event.connection)
            continue
        if attempt is None or place is None:
            continue
        if place in STORE:
            store, message = str(event.data["store"]), str(event.data["message"])
            said.append((place, store, message.casefold()))
            if message:
                # As the fault counts: by the messages that contain this one's words.
                nth = sum(p is place and s == store and message.casefold() in m for p, s, m in said)
                order = sum(p is place and s == store for p, s, _ in said)
                points.append(Point(attempt, place, nth, store, message, order))
        elif place in (Place.CLIENT_REQUEST, Place.CLIENT_RESPONSE):
            if event.attempt == attempt:
                points.append(Point(attempt, place))
        elif event.operation in latest:
            whose = latest[event.operation]
            counts[place, whose] += 1
            if place is not Place.PROVIDER_RESPONSE or event.data.get("sent"):
                points.append(Point(whose, place, counts[place, whose]))
        if event.seq <= since:
            del points[passed:]
    return points


def _answers(fired: Event) -> bool:
    """Whether a fault has given an answer to a message that the provider never got."""
    return fired.data.get("place") == Place.PROVIDER_REQUEST and fired.data.get("verb") == Verb.ANSWER


def touched(events: Sequence[Event]) -> int:
    """Return the last event at which a deed was done to the target or to its wires."""
    deeds = (Kind.FIRED, Kind.CRASH, Kind.RESTART, Kind.PAUSE, Kind.RESUME, Kind.ADVANCED)
    return max((event.seq for event in events if event.kind in deeds), default=0)


def queued(events: Sequence[Event]) -> bool:
    """Whether the first attempt was answered before its mail was handed over."""
    for event in events:
        if event.kind is Kind.PROVIDER_REQUEST:
            return False
        if event.kind is Kind.ENDED:
            return True
    return False


def trace(events: Sequence[Event]) -> tuple[object, ...]:
    """Return what a play looked like from outside: two plays with equal traces left the target in the same state."""
    seen: list[object] = []
    for event in events:
        match event.kind:
            case Kind.STORE_REQUEST | Kind.STORE_RESPONSE:
                seen.append((event.kind, event.data["store"], event.data["message"]))
            case Kind.PROVIDER_REQUEST | Kind.CLIENT_REQUEST | Kind.DELIVERY | Kind.DISCARDED:
                seen.append((event.kind, event.operation, event.attempt))
            case Kind.PROVIDER_RESPONSE:
                seen.append((event.kind, event.operation, event.data.get("status"), event.data.get("sent")))
            case Kind.ENDED:
                seen.append((event.kind, event.attempt, event.data.get("outcome"), event.data.get("status")))
            case Kind.CRASH | Kind.RESTART | Kind.STOP | Kind.PAUSE | Kind.RESUME:
                seen.append((event.kind, event.data.get("process")))
    return tuple(seen)
