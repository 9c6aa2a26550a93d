"""Answers to sends, prepared: nearly all of them differ in one id, and in nothing else."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sendtwice.fake_provider.contracts.model import AnswerClass, Contract
from sendtwice.fake_provider.emulator.answers import Told, echoed, render

#: Stands for the id and for a recipient; nobody else's text is like it.
_ID, _TO = str(uuid.uuid4()), str(uuid.uuid4())
_REQUEST_ID = "X-Request-Id"


@dataclass(frozen=True, slots=True)
class _Template:
    """An answer in pieces, between which the id stands."""

    status: int
    body: list[bytes]
    headers: dict[str, str]
    with_id: tuple[str, ...]


class Templates:
    """The answers of one contract to a send of one mail."""

    def __init__(self, contract: Contract) -> None:
        """Prepare each when it is first asked for."""
        self._contract = contract
        self._known: dict[tuple[AnswerClass, str], _Template | None] = {}

    def write(self, kind: AnswerClass, *, route: str, number: str, to: tuple[str, ...], echo: str | None) -> Told:
        """Return what :func:`render` returns for one mail: its id and its recipients."""
        try:
            template = self._known[kind, route]
        except KeyError:
            template = self._known[kind, route] = self._prepared(kind, route)
        if template is None:
            return render(self._contract, kind, route=route, ids=[number], recipients=[to], echo=echo)
        headers = template.headers.copy()
        for name in template.with_id:
            headers[name] = headers[name].replace(_ID, number)
        if echo is not None:
            headers |= echoed(self._contract, echo)
        if _REQUEST_ID in headers:
            headers[_REQUEST_ID] = str(uuid.uuid4())
        return Told(template.status, number.encode().join(template.body), headers, kind)

    def _prepared(self, kind: AnswerClass, route: str) -> _Template | None:
        """Return an answer's template; None where the recipients stand in it."""
        told = render(self._contract, kind, route=route, ids=[_ID], recipients=[(_TO,)])
        if _TO.encode() in told.body or any(_TO in value for value in told.headers.values()):
            return None
        with_id = tuple(name for name, value in told.headers.items() if _ID in value)
        return _Template(told.status, told.body.split(_ID.encode()), told.headers, with_id)
