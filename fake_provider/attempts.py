"""Every request that an endpoint saw, with what became of it: what the control API shows as attempts.

The log is append-only and nothing is pruned.  Requests and answers come in pairs on a connection, so the
connection says which answer belongs to which request; an attempt whose answer was lost keeps ``sent:
false``.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Request, Response


@dataclass(slots=True)
class Attempt:
    """One request, and its answer as far as there is one.

    ``call`` and ``resend``: which attempt of which call this is by the word of the library that makes it, where the
    vendor's libraries say so. ``dry_run``: it asked for nothing to be sent, as in a sandbox. ``headers`` and ``body``
    are not shown by the control API: they hold credentials and whole mails.
    """

    number: int
    at: float
    connection: int
    method: str
    path: str
    key: str | None
    operation: str | None
    mail: Mail | None
    call: str | None = None
    resend: int | None = None
    dry_run: bool = False
    status: int | None = None
    answer: str | None = None
    sent: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def as_json(self) -> dict[str, object]:
        """Return what the control API shows."""
        return {
            "number": self.number,
            "at": self.at,
            "connection": self.connection,
            "method": self.method,
            "path": self.path,
            "key": self.key,
            "operation": self.operation,
            "call": self.call,
            "resend": self.resend,
            "dry_run": self.dry_run,
            "to": list(self.mail.recipients) if self.mail else [],
            "subject": self.mail.subject if self.mail else None,
            "status": self.status,
            "answer": self.answer,
            "sent": self.sent,
        }


@dataclass(slots=True)
class Attempts:
    """The attempts at one edge, in the order of their arrival."""

    edge: str
    log: list[Attempt] = field(default_factory=list)
    forgotten: int = 0  # so many of the first are counted, and not shown any more
    _open: dict[int, Attempt] = field(default_factory=dict)
    _request: str = ""
    _response: str = ""

    def __post_init__(self) -> None:
        """Know what the edge's crossings are called."""
        self._request, self._response = f"{self.edge}.request", f"{self.edge}.response"

    @property
    def last(self) -> int:
        """The number of the last attempt."""
        return self.forgotten + len(self.log)

    def since(self, number: int) -> list[Attempt]:
        """Return the attempts after the one with this number, as far as they are remembered."""
        return self.log[max(0, number - self.forgotten) :]

    def forget(self) -> None:
        """Keep the count and the numbers, and nothing else, of all attempts so far."""
        self.forgotten = self.last
        self.log.clear()
        self._open.clear()  # some never get an answer

    def observe(self, kind: str, /, **fields: Any) -> None:
        """Take in what an endpoint observed."""
        connection = int(fields.get("connection") or 0)
        if kind == self._request:
            request: Request = fields["request"]
            attempt = Attempt(
                self.last + 1,
                time.time(),
                connection,
                request.method,
                request.path,
                fields.get("key"),
                fields.get("operation"),
                fields.get("mail"),
                fields.get("call"),
                fields.get("resend"),
                bool(fields.get("dry_run")),
                headers=request.headers,
                body=request.body,
            )
            self.log.append(attempt)
            self._open[connection] = attempt
        elif kind == self._response and connection in self._open:
            answered = self._open.pop(connection)
            response: Response = fields["response"]
            answered.status = response.status
            told = getattr(response, "kind", None)
            answered.answer = None if told is None else str(told)
            answered.sent = bool(fields.get("sent"))


def counts(attempts: list[Attempt]) -> dict[str, int]:
    """Count attempts by the class of their answers; those three are always there. Dry runs are counted apart."""
    real = [attempt for attempt in attempts if not attempt.dry_run]
    by_class = Counter(attempt.answer for attempt in real if attempt.answer is not None)
    always = {"attempts": len(real), "accepted": 0, "replayed": 0, "refused": 0}
    dry_runs = {"dry_runs": len(attempts) - len(real)} if len(real) < len(attempts) else {}
    return {**always, **by_class, "lost": sum(not attempt.sent for attempt in real), **dry_runs}
