"""An answer's look, filled in: the ids and recipients in it, the sentence for a person, the answers of a batch.

The emulator decides what class of answer a request gets; here that answer gets the vendor's own words and places.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sendtwice.fake_provider.contracts.wire import AnswerShape
from sendtwice.fake_provider.emulator import pointers

_HEADER = "header:"


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer tells of one mail: the id that the vendor gave it, and whom it is to."""

    id: str = ""
    to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Filled:
    """The headers and the body of an answer."""

    headers: dict[str, str]
    body: Any


def positive(shape: AnswerShape, mails: list[Told], *, batch: bool = False) -> Filled:
    """Return an answer that tells of messages; that of a ``batch`` tells of each of its mails in their order."""
    first = mails[0] if mails else Told()
    headers = {name: _text(value, first) for name, value in shape.headers.items()}
    if shape.id is not None and shape.id.startswith(_HEADER):
        headers.setdefault(shape.id.removeprefix(_HEADER), first.id)
    if not batch:
        return Filled(headers, _one(shape, shape.body, first))
    if not shape.items:
        return Filled(headers, [_one(shape, shape.body, mail) for mail in mails])
    body: dict[str, Any] = _filled(shape.body, first)
    pointers.put(body, shape.items, [_one(shape, {}, mail) for mail in mails])
    return Filled(headers, body)


def negative(shape: AnswerShape, sentence: str) -> Filled:
    """Return an answer that tells of none; the contract's own sentence stands where it has one."""
    body: dict[str, Any] = _filled(shape.body, Told())
    if shape.code is not None:
        pointers.put(body, shape.code.at, shape.code.one_of[0])
    if pointers.get(body, shape.message) is None:
        pointers.put(body, shape.message, sentence)
    return Filled(dict(shape.headers), body)


def with_flaws(filled: Filled, refused: AnswerShape, flaws: Sequence[tuple[int, str]]) -> Filled:
    """Return a batch's answer with what is wrong with some of its mails, each in its place where that is a list."""
    if not isinstance(filled.body, list):
        return filled
    items = list(filled.body)
    for at, sentence in flaws:
        items.insert(at, negative(refused, sentence).body)
    return replace(filled, body=items)


def payload(shape: AnswerShape, body: Any) -> bytes:
    """Return the bytes of a body as the vendor sends it."""
    return b"" if shape.empty else json.dumps(body, separators=(",", ":")).encode()


def id_of(shape: AnswerShape, data: Any, headers: Mapping[str, str]) -> str | None:
    """Return the id that an answer of this look names; ``headers`` by their names in lower case."""
    if shape.id is None:
        return None
    if shape.id.startswith(_HEADER):
        return headers.get(shape.id.removeprefix(_HEADER).lower())
    found = pointers.get(data, shape.id)
    return None if found is None else str(found)


def _one(shape: AnswerShape, body: dict[str, Any], mail: Told) -> Any:
    filled = _filled(body, mail)
    place = shape.id or "/id"
    # An id that the contract writes in a form of its own ("<{id}>") is there already.
    if not place.startswith(_HEADER) and pointers.get(filled, place) is None:
        pointers.put(filled, place, mail.id)
    return filled


def _filled(template: Any, mail: Told) -> Any:
    if isinstance(template, dict):
        return {name: _filled(value, mail) for name, value in template.items()}
    if template == ["{to}"]:
        return list(mail.to)
    if isinstance(template, list):
        return [_filled(item, mail) for item in template]
    return _text(template, mail) if isinstance(template, str) else template


def _text(template: str, mail: Told) -> str:
    return template.replace("{id}", mail.id).replace("{to}", ", ".join(mail.to))
