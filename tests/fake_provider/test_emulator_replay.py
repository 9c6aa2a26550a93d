"""What a repeat gets: the order of checks, the models of duplicates, and how like the first answer a replay is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.emulator.repeats import ORDER, complete
from sendtwice.fake_provider.messages import Request
from tests.fake_provider.kit import (
    Scripted,
    ask,
    body_for,
    call,
    emulator,
    kind,
    mine,
    post,
    provider,
    run,
    said,
)

A = AnswerClass
LIMITED: dict[str, Any] = {"credential": "one:rate-limited"}
OTHER: dict[str, Any] = {"text": "other"}
INVALID: dict[str, Any] = {"subject": ""}


# --- The order of checks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([], list(ORDER)),
        (["in_progress", "mismatch"], ["auth", "rate_limit", "key", "validation", "in_progress", "mismatch", "replay"]),
        (["replay"], list(ORDER)),
        (["validation", "key"], ["auth", "rate_limit", "validation", "key", "mismatch", "in_progress", "replay"]),
        (["replay", "rate_limit"], ["auth", "mismatch", "in_progress", "replay", "rate_limit", "key", "validation"]),
        (["key", "auth"], ["rate_limit", "key", "auth", "validation", "mismatch", "in_progress", "replay"]),
        (["rate_limit", "auth"], ["rate_limit", "auth", "key", "validation", "mismatch", "in_progress", "replay"]),
    ],
)
def test_an_order_is_completed_with_the_checks_that_it_does_not_name(order: list[str], expected: list[str]) -> None:
    assert complete(order) == expected


@pytest.mark.parametrize(
    ("order", "request_", "expected"),
    [
        (None, call(**LIMITED, **INVALID), A.RATE_LIMITED),
        (["validation", "rate_limit"], call(**LIMITED, **INVALID), A.REFUSED),
        (None, call(key="", **INVALID), A.KEY_INVALID),
        (["validation", "key"], call(key="", **INVALID), A.REFUSED),
        (None, call(credential="one:unauthorized", key=""), A.UNAUTHORIZED),
        (["key", "auth"], call(credential="one:unauthorized", key=""), A.KEY_INVALID),
        (None, call(**LIMITED), A.RATE_LIMITED),
        (["replay", "rate_limit"], call(**LIMITED), A.REPLAYED),
        (["mismatch", "rate_limit"], call(**LIMITED, **OTHER), A.CONFLICT),
        (None, call(**INVALID), A.REFUSED),
        (["mismatch", "validation"], call(**INVALID), A.CONFLICT),
        (["replay", "mismatch"], call(**OTHER), A.REPLAYED),
    ],
)
def test_what_is_looked_at_first_answers(order: list[str] | None, request_: Request, expected: AnswerClass) -> None:
    async def play() -> None:
        async with emulator(mine(**({} if order is None else {"order": order}))) as (engine, upstream):
            await ask(engine, call())
            assert kind(await ask(engine, request_)) is expected
            assert len(upstream.taken) == 1

    run(play())


@pytest.mark.parametrize(
    ("order", "expected"),
    [(None, A.CONFLICT), (["mismatch", "in_progress"], A.CONFLICT), (["in_progress", "mismatch"], A.IN_PROGRESS)],
)
def test_other_content_in_flight_is_a_conflict_or_in_progress(order: list[str] | None, expected: AnswerClass) -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        async with emulator(mine(**({} if order is None else {"order": order})), upstream) as (engine, _):
            first = asyncio.create_task(ask(engine, call()))
            await upstream.reached.wait()
            assert kind(await ask(engine, call(**OTHER))) is expected
            assert upstream.gate is not None
            upstream.gate.set()
            await first
            assert kind(await ask(engine, call(**OTHER))) is A.CONFLICT

    run(play())


# --- Models of duplicates --------------------------------------------------------------------------------


def test_other_content_is_refused_replayed_or_sent() -> None:
    async def play() -> None:
        for mismatch, expected, mails in (
            ("refuse", A.CONFLICT, 1),
            ("replay", A.REPLAYED, 1),
            ("execute", A.ACCEPTED, 2),
        ):
            async with emulator(mine(mismatch=mismatch)) as (engine, upstream):
                await ask(engine, call())
                assert kind(await ask(engine, call(**OTHER))) is expected
                assert kind(await ask(engine, call())) is A.REPLAYED
                assert len(upstream.taken) == mails

    run(play())


def test_a_repeat_is_refused_and_told_where_the_first_is() -> None:
    async def play() -> None:
        for model in ("refuse", "redirect"):
            async with emulator(mine(duplicates=model)) as (engine, upstream):
                number = said(await ask(engine, call()))["id"]
                again = await ask(engine, call())
                assert (again.status, kind(again)) == (409, A.DUPLICATE)
                assert (said(again).get("id") == number) == (model == "redirect")
                assert ("Location" in again.headers) == (model == "redirect")
                if model == "redirect":
                    found = await ask(engine, call(again.headers["Location"], method="GET", key=None))
                    assert said(found)["id"] == number
                assert len(upstream.taken) == 1

    run(play())


def test_an_id_is_named_where_the_contract_has_it() -> None:
    async def play() -> None:
        shape = {"status": 409, "id": "/error/conflicting_id", "code": {"at": "/error/code", "is": "taken"}}
        async with emulator(mine(duplicates="redirect", answers__duplicate=shape)) as (engine, _):
            number = said(await ask(engine, call()))["id"]
            assert said(await ask(engine, call()))["error"] == {"code": "taken", "conflicting_id": number}

    run(play())


def test_a_repeat_is_accepted_in_silence() -> None:
    async def play() -> None:
        marker = [{"header": "Replayed", "is": "true", "otherwise": "false"}]
        async with emulator(mine(duplicates="accept", replay__marker=marker)) as (engine, upstream):
            first, again = [await ask(engine, call()) for _ in range(2)]
            assert (first.status, first.body, first.headers) == (again.status, again.body, again.headers)
            assert first.headers["Replayed"] == "false"
            assert len(upstream.taken) == 1

    run(play())


def test_a_replay_may_show_how_it_is_now() -> None:
    async def play() -> None:
        for claims, word in (
            ({"duplicates": "replay_current"}, "gone"),
            ({"replay__body": "current"}, "gone"),
            ({"replay__body": "identical"}, "queued"),
            ({}, "queued"),
        ):
            contract = mine(delivery="queued", lookup={"words": {"sent": "gone"}}, **claims)
            async with emulator(contract) as (engine, upstream):
                await ask(engine, call())
                await engine.settled()
                again = await ask(engine, call())
                assert (kind(again), said(again)["status"]) == (A.REPLAYED, word)
                assert len(upstream.taken) == 1

    run(play())


def test_each_mail_of_a_batch_shows_how_it_is_now() -> None:
    async def play() -> None:
        contract = mine(batch={}, delivery="queued", duplicates="replay_current")
        async with emulator(contract, Scripted(script=["sent", "refused"])) as (engine, _):
            request = call("/emails/batch", [body_for("mine", to=f"{n}@example.test") for n in range(2)])
            await ask(engine, request)
            await engine.settled()
            assert sorted(one["status"] for one in said(await ask(engine, request))["data"]) == ["refused", "sent"]

    run(play())


# --- Fidelity --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("claim", "status"), [(None, 200), ("declared", 200), ("same", 201)])
def test_the_status_of_a_replay_is_declared_or_the_firsts(claim: str | None, status: int) -> None:
    async def play() -> None:
        async with emulator(mine(**({"replay__status": claim} if claim else {}))) as (engine, _):
            assert (await ask(engine, call())).status == 201
            assert (await ask(engine, call())).status == status

    run(play())


def test_an_identical_body_is_the_firsts_and_another_look_is_laid_over_it() -> None:
    async def play() -> None:
        shape = {"status": 200, "id": "/id", "body": {"status": "done", "again": True}}
        for body, expected in (("identical", {"status": "queued"}), (None, {"status": "done", "again": True})):
            claims = {"replay__body": body} if body else {}
            async with emulator(mine(answers__replayed=shape, **claims)) as (engine, _):
                first = said(await ask(engine, call()))
                assert said(await ask(engine, call())) == {"id": first["id"], **expected}

    run(play())


@pytest.mark.parametrize("headers", ["stored", "fresh"])
def test_the_headers_of_a_replay_are_stored_or_fresh(headers: str) -> None:
    async def play() -> None:
        async with emulator(mine(replay__headers=headers)) as (engine, _):
            first, again = [await ask(engine, call()) for _ in range(2)]
            equal = first.headers["X-Request-Id"] == again.headers["X-Request-Id"]
            assert equal == (headers == "stored")

    run(play())


def test_a_replay_may_have_an_id_of_its_own() -> None:
    async def play() -> None:
        async with emulator(mine(replay__id="new")) as (engine, upstream):
            ids = {said(await ask(engine, call()))["id"] for _ in range(3)}
            assert (len(ids), len(upstream.taken)) == (3, 1)

    run(play())


def test_a_marker_has_its_value_on_every_answer_where_the_vendor_sends_it_always() -> None:
    async def play() -> None:
        marker = [
            {"header": "Idempotency-Replayed", "is": "true", "otherwise": "false"},
            {"at": "/meta/hit", "is": True, "otherwise": False},
            {"header": "Only-Then", "is": "1"},
        ]
        async with emulator(mine(replay__marker=marker)) as (engine, _):
            first, again, conflict = [await ask(engine, request) for request in (call(), call(), call(**OTHER))]
            assert [a.headers["Idempotency-Replayed"] for a in (first, again, conflict)] == ["false", "true", "false"]
            assert [said(a)["meta"]["hit"] for a in (first, again, conflict)] == [False, True, False]
            assert [a.headers.get("Only-Then") for a in (first, again, conflict)] == [None, "1", None]

    run(play())


@pytest.mark.parametrize("key", ["k1", "k é", "k é".encode().decode("latin-1"), "日".encode().decode("latin-1"), None])
def test_the_key_is_named_in_the_answer_with_the_bytes_that_it_came_in(key: str | None) -> None:
    async def play() -> None:
        async with emulator(mine(replay__key_echo="Idempotency-Key")) as (engine, _):
            for _ in range(2):
                assert (await ask(engine, call(key=key))).headers.get("Idempotency-Key") == key
            if key == "k1":
                assert (await ask(engine, call(key=key, **OTHER))).headers["Idempotency-Key"] == "k1"

    run(play())


@pytest.mark.parametrize(("key", "shown"), [("k é", "k é".encode()), ("k\n1", None), (" k", None)])
def test_a_key_from_a_body_is_named_where_a_header_can_carry_it(key: str, shown: bytes | None) -> None:
    async def play() -> None:
        contract = mine(replay__key_echo="Idempotency-Key", key__at="body:/key")
        async with provider(contract, edge="client") as fake:
            for _ in range(2):
                answer = await post(fake, "/emails", {**body_for("mine"), "key": key})
                assert dict(answer.headers.raw).get(b"Idempotency-Key") == shown

    run(play())


def test_a_stored_refusal_is_replayed_as_it_was() -> None:
    async def play() -> None:
        contract = mine(outcomes__invalid="stored", outcomes__provider_refused="stored")
        async with emulator(contract, Scripted(script=["refused"])) as (engine, upstream):
            for request in (call(to="nobody"), call(key="k2")):
                first, again = [await ask(engine, request) for _ in range(2)]
                assert (kind(first), first.status, first.body) == (A.REFUSED, again.status, again.body)
            assert "'nobody' is not an address." in said(await ask(engine, call(to="nobody")))["message"]
            assert len(upstream.keys) == 1

    run(play())


# --- Hints -----------------------------------------------------------------------------------------------


def test_answers_say_what_the_contract_says_about_trying_again() -> None:
    async def play() -> None:
        contract = mine(
            hints={
                "retry_after": ["rate_limited", "in_progress"],
                "documentation": ["conflict"],
                "should_retry": "X-Retry",
            }
        )
        async with emulator(contract) as (engine, _):
            first = await ask(engine, call())
            limited = await ask(engine, call(**LIMITED))
            conflict = await ask(engine, call(**OTHER))
            assert [a.headers.get("Retry-After") for a in (first, limited, conflict)] == [None, "1", None]
            assert [a.headers.get("X-Retry") for a in (first, limited, conflict)] == [None, "true", "false"]
            assert 'rel="describedby"' in conflict.headers["Link"]
            assert "Link" not in limited.headers

    run(play())
