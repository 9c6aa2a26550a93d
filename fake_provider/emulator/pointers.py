"""JSON Pointers (RFC 6901): how contracts name places in a body.

At a list a step may also be ``*``, each of its items, or ``name=value``, the item that has this field; there RFC 6901
knows numbers only, so neither can be taken for something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1024)
def parts(pointer: str) -> tuple[str, ...]:
    """Return the steps of a pointer, unescaped."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def get(data: Any, pointer: str) -> Any:
    """Return the value at ``pointer``, or None when there is none; with a ``*`` the list of all that there are."""
    steps = parts(pointer)
    if len(steps) == 1 and isinstance(data, dict):  # as most are
        return data.get(steps[0])
    return _get(data, steps)


def put(data: dict[str, Any], pointer: str, value: Any) -> None:
    """Set the value at ``pointer``, making the mappings on the way to it, and the items that a list does not have."""
    *way, last = parts(pointer)
    place: Any = data
    for step in way:
        place = _entered(place, step)
    if isinstance(place, list):
        number = _number(place, last)
        if number is None:
            place.append(value)
        else:
            place[number] = value
    else:
        place[last] = value


def without(data: Any, pointer: str) -> Any:
    """Return ``data`` less the member at ``pointer``; ``data`` itself stays as it is."""
    first, *rest = parts(pointer)
    if not isinstance(data, dict) or first not in data:
        return data
    copy = dict(data)
    if rest:
        copy[first] = without(copy[first], "/" + "/".join(rest))
    else:
        del copy[first]
    return copy


def _get(data: Any, steps: Sequence[str]) -> Any:
    for at, step in enumerate(steps):
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and step == "*":
            found = [value for item in data if (value := _get(item, steps[at + 1 :])) is not None]
            return [one for value in found for one in (value if isinstance(value, list) else [value])]
        elif isinstance(data, list):
            number = _number(data, step)
            data = None if number is None else data[number]
        else:
            return None
    return data


def _number(items: list[Any], step: str) -> int | None:
    """Return which item of a list a step names; None when there is none such."""
    if step.isdecimal() and step.isascii():
        return int(step) if int(step) < len(items) else None
    name, sign, value = step.partition("=")
    if not sign:
        return None
    return next((at for at, item in enumerate(items) if isinstance(item, dict) and item.get(name) == value), None)


def _entered(place: Any, step: str) -> Any:
    """Return what stands at one step, or a new mapping there when it is nothing that can be entered."""
    if isinstance(place, list):
        number = _number(place, step)
        if number is None:
            name, sign, value = step.partition("=")
            place.append({name: value} if sign else {})
            number = len(place) - 1
        following = place[number]
        if not isinstance(following, dict | list):
            following = place[number] = {}
        return following
    following = place.get(step)
    if not isinstance(following, dict | list):
        following = place[step] = {}
    return following
