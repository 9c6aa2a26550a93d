"""Which route of a contract a request is for."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class _Named:
    """A route, its name, and what its path looks like."""

    name: str
    route: Route
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class _Path:
    """A path of a contract, and the routes that have it, by their methods."""

    pattern: re.Pattern[str]
    routes: dict[str, list[_Named]]


class Routes:
    """The routes of one contract.

    A path may have a prefix, because programs are pointed at a base URL that often has one. Of several paths that fit,
    the longest is meant, then the one with the fewest gaps, and of those the one whose first gap comes last: what
    stands there as it is goes before ``{id}``, whatever the method. Of several routes on one path and method the one
    is meant whose query is there.
    """

    def __init__(self, contract: Contract, *, any_path: bool = False) -> None:
        """Know the paths of ``contract``; with ``any_path`` whatever is posted elsewhere is a send too."""
        self._elsewhere = Found(SEND, contract.request) if any_path else None
        by_shape: dict[str, dict[str, list[_Named]]] = {}
        for name, route in ((SEND, contract.request), *contract.routes.items()):
            # Two paths that differ in the names of their gaps are one path.
            shape = re.sub(r"\{\w+\}", "{}", route.path.rstrip("/"))
            named = _Named(name, route, _pattern(route.path))
            by_shape.setdefault(shape, {}).setdefault(route.method, []).append(named)
        ranked = sorted(by_shape, key=_rank, reverse=True)
        self._paths = [_Path(_pattern(shape), by_shape[shape]) for shape in ranked]
        self._plain: dict[tuple[str, str], Found] = {}

    def find(self, request: Request) -> Found:
        """Return the route that is asked for."""
        plain = self._plain.get((request.method, request.target))
        if plain is not None:
            return plain
        path = request.path.rstrip("/") or "/"
        for known in self._paths:
            if known.pattern.search(path) is None:
                continue
            routes = known.routes.get(request.method)
            if routes is None:
                return self._nowhere(request, tuple(known.routes))
            named = max(routes, key=lambda named: _query(named.route, request))
            match = named.pattern.search(path)
            number = match.groupdict().get("id") if match is not None else None
            found = Found(named.name, named.route, None if number is None else unquote(number))
            if request.target == named.route.path and len(routes) == 1:
                self._plain[request.method, request.target] = found  # as nearly all are: at most one for each route
            return found
        return self._nowhere(request, ())

    def _nowhere(self, request: Request, allowed: tuple[str, ...]) -> Found:
        if self._elsewhere is not None and request.method == "POST":
            return self._elsewhere
        return Found(None, allowed=allowed)


def _rank(shape: str) -> tuple[int, int, tuple[bool, ...]]:
    steps = shape.split("/")
    return len(steps), -shape.count("{"), tuple("{" not in step for step in steps)


def _pattern(path: str) -> re.Pattern[str]:
    """Return what a route's path looks like: a ``{name}`` is any one step."""
    steps = re.split(r"(\{\w*\})", path.rstrip("/"))
    text = "".join(
        ("(?P<id>[^/]+)" if step == "{id}" and path.count(step) == 1 else "[^/]+")
        if step.startswith("{")
        else re.escape(step)
        for step in steps
    )
    return re.compile(text + "$")


def _query(route: Route, request: Request) -> int:
    """Return how well a route's query fits: its fields, those that are templates by their names alone."""
    given = request.query
    fits = all(name in given and ("{" in value or given[name] == value) for name, value in route.query.items())
    return len(route.query) if fits else -1
