"""What an answer may mean: the set of classes that the contract allows for what was seen."""

from __future__ import annotations

import json
from typing import Any

from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.contracts.model import AnswerShape, Marker

#: Answers that claim an effect.
SUCCESS = frozenset({AnswerClass.ACCEPTED, AnswerClass.REPLAYED})
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


def matches(shape: AnswerShape, status: int, data: Any) -> bool:
    """Whether an answer looks like this."""
    if not any(status_matches(status, pattern) for pattern in shape.status):
        return False
    return shape.code is None or pointer(data, shape.code.at) in shape.code.one_of


def classify(contract: Contract, status: int, body: bytes | str, *, approval: bool = False) -> set[AnswerClass]:
    """Return every class this answer may belong to; empty when the contract declares none like it.

    A shape with a code is more exact than one without: where it matches, it alone counts. Otherwise a 409 with the
    code of a conflict would also be "some refusal". Unless the target has approvals, 202 is no draft.
    """
    data = parsed(body)
    exact: set[AnswerClass] = set()
    loose: set[AnswerClass] = set()
    for kind, shapes in contract.answers.items():
        for shape in shapes:
            if matches(shape, status, data):
                (exact if shape.code is not None else loose).add(kind)
    found = exact or loose
    if not approval and found != {AnswerClass.PENDING}:
        found.discard(AnswerClass.PENDING)
    return found


def answer_id(contract: Contract, status: int, body: bytes | str) -> str | None:
    """Return the id that a successful answer names, where the contract says it stands."""
    data = parsed(body)
    for kind in (AnswerClass.ACCEPTED, AnswerClass.REPLAYED, AnswerClass.PENDING):
        for shape in contract.shapes(kind):
            if shape.id is not None and matches(shape, status, data):
                found = pointer(data, shape.id)
                if isinstance(found, str | int) and not isinstance(found, bool):
                    return str(found)
    return None


def carries(marker: Marker, headers: dict[str, str], body: bytes | str) -> bool:
    """Whether an answer has this replay marker."""
    if marker.header is not None:
        return headers.get(marker.header.lower(), "").lower() == str(marker.equals).lower()
    return bool(pointer(parsed(body), marker.at or "") == marker.equals)


def is_definite(classes: set[AnswerClass]) -> bool:
    """Whether an answer ends a caller's retries for good."""
    return bool(classes) and not classes & INDEFINITE and AnswerClass.FAILED not in classes
