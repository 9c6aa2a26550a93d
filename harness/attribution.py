"""Which operation does a mail belong to?

Each operation carries run-unique tokens: R in the recipient's local part, C in subject and text (each has its own, so
that a mail whose subject alone was changed is another content). A mail belongs to the operation whose tokens it
matches best. A target that rewrites its mails may swallow C: then R decides, and where several operations share R
the answer is ambiguous and says so. Operations with all tokens equal are a group: only their total can be judged.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from sendtwice.fake_provider.ledger import Mail

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def token(prefix: str) -> str:
    """Return a fresh token: lower case, as local parts get folded, and of one length, so none begins another."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(11))


@dataclass(frozen=True, slots=True)
class Content:
    """The tokens of one content."""

    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Identity:
    """An operation's tokens and where it comes from."""

    scenario: str
    operation: str
    recipient: str
    content: Content

    @property
    def uid(self) -> str:
        """The name by which faults and deliveries know this operation's group, over all scenarios."""
        return f"{self.recipient}+{self.content.subject}+{self.content.text}"


@dataclass(frozen=True, slots=True)
class Match:
    """The operation of a mail; ``ambiguous`` when others fit as well, ``swallowed`` when C was not found."""

    identity: Identity
    swallowed: bool = False
    ambiguous: bool = False


@dataclass(slots=True)
class Attribution:
    """All operations of a run, by their tokens."""

    _by_recipient: dict[str, list[Identity]] = field(default_factory=dict)
    _by_uid: dict[str, Identity] = field(default_factory=dict)

    def add(self, identity: Identity) -> Identity:
        """Register an operation; return the one that stands for its group."""
        known = self._by_uid.get(identity.uid)
        if known is None:
            self._by_uid[identity.uid] = known = identity
            self._by_recipient.setdefault(identity.recipient, []).append(identity)
        return known

    def identify(self, mail: Mail, recipients: tuple[str, ...] | None = None) -> Match | None:
        """Return the operation that a mail belongs to, or None for a stray."""
        text = mail.searchable()
        found: list[Identity] = []
        for address in recipients or mail.recipients:
            local = address.rpartition("@")[0].lower() or address.lower()
            found += [i for known, ids in self._by_recipient.items() if known in local for i in ids]
        if not found:
            # A target that mails a fixed address is still known by what it says.
            found = [i for i in self._by_uid.values() if i.content.subject in text or i.content.text in text]
        if not found:
            return None
        scores = {i: _score(i.content, text) for i in dict.fromkeys(found)}
        best = max(scores.values())
        winners = [i for i, score in scores.items() if score == best]
        different = {(i.scenario, i.operation) for i in winners}
        return Match(winners[0], swallowed=best == 0, ambiguous=len(different) > 1)

    def of_uid(self, uid: str) -> Identity | None:
        """Return the operation that stands for a group."""
        return self._by_uid.get(uid)

    def uid(self, mail: Mail) -> str | None:
        """Return the group of a mail, for faults at the provider's edge."""
        match = self.identify(mail)
        return match.identity.uid if match else None


def _score(content: Content, text: str) -> int:
    return (content.subject in text) + (content.text in text)
