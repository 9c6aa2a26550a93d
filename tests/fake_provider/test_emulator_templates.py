"""Prepared answers: the same as those that are written one by one."""

from __future__ import annotations

import uuid

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.contracts.model import SEND
from sendtwice.fake_provider.emulator.answers import Told, render
from sendtwice.fake_provider.emulator.templates import Templates
from tests.fake_provider.kit import mine

TO = ("ana@example.test", '"bo" <bo@example.test>')


def but_for_its_own_id(told: Told) -> tuple[object, ...]:
    headers = {name: value for name, value in told.headers.items() if name != "X-Request-Id"}
    return told.status, told.body, headers, told.kind, told.replay, "X-Request-Id" in told.headers


def check(contract: Contract, route: str) -> None:
    templates = Templates(contract)
    for kind in (AnswerClass.ACCEPTED, AnswerClass.PENDING):
        for number, echo in ((str(uuid.uuid4()), None), (str(uuid.uuid4()), "k1"), (str(uuid.uuid4()), "k\n1")):
            written = render(contract, kind, route=route, ids=[number], recipients=[TO], echo=echo)
            prepared = templates.write(kind, route=route, number=number, to=TO, echo=echo)
            assert but_for_its_own_id(prepared) == but_for_its_own_id(written)


@pytest.mark.parametrize("name", contracts.names())
def test_a_prepared_answer_of_a_shipped_contract_is_the_one_that_is_written(name: str) -> None:
    contract = contracts.load(name)
    for route in (SEND, *contract.routes):
        check(contract, route)


@pytest.mark.parametrize(
    "accepted",
    [
        {"status": 201, "id": "header:X-Message", "body": {"ok": True}},
        {"status": 202, "id": "/id", "headers": {"Location": "/emails/{id}?again={id}"}, "body": {"ref": "<{id}>"}},
        {"status": 200, "id": "/id", "body": {"to": ["{to}"]}},
        {"status": 200, "id": "/id", "headers": {"X-To": "{to}"}},
        {"status": 204, "empty": True},
    ],
)
def test_ids_and_recipients_stand_wherever_a_contract_has_them(accepted: dict[str, object]) -> None:
    check(mine(answers__accepted=accepted, replay={"headers": "stored", "key_echo": "Idempotency-Key"}), SEND)


def test_a_prepared_answer_belongs_to_whom_it_was_given() -> None:
    templates = Templates(mine())
    first = templates.write(AnswerClass.ACCEPTED, route=SEND, number="1", to=TO, echo=None)
    first.headers["X"] = "mine"
    second = templates.write(AnswerClass.ACCEPTED, route=SEND, number="2", to=TO, echo=None)
    assert "X" not in second.headers
    assert (first.body, second.body) == (b'{"status":"queued","id":"1"}', b'{"status":"queued","id":"2"}')
