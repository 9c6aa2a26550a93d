"""JSON Pointers (RFC 6901): how contracts name places in a body."""

from __future__ import annotations

from typing import Any


def parts(pointer: str) -> list[str]:
    """Return the steps of a pointer, unescaped."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def get(data: Any, pointer: str) -> Any:
    """Return the value at ``pointer``, or None when there is none."""
    for step in parts(pointer):
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and step.isdecimal() and int(step) < len(data):
            data = data[int(step)]
        else:
            return None
    return data


def put(data: dict[str, Any], pointer: str, value: Any) -> None:
    """Set the value at ``pointer``, making the mappings on the way to it."""
    *way, last = parts(pointer)
    for step in way:
        following = data.get(step)
        if not isinstance(following, dict):
            following = data[step] = {}
        data = following
    data[last] = value


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
