"""What the control API is given, checked: each mistake is one sentence that says what would have been right."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any, TypeGuard

from sendtwice.fake_provider.messages import Request


class BadInputError(Exception):
    """What was given cannot be used; its text is the sentence that the caller gets."""


def near(name: str, known: Iterable[str]) -> str:
    """Return a hint at the name that was probably meant."""
    names = [str(other) for other in known]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"


def query_of(request: Request, known: tuple[str, ...]) -> dict[str, str]:
    """Return the query, which holds nothing but ``known`` names."""
    query = request.query
    for name in query:
        if name not in known:
            raise BadInputError(f"{name!r} is not a parameter here; {near(name, known)}")
    if "since" in query:
        number(query, "since", 0, whole=True)
    return query


def number(query: dict[str, str], name: str, default: float, *, whole: bool = False) -> float:
    """Return a number of the query, 0 or more."""
    if name not in query:
        return default
    given = query[name]
    wanted = "a whole number" if whole else "a number"
    try:
        value = float(int(given)) if whole else float(given)
    except (ValueError, OverflowError):
        raise BadInputError(f"{name} must be {wanted}, not {given!r}") from None
    if not math.isfinite(value) or value < 0:
        raise BadInputError(f"{name} must be {wanted}, 0 or more, not {given!r}")
    return value


def body_of(request: Request, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the body, an object with nothing but ``known`` fields; no body is an empty one."""
    if not request.body.strip():
        return {}
    given = request.json()
    if not isinstance(given, dict):
        raise BadInputError("the body must be a JSON object")
    for name in given:
        if name not in known:
            hint = near(name, known) if known else "leave it out"
            raise BadInputError(f"{name!r} is not a field here; {hint}")
    return given


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a number that can be counted with."""
    # The bound keeps out infinity, NaN and integers that are no float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e12


def text(given: dict[str, Any], name: str) -> str | None:
    """Return a field that is text, or not there."""
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise BadInputError(f"{name} must be text, not {value!r}")
    return value


def count(given: dict[str, Any], name: str) -> int:
    """Return a field that counts from 1."""
    value = given.get(name, 1)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadInputError(f"{name} must be a whole number from 1, not {value!r}")
    return value
