"""Scope: whose keys can collide."""

from __future__ import annotations

from typing import Any

import pytest

from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.emulator.callers import Caller
from sendtwice.fake_provider.messages import Request
from tests.fake_provider.kit import ask, body_for, call, emulator, kind, mine, run, said

VERSION = {"Stripe-Version": "2026-11-01"}

#: Requests that differ from the plain one in just these parts of a scope.
OTHERS: list[tuple[Request, set[str]]] = [
    (call(credential="two"), {"tenant", "credential", "user"}),
    (call(credential="one:other"), {"credential", "user"}),
    (call(credential="one::test"), {"environment"}),
    (call(sender="Shop <other@example.test>"), {"mailbox"}),
    (call(sender="shop@other.test"), {"mailbox", "domain"}),
    (call(headers={"X-Region": "eu"}), {"region"}),
    (call(headers={"Host": "eu.api.example.test:80"}), {"region"}),
    (call(headers={"Host": "api.example.test:8080"}), set()),
    (call("/v2/emails"), {"path"}),
    (call("/emails?a=1"), {"query"}),
    (call(headers=VERSION), {"version"}),
    (call("/emails?api-version=2"), {"version", "query"}),
    (call(headers={"X-SDK-Version": "1", "MIME-Version": "1.0", "User-Agent": "x"}), set()),
]
PARTS = ["tenant", "credential", "user", "mailbox", "domain", "environment", "region", "path", "query", "version"]


@pytest.mark.parametrize("part", PARTS)
def test_a_key_is_another_one_where_a_part_of_its_scope_is(part: str) -> None:
    async def play() -> None:
        for request, parts in OTHERS:
            contract = mine(scope=[part], fingerprint__parts=[])
            async with emulator(contract) as (engine, upstream):
                first = await ask(engine, call())
                other = await ask(engine, request)
                assert (said(first)["id"] == said(other)["id"]) == (part not in parts), request
                assert len(upstream.taken) == 1 + (part in parts)

    run(play())


def test_a_key_is_another_one_for_another_method() -> None:
    async def play() -> None:
        put = {"method": "PUT", "path": "/emails"}
        for scope, mails in (["method"], 2), (["tenant"], 1):
            contract = mine(scope=scope, fingerprint__parts=[], routes__put=put)
            async with emulator(contract) as (engine, upstream):
                await ask(engine, call())
                await ask(engine, call(method="PUT"))
                assert len(upstream.taken) == mails

    run(play())


def test_a_route_may_have_a_scope_of_its_own() -> None:
    async def play() -> None:
        contract = mine(scope=["tenant", "mailbox"], routes__event__key="optional", routes__event__scope=["tenant"])
        event: dict[str, Any] = {"email": "ana@example.test", "data": {"subject": "s", "from": "a@example.test"}}
        other = {**event, "data": {**event["data"], "from": "b@example.test"}}
        async with emulator(contract) as (engine, upstream):
            assert kind(await ask(engine, call("/events/send", event))) is AnswerClass.ACCEPTED
            assert kind(await ask(engine, call("/events/send", other))) is AnswerClass.CONFLICT
            for sender in ("a@example.test", "b@example.test"):
                assert kind(await ask(engine, call(sender=sender))) is AnswerClass.ACCEPTED
            assert len(upstream.taken) == 3

    run(play())


@pytest.mark.parametrize(("space", "mails"), [("shared", 1), ("separate", 2)])
def test_batches_share_the_key_space_or_have_their_own(space: str, mails: int) -> None:
    async def play() -> None:
        contract = mine(batch={"key_space": space})
        async with emulator(contract) as (engine, upstream):
            await ask(engine, call())
            answer = await ask(engine, call("/emails/batch", [body_for("mine")]))
            assert kind(answer) is (AnswerClass.ACCEPTED if mails == 2 else AnswerClass.CONFLICT)
            assert len(upstream.taken) == mails

    run(play())


def test_no_account_sees_a_message_of_another() -> None:
    async def play() -> None:
        async with emulator(mine()) as (engine, _):
            number = said(await ask(engine, call()))["id"]
            path = f"/emails/{number}"
            assert (await ask(engine, call(path, method="GET", key=None))).status == 201
            other = await ask(engine, call(path, method="GET", key=None, credential="two"))
            assert other.status == 404
            assert number not in other.body.decode()

    run(play())


@pytest.mark.parametrize(
    ("first", "second", "same"), [("eyJ.one", "eyJ.two", True), ("shop:a", "shop:b", True), ("shop:a", "cafe:a", False)]
)
def test_a_caller_whose_token_changes_is_one_account_unless_the_token_says_so(
    first: str, second: str, same: bool
) -> None:
    accounts = [Caller.in_one_account(call(credential=token)).account for token in (first, second)]
    assert (len(set(accounts)) == 1) is same
