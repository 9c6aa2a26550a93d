"""The messages of an endpoint, and what stands behind one: no sockets here."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, overload
from urllib.parse import parse_qs, urlsplit

from sendtwice.fake_provider.faults import Fault

#: A target that is nothing but its path: there is no need to take it to pieces.
_PLAIN_PATH = re.compile(r"/[\w.~%-]+(?:/[\w.~%-]+)*/?", re.ASCII)

_Value = TypeVar("_Value")


class once(Generic[_Value]):  # noqa: N801  # it is written like property
    """A property that is found out when it is first asked for; ``functools.cached_property`` without its lock."""

    def __init__(self, find: Callable[[Any], _Value]) -> None:
        """Find it with ``find``."""
        self._find, self._name = find, find.__name__
        self.__doc__ = find.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> once[_Value]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> _Value: ...
    def __get__(self, owner: object | None, kind: type) -> once[_Value] | _Value:
        """Find it, and put it in its own place."""
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._find(owner)
        return value


@dataclass(frozen=True)
class Request:
    """A complete message from a caller; the names of its headers are in lower case.

    ``written`` has those names as the caller wrote them, for who passes it on.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int = 0
    written: tuple[str, ...] = ()
    version: str = "1.1"

    # Asked for again and again, by whoever has to do with it: so each is taken apart once.

    @once
    def path(self) -> str:
        """The path without its query."""
        if _PLAIN_PATH.fullmatch(self.target):
            return self.target
        try:
            return urlsplit(self.target).path
        except ValueError:  # "//[": not a URL, and still a message that must be answered
            return self.target.partition("?")[0]

    @once
    def query(self) -> dict[str, str]:
        """The query's fields; of a repeated one the first."""
        if "?" not in self.target:
            return {}
        return {name: values[0] for name, values in parse_qs(self.target.partition("?")[2]).items()}

    @once
    def _firsts(self) -> dict[str, str]:
        return dict(reversed(self.headers))

    def all(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        wanted = name.lower()
        if wanted not in self._firsts:
            return []
        return [value for known, value in self.headers if known == wanted]

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return self._firsts.get(name.lower())

    def json(self) -> Any:
        """Return the body as JSON, or None when it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):  # ten thousand brackets are no JSON that anyone means
            return None


@dataclass(frozen=True, slots=True)
class Response:
    """What a service answers."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, status: int, data: Any, headers: dict[str, str] | None = None) -> Response:
        """Return a JSON answer."""
        body = json.dumps(data, separators=(",", ":")).encode()
        return cls(status, body, {"Content-Type": "application/json", **(headers or {})})


@dataclass(frozen=True, slots=True)
class Passed(Response):
    """Another server's answer in its own words: ``start`` is all that comes before the empty line and the body.

    ``closes``: the connection ends after it. ``plain`` returns what it says as an answer of one's own, for who changes
    it: its fields are in ``headers`` there, and its body is not in chunks.
    """

    plain: Callable[[], Response] = field(kw_only=True, compare=False)
    start: bytes = b""
    closes: bool = False


class Exchange(Protocol):
    """One message that a service has understood and not yet acted on."""

    operation: str | None
    attempt: str | None
    key: str | None
    faults: tuple[Fault, ...]
    notes: dict[str, Any]

    async def perform(self) -> Response:
        """Commit the effect and return the answer."""

    def answer(self, what: str | float) -> Response:
        """Return an answer of another kind (a status or an answer class), with nothing committed."""

    def hung_up(self) -> None:
        """Learn, while it is performed, that its caller has gone."""


class Service(Protocol):
    """What stands behind an endpoint."""

    def begin(self, request: Request) -> Exchange:
        """Understand a message, changing nothing."""


class Observe(Protocol):
    """Receives what happened on an endpoint."""

    def __call__(self, kind: str, /, **fields: Any) -> None:
        """Note one event."""


Control = Callable[[Request], Awaitable[Response]]
