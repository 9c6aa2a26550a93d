"""In what two requests under one key differ: in what they ask for, or only in the form in which they ask.

The names of the forms are those of a contract's fingerprint (``field-order``, ``whitespace``, ...), so that it can say
of each whether it makes another request. Two more are never declared: ``boundary`` (of a multipart form) and ``bytes``
(of a body that nothing is known of).
"""

from __future__ import annotations

import itertools
import json
import re
from email.message import Message
from email.parser import Parser
from email.utils import parseaddr
from typing import Any
from urllib.parse import parse_qsl

from sendtwice.fake_provider.contracts import Contract

#: They ask for different things.
CONTENT = "content"

_TOKEN = re.compile(r'("(?:\\.|[^"\\])*")|\s+')
_RECIPIENTS = frozenset({"to", "cc", "bcc", "reply_to", "replyto", "recipients"})
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def differing(
    contract: Contract, first: str, second: str, content_type: str | None, other_type: str | None
) -> set[str]:
    """Return the forms in which two bodies differ, or :data:`CONTENT`; empty when they do not."""
    kinds = {_media(content_type), _media(other_type)}
    if first == second and (len(kinds) == 1 or not first):
        return set()
    if kinds == {"multipart/form-data"}:
        return _multipart(first, second, content_type or "", other_type or "")
    if first == second:
        return set()
    if kinds == {"application/x-www-form-urlencoded"}:
        return _form(first, second)
    a, b = _read(first), _read(second)
    if a is _UNREAD or b is _UNREAD:
        return {"whitespace"} if _squeezed(first) == _squeezed(second) else {"bytes"}
    return _json(contract, (first, a), (second, b))


def media_differs(content_type: str | None, other_type: str | None) -> bool:
    """Whether two content types differ in more than their parameters (a boundary, a charset)."""
    return _media(content_type) != _media(other_type)


def _media(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


# -- forms ------------------------------------------------------------------------------------------------------------


def _form(first: str, second: str) -> set[str]:
    a, b = parse_qsl(first, keep_blank_values=True), parse_qsl(second, keep_blank_values=True)
    if a == b:
        return {"escapes"}
    return {"field-order"} if sorted(a) == sorted(b) else {CONTENT}


def _multipart(first: str, second: str, content_type: str, other_type: str) -> set[str]:
    a, b = _parts(first, content_type), _parts(second, other_type)
    if not a or not b:
        return {"bytes"}
    fresh = {"boundary"} if content_type != other_type else set()
    if a == b:
        return fresh or {"whitespace"}
    return {"field-order", *fresh} if sorted(a) == sorted(b) else {CONTENT}


def _parts(body: str, content_type: str) -> list[tuple[str, str, str]]:
    whole = Parser().parsestr(f"Content-Type: {content_type}\n\n{body}")
    parts = whole.get_payload()
    if not isinstance(parts, list):
        return []
    found = []
    for part in parts:
        if isinstance(part, Message):
            disposition = str(part.get("content-disposition", ""))
            found.append((disposition, part.get_content_type(), str(part.get_payload())))
    return found


# -- JSON -------------------------------------------------------------------------------------------------------------


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


class _Unread:
    """A body that is no JSON."""


_UNREAD = _Unread()


def _read(body: str) -> Any:
    """Return a body with the order of its fields and the writing of its numbers."""
    try:
        return json.loads(
            body,
            object_pairs_hook=lambda pairs: ("fields", pairs),
            parse_int=lambda text: ("number", _Number(text)),
            parse_float=lambda text: ("number", _Number(text)),
        )
    except (ValueError, RecursionError):
        return _UNREAD


def _squeezed(body: str) -> str:
    """Return a text without the blanks that stand outside of strings."""
    return _TOKEN.sub(lambda found: found[1] or "", body)


def _json(contract: Contract, first: tuple[str, Any], second: tuple[str, Any]) -> set[str]:
    (text, a), (other, b) = first, second
    if a == b:
        return {"whitespace"} if _squeezed(text) == _squeezed(other) else {"escapes"}
    plain_a, plain_b = _counted(contract, _plain(a)), _counted(contract, _plain(b))
    needed: set[str] = set()
    if plain_a != plain_b:
        needed = _alike_but_for(plain_a, plain_b)
        if CONTENT in needed:
            return needed
    elif _counted(contract, _plain(a, numbers=False)) != _counted(contract, _plain(b, numbers=False)):
        needed = {"number-form"}
    if _order(a) != _order(b) and _order(a, sort=True) == _order(b, sort=True):
        needed = needed | {"field-order"}
    return needed  # nothing: they differ in fields that do not count


def _plain(value: Any, *, numbers: bool = True) -> Any:
    """Return a value in which the order of fields says nothing; numbers by their value, or as they are written."""
    match value:
        case ("fields", list(pairs)):
            return {str(name): _plain(item, numbers=numbers) for name, item in pairs}
        case ("number", _Number() as written):
            return ("number", float(written) if numbers else str(written))
        case list(items):
            return [_plain(item, numbers=numbers) for item in items]
        case bool(flag):
            return ("flag", flag)  # which Python calls equal to a number
    return value


def _order(value: Any, *, sort: bool = False) -> Any:
    """Return the names of a value's fields, in their order or sorted, and nothing of what is in them."""
    match value:
        case ("fields", list(pairs)):
            names = [(name, _order(item, sort=sort)) for name, item in pairs]
            return sorted(names, key=repr) if sort else names
        case list(items):
            return [_order(item, sort=sort) for item in items]
    return None


def _counted(contract: Contract, value: Any) -> Any:
    """Leave in a body what the contract's fingerprint counts."""
    claims = contract.fingerprint
    if claims.fields.judged:
        return [_take(value, pointer) for pointer in claims.fields.value or ()]
    if claims.excluded.judged:
        for pointer in claims.excluded.value or ():
            value = _without(value, pointer.split("/")[1:])
    return value


def _take(value: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        if isinstance(value, list) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(step.replace("~1", "/").replace("~0", "~"))
        else:
            return None
    return value


def _without(value: Any, steps: list[str]) -> Any:
    name = steps[0].replace("~1", "/").replace("~0", "~")
    if not isinstance(value, dict) or name not in value:
        return value
    rest = {key: item for key, item in value.items() if key != name}
    return rest if len(steps) == 1 else {**value, name: _without(value[name], steps[1:])}


def _alike_but_for(a: Any, b: Any) -> set[str]:
    """Return the fewest forms by which one of two values becomes the other."""
    forms = ("empty-fields", "recipient-order", "recipient-form")
    for size in (1, 2, 3):
        for chosen in itertools.combinations(forms, size):
            if _levelled(a, chosen) == _levelled(b, chosen):
                return set(chosen)
    return {CONTENT}


def _levelled(value: Any, forms: tuple[str, ...], name: str = "") -> Any:
    if isinstance(value, dict):
        found = {key: _levelled(item, forms, key) for key, item in value.items()}
        return {k: v for k, v in found.items() if v not in _EMPTY} if "empty-fields" in forms else found
    if isinstance(value, list):
        items = [_levelled(item, forms, name) for item in value]
        ordered = name.lower() in _RECIPIENTS and "recipient-order" in forms
        return sorted(items, key=repr) if ordered else items
    if isinstance(value, str) and name.lower() in _RECIPIENTS and "recipient-form" in forms:
        return parseaddr(value)[1].lower() or value.lower()
    return value
