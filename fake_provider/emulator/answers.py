"""How an answer looks: a class of answer, written in the shape that the contract gives it.

A contract says the status, the place and value of a code, the place of the id and fixed extras.  Where it
is silent there are customary values, so that every class can be answered under every contract.
"""

from __future__ import annotations

import http
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any

from sendtwice.fake_provider.contracts.model import SEND, AnswerClass, AnswerShape, Contract
from sendtwice.fake_provider.dialects import shapes
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.emulator.asked import Refusal
from sendtwice.fake_provider.emulator.records import Stored
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
    AnswerClass.EXPIRED: 412,
    AnswerClass.UNAUTHORIZED: 401,
    AnswerClass.RATE_LIMITED: 429,
}

#: What a header can carry (RFC 9110, 5.5), its bytes read as Latin-1.
_IN_A_HEADER = re.compile(r"[!-~\x80-\xff]+(?:[ \t]+[!-~\x80-\xff]+)*")

_HUNDREDS = {"2xx": 200, "3xx": 303, "4xx": 400, "5xx": 503}

#: Classes that tell of a message, and so carry its id.
POSITIVE = frozenset({AnswerClass.ACCEPTED, AnswerClass.REPLAYED, AnswerClass.PENDING})

#: Classes after which the same request, sent again under the same key, may end otherwise.
_AGAIN = frozenset({AnswerClass.IN_PROGRESS, AnswerClass.UNKNOWN, AnswerClass.FAILED, AnswerClass.RATE_LIMITED})

_SENTENCE = {
    AnswerClass.DUPLICATE: "This key was used before.",
    AnswerClass.CONFLICT: "This key was used with a different request.",
    AnswerClass.IN_PROGRESS: "A request with this key is still running.",
    AnswerClass.UNKNOWN: "Whether the mail was sent is not known; keep the key and reconcile.",
    AnswerClass.REFUSED: "The request was refused.",
    AnswerClass.FAILED: "The mail was not sent; try again.",
    AnswerClass.KEY_MISSING: "The idempotency key is missing.",
    AnswerClass.KEY_INVALID: "The idempotency key is not valid.",
    AnswerClass.EXPIRED: "The idempotency key is too old; find out what became of the first request.",
    AnswerClass.UNAUTHORIZED: "Who asks is not known here.",
    AnswerClass.RATE_LIMITED: "Too many requests; try again later.",
}


@dataclass(frozen=True, slots=True)
class Told(Response):
    """An answer that knows its class."""

    kind: AnswerClass | None = None
    replay: bool = False

    def stored(self) -> Stored:
        """Return it as it is kept for repeats."""
        return Stored(self.status, self.headers, self.body)


def render(
    contract: Contract,
    kind: AnswerClass,
    *,
    route: str = SEND,
    ids: Sequence[str] = (),
    recipients: Sequence[tuple[str, ...]] = (),
    batch: bool = False,
    replay: bool = False,
    message: str | None = None,
    status: int | None = None,
    ours: bool = False,
    last: bool = False,
    code: str | None = None,
    extra: Mapping[str, Any] | None = None,
    echo: str | None = None,
    flaws: Sequence[tuple[int, str]] = (),
) -> Told:
    """Write an answer of one class; ``replay`` adds every marker that the contract lists.

    ``recipients`` are those of each mail, in the order of the ``ids``, for the vendors that repeat them. ``ours``: the
    answer is the fake provider's own, so ``message`` stands and no code of the vendor's. ``last``: in the last of the
    declared looks. ``code`` is a reason beside the class's own, ``extra`` are further fields, ``echo`` is the key as it
    was sent, its bytes read as Latin-1. ``flaws`` are the mails of a batch that were refused while the rest was taken,
    for the vendors that answer each.
    """
    if kind is AnswerClass.ACCEPTED and replay and contract.shapes(AnswerClass.REPLAYED, route):
        kind = AnswerClass.REPLAYED
    shape = _shape(contract, kind, route, status, ours=ours, last=last)
    if kind in POSITIVE:
        told = [shapes.Told(number, to) for number, to in zip(ids, chain(recipients, repeat(())), strict=False)]
        filled = shapes.positive(shape, told, batch=batch)
        if flaws:
            refused_as = _shape(contract, AnswerClass.REFUSED, route, None, ours=False, last=False)
            filled = shapes.with_flaws(filled, refused_as, flaws)
    else:
        # A contract's own sentence stands, unless there is a more exact one and nothing says what it must be.
        filled = shapes.negative(shape, message or _SENTENCE[kind])
    headers, body = ({} if shape.empty else {"Content-Type": "application/json"}) | filled.headers, filled.body
    if isinstance(body, dict):
        if code is not None:
            put_code(contract, body, code)
        body |= extra or {}
    if not ours:
        _mark(contract, headers, body, replay=replay)
        _hint(contract, kind, headers)
        if echo is not None:
            headers |= echoed(contract, echo)
        if (contract.replay.headers.play or contract.replay.headers.value) is not None:
            headers.setdefault("X-Request-Id", str(uuid.uuid4()))
    return Told(status or _status(kind, shape), shapes.payload(shape, body), headers, kind, replay)


