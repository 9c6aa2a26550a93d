"""How an answer looks: a class of answer, written in the shape that the contract gives it.

A contract says the status, the place and value of a code, the place of the id and fixed extras.  Where it
is silent there are customary values, so that every class can be answered under every contract.
"""

from __future__ import annotations

import copy
import http
from dataclasses import dataclass
from typing import Any

from sendtwice.fake_provider.contracts.model import AnswerClass, AnswerShape, Contract
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.messages import Response

#: What a class answers with when its contract names no status, or only a hundred of them.
CUSTOMARY = {
    AnswerClass.ACCEPTED: 200,
    AnswerClass.REPLAYED: 200,
    AnswerClass.DUPLICATE: 409,
    AnswerClass.PENDING: 202,
    AnswerClass.CONFLICT: 409,
    AnswerClass.IN_PROGRESS: 409,
    AnswerClass.UNKNOWN: 504,
    AnswerClass.REFUSED: 422,
    AnswerClass.FAILED: 503,
    AnswerClass.KEY_MISSING: 400,
    AnswerClass.KEY_INVALID: 400,
    AnswerClass.UNAUTHORIZED: 401,
    AnswerClass.RATE_LIMITED: 429,
}

_HUNDREDS = {"2xx": 200, "3xx": 303, "4xx": 400, "5xx": 503}

#: Classes that tell of a message, and so carry its id.
_POSITIVE = frozenset({AnswerClass.ACCEPTED, AnswerClass.REPLAYED, AnswerClass.PENDING})

_SENTENCE = {
    AnswerClass.DUPLICATE: "This key was used before.",
    AnswerClass.CONFLICT: "This key was used with a different request.",
    AnswerClass.IN_PROGRESS: "A request with this key is still running.",
    AnswerClass.UNKNOWN: "Whether the mail was sent is not known; keep the key and reconcile.",
    AnswerClass.REFUSED: "The request was refused.",
    AnswerClass.FAILED: "The mail was not sent; try again.",
    AnswerClass.KEY_MISSING: "The idempotency key is missing.",
    AnswerClass.KEY_INVALID: "The idempotency key is not valid.",
    AnswerClass.UNAUTHORIZED: "Who asks is not known here.",
    AnswerClass.RATE_LIMITED: "Too many requests; try again later.",
}


@dataclass(frozen=True, slots=True)
class Told(Response):
    """An answer that knows its class."""

    kind: AnswerClass | None = None
    replay: bool = False


def render(
    contract: Contract,
    kind: AnswerClass,
    *,
    ids: tuple[str, ...] = (),
    batch: bool = False,
    replay: bool = False,
    message: str | None = None,
    status: int | None = None,
    ours: bool = False,
) -> Told:
    """Write an answer of one class; ``replay`` adds every marker that the contract lists.

    ``ours``: the answer is the fake provider's own, so ``message`` stands and no code of the vendor's.
    """
    if kind is AnswerClass.ACCEPTED and replay and contract.shapes(AnswerClass.REPLAYED):
        kind = AnswerClass.REPLAYED
    shape = _shape(contract, kind, status, ours=ours)
    body: dict[str, Any] = copy.deepcopy(shape.body)
    if batch and kind in _POSITIVE:
        body["data"] = [_one(shape, {}, number) for number in ids]
    elif kind in _POSITIVE:
        _one(shape, body, ids[0] if ids else "")
    else:
        if shape.code is not None:
            pointers.put(body, shape.code.at, shape.code.one_of[0])
        # A contract's own sentence stands, unless there is a more exact one and nothing says what it must be.
        body.setdefault("message", message or _SENTENCE[kind])
    headers = {"Content-Type": "application/json", **shape.headers}
    if replay:
        for marker in contract.replay.marker.played([]):
            if marker.header is not None:
                headers[marker.header] = _header(marker.equals)
            if marker.at is not None:
                pointers.put(body, marker.at, marker.equals)
    plain = Response.of(status or _status(kind, shape), body, headers)
    return Told(plain.status, plain.body, plain.headers, kind, replay)


def with_status(contract: Contract, status: int, ids: tuple[str, ...]) -> Told:
    """Write an answer of which only the status is given, as like the contract's own as can be."""
    likely = (
        AnswerClass.ACCEPTED,
        AnswerClass.RATE_LIMITED,
        AnswerClass.UNAUTHORIZED,
        AnswerClass.FAILED,
        AnswerClass.UNKNOWN,
        AnswerClass.REFUSED,
    )
    for kind in likely:
        declared = [pattern for shape in contract.shapes(kind) for pattern in shape.status]
        hundred = f"{status // 100}xx"
        if status in declared or hundred in declared or (kind is AnswerClass.ACCEPTED and hundred == "2xx"):
            return render(contract, kind, ids=ids, status=status)
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = str(status)
    plain = Response.of(status, {"message": phrase})
    return Told(plain.status, plain.body, plain.headers)


def _shape(contract: Contract, kind: AnswerClass, status: int | None, *, ours: bool) -> AnswerShape:
    """Return the look of an answer; one with a status of its own has the look that is declared for that status."""
    shapes = contract.shapes(kind) or [AnswerShape(status=[CUSTOMARY[kind]])]
    first = shapes[0]
    if kind in _POSITIVE or status is None or (not ours and _declares(first, status)):
        return first
    other = next((shape for shape in shapes if _declares(shape, status)), first)
    # Vendors repeat the status in the body, where it must not contradict the one on the wire.
    repeated = {name: status for name, value in first.body.items() if type(value) is int and value in first.status}
    if ours:
        return AnswerShape(status=[status], body=repeated)
    return other.model_copy(update={"body": {**other.body, **repeated}})


def _declares(shape: AnswerShape, status: int) -> bool:
    return status in shape.status or f"{status // 100}xx" in shape.status


def _one(shape: AnswerShape, body: dict[str, Any], number: str) -> dict[str, Any]:
    pointers.put(body, shape.id or "/id", number)
    return body


def _status(kind: AnswerClass, shape: AnswerShape) -> int:
    first = next(iter(shape.status), CUSTOMARY[kind])
    if isinstance(first, int):
        return first
    customary = CUSTOMARY[kind]
    return customary if f"{customary // 100}xx" == first else _HUNDREDS[first]


def _header(value: str | bool | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
