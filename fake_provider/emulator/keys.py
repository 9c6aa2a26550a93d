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

from sendtwice.fake_provider.contracts.groups import CHARSETS, FirstSent
from sendtwice.fake_provider.contracts.groups import Key as Rules
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

    ``sent`` is how it stood on the wire; ``made``: it is the server's own; ``until``: as long the caller wants it kept.
    """

    key: str | None = None
    claims: bool = False
    sent: str | None = None
    made: bool = False
    first_sent: float | None = None
    until: float | None = None
    problem: Refusal | None = None


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


def read(contract: Contract, name: str, request: Request, body: Any, *, now: float) -> Given:
    """Return the key of a request."""
    rules, use = contract.key, use_of(contract, name)
    place, values = _values(_places(contract, name), request, body)
    if use == "ignored":
        return _ignored(rules, values[0] if values else None)
    if len(values) > 1 and rules.repeated.played("invalid") != "first":
        if rules.repeated.played("invalid") == "invalid":
            return _invalid(contract, values[0], f"{place} is given more than once.")
        values = [", ".join(map(str, values))]
    sent = values[0] if values else None
    if sent is not None and not isinstance(sent, str):
        return _invalid(contract, None, f"The key at {place} is not text.")
    text = sent.strip(" \t") if sent is not None and rules.blanks.played("kept") == "trimmed" else sent
    if text == "" and rules.empty.played("invalid") == "absent":
        text = None
    if text is None:
        return _missing(contract, name, use, request, body)
    key, problem = _read(rules, text)
    if problem is not None:
        return _invalid(contract, key, problem, sent)
    until, problem = _chosen(contract, request, body, now)
    if problem is not None:
        return _invalid(contract, key, problem, sent)
    if rules.first_sent is None:
        return Given(key, claims=True, sent=sent, until=until)
    first_sent = _asserted(rules.first_sent, request, body)
    if first_sent is None:
        return _invalid(contract, key, f"{rules.first_sent.at} must be given with the key, as a date (RFC 9110).", sent)
    late = None
    if abs(now - first_sent) > rules.first_sent.window.played(math.inf):
        late = Refusal(AnswerClass.EXPIRED, "The first attempt is said to be too long ago, or yet to come.")
    return Given(key, claims=late is None, sent=sent, first_sent=first_sent, until=until, problem=late)


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


def _values(places: list[str], request: Request, body: Any) -> tuple[str, list[Any]]:
    """Return the first place that holds something, and what it holds."""
    for place in places:
        carrier, _, name = place.partition(":")
        values: list[Any]
        if carrier == "header":
            values = [_utf8(value) for value in request.all(name)]
        elif carrier == "query":
            pairs = parse_qsl(request.target.partition("?")[2], keep_blank_values=True)
            values = [value for known, value in pairs if known == name]
        else:
            found = pointers.get(body, name)
            values = [] if found is None else [found]
        if values:
            return name, values
    return places[0].partition(":")[2], []


def _utf8(value: str) -> str:
    """Header values arrive as Latin-1; most senders mean UTF-8."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


def _ignored(rules: Rules, value: Any) -> Given:
    problem = None
    if value is not None and rules.foreign.played("ignored") == "refused":
        problem = Refusal(
            AnswerClass.REFUSED, "No key is taken here, and one that guards nothing is refused.", 501, ours=True
        )
    return Given(value if isinstance(value, str) and value else None, problem=problem)


def _missing(contract: Contract, name: str, use: Use, request: Request, body: Any) -> Given:
    first_sent = contract.key.first_sent
    if first_sent is not None and _values([first_sent.at], request, body)[1]:
        return _invalid(contract, None, f"{first_sent.at} is given without the key that belongs to it.")
    if use == "required":
        message = f"The key ({contract.key_at(name)}) is missing."
        return Given(problem=Refusal(AnswerClass.KEY_MISSING, message))
    if use == "generated":
        made = str(uuid.uuid4())
        return Given(made, claims=True, sent=made, made=True)
    return Given()


def _invalid(contract: Contract, key: str | None, message: str, sent: str | None = None) -> Given:
    """Return a key that breaks a rule; where the contract lets it pass, the send goes out unguarded."""
    if contract.key.invalid.played("refuse") == "ignore":
        return Given(key, sent=sent)
    return Given(key, sent=sent, problem=Refusal(AnswerClass.KEY_INVALID, message))


def _read(rules: Rules, text: str) -> tuple[str, str | None]:
    """Return a key as it is compared, and what is wrong with it."""
    key = text
    match rules.form.played("bare"):
        case "quoted":
            quoted = _QUOTED.fullmatch(text)
            if quoted is None:
                return text, 'The key must stand in quotes: "key".'
            key = _unescaped(quoted[1])
        case "either" if len(text) >= 2 and text[0] == text[-1] == '"':
            key = _unescaped(text[1:-1])
    if rules.case.played("sensitive") == "folded":
        key = key.lower()
    try:
        encoded = key.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can carry and nothing can store
        return "", "The key must be Unicode text."
    unit = rules.unit.played("characters")
    length, least, most = len(encoded if unit == "bytes" else key), rules.min.played(1), rules.max.played(-1)
    if length < least or 0 <= most < length:
        return key, f"The key must have {f'{least} to {most}' if most >= 0 else f'at least {least}'} {unit}."
    charset = rules.charset.played("any")
    if charset in CHARSETS and not CHARSETS[charset].fullmatch(key):
        return key, f"The key must be {charset}."
    return key, None


def _unescaped(text: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", text)


def _asserted(rules: FirstSent, request: Request, body: Any) -> float | None:
    """Return the time of the first attempt as the caller asserts it; in a header it is an HTTP date."""
    values = _values([rules.at], request, body)[1]
    text = values[0] if len(values) == 1 else None
    if not isinstance(text, str):
        return None
    if _HTTP_DATE.fullmatch(text):
        try:
            return parsedate_to_datetime(text).timestamp()
        except (ValueError, OverflowError):  # the 31st of February
            return None
    return None if rules.at.startswith("header:") else moment(text)


def _chosen(contract: Contract, request: Request, body: Any, now: float) -> tuple[float | None, str | None]:
    """Return until when the caller wants the key kept, at most as long as the contract lets it."""
    place = contract.retention.chosen_at
    values = _values([place], request, body)[1] if place is not None else []
    if not values:
        return None, None
    until = moment(values[0])
    if until is None:
        return None, f"{place} must be a time, in epoch seconds or as ISO 8601."
    return min(until, now + contract.retention.chosen_max.played(math.inf)), None