def refused(contract: Contract, refusal: Refusal, *, route: str = SEND, echo: str | None = None) -> Told:
    """Write an answer that says why a request goes no further."""
    status = refusal.status
    if refusal.preferred is not None and any(
        _declares(shape, refusal.preferred) for shape in contract.shapes(refusal.kind, route)
    ):
        status = refusal.preferred
    told = render(
        contract,
        refusal.kind,
        route=route,
        message=refusal.message,
        status=status,
        ours=refusal.ours,
        last=refusal.last,
        echo=echo,
    )
    return replace(told, headers={**told.headers, "Allow": ", ".join(refusal.allow)}) if refusal.allow else told


def naming(contract: Contract, told: Told, number: str, *, route: str = SEND) -> Told:
    """Return an answer that says no, and names a message all the same: the one that is there already."""
    shape = next(iter(contract.shapes(told.kind or AnswerClass.DUPLICATE, route)), None)
    carrier, _, name = (shape.id if shape is not None and shape.id is not None else "/id").rpartition(":")
    if carrier:
        return replace(told, headers={**told.headers, name: number})
    body = json.loads(told.body) if told.body else {}
    pointers.put(body, name, number)
    return replace(told, body=json.dumps(body, separators=(",", ":")).encode())


def with_status(contract: Contract, status: int, ids: tuple[str, ...], *, route: str = SEND) -> Told:
    """Write an answer of which only the status is given, as like the contract's own as can be."""
    likely = (
        AnswerClass.ACCEPTED,
        AnswerClass.RATE_LIMITED,
        AnswerClass.UNAUTHORIZED,
        AnswerClass.FAILED,
        AnswerClass.UNKNOWN,
        AnswerClass.REFUSED,
    )
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = str(status)
    for kind in likely:
        declared = [pattern for shape in contract.shapes(kind, route) for pattern in shape.status]
        hundred = f"{status // 100}xx"
        if status in declared or hundred in declared or (kind is AnswerClass.ACCEPTED and hundred == "2xx"):
            # A gateway's error says nothing of what was done.
            message = phrase if status >= 500 else None
            return render(contract, kind, route=route, ids=ids, status=status, message=message)
    plain = Response.of(status, {"message": phrase})
    return Told(plain.status, plain.body, plain.headers)


def echoed(contract: Contract, key: str) -> dict[str, str]:
    """Return the header that names a key, where the contract has one; ``key`` as it was sent, read as Latin-1."""
    name = contract.replay.key_echo.played("")
    return {name: key} if name and _IN_A_HEADER.fullmatch(key) else {}


def put_code(contract: Contract, body: dict[str, Any], code: str) -> None:
    """Put a reason where the contract has its codes, or beside the one that stands there."""
    declared = (shape.code.at for shapes in contract.answers.values() for shape in shapes if shape.code is not None)
    place = next(declared, "/code")
    pointers.put(body, place if pointers.get(body, place) is None else "/reason", code)


def _mark(contract: Contract, headers: dict[str, str], body: Any, *, replay: bool) -> None:
    for marker in contract.replay.marker.played([]):
        value = marker.equals if replay else marker.otherwise
        if value is not None and marker.header is not None:
            headers[marker.header] = header(value)
        if value is not None and marker.at is not None and isinstance(body, dict):
            pointers.put(body, marker.at, value)


def _hint(contract: Contract, kind: AnswerClass, headers: dict[str, str]) -> None:
    """Say what is to be known about trying again (D16)."""
    hints = contract.hints
    if kind in hints.retry_after.played([]):
        headers.setdefault("Retry-After", "1")
    if kind in hints.documentation.played([]):
        headers.setdefault("Link", f'<https://docs.example/{contract.name}#{kind}>; rel="describedby"')
    if (name := hints.should_retry.played("")) and kind not in POSITIVE:
        headers.setdefault(name, header(kind in _AGAIN))


def _shape(
    contract: Contract, kind: AnswerClass, route: str, status: int | None, *, ours: bool, last: bool
) -> AnswerShape:
    """Return the look of an answer; one with a status of its own has the look that is declared for that status."""
    declared = contract.shapes(kind, route) or [AnswerShape(status=[CUSTOMARY[kind]])]
    first = declared[-1 if last else 0]
    if kind in POSITIVE or status is None or (not ours and _declares(first, status)):
        return first
    other = next((shape for shape in declared if _declares(shape, status)), first)
    # Vendors repeat the status in the body, where it must not contradict the one on the wire.
    repeated = {name: status for name, value in first.body.items() if type(value) is int and value in first.status}
    if ours:
        return AnswerShape(status=[status], body=repeated)
    return other.model_copy(update={"body": {**other.body, **repeated}})


def _declares(shape: AnswerShape, status: int) -> bool:
    return status in shape.status or f"{status // 100}xx" in shape.status


def _status(kind: AnswerClass, shape: AnswerShape) -> int:
    first = next(iter(shape.status), CUSTOMARY[kind])
    if isinstance(first, int):
        return first
    customary = CUSTOMARY[kind]
    return customary if f"{customary // 100}xx" == first else _HUNDREDS[first]


def header(value: str | bool | int) -> str:
    """Return a value as a header says it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
