"""What a request asks, understood: the value that reading makes and deciding takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sendtwice.fake_provider.contracts.model import AnswerClass
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import once


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request goes no further: the class of its answer, and one sentence for a person."""

    kind: AnswerClass
    message: str
    status: int | None = None
    preferred: int | None = None  # a status, where the contract declares it for this class
    last: bool = False  # in the last of the looks that the contract declares
    allow: tuple[str, ...] = ()  # the methods that are taken here (RFC 9110, 15.5.6)
    ours: bool = False  # said by the fake provider of itself: no vendor has a code for it


@dataclass(frozen=True)
class Identity:
    """Whose key a request has, and what it asks for: found out when somebody wants to know, which few do."""

    scope_of: Callable[[], str] = str
    fingerprint_of: Callable[[], str] = str

    @once
    def scope(self) -> str:
        """The space in which its key is looked up."""
        return self.scope_of()

    @once
    def fingerprint(self) -> str:
        """What makes another request the same as this one."""
        return self.fingerprint_of()


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, understood. ``claims`` says whether its key takes part in deduplication.

    ``refusals`` holds what is wrong with it, by the check that finds it (``contract.order``); ``edge`` comes before all
    of them, and ``server`` after. ``made``: the key is ours, not the caller's; ``sent``: the key as it stood on the
    wire. ``id`` stands in the path, ``account`` asks. ``dry_run``: nothing may come of it. ``flaws``: the mails of a
    batch that are refused while the rest is taken. ``items``: a batch in which each mail has a key of its own.
    """

    route: str | None
    path: str
    does: str = "nothing"
    mails: tuple[Mail, ...] = ()
    batch: bool = False
    key: str | None = None
    claims: bool = False
    identity: Identity = field(default_factory=Identity)
    refusals: tuple[tuple[str, Refusal], ...] = ()
    account: str = ""
    made: bool = False
    sent: str | None = None
    first_sent: float | None = None
    until: float | None = None
    due: float | None = None
    id: str | None = None
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    flaws: tuple[tuple[int, str], ...] = ()
    items: tuple[Asked, ...] = ()

    @property
    def scope(self) -> str:
        """The space in which its key is looked up."""
        return self.identity.scope

    @property
    def fingerprint(self) -> str:
        """What makes another request the same as this one."""
        return self.identity.fingerprint

    @property
    def mail(self) -> Mail | None:
        """The mail; of a batch the first."""
        return self.mails[0] if self.mails else None

    @property
    def recipients(self) -> list[tuple[str, ...]]:
        """Whom each of the mails is to."""
        return [mail.recipients for mail in self.mails]

    @property
    def refusal(self) -> Refusal | None:
        """What is wrong with it, first of all."""
        return self.refusals[0][1] if self.refusals else None

    def refused(self, check: str) -> Refusal | None:
        """Return what one check has against it."""
        return next((refusal for name, refusal in self.refusals if name == check), None)
