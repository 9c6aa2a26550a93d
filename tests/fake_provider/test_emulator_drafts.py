"""Drafts and approval: what waits for a person leaves once, or never."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.messages import Request
from tests.fake_provider.kit import Scripted, ask, body_for, call, emulator, kind, mine, post, provider, run, said

A = AnswerClass
WAITING: dict[str, Any] = {"sender": "needs-approval@example.test"}
PENDING = {"status": 202, "id": "/draft_id", "body": {"status": "pending_approval"}}


def with_approval(**claims: Any) -> Contract:
    return mine(approval=claims.pop("approval", {}), answers__pending=PENDING, **claims)


def approve(number: str, credential: str = "one:person") -> Request:
    return call(f"/drafts/{number}/approve", {}, credential=credential, key=None)


def reject(number: str) -> Request:
    return call(f"/drafts/{number}/reject", {}, credential="one:person", key=None)


def launch(number: str) -> Request:
    return call(f"/broadcasts/{number}/send", {}, key="ignored")


@pytest.mark.parametrize("delivery", ["inline", "queued"])
def test_a_send_that_needs_approval_waits_and_then_leaves_once(delivery: str) -> None:
    async def play() -> None:
        async with emulator(with_approval(delivery=delivery)) as (engine, upstream):
            first, again = [await ask(engine, call(**WAITING)) for _ in range(2)]
            assert (first.status, kind(first), kind(again)) == (202, A.PENDING, A.PENDING)
            number = said(first)["draft_id"]
            assert said(again) == said(first)
            assert kind(await ask(engine, call(text="other", **WAITING))) is A.CONFLICT
            await engine.settled()
            assert not upstream.taken
            approved = await ask(engine, approve(number))
            assert (kind(approved), said(approved)["id"]) == (A.ACCEPTED, number)
            await engine.settled()
            assert len(upstream.taken) == 1
            replay = await ask(engine, call(**WAITING))
            assert (kind(replay), said(replay)["id"]) == (A.REPLAYED, number)
            second = await ask(engine, approve(number))
            assert kind(second) is A.REFUSED
            assert kind(await ask(engine, reject(number))) is A.REFUSED
            await engine.settled()
            assert len(upstream.taken) == 1

    run(play())


def test_a_rejection_is_for_good_and_its_key_answers_with_it() -> None:
    async def play() -> None:
        async with emulator(with_approval()) as (engine, upstream):
            number = said(await ask(engine, call(**WAITING)))["draft_id"]
            rejected = await ask(engine, reject(number))
            assert (kind(rejected), said(rejected)["status"]) == (A.ACCEPTED, "rejected")
            answers = [await ask(engine, call(**WAITING)) for _ in range(2)]
            assert [kind(answer) for answer in answers] == [A.REFUSED, A.REFUSED]
            assert answers[0].body == answers[1].body
            assert said(answers[0])["code"] == "rejected"
            assert kind(await ask(engine, approve(number))) is A.REFUSED
            assert kind(await ask(engine, reject(number))) is A.REFUSED
            assert kind(await ask(engine, call(text="other", **WAITING))) is A.CONFLICT
            assert not upstream.keys

    run(play())


def test_who_sends_cannot_approve_unless_the_contract_lets_it() -> None:
    async def play() -> None:
        for own_key, expected in (("refused", A.UNAUTHORIZED), ("allowed", A.ACCEPTED)):
            async with emulator(with_approval(approval={"own_key": own_key})) as (engine, upstream):
                number = said(await ask(engine, call(**WAITING)))["draft_id"]
                assert kind(await ask(engine, approve(number, "one"))) is expected
                assert len(upstream.taken) == (expected is A.ACCEPTED)

    run(play())


def test_nothing_waits_where_the_contract_has_no_approval_and_a_name_that_is_like_it_does_not() -> None:
    async def play() -> None:
        async with emulator(mine()) as (engine, upstream):
            assert kind(await ask(engine, call(**WAITING))) is A.ACCEPTED
            assert len(upstream.taken) == 1
        async with emulator(with_approval()) as (engine, upstream):
            assert kind(await ask(engine, call(sender="needs-approval-not@example.test"))) is A.ACCEPTED
            assert kind(await ask(engine, call(sender="Shop <needs-approval@x.test>", key="k2"))) is A.PENDING
            assert kind(await ask(engine, call(sender="needs-approval", key="k3"))) is A.PENDING

    run(play())


@pytest.mark.parametrize(("creation", "same"), [(None, False), ("not-deduplicated", False), ("deduplicated", True)])
def test_a_draft_is_made_anew_or_once(creation: str | None, same: bool) -> None:
    async def play() -> None:
        async with emulator(with_approval(approval={"creation": creation} if creation else {})) as (engine, upstream):
            drafts = [said(await ask(engine, call("/drafts", body_for("mine"))))["draft_id"] for _ in range(2)]
            assert (drafts[0] == drafts[1]) == same
            for number in dict.fromkeys(drafts):
                assert kind(await ask(engine, approve(number))) is A.ACCEPTED
            await engine.settled()
            assert len(upstream.taken) == (1 if same else 2)

    run(play())


def test_a_launch_moves_a_draft_once_and_its_repeat_is_refused_in_the_routes_own_words() -> None:
    async def play() -> None:
        async with provider(mine(delivery="queued"), edge="client") as fake:
            draft = await post(fake, "/drafts", body_for("mine"))
            assert draft.status_code == 201
            path = f"/broadcasts/{draft.json()['id']}/send"
            first, again = [await post(fake, path, {}, {"Idempotency-Key": "k1"}) for _ in range(2)]
            assert (first.status_code, again.status_code) == (201, 400)
            assert again.json() == {"name": "validation_error", "message": "It is not a draft."}
            assert fake.ledger.commits == 1
            assert (await post(fake, "/broadcasts/none/send", {})).status_code == 404

    run(play())


@pytest.mark.parametrize("count", [2, 10])
def test_launches_at_once_send_once(count: int) -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        async with emulator(with_approval(), upstream) as (engine, _):
            number = said(await ask(engine, call(**WAITING)))["draft_id"]
            racing = [asyncio.create_task(ask(engine, approve(number))) for _ in range(count)]
            await upstream.reached.wait()
            repeat = await ask(engine, call(**WAITING))
            assert kind(repeat) is A.IN_PROGRESS
            assert upstream.gate is not None
            upstream.gate.set()
            kinds = sorted([str(kind(await task)) for task in racing])
            assert kinds == ["accepted", *["refused"] * (count - 1)]
            assert len(upstream.taken) == 1

    run(play())


def test_the_lease_of_an_approved_mail_begins_with_its_approval() -> None:
    async def play() -> None:
        clock, upstream = Clock(), Scripted(gate=asyncio.Event())
        async with emulator(with_approval(lease={"lasts": 60, "then": "execute"}), upstream, clock=clock) as (
            engine,
            _,
        ):
            number = said(await ask(engine, call(**WAITING)))["draft_id"]
            clock.advance(3600)
            approving = asyncio.create_task(ask(engine, approve(number)))
            await upstream.reached.wait()
            assert kind(await ask(engine, call(**WAITING))) is A.IN_PROGRESS
            assert upstream.gate is not None
            upstream.gate.set()
            assert kind(await approving) is A.ACCEPTED
            assert len(upstream.taken) == 1

    run(play())


def test_an_approval_is_not_undone_by_a_provider_that_is_busy() -> None:
    async def play() -> None:
        async with emulator(with_approval(), Scripted(script=["busy", "busy"])) as (engine, upstream):
            number = said(await ask(engine, call(**WAITING)))["draft_id"]
            assert kind(await ask(engine, approve(number))) is A.ACCEPTED
            await engine.settled()
            assert kind(await ask(engine, call(**WAITING))) is A.REPLAYED
            assert (len(upstream.taken), len(upstream.keys)) == (1, 3)

    run(play())


def test_an_approved_mail_that_is_never_taken_ends_as_failed_under_its_key() -> None:
    async def play() -> None:
        async with emulator(with_approval(), Scripted(script=["busy"] * 100), retries_for=0.05) as (engine, upstream):
            number = said(await ask(engine, call(**WAITING)))["draft_id"]
            await ask(engine, approve(number))
            await engine.settled()
            assert kind(await ask(engine, call(**WAITING))) is A.FAILED
            assert kind(await ask(engine, approve(number))) is A.REFUSED
            assert not upstream.taken

    run(play())


def test_the_outcome_of_an_approved_mail_may_be_unknown() -> None:
    async def play() -> None:
        async with emulator(with_approval(), Scripted(script=["lost"])) as (engine, upstream):
            number = said(await ask(engine, call(**WAITING)))["draft_id"]
            assert kind(await ask(engine, approve(number))) is A.UNKNOWN
            assert kind(await ask(engine, call(**WAITING))) is A.IN_PROGRESS
            assert kind(await ask(engine, approve(number))) is A.REFUSED
            assert len(upstream.keys) == 1

    run(play())


def test_a_batch_of_which_one_mail_needs_approval_waits_as_a_whole() -> None:
    async def play() -> None:
        mails = [body_for("mine", to="a@example.test"), body_for("mine", to="b@example.test", **WAITING)]
        async with emulator(with_approval(batch={})) as (engine, upstream):
            request = call("/emails/batch", mails)
            waiting = await ask(engine, request)
            ids = [one["draft_id"] for one in said(waiting)["data"]]
            assert not upstream.keys
            assert kind(await ask(engine, request)) is A.PENDING
            assert kind(await ask(engine, approve(ids[1]))) is A.ACCEPTED
            assert len(upstream.taken) == 2
            assert kind(await ask(engine, approve(ids[0]))) is A.REFUSED
            replay = await ask(engine, request)
            assert (kind(replay), [one["id"] for one in said(replay)["data"]]) == (A.REPLAYED, ids)
            assert len(upstream.keys) == 2

    run(play())
