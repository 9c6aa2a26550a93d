"""What an answer may mean: the set of classes that the contract allows for what was seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.contracts.model import SEND, AnswerShape, Marker

#: Answers that claim an effect.
SUCCESS = frozenset({AnswerClass.ACCEPTED, AnswerClass.REPLAYED})
#: Answers that name the mail.
_WITH_ID = frozenset({AnswerClass.ACCEPTED, AnswerClass.REPLAYED, AnswerClass.PENDING})
#: Answers after which a caller knows that retrying is over.
INDEFINITE = frozenset({AnswerClass.IN_PROGRESS, AnswerClass.UNKNOWN, AnswerClass.RATE_LIMITED})


def pointer(data: Any, path: str) -> Any:
    """Return the value at a JSON Pointer (RFC 6901), or None."""
    for raw in path.split("/")[1:]:
        part = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and part.isdigit() and int(part) < len(data):
            data = data[int(part)]
        else:
            return None
    return data


def parsed(body: bytes | str) -> Any:
    """Return a body as JSON, or None when it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # no JSON, or nested deeper than anybody means
        return None


def status_matches(status: int, pattern: int | str) -> bool:
    """Whether a status fits 201 or '2xx'."""
    return status == pattern if isinstance(pattern, int) else f"{status // 100}xx" == pattern


class Looks:
    """A contract's answers by their status, so that a long history is read once and fast.

    A shape with a code is more exact than one without: where it matches, it alone counts. Otherwise a 409 with the
    code of a conflict would also be "some refusal". Unless the target has approvals, 202 is no draft.
    """

    def __init__(self, contract: Contract, *, approval: bool = False) -> None:
        """Nothing is looked up yet."""
        self.contract, self.approval = contract, approval
        self._known: dict[tuple[str, int], list[tuple[AnswerClass, AnswerShape]]] = {}

    def read(
        self, status: int, body: bytes | str, headers: Mapping[str, str], *, route: str = SEND
    ) -> tuple[set[AnswerClass], str | None]:
        """Return every class an answer may belong to (none when the contract declares none like it), and its id."""
        data = parsed(body)
        exact: set[AnswerClass] = set()
        loose: set[AnswerClass] = set()
        number: str | None = None
        for kind, shape in self._shapes(status, route):
            if shape.code is None:
                loose.add(kind)
            elif pointer(data, shape.code.at) in shape.code.one_of:
                exact.add(kind)
            else:
                continue
            if number is None and kind in _WITH_ID:
                number = _id(shape, data, headers)
        classes = exact or loose
        if not self.approval and classes != {AnswerClass.PENDING}:
            classes.discard(AnswerClass.PENDING)
        return classes, number

    def _shapes(self, status: int, route: str) -> list[tuple[AnswerClass, AnswerShape]]:
        found = self._known.get((route, status))
        if found is None:
            own = self.contract.routes[route].answers if route in self.contract.routes else {}
            found = self._known[route, status] = [
                (kind, shape)
                for kind, declared in {**self.contract.answers, **own}.items()
                for shape in declared
                if any(status_matches(status, pattern) for pattern in shape.status)
            ]
        return found


def _id(shape: AnswerShape, data: Any, headers: Mapping[str, str]) -> str | None:
    """Return the id that an answer of this look names; the first of a batch's."""
    if shape.id is None:
        return None
    found = headers.get(shape.id[7:].lower()) if shape.id.startswith("header:") else pointer(data, shape.id)
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else None


def classify(contract: Contract, status: int, body: bytes | str, *, approval: bool = False) -> set[AnswerClass]:
    """Return every class this answer may belong to."""
    return Looks(contract, approval=approval).read(status, body, {})[0]


def answer_id(
    contract: Contract, status: int, body: bytes | str, headers: Mapping[str, str] = MappingProxyType({})
) -> str | None:
    """Return the id that a successful answer names, where the contract says it stands."""
    return Looks(contract).read(status, body, headers)[1]


def carries(marker: Marker, headers: dict[str, str], body: bytes | str) -> bool:
    """Whether an answer has this replay marker."""
    if marker.header is not None:
        return headers.get(marker.header.lower(), "").lower() == str(marker.equals).lower()
    return bool(pointer(parsed(body), marker.at or "") == marker.equals)


def is_definite(classes: set[AnswerClass]) -> bool:
    """Whether an answer ends a caller's retries for good."""
    return bool(classes) and not classes & INDEFINITE and AnswerClass.FAILED not in classes
