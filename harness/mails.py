"""Mails as people send them: names, subjects and texts made by faker, and all that is odd about addresses.

Each *kind* is odd in one way. A seed draws the order of the kinds, and all words: the same seed makes the same mails,
with the same version of faker. Whatever its kind, a mail can be told from all others by its tokens (see
:mod:`attribution`): the recipient's is in the local part, the content's are near the beginning of the subject, unless
that is empty, and of the text. Subjects and texts begin with one plain character, so that any of them can be written
with an escape (see :mod:`forms`).

The addresses keep to RFC 5321 and 5322: a local part of at most 64 characters (4.5.3.1.1) that may be a quoted string
(3.2.4), and a domain whose labels may be international, in Unicode (RFC 6531) or in ASCII (RFC 5890).
"""

from __future__ import annotations

import importlib.util
import random
import threading
import unicodedata
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from sendtwice.harness.attribution import Content, token
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.scenario import Scenario

__all__ = ["KINDS", "Draw", "Mail", "Mails", "Words", "mails"]

MISSING = "faker is missing, which makes varied mails; pip install 'sendtwice[mails]'"
PLAIN = "plain"
#: A subject without a token: it cannot be told from another one.
EMPTY = "empty-subject"
#: RFC 5322, 2.1.1: a line should have at most 78 characters, and must have at most 998.
_SHOULD, _MUST = 78, 998
#: RFC 5321, 4.5.3.1.1.
_LOCAL = 64
#: What some programs take for the end of a line: RFC 5322's own, and those of Unicode (UAX 14) and of C.
_BREAKS = ("\r\n", "\n", "\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c")
_ASTRONAUT = "\N{WOMAN}\N{EMOJI MODIFIER FITZPATRICK TYPE-4}\N{ZERO WIDTH JOINER}\N{ROCKET}"

_INTERNATIONAL = "b\u00fccher"
#: Scenarios of plain mails, and of one mail of each other kind.
_PLAIN_ONES = {"canary", "sentinel"}
_TRIAL = "canary."


