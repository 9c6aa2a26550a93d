"""What was observed, in one numbered order.

One recorder numbers every event of a run: the fake provider and the drivers live in this process, so their events
share one clock and one counter. Everything that comes later (judge, reports, replay) reads this and nothing else.
"""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What an event is about. Crossings carry the names of the boundaries."""

    ATTEMPT = "attempt"  # the driver begins an attempt
    CLIENT_REQUEST = "client.request"
    CLIENT_RESPONSE = "client.response"
    ENDED = "attempt.ended"  # answered, lost, hung up, timed out, broken
    PROVIDER_REQUEST = "provider.request"
    PROVIDER_RESPONSE = "provider.response"
    WEBHOOK_REQUEST = "webhook.request"
    WEBHOOK_RESPONSE = "webhook.response"
    STORE_REQUEST = "store.request"  # a message of the target to its store: no operation is known there
    STORE_RESPONSE = "store.response"
    UNREAD = "unread"  # the target reset a connection on which an answer was written
    DISCARDED = "discarded"  # a dead caller's message, never committed
    DELIVERY = "delivery"
    UNCOUNTED = "delivery.uncounted"  # one at the fake provider, where effects are counted elsewhere
    STRAY = "stray"
    ARMED = "fault.armed"
    FIRED = "fault.fired"
    UNFIRED = "fault.unfired"
    CRASH = "target.crash"
    RESTART = "target.restart"
    PAUSE = "target.pause"  # SIGSTOP
    RESUME = "target.resume"
    STOP = "target.stop"  # it was asked to end (SIGTERM); the RESTART's ``willingly`` says whether it did
    ADVANCED = "target.advanced"  # its clock was moved
    DIED = "target.died"
    CALL = "call"
    REPORTED = "reported"  # the provider's own event about an operation's mail was given to the target
    OPERATION = "operation"  # an operation is declared: its recipients, content and group
    ASKED = "asked"  # role client: the target is asked to perform an operation
    TOLD = "told"  # role client: what the target says became of an operation
    FINISHED = "finished"  # a finish step is over: definite or not
    EXPECTED = "expected"  # an expectation of the scenario
    OVERLAP = "overlap"  # requests that were meant to overlap: whether they did
    SETTLED = "settled"
    ELSEWHERE = "effects.elsewhere"  # effects are counted: the target's mail goes to a provider of its own
    VOID = "void"  # why a pass of this scenario would prove nothing


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that was observed. ``at`` is monotonic seconds since the start of the run."""

    seq: int
    at: float
    kind: Kind
    scenario: str | None = None
    operation: str | None = None
    attempt: str | None = None
    connection: int | None = None
    data: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the event as it stands in a history file (before redaction)."""
        shown: dict[str, Any] = {"seq": self.seq, "at": round(self.at, 6), "kind": self.kind.value}
        for name in ("scenario", "operation", "attempt", "connection"):
            value = getattr(self, name)
            if value is not None:
                shown[name] = value
        if self.data:
            shown["data"] = _plain(self.data)
        return shown


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)


class Recorder:
    """Numbers events; the only writer of a history."""

    def __init__(self) -> None:
        """Start the clock of a run."""
        self._zero = time.monotonic()
        self._numbers = itertools.count(1)
        self._by_scenario: dict[str | None, list[Event]] = {}
        self._listeners: list[Callable[[Event], None]] = []

    def now(self) -> float:
        """Return monotonic seconds since the start of the run."""
        return time.monotonic() - self._zero

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        """Call ``listener`` for every event as it is recorded."""
        self._listeners.append(listener)

    def record(
        self,
        kind: Kind,
        *,
        scenario: str | None = None,
        operation: str | None = None,
        attempt: str | None = None,
        connection: int | None = None,
        **data: Any,
    ) -> Event:
        """Append one event."""
        event = Event(next(self._numbers), self.now(), kind, scenario, operation, attempt, connection, data)
        self._by_scenario.setdefault(scenario, []).append(event)
        for listener in self._listeners:
            listener(event)
        return event

    def set_aside(self, scenario: str, name: str) -> None:
        """Give what was recorded of a scenario so far another name: it is played once more."""
        self._by_scenario[name] = [replace(event, scenario=name) for event in self._by_scenario.pop(scenario, ())]

    def forget(self, scenario: str | None) -> None:
        """Forget what was recorded of a scenario that is over and judged; what comes later is recorded again."""
        self._by_scenario.pop(scenario, None)

    @property
    def events(self) -> list[Event]:
        """Everything that is remembered, in order."""
        return sorted((e for many in self._by_scenario.values() for e in many), key=lambda event: event.seq)

    def of(self, scenario: str | None) -> list[Event]:
        """Return the events of one scenario, in order; late ones included."""
        return list(self._by_scenario.get(scenario, ()))
