"""What crosses a target's wires, made by hand: a history as the runner notes it, and the crossings that faults meet.

The order in which the wires announce a message, ask for a fault and note it is that of `fake_provider.http` and of
`harness.edges.store`. That they do so is shown with real processes: of a target that is explored to the end every
fault is met (`test_explore_targets.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sendtwice.fake_provider.faults import Crossing, Faults, Place
from sendtwice.harness.history import Event, Kind, Recorder

SCENARIO = "plan"
TO = "rz87eabcdefg@sendtwice.test"


@dataclass
class Crossed:
    """A message that has met the faults: after which event, and which event tells of it, if any does by now."""

    crossing: Crossing
    met: int
    told: int | None = None


@dataclass
class Wires:
    """Writes a history, and remembers at which event each crossing was."""

    recorder: Recorder = field(default_factory=Recorder)
    crossings: list[Crossed] = field(default_factory=list)
    held: list[Callable[[], None]] = field(default_factory=list)
    began: dict[str, int] = field(default_factory=dict)
    operations: dict[str, str] = field(default_factory=dict)
    connection: int = 0
    idle: list[int] = field(default_factory=list)  # connections that the target keeps

    @property
    def events(self) -> list[Event]:
        return self.recorder.of(SCENARIO)

    def note(self, kind: Kind, operation: str | None = None, attempt: str | None = None, **data: Any) -> Event:
        connection = data.pop("connection", None)
        return self.recorder.record(
            kind, scenario=SCENARIO, operation=operation, attempt=attempt, connection=connection, **data
        )

    def meet(self, event: Event, place: Place, *, told: bool = True, **about: Any) -> Crossed:
        crossed = Crossed(Crossing(place, **about), event.seq, event.seq if told else None)
        self.crossings.append(crossed)
        return crossed

    # -- a caller ----------------------------------------------------------------------------------------------

    def begin(self, attempt: str, operation: str = "first", key: str = "k1") -> None:
        self.began[attempt], self.operations[attempt] = len(self.crossings), operation
        self.note(Kind.ATTEMPT, operation, attempt, key=key)

    def ask(self, attempt: str) -> None:
        operation = self.operations[attempt]
        event = self.note(Kind.CLIENT_REQUEST, operation, attempt)
        self.meet(event, Place.CLIENT_REQUEST, operation=operation, attempt=attempt)

    def end(self, attempt: str, outcome: str = "answered", status: int = 200) -> None:
        operation = self.operations[attempt]
        event = self.note(Kind.ENDED, operation, attempt, outcome=outcome, status=status)
        if outcome == "answered":
            self.meet(event, Place.CLIENT_RESPONSE, operation=operation, attempt=attempt)

    # -- the provider ------------------------------------------------------------------------------------------

    def hand_over(self, operation: str = "first", how: str = "answered", *, recipients: int = 1) -> None:
        """A mail comes to the provider: `answered`, or its request or response is hit by a fault.

        `request-lost`, `request-answered` (an answer of the provider's edge, instead of it), `response-lost`,
        `response-answered`, `response-held` until :meth:`let_go`.
        """
        self.connection += 1
        number = self.idle.pop() if self.idle else self.connection
        wire: dict[str, Any] = {"connection": number}
        asked = self.note(Kind.PROVIDER_REQUEST, operation, **wire)
        self.meet(asked, Place.PROVIDER_REQUEST, operation=operation)
        if how.startswith("request"):
            verb = "answer" if how == "request-answered" else "reset"
            self.note(Kind.FIRED, operation, place=Place.PROVIDER_REQUEST.value, verb=verb)
            if how == "request-answered":
                self.idle.append(number)
                self.note(Kind.PROVIDER_RESPONSE, operation, **wire, status=503, sent=True, commit=None)
            return
        commit = asked.seq
        given, *_ = [
            self.note(Kind.DELIVERY, operation, **wire, recipient=TO, commit=commit) for _ in range(recipients)
        ]
        answer = self.meet(given, Place.PROVIDER_RESPONSE, told=False, operation=operation)
        if how.startswith("response"):
            verb = {"response-answered": "answer", "response-held": "hold"}.get(how, "reset")
            self.note(Kind.FIRED, operation, place=Place.PROVIDER_RESPONSE.value, verb=verb)
        sent = how in ("answered", "response-held")

        def tell() -> None:
            answer.told = self.note(Kind.PROVIDER_RESPONSE, operation, **wire, status=200, sent=sent, commit=commit).seq

        if how == "response-held":
            self.held.append(tell)
        else:
            tell()

    def let_go(self) -> None:
        """Write the answers that are held, the last one first."""
        while self.held:
            self.held.pop()()

    # -- a store -----------------------------------------------------------------------------------------------

    def store(self, store: str, message: str, place: Place = Place.STORE_REQUEST) -> None:
        event = self.note(Kind(place), store=store, message=message)
        self.meet(event, place, store=store, message=message)

    def query(self, store: str, request: str, response: str) -> None:
        self.store(store, request)
        self.store(store, response, Place.STORE_RESPONSE)

    # -- again, with a fault -----------------------------------------------------------------------------------

    def hit(self, faults: Faults, attempt: str) -> Crossed | None:
        """Let cross what crossed since an attempt began; return what the first fault that fires has hit."""
        return next((one for one in self.crossings[self.began[attempt] :] if faults.meet(one.crossing)), None)
