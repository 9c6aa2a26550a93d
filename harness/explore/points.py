"""The points of a plan: what crossed the target's wires while it was played, and in whose time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sendtwice.fake_provider.faults import Place, Verb
from sendtwice.harness.history import Event, Kind

_CROSSINGS = {Kind.STORE_REQUEST: Place.STORE_REQUEST, Kind.STORE_RESPONSE: Place.STORE_RESPONSE}


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
    reading = _Reading()
    for event in events:
        reading.take(event)
    return [point for point, passed in reading.points if passed > since]


@dataclass(slots=True)
class _Reading:
    """A history as it is read: whose time it is, and how often what has crossed, counted as the faults count."""

    points: list[tuple[Point, int]] = field(default_factory=list)  # and the event at which each was passed
    attempt: str | None = None
    latest: dict[str | None, str] = field(default_factory=dict)  # of each operation
    said: list[tuple[Place, str, str]] = field(default_factory=list)  # to and by the stores, since the attempt began
    counts: Counter[tuple[Place, str]] = field(default_factory=Counter)
    asking: int | None = None  # the connection of the latest message to the provider
    refused: set[int | None] = field(default_factory=set)  # where a fault answers instead of the provider
    given: dict[int | None, tuple[str, int, int] | None] = field(default_factory=dict)  # answers on their way

    def take(self, event: Event) -> None:
        match event.kind:
            case Kind.ATTEMPT if event.attempt is not None:
                self.attempt, self.said = event.attempt, []
                self.latest[event.operation] = event.attempt
            case Kind.STORE_REQUEST | Kind.STORE_RESPONSE:
                self._store(event, _CROSSINGS[event.kind])
            case Kind.CLIENT_REQUEST:
                self._client(event, Place.CLIENT_REQUEST)
            case Kind.ENDED if event.data.get("outcome") == "answered":
                self._client(event, Place.CLIENT_RESPONSE)
            case Kind.PROVIDER_REQUEST:
                self.asking = event.connection
                if event.operation in self.latest:
                    whose, nth = self._counted(event, Place.PROVIDER_REQUEST)
                    self.points.append((Point(whose, Place.PROVIDER_REQUEST, nth), event.seq))
            case Kind.FIRED if _answers(event):
                self.refused.add(self.asking)
            case Kind.DELIVERY if event.connection is not None and event.connection not in self.given:
                # Here its answer meets the faults; it is noted when it is written, and it may be held until then.
                counted = self._counted(event, Place.PROVIDER_RESPONSE) if event.operation in self.latest else None
                self.given[event.connection] = None if counted is None else (*counted, event.seq)
            case Kind.PROVIDER_RESPONSE:
                self._answered(event)
            case _:
                pass

    def _counted(self, event: Event, place: Place) -> tuple[str, int]:
        whose = self.latest[event.operation]
        self.counts[place, whose] += 1
        return whose, self.counts[place, whose]

    def _store(self, event: Event, place: Place) -> None:
        if self.attempt is None:
            return
        store, message = str(event.data["store"]), str(event.data["message"])
        words = message.casefold()
        self.said.append((place, store, words))
        if message:
            # As the fault counts: by the messages that contain this one's words.
            nth = sum(p is place and s == store and words in m for p, s, m in self.said)
            order = sum(p is place and s == store for p, s, _ in self.said)
            self.points.append((Point(self.attempt, place, nth, store, message, order), event.seq))

    def _client(self, event: Event, place: Place) -> None:
        if event.attempt is not None and event.attempt == self.attempt:
            self.points.append((Point(event.attempt, place), event.seq))

    def _answered(self, event: Event) -> None:
        if event.connection in self.refused:
            # It meets no fault, and so is none of those that faults count.
            self.refused.discard(event.connection)
            return
        if event.connection in self.given:
            given = self.given.pop(event.connection)
        elif event.operation in self.latest:
            given = (*self._counted(event, Place.PROVIDER_RESPONSE), event.seq)
        else:
            given = None
        if given is not None and event.data.get("sent"):
            whose, nth, passed = given
            self.points.append((Point(whose, Place.PROVIDER_RESPONSE, nth), passed))


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
