"""What crossed a proxy: every request, how often and with what outcome it went on, and what was done to it.

The log is append-only. An attempt is *over* when its answer was given, or when there will be none.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sendtwice.fake_provider.faults import Armed
from sendtwice.fake_provider.messages import Request, Response
from sendtwice.fake_provider.watched import Watched


@dataclass(slots=True)
class Sending:
    """One time that a request went to the upstream: the status of its answer, or what went wrong."""

    status: int | None = None
    problem: str | None = None


@dataclass(slots=True)
class Crossed:
    """One request of a caller. ``status`` is the one that it was given, or would have been."""

    number: int
    at: float
    connection: int
    method: str
    path: str
    key: str | None
    #: The request itself, for as long as it is under way: bodies are not kept.
    request: Request | None
    faults: list[Armed] = field(default_factory=list)
    forwarded: list[Sending] = field(default_factory=list)
    status: int | None = None
    sent: bool = False
    over: bool = False
    problem: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return what the control API shows."""
        return {
            "number": self.number,
            "at": self.at,
            "connection": self.connection,
            "method": self.method,
            "path": self.path,
            "key": self.key,
            "forwarded": [{"status": one.status, "problem": one.problem} for one in self.forwarded],
            "faults": [str(armed.fault) for armed in self.faults],
            "status": self.status,
            "sent": self.sent,
            "over": self.over,
            "problem": self.problem,
        }


@dataclass(slots=True)
class Log(Watched):
    """The attempts in the order of their arrival."""

    attempts: list[Crossed] = field(default_factory=list)
    _open: dict[int, Crossed] = field(default_factory=dict)

    def begin(self, request: Request, key: str | None) -> Crossed:
        """Note a request that is there as a whole; one that goes out twice is one."""
        attempt = self._open.get(request.connection)
        if attempt is None or attempt.request is not request:
            place = request.connection, request.method, request.path
            attempt = Crossed(len(self.attempts) + 1, time.time(), *place, key, request)
            self.attempts.append(attempt)
            self._open[request.connection] = attempt
        return attempt

    def open(self, connection: int) -> Crossed | None:
        """Return the attempt that is under way on a connection."""
        return self._open.get(connection)

    def end(self, connection: int) -> None:
        """Note that an attempt is over."""
        attempt = self._open.pop(connection, None)
        if attempt is not None:
            attempt.over, attempt.request = True, None
            self.wake()

    def observe(self, _: str, /, **fields: Any) -> None:
        """Take in what an endpoint observed: of an answer, whether it was given."""
        attempt = self._open.get(int(fields.get("connection") or 0))
        response: Response | None = fields.get("response")
        if attempt is not None and response is not None:
            attempt.status, attempt.sent = response.status, bool(fields.get("sent"))


def counts(attempts: Sequence[Crossed]) -> dict[str, int]:
    """Count attempts, how often they went on, and those whose answer was not given."""
    return {
        "attempts": len(attempts),
        "forwarded": sum(len(attempt.forwarded) for attempt in attempts),
        "lost": sum(attempt.over and not attempt.sent for attempt in attempts),
    }