@dataclass(frozen=True, slots=True)
class Words:
    """What a mail says, and to whom by name."""

    name: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to send; pytest shows its kind as the id of a test."""

    kind: str
    to: str
    name: str
    subject: str
    text: str

    @property
    def __name__(self) -> str:
        """The kind."""
        return self.kind


def _plain_address(local: str, domain: str) -> str:
    return f"{local}@{domain}"


def _quoted(local: str, domain: str) -> str:
    return f'"{local} (at home)"@{domain}'


def _tagged(local: str, domain: str) -> str:
    return f"{local}+orders@{domain}"


def _in_ascii(local: str, domain: str) -> str:
    return f"{local}@{_INTERNATIONAL.encode('idna').decode()}.{domain}"


def _in_unicode(local: str, domain: str) -> str:
    return f"{local}@{_INTERNATIONAL}.{domain}"


def _upper(local: str, domain: str) -> str:
    return f"{local.upper()}@{domain}"


def _long(local: str, domain: str) -> str:
    return f"{f'{local}.'.ljust(_LOCAL, 'x')}@{domain}"


def _plain_words(fake: Any, content: Content) -> Words:
    name = fake.name()
    subject = f"Receipt {content.subject} {fake.sentence()}"
    return Words(name, subject, f"Dear {name}, your order is {content.text}.\n\n{fake.paragraph()}\n")


def _longer_than(length: int) -> Callable[[Any, Content], Words]:
    def words(fake: Any, content: Content) -> Words:
        plain = _plain_words(fake, content)
        subject = plain.subject
        while len(subject) <= length:
            subject += f" {fake.sentence()}"
        return Words(plain.name, subject, plain.text)

    return words


def _without_subject(fake: Any, content: Content) -> Words:
    plain = _plain_words(fake, content)
    return Words(plain.name, "", plain.text)


def _right_to_left(fake: Any, content: Content) -> Words:
    name = fake.name()
    return Words(name, f"{fake.sentence()} {content.subject}", f"{name}: {content.text}\n\n{fake.paragraph()}\n")


def _emoji(fake: Any, content: Content) -> Words:
    plain = _plain_words(fake, content)
    subject = f"Receipt \N{RECEIPT} {content.subject} {_ASTRONAUT}"
    return Words(plain.name, subject, f"{plain.text}{_ASTRONAUT} \N{PARTY POPPER} \U0001f1ea\U0001f1fa\n")


def _combining(fake: Any, content: Content) -> Words:
    apart = unicodedata.normalize("NFD", "Re\u00e7u, \u00e9t\u00e9, \u1ec7, \u00c5ngstr\u00f6m")
    plain = _plain_words(fake, content)
    subject = f"{apart} {content.subject} {fake.word()}\u0301\u0323\u0308"
    return Words(plain.name, subject, f"{apart}: {content.text} o\u0308\u0304\u0301\n{plain.text}")


def _with_breaks(fake: Any, content: Content) -> Words:
    plain = _plain_words(fake, content)
    return Words(plain.name, plain.subject, plain.text + "".join(fake.sentence() + end for end in _BREAKS))


def _like_html(fake: Any, content: Content) -> Words:
    plain = _plain_words(fake, content)
    subject = f'Receipt <b>{content.subject}</b> & &amp; "{fake.word()}" \'</title>'
    text = f"<p>Your order is <b>{content.text}</b> &lt; 5 & > 3</p><!-- {fake.sentence()} --><br/>{plain.text}"
    return Words(plain.name, subject, text)


#: One draws words at a time.
_drawing = threading.Lock()
#: What each kind is like: its address, its words, and the language of these.
KINDS: dict[str, tuple[Callable[[str, str], str], Callable[[Any, Content], Words], str]] = {
    PLAIN: (_plain_address, _plain_words, "en_US"),
    "long-subject": (_plain_address, _longer_than(_SHOULD), "en_US"),
    "longest-subject": (_plain_address, _longer_than(_MUST), "en_US"),
    EMPTY: (_plain_address, _without_subject, "en_US"),
    "right-to-left": (_plain_address, _right_to_left, "ar_AA"),
    "emoji": (_plain_address, _emoji, "en_US"),
    "combining-characters": (_plain_address, _combining, "en_US"),
    "quoted-local-part": (_quoted, _plain_words, "en_US"),
    "plus-tag": (_tagged, _plain_words, "en_US"),
    "punycode-domain": (_in_ascii, _plain_words, "en_US"),
    "unicode-domain": (_in_unicode, _plain_words, "en_US"),
    "upper-case-local-part": (_upper, _plain_words, "en_US"),
    "long-local-part": (_long, _plain_words, "en_US"),
    "line-separators": (_plain_address, _with_breaks, "en_US"),
    "like-html": (_plain_address, _like_html, "en_US"),
}


class Mails:
    """All kinds of mails, one of each, in the order that ``seed`` draws."""

    def __init__(self, seed: int = 1) -> None:
        """Draw the order; :class:`HarnessError` when faker is missing."""
        if not available():
            raise HarnessError(MISSING)
        self.seed = seed
        self.left_out: set[str] = set()
        self._order = _drawn(f"{seed}", ())

    def kinds(self) -> tuple[str, ...]:
        """Return the names of the kinds."""
        return tuple(kind for kind in self._order if kind not in self.left_out)

    def mail(
        self,
        kind: str = PLAIN,
        recipient: str | None = None,
        subject: str | None = None,
        text: str | None = None,
        *,
        address: str = "{token}@sendtwice.test",
    ) -> Mail:
        """Return a mail with these tokens; without them, with tokens that the seed draws.

        ``address``: a template with ``{token}`` before its ``@``.
        """
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind of mail; there are {', '.join(KINDS)}")
        draw = random.Random(f"{self.seed}:{kind}")
        drawn = [token(prefix, draw.choice) for prefix in "rst"]
        content = Content(subject or drawn[1], text or drawn[2])
        words = self.words(kind, content)
        to = self.address(kind, recipient or drawn[0], address)
        return Mail(kind, to, words.name, words.subject, words.text)

    def words(self, kind: str, content: Content) -> Words:
        """Return what a mail of this kind says."""
        _, make, language = KINDS[kind]
        with _drawing:
            fake = _faker(language)
            fake.seed_instance(f"{self.seed}:{kind}")
            return make(fake, content)

    def address(self, kind: str, local: str, template: str) -> str:
        """Return an address of this kind: ``local`` in the place of ``{token}``."""
        before, _, domain = template.rpartition("@")
        return KINDS[kind][0](before.replace("{token}", local), domain)

    def __iter__(self) -> Iterator[Mail]:
        """One mail of each kind."""
        return (self.mail(kind) for kind in self.kinds())

    def __contains__(self, mail: object) -> bool:
        """Whether a mail is one of them."""
        return any(mail == one for one in self)

    def __len__(self) -> int:
        """How many kinds there are."""
        return len(self.kinds())


class Draw:
    """The kinds of one scenario's mails: one for each recipient and each content, the same whenever it comes again.

    An operation whose recipient and content are both its own is of one kind.
    """

    def __init__(self, mails: Mails, name: str, *, only: str | None = None, without: Container[str] = ()) -> None:
        """Draw for the scenario ``name``; ``only`` this kind, or all but some."""
        self._mails = mails
        left_out = {kind for kind in KINDS if kind in mails.left_out or kind in without}
        kinds = (only,) if only is not None else _drawn(f"{mails.seed}:{name}", left_out)
        self._kinds = kinds or (PLAIN,)
        self._of: dict[tuple[str, str], str] = {}
        self._next = {"recipient": 0, "content": 0}

    def _kind(self, what: str, name: str) -> str:
        known = self._of.get((what, name))
        if known is None:
            known = self._of[what, name] = self._kinds[self._next[what] % len(self._kinds)]
            self._next[what] += 1
        return known

    def address(self, recipient: str, local: str, template: str) -> str:
        """Return the address of ``local``, which belongs to the recipient of this token."""
        return self._mails.address(self._kind("recipient", recipient), local, template)

    def words(self, name: str, content: Content) -> Words:
        """Return the words of the content that a scenario calls ``name``, with these tokens."""
        return self._mails.words(self._kind("content", name), content)


def draw(mails: Mails | None, scenario: Scenario) -> Draw | None:
    """Return the kinds of a scenario's mails; None where mails are not varied."""
    if mails is None:
        return None
    if scenario.id in _PLAIN_ONES:
        return Draw(mails, scenario.id, only=PLAIN)
    tried = scenario.id.removeprefix(_TRIAL)
    if tried != scenario.id and tried in KINDS:
        return Draw(mails, scenario.id, only=tried)
    # Two mails that differ in the subject alone must both have one.
    return Draw(mails, scenario.id, without={EMPTY} if _changes_subject(scenario.model_dump()) else ())


def trial_of(kind: str) -> str:
    """Return the name of the scenario that tries a kind."""
    return f"{_TRIAL}{kind}"


def _changes_subject(data: Any) -> bool:
    if isinstance(data, dict):
        change = data.get("change")
        changed = isinstance(change, dict) and change.get("subject") is not None
        return changed or any(map(_changes_subject, data.values()))
    return isinstance(data, list | tuple) and any(map(_changes_subject, data))


def mails(seed: int = 1) -> Mails:
    """Return mails to send, one of each kind: ``@pytest.mark.parametrize("mail", sendtwice.mails(seed=1))``."""
    return Mails(seed)


def available() -> bool:
    """Whether faker is there."""
    return importlib.util.find_spec("faker") is not None


def _drawn(seed: str, left_out: Container[str]) -> tuple[str, ...]:
    kinds = [kind for kind in KINDS if kind not in left_out]
    random.Random(seed).shuffle(kinds)
    return tuple(kinds)


@cache
def _faker(language: str) -> Any:
    from faker import Faker  # noqa: PLC0415  # few want it, and it is slow to load

    return Faker(language, use_weighting=False)
