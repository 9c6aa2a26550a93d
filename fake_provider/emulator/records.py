"""What the emulator remembers, as values: messages, and the keys under which they were asked for.

A **message** is one mail on its way::

    pending -> queued -> handing -> sent | refused | unknown -> sent | refused
       `-> rejected  ^---------'  the provider was busy: certainly not taken, so it may be handed over again

``pending`` waits for a person; ``unknown`` becomes known by a person or by a provider's event. An **entry** is a
claimed key, and holds its answer once there is one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from sendtwice.fake_provider.contracts.model import AnswerClass
from sendtwice.fake_provider.ledger import Mail


class State(StrEnum):
    """How far a message has come."""

    PENDING = "pending"
    REJECTED = "rejected"
    QUEUED = "queued"
    HANDING = "handing"
    SENT = "sent"
    REFUSED = "refused"
    UNKNOWN = "unknown"


#: States in which a message is still on its way.
OPEN = frozenset({State.QUEUED, State.HANDING})


@dataclass(frozen=True, slots=True)
class Message:
    """One stored mail. Its id is also the key that it has towards a provider that takes keys.

    ``account``: whose it is. ``handed``: when it was first handed over. ``due``: when it may be, at the earliest.
    ``code``: why it was refused. ``provider``: the provider's own id of it. ``reconciled``: an event told its outcome.
    """

    id: str
    entry: int | None
    state: State
    created: float
    mail: Mail
    account: str = ""
    handed: float | None = None
    due: float | None = None
    code: str | None = None
    provider: str | None = None
    reconciled: bool = False


def new_id() -> str:
    """Return an id that no other message has: a UUID of version 4 (RFC 9562, 5.4)."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def new_messages(
    mails: Sequence[Mail],
    *,
    now: float,
    account: str = "",
    state: State = State.QUEUED,
    due: float | None = None,
    handed: float | None = None,
) -> list[Message]:
    """Return messages that are not stored yet; their ids are known before anything is written."""
    return [Message(new_id(), None, state, now, mail, account, handed, due) for mail in mails]


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer as it was given, kept for repeats."""

    status: int
    headers: dict[str, str]
    body: bytes

    def packed(self) -> str:
        """Return it as text."""
        return json.dumps([self.status, self.headers, self.body.decode("latin-1")])

    @classmethod
    def unpacked(cls, text: str) -> Self:
        """Read it from text."""
        status, headers, body = json.loads(text)
        return cls(status, headers, body.encode("latin-1"))


@dataclass(frozen=True, slots=True)
class Entry:
    """A claimed key; ``answer`` is None until its outcome is definite.

    ``claimed``: since when. ``counted``: from when its retention counts. ``until``: the end of it, where it has one of
    its own. ``kept``: its outcome is known to be unknown, so it is in progress until somebody ends that.
    """

    number: int
    fingerprint: str
    batch: bool
    route: str
    claimed: float
    counted: float
    until: float | None
    answer: AnswerClass | None
    kept: bool
    response: Stored | None

    @property
    def poisoned(self) -> bool:
        """Whether the key is refused from now on."""
        return self.answer is AnswerClass.KEY_INVALID


@dataclass(frozen=True, slots=True)
class Claim:
    """Who asks, under which key, for what; and from when and until when the key is remembered."""

    scope: str
    key: str
    fingerprint: str
    batch: bool = False
    route: str = "send"
    counted: float | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something to be told to others: its type, and what is told."""

    type: str
    data: dict[str, Any]


def packed(mail: Mail) -> str:
    """Return a mail as text, less its raw bytes."""
    # Lone surrogates are legal in JSON and not in SQLite's text; escapes carry them.
    return json.dumps([mail.sender, mail.recipients, mail.subject, mail.text, mail.html, mail.key])


def unpacked(text: str, raw: bytes) -> Mail:
    """Read a mail from text."""
    sender, recipients, subject, body, html, key = json.loads(text)
    return Mail(sender, tuple(recipients), subject, body, html, key, raw)
