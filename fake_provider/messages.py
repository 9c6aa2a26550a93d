"""The messages of an endpoint, and what stands behind one: no sockets here."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from sendtwice.fake_provider.faults import Fault

#: A target that is nothing but its path: there is no need to take it to pieces.
_PLAIN_PATH = re.compile(r"/[\w.~%-]+(?:/[\w.~%-]+)*/?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Request:
    """A complete message from a caller."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int = 0

    @property
    def path(self) -> str:
        """The path without its query."""
        if _PLAIN_PATH.fullmatch(self.target):
            return self.target
        try:
            return urlsplit(self.target).path
        except ValueError:  # "//[": not a URL, and still a message that must be answered
            return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """The query's fields; of a repeated one the first."""
        return {name: values[0] for name, values in parse_qs(self.target.partition("?")[2]).items()}

    def all(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        wanted = name.lower()
        return [value for known, value in self.headers if known == wanted]

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        wanted = name.lower()
        for known, value in self.headers:
            if known == wanted:
                return value
        return None

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
