"""The same content in other bytes: field order, spaces, escapes and the like. Pure.

Each form has its claim in the contract (:meth:`Contract.equivalence`), which says whether it is the same request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sendtwice.harness.sends import Form


def unfit(template: Any, form: Form) -> str | None:
    """Return why a body template has nothing to write in this form, or None."""
    match form:
        case "number-form" if not _has_number(template):
            return "the request has no number"
        case "empty-fields" if not _optional(template):
            return "the request has no field that may be empty: {reply_to?} in target.api.request.body"
        case "recipient-form" if not _recipient_places(template):
            return "the request has no field that is {to} alone"
    return None


def reshaped(template: Any, form: Form | None, values: Mapping[str, Any]) -> Any:
    """Return a body template in another form, before it is filled."""
    match form:
        case "empty-fields":
            return _emptied(template, values)
        case "recipient-form":
            return _other_recipient(template)
    return template


def written(body: Any, form: Form | None, values: Mapping[str, Any]) -> bytes:
    """Return a body as bytes, in a form."""
    match form:
        case "field-order":
            body = _reordered(body)
        case "number-form":
            body = _other_numbers(body)
        case "whitespace":
            return json.dumps(body, indent=3, separators=(" ,", " : "), ensure_ascii=False).encode()
    text = json.dumps(body, ensure_ascii=False)
    if form == "escapes":
        for name in ("subject", "text"):
            plain = json.dumps(str(values.get(name, "")), ensure_ascii=False)[1:-1]
            if plain:
                text = text.replace(plain, f"\\u{ord(plain[0]):04x}{plain[1:]}")
    return text.encode()


def _reordered(data: Any) -> Any:
    """Return the same JSON with the fields of every object in the opposite order."""
    if isinstance(data, dict):
        return {name: _reordered(data[name]) for name in reversed(data)}
    return [_reordered(item) for item in data] if isinstance(data, list) else data


def _other_numbers(data: Any) -> Any:
    """Return 1 as 1.0: equal numbers (RFC 8259, 6), other bytes."""
    if isinstance(data, dict):
        return {name: _other_numbers(item) for name, item in data.items()}
    if isinstance(data, list):
        return [_other_numbers(item) for item in data]
    return float(data) if type(data) is int else data


def _has_number(template: Any) -> bool:
    if isinstance(template, dict):
        return any(map(_has_number, template.values()))
    if isinstance(template, list):
        return any(map(_has_number, template))
    return type(template) is int


def _optional(template: Any) -> bool:
    if isinstance(template, dict):
        return any(map(_optional, template.values()))
    if isinstance(template, list):
        return any(map(_optional, template))
    return isinstance(template, str) and template.startswith("{") and template.endswith("?}")


def _emptied(template: Any, values: Mapping[str, Any]) -> Any:
    """Return a template whose optional fields are null where they would be left out."""
    if isinstance(template, dict):
        return {name: _emptied(item, values) for name, item in template.items()}
    if isinstance(template, list):
        return [_emptied(item, values) for item in template]
    return None if _optional(template) and not values.get(template[1:-2]) else template


def _recipient_places(template: Any) -> bool:
    if template in (["{to}"], "{to}"):
        return True
    items = template.values() if isinstance(template, dict) else template if isinstance(template, list) else ()
    return any(map(_recipient_places, items))


def _other_recipient(template: Any) -> Any:
    """Return a template with one recipient as a text where it was a list, and the other way round."""
    if template == ["{to}"]:
        return "{to}"
    if template == "{to}":
        return ["{to}"]
    if isinstance(template, dict):
        return {name: _other_recipient(item) for name, item in template.items()}
    return [_other_recipient(item) for item in template] if isinstance(template, list) else template
