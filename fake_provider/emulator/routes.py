"""Which route of a contract a request is for."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from urllib.parse import unquote

from sendtwice.fake_provider.contracts.model import SEND, Contract, Route
from sendtwice.fake_provider.messages import Request


@dataclass(frozen=True, slots=True)
class Found:
    """A route by its name, and the ``{id}`` in the path; where only the method is wrong, the methods that are right."""

    name: str | None
    route: Route | None = None
    id: str | None = None
    allowed: tuple[str, ...] = ()


def find(contract: Contract, request: Request, *, any_path: bool = False) -> Found:
    """Return the route that is asked for.

    A path may have a prefix, because programs are pointed at a base URL that often has one. Of several routes the one
    with the longest path is meant, then the one with the fewest gaps, then the one whose query is there.
    """
    path = request.path.rstrip("/") or "/"
    allowed: list[str] = []
    candidates: list[tuple[tuple[int, int, int], Found]] = []
    for name, route in ((SEND, contract.request), *contract.routes.items()):
        match = _pattern(route.path).search(path)
        if match is None:
            continue
        if route.method != request.method:
            allowed.append(route.method)
            continue
        rank = (route.path.count("/"), -route.path.count("{"), _query(route, request))
        number = match.groupdict().get("id")
        candidates.append((rank, Found(name, route, None if number is None else unquote(number))))
    if candidates:
        return max(candidates, key=lambda candidate: candidate[0])[1]
    if any_path and request.method == "POST":
        return Found(SEND, contract.request)
    return Found(None, allowed=tuple(dict.fromkeys(allowed)))


@functools.cache
def _pattern(path: str) -> re.Pattern[str]:
    """Return what a route's path looks like: a ``{name}`` is any one step."""
    steps = re.split(r"(\{\w+\})", path.rstrip("/"))
    text = "".join(
        (f"(?P<{step[1:-1]}>[^/]+)" if path.count(step) == 1 else "[^/]+") if step.startswith("{") else re.escape(step)
        for step in steps
    )
    return re.compile(text + "$")


def _query(route: Route, request: Request) -> int:
    """Return how well a route's query fits: its fields, those that are templates by their names alone."""
    given = request.query
    fits = all(name in given and ("{" in value or given[name] == value) for name, value in route.query.items())
    return len(route.query) if fits else -1
