"""Which operation does a mail belong to?

Each operation carries run-unique tokens: R in the recipient's local part, C in subject and text (each has its own, so
that a mail whose subject alone was changed is another content). A mail belongs to the operation whose tokens it
matches best. A target that rewrites its mails may swallow C: then R decides, and where several operations share R
the answer is ambiguous and says so. Operations with all tokens equal are a group: only their total can be judged.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace

from sendtwice.fake_provider.ledger import Mail

_LENGTH = 12
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def token(prefix: str, choose: Callable[[str], str] = secrets.choice) -> str:
    """Return a fresh token: lower case, as local parts get folded, and of one length, so none begins another."""
    return prefix + "".join(choose(_ALPHABET) for _ in range(_LENGTH - 1))


def _tokens(prefix: str, text: str) -> Iterator[str]:
    """Return whatever in a text may be a token."""
    at = text.find(prefix)
    while at >= 0:
        yield text[at : at + _LENGTH]
        at = text.find(prefix, at + 1)


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
    """All operations of a run, by their tokens: many thousands, so a mail's own are looked up, not compared."""

    _by_recipient: dict[str, list[Identity]] = field(default_factory=dict)
    _by_content: dict[str, list[Identity]] = field(default_factory=dict)
    _by_uid: dict[str, Identity] = field(default_factory=dict)

    def add(self, identity: Identity) -> Identity:
        """Register an operation; return the one that stands for its group."""
        known = self._by_uid.get(identity.uid)
        if known is None:
            self._by_uid[identity.uid] = known = identity
            self._by_recipient.setdefault(identity.recipient, []).append(identity)
            for part in (identity.content.subject, identity.content.text):
                self._by_content.setdefault(part, []).append(identity)
        return known

    def set_aside(self, scenario: str, name: str) -> None:
        """Let the operations of a scenario so far belong to another name: it is played once more."""
        moved = [replace(known, scenario=name) for known in self._by_uid.values() if known.scenario == scenario]
        self.forget({scenario})
        for identity in moved:
            self.add(identity)

    def forget(self, scenarios: Container[str]) -> None:
        """Forget the operations of scenarios that are over: a mail that comes for one later is a stray."""
        self._by_uid = {uid: known for uid, known in self._by_uid.items() if known.scenario not in scenarios}
        for index in (self._by_recipient, self._by_content):
            for part, many in list(index.items()):
                left = [known for known in many if known.scenario not in scenarios]
                if left:
                    index[part] = left
                else:
                    del index[part]

    def identify(self, mail: Mail, recipients: tuple[str, ...] | None = None) -> Match | None:
        """Return the operation that a mail belongs to, or None for a stray."""
        text = mail.searchable()
        found: list[Identity] = []
        for address in recipients or mail.recipients:
            local = address.rpartition("@")[0].lower() or address.lower()
            found += [i for part in _tokens("r", local) for i in self._by_recipient.get(part, ())]
        if not found:
            # A target that mails a fixed address is still known by what it says.
            parts = [*_tokens("s", text), *_tokens("t", text)]
            found = [i for part in parts for i in self._by_content.get(part, ())]
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
