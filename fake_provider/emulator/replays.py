"""What a repeat of a request that has an answer gets: how like the first it is (D8), and how it is marked (D9)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from sendtwice.fake_provider.contracts.model import AnswerClass, Contract
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.emulator.answers import POSITIVE, Told, header, render
from sendtwice.fake_provider.emulator.events import Telling
from sendtwice.fake_provider.emulator.records import Entry, Message


class Replays:
    """Writes replays under one contract."""

    def __init__(self, contract: Contract, telling: Telling) -> None:
        """Keep what ``contract`` plays."""
        self._contract, self._telling = contract, telling
        rules = contract.replay
        self._new_ids = rules.id.played("same") == "new"
        self._same_status = rules.status.played("declared") == "same"
        self._identical = rules.body.play == "identical" or (
            rules.body.play is None and rules.body.value == "identical"
        )
        self._current = (
            rules.body.played("identical") == "current" or contract.duplicates.played("replay") == "replay_current"
        )
        self._stored_headers = rules.headers.played("fresh") == "stored"

    def again(self, entry: Entry, messages: Sequence[Message], *, route: str, echo: str | None = None) -> Told:
        """Return the answer of an entry once more, marked."""
        assert entry.answer is not None
        ids = [str(uuid.uuid4()) if self._new_ids else message.id for message in messages]
        first = entry.response
        fresh = render(
            self._contract,
            entry.answer,
            route=route,
            ids=ids,
            recipients=[message.mail.recipients for message in messages],
            batch=entry.batch,
            replay=True,
            echo=echo,
        )
        if first is None:
            return fresh
        body, stored = _read(fresh.body), _read(first.body)
        if entry.answer is not AnswerClass.ACCEPTED or not messages or (self._identical and not self._new_ids):
            body = stored
        elif isinstance(body, dict) and isinstance(stored, dict):
            body = {**stored, **body}
        headers = {**first.headers, **fresh.headers} if self._stored_headers else dict(fresh.headers)
        if self._stored_headers and "X-Request-Id" in first.headers:
            headers["X-Request-Id"] = first.headers["X-Request-Id"]
        as_first = self._same_status or entry.answer is not AnswerClass.ACCEPTED
        status = first.status if as_first else fresh.status
        if self._current and not self._identical:
            self._show(body, messages, batch=entry.batch)
        self._mark(headers, body, messages)
        return Told(status, _written(body, first.body), headers, fresh.kind, replay=True)

    def shown(self, told: Told, message: Message) -> Told:
        """Return an answer that tells how it is with a message now."""
        body, headers = _read(told.body), dict(told.headers)
        self._show(body, [message], batch=False)
        if message.reconciled:
            self._reconciled(headers, body)
        return Told(told.status, _written(body, b"{}"), headers, told.kind, told.replay)

    def _show(self, body: Any, messages: Sequence[Message], *, batch: bool) -> None:
        """Put the state of each message where the contract has it."""
        place = self._contract.lookup.state if self._contract.lookup is not None else "/status"
        told: list[Any] = [body]
        if batch:
            shape = next(iter(self._contract.shapes(AnswerClass.ACCEPTED)), None)
            inside = body if isinstance(body, list) else pointers.get(body, (shape.items if shape else "") or "/data")
            told = inside if isinstance(inside, list) else []
        for one, message in zip(told, messages, strict=False):
            if isinstance(one, dict):
                pointers.put(one, place, self._telling.word(message.state))

    def _mark(self, headers: dict[str, str], body: Any, messages: Sequence[Message]) -> None:
        for marker in self._contract.replay.marker.played([]):
            if marker.header is not None:
                headers[marker.header] = header(marker.equals)
            if marker.at is not None and isinstance(body, dict):
                pointers.put(body, marker.at, marker.equals)
        if any(message.reconciled for message in messages):
            self._reconciled(headers, body)

    def _reconciled(self, headers: dict[str, str], body: Any) -> None:
        marker = self._contract.reconciliation.marker.play or self._contract.reconciliation.marker.value
        if marker is None:
            return
        if marker.header is not None:
            headers[marker.header] = header(marker.equals)
        if marker.at is not None and isinstance(body, dict):
            pointers.put(body, marker.at, marker.equals)


def original(entry: Entry) -> Told:
    """Return the answer of an entry as it was first given, as if there had been no other."""
    assert entry.answer is not None
    assert entry.response is not None
    return Told(entry.response.status, entry.response.body, entry.response.headers, entry.answer)


def tells_of_messages(entry: Entry) -> bool:
    """Whether the answer of an entry names messages."""
    return entry.answer in POSITIVE


def _read(body: bytes) -> Any:
    return json.loads(body) if body else None


def _written(body: Any, like: bytes) -> bytes:
    return b"" if body is None and not like else json.dumps(body, separators=(",", ":")).encode()
