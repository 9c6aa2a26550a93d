"""The ledger: every mail that was really delivered. The only truth about effects.

It is append-only and nothing is pruned. A commit is one synchronous call: no await stands in it, so a
caller that hangs up or a task that is cancelled can neither undo nor halve it, and the count can be read at
once. Waiting is by condition, never by polling.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sendtwice.fake_provider.watched import Watched


@dataclass(frozen=True, slots=True)
class Mail:
    """A message as a caller asked for it."""

    sender: str
    recipients: tuple[str, ...]
    subject: str
    text: str
    html: str = ""
    key: str | None = None
    raw: bytes = b""

    def searchable(self) -> str:
        """Return all content in which a token may stand."""
        return "\n".join((self.subject, self.text, self.html, self.raw.decode("utf-8", "replace")))


@dataclass(frozen=True, slots=True)
class Delivery:
    """One recipient of one commit."""

    number: int
    commit: int
    at: float
    recipient: str
    mail: Mail
    operation: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return what the control API shows."""
        return {
            "number": self.number,
            "commit": self.commit,
            "at": self.at,
            "from": self.mail.sender,
            "to": self.recipient,
            "subject": self.mail.subject,
            "text": self.mail.text,
            "key": self.mail.key,
            "operation": self.operation,
        }


Listener = Callable[[Delivery], None]


@dataclass(slots=True)
class Ledger(Watched):
    """Deliveries in the order of their commits."""

    deliveries: list[Delivery] = field(default_factory=list)
    commits: int = 0
    forgotten: int = 0  # so many of the first deliveries are counted, and not shown any more
    _listeners: list[Listener] = field(default_factory=list)

    def subscribe(self, listener: Listener) -> None:
        """Call ``listener`` for each delivery, inside its commit."""
        self._listeners.append(listener)

    def commit(self, mail: Mail, *, operation: str | None = None) -> int:
        """Deliver a mail to each of its recipients and return the number of the commit."""
        self.commits += 1
        for recipient in mail.recipients:
            delivery = Delivery(self.last + 1, self.commits, time.time(), recipient, mail, operation)
            self.deliveries.append(delivery)
            for listener in self._listeners:
                listener(delivery)
        self.wake()
        return self.commits

    @property
    def last(self) -> int:
        """The number of the last delivery."""
        return self.forgotten + len(self.deliveries)

    def since(self, number: int) -> list[Delivery]:
        """Return the deliveries after the one with this number, as far as they are remembered."""
        return self.deliveries[max(0, number - self.forgotten) :]

    def forget(self) -> None:
        """Keep the count and the numbers, and nothing else, of all deliveries so far."""
        self.forgotten = self.last
        self.deliveries.clear()
