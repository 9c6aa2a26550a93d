"""The key of a request: where it stands (D2), whether it must be there (D3), how it is written (D4).

Reading never fails: what is wrong with a key is a :class:`Refusal`. A key that is sent where none is taken is read too,
for the ledger, but guards nothing.
"""

from __future__ import annotations

import math
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import parse_qsl

from sendtwice.fake_provider.contracts.groups import CHARSETS
from sendtwice.fake_provider.contracts.model import AnswerClass, Contract
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.emulator.asked import Refusal
from sendtwice.fake_provider.messages import Request

#: RFC 8941, 3.3.3: a String, perhaps with parameters (3.1.2), which say nothing here.
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"(?:;.*)?')
#: RFC 9110, 5.6.7.
_HTTP_DATE = re.compile(r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT")

Use = Literal["optional", "required", "generated", "ignored"]


@dataclass(frozen=True, slots=True)
class Given:
    """A key as it is compared, and what came with it.

    ``sent`` is how it stood on the wire, its bytes read as Latin-1, so that an answer can echo it; ``made``: it is the
    server's own; ``until``: as long the caller wants it kept.
    """

    key: str | None = None
    claims: bool = False
    sent: str | None = None
    made: bool = False
    first_sent: float | None = None
    until: float | None = None
    problem: Refusal | None = None


NONE = Given()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something may stand: ``header``, ``query`` or ``body``, and what it is called there."""

    carrier: str
    name: str
    at: str


def use_of(contract: Contract, name: str) -> Use:
    """Return what a route does with a key."""
    route = contract.route(name)
    if route.key is not None:
        return route.key
    presence = contract.key.presence.played("optional")
    return "ignored" if route.does not in ("send", "draft") or presence == "none" else presence


def body_places(contract: Contract, name: str) -> list[str]:
    """Return the pointers to what stands in a body and is about the key, not about the mail."""
    first_sent = [contract.key.first_sent.at] if contract.key.first_sent is not None else []
    chosen = [contract.retention.chosen_at] if contract.retention.chosen_at is not None else []
    found = [*_places(contract, name), *first_sent, *chosen]
    return [place.removeprefix("body:") for place in found if place.startswith("body:")]


class Keys:
    """Reads the keys of one route."""

    def __init__(self, contract: Contract, name: str) -> None:
        """Read them as ``contract`` plays the route ``name``."""
        rules, retention = contract.key, contract.retention
        self.use = use_of(contract, name)
        self._places = list(map(_place, _places(contract, name)))
        self._first_sent = None if rules.first_sent is None else _place(rules.first_sent.at)
        self._window = math.inf if rules.first_sent is None else rules.first_sent.window.played(math.inf)
        self._chosen = None if retention.chosen_at is None else _place(retention.chosen_at)
        self._longest = retention.chosen_max.played(math.inf)
        self._refuses_foreign = rules.foreign.played("ignored") == "refused"
        self._repeated = rules.repeated.played("invalid")
        self._trimmed = rules.blanks.played("kept") == "trimmed"
        self._empty_is_absent = rules.empty.played("invalid") == "absent"
        self._passes_invalid = rules.invalid.played("refuse") == "ignore"
        self._form = rules.form.played("bare")
        self._folded = rules.case.played("sensitive") == "folded"
        self._unit = rules.unit.played("characters")
        self._least, self._most = rules.min.played(1), rules.max.played(-1)
        self._charset = rules.charset.played("any")

    def read(self, request: Request, body: Any, *, now: float) -> Given:
        """Return the key of a request."""
        place, values = _values(self._places, request, body)
        if self.use == "ignored":
            return self._foreign(values[0]) if values else NONE
        if len(values) > 1 and self._repeated != "first":
            if self._repeated == "invalid":
                return self._invalid(values[0], f"{place.name} is given more than once.")
            values = [", ".join(map(str, values))]
        text = values[0] if values else None
        if text is not None and not isinstance(text, str):
            return self._invalid(None, f"The key at {place.name} is not text.")
        text = text.strip(" \t") if text is not None and self._trimmed else text
        if text == "" and self._empty_is_absent:
            text = None
        if text is None:
            return self._missing(request, body)
        key, problem = self._compared(text)
        if problem is not None:
            return self._invalid(key, problem)
        until, problem = self._until(request, body, now)
        if problem is not None:
            return self._invalid(key, problem)
        sent = self._on_the_wire(place, request, values[0])
        if self._first_sent is None:
            return Given(key, claims=True, sent=sent, until=until)
        first_sent = _asserted(self._first_sent, request, body)
        if first_sent is None:
            return self._invalid(key, f"{self._first_sent.at} must be given with the key, as a date (RFC 9110).")
        late = None
        if abs(now - first_sent) > self._window:
            late = Refusal(AnswerClass.EXPIRED, "The first attempt is said to be too long ago, or yet to come.")
        return Given(key, claims=late is None, sent=sent, first_sent=first_sent, until=until, problem=late)

    def _on_the_wire(self, place: _Place, request: Request, text: str) -> str:
        if place.carrier != "header":
            return text.encode().decode("latin-1")
        lines = request.all(place.name)
        return ", ".join(lines) if self._repeated == "joined" else lines[0]

    def _foreign(self, value: Any) -> Given:
        problem = None
        if self._refuses_foreign:
            problem = Refusal(
                AnswerClass.REFUSED, "No key is taken here, and one that guards nothing is refused.", 501, ours=True
            )
        return Given(value if isinstance(value, str) and value else None, problem=problem)

    def _missing(self, request: Request, body: Any) -> Given:
        if self._first_sent is not None and _values([self._first_sent], request, body)[1]:
            return self._invalid(None, f"{self._first_sent.at} is given without the key that belongs to it.")
        if self.use == "required":
            return Given(problem=Refusal(AnswerClass.KEY_MISSING, f"The key ({self._places[0].at}) is missing."))
        if self.use == "generated":
            made = str(uuid.uuid4())
            return Given(made, claims=True, sent=made, made=True)
        return NONE

    def _invalid(self, key: str | None, message: str) -> Given:
        """Return a key that breaks a rule; where the contract lets it pass, the send goes out unguarded."""
        return Given(key, problem=None if self._passes_invalid else Refusal(AnswerClass.KEY_INVALID, message))

    def _compared(self, text: str) -> tuple[str, str | None]:
        """Return a key as it is compared, and what is wrong with it."""
        key = text
        match self._form:
            case "quoted":
                quoted = _QUOTED.fullmatch(text)
                if quoted is None:
                    return text, 'The key must stand in quotes: "key".'
                key = _unescaped(quoted[1])
            case "either" if len(text) >= 2 and text[0] == text[-1] == '"':
                key = _unescaped(text[1:-1])
        if self._folded:
            key = key.lower()
        try:
            encoded = key.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can carry and nothing can store
            return "", "The key must be Unicode text."
        length, least, most = len(encoded if self._unit == "bytes" else key), self._least, self._most
        if length < least or 0 <= most < length:
            bounds = f"{least} to {most}" if most >= 0 else f"at least {least}"
            return key, f"The key must have {bounds} {self._unit}."
        if self._charset in CHARSETS and not CHARSETS[self._charset].fullmatch(key):
            return key, f"The key must be {self._charset}."
        return key, None

    def _until(self, request: Request, body: Any, now: float) -> tuple[float | None, str | None]:
        """Return until when the caller wants the key kept, at most as long as the contract lets it."""
        values = _values([self._chosen], request, body)[1] if self._chosen is not None else []
        if self._chosen is None or not values:
            return None, None
        until = moment(values[0])
        if until is None:
            return None, f"{self._chosen.at} must be a time, in epoch seconds or as ISO 8601."
        return min(until, now + self._longest), None


def moment(value: Any) -> float | None:
    """Return a time that is given in epoch seconds or as ISO 8601; None when it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) <= 1e11 else None
    if not isinstance(value, str):
        return None
    if re.fullmatch(r"\d{1,11}(\.\d{1,9})?", value.strip()):
        return float(value)
    try:
        found = datetime.fromisoformat(value.strip())
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _places(contract: Contract, name: str) -> list[str]:
    own = contract.route(name).key_at
    return [own] if own is not None else [contract.key.at, *contract.key.also_at]


def _place(at: str) -> _Place:
    carrier, _, name = at.partition(":")
    return _Place(carrier, name, at)


def _values(places: list[_Place], request: Request, body: Any) -> tuple[_Place, list[Any]]:
    """Return the first place that holds something, and what it holds."""
    for place in places:
        values: list[Any]
        if place.carrier == "header":
            values = [_utf8(value) for value in request.all(place.name)]
        elif place.carrier == "query":
            pairs = parse_qsl(request.target.partition("?")[2], keep_blank_values=True)
            values = [value for known, value in pairs if known == place.name]
        else:
            found = pointers.get(body, place.name)
            values = [] if found is None else [found]
        if values:
            return place, values
    return places[0], []


def _utf8(value: str) -> str:
    """Header values arrive as Latin-1; most senders mean UTF-8."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


def _unescaped(text: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", text)


def _asserted(place: _Place, request: Request, body: Any) -> float | None:
    """Return the time of the first attempt as the caller asserts it; in a header it is an HTTP date."""
    values = _values([place], request, body)[1]
    text = values[0] if len(values) == 1 else None
    if not isinstance(text, str):
        return None
    if _HTTP_DATE.fullmatch(text):
        try:
            return parsedate_to_datetime(text).timestamp()
        except (ValueError, OverflowError):  # the 31st of February
            return None
    return None if place.carrier == "header" else moment(text)
