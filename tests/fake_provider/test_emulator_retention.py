"""Retention: how long a key is remembered, and from when that counts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any

import pytest

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts import AnswerClass, Contract
from tests.fake_provider.kit import Scripted, ask, body_for, call, emulator, kind, mine, run, said

A = AnswerClass


class Still(Clock):
    """A clock that moves by hand only."""

    def __init__(self, at: float = 1_800_000_000.0) -> None:
        super().__init__()
        self.at = at

    def now(self) -> float:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += seconds
        super().advance(0)


async def classes(contract: Contract, clock: Clock, *steps: Any) -> list[AnswerClass | None]:
    """Play requests and moves of the clock; the class of each answer."""
    found = []
    async with emulator(contract, clock=clock) as (engine, _):
        for step in steps:
            if isinstance(step, int | float):
                clock.advance(step)
            else:
                found.append(kind(await ask(engine, step)))
                await engine.settled()
    return found


@pytest.mark.parametrize(
    ("retention", "age", "expected"),
    [
        ({"at_least": 100}, 99, A.REPLAYED),
        ({"at_least": 100}, 100, A.ACCEPTED),
        ({"at_least": 100, "at_most": 200}, 199, A.REPLAYED),
        ({"at_least": 100, "at_most": 200}, 200, A.ACCEPTED),
        ({"at_least": 100, "then": "refuse"}, 100, A.EXPIRED),
        ({"at_least": 100, "then": "refuse"}, 1_000_000, A.EXPIRED),
        ({}, 1_000_000_000, A.REPLAYED),
    ],
)
def test_a_key_is_forgotten_when_its_time_is_over(retention: Any, age: float, expected: AnswerClass) -> None:
    found = run(classes(mine(retention=retention), Still(), call(), age, call()))
    assert found == [A.ACCEPTED, expected]


@pytest.mark.parametrize(
    ("age", "expected"), [(86_399, A.REPLAYED), (86_400, A.REPLAYED), (86_400 + 1799, A.REPLAYED), (88_200, A.ACCEPTED)]
)
def test_a_job_takes_out_what_is_old_at_its_next_run(age: float, expected: AnswerClass) -> None:
    """The key is claimed half an hour after a run, so it lives half an hour longer than its day."""
    clock = Still(1_800_000_000 // 3600 * 3600 + 1800.0)
    contract = mine(retention={"at_least": 86_400, "at_most": 90_000, "sweep": 3600})
    assert run(classes(contract, clock, call(), age, call())) == [A.ACCEPTED, expected]


def test_what_was_just_too_young_at_a_run_lives_until_the_next() -> None:
    hour = 1_800_000_000 // 3600 * 3600
    contract = mine(retention={"at_least": 86_400, "at_most": 90_000, "sweep": 3600})
    found = run(classes(contract, Still(hour + 1.0), call(), 86_400 + 3598, call(), 1, call()))
    assert found == [A.ACCEPTED, A.REPLAYED, A.ACCEPTED]


def test_a_refusal_of_an_expired_key_sends_nothing_and_tells_nothing_of_the_first() -> None:
    async def play() -> None:
        clock = Still()
        contract = mine(retention={"at_least": 100, "then": "refuse"})
        async with emulator(contract, clock=clock) as (engine, upstream):
            first = said(await ask(engine, call()))
            clock.advance(101)
            for request in (call(), call(text="other")):
                answer = await ask(engine, request)
                assert (answer.status, kind(answer)) == (412, A.EXPIRED)
                assert first["id"] not in answer.body.decode()
            assert len(upstream.taken) == 1

    run(play())


@pytest.mark.parametrize("start", ["first-receipt", "first-success", "completion", "last-use"])
def test_the_time_counts_from_where_the_contract_says(start: str) -> None:
    """Received at 0, completed at 50, used again at 90: asked at 120 and at 160 with a retention of 100."""

    async def play() -> None:
        clock = Still()
        upstream = Scripted(gate=asyncio.Event())
        contract = mine(retention={"at_least": 100, "from": start})
        async with emulator(contract, upstream, clock=clock) as (engine, _):
            first = asyncio.create_task(ask(engine, call()))
            await upstream.reached.wait()
            clock.advance(50)
            assert upstream.gate is not None
            upstream.gate.set()
            await first
            clock.advance(40)
            assert kind(await ask(engine, call())) is A.REPLAYED
            clock.advance(30)
            remembered = start != "first-receipt"
            assert kind(await ask(engine, call())) is (A.REPLAYED if remembered else A.ACCEPTED)
            if remembered:
                clock.advance(40)
                expected = A.REPLAYED if start == "last-use" else A.ACCEPTED
                assert kind(await ask(engine, call())) is expected

    run(play())


def test_a_queue_completes_when_the_mail_is_out() -> None:
    async def play() -> None:
        clock = Still()
        upstream = Scripted(gate=asyncio.Event())
        contract = mine(delivery="queued", retention={"at_least": 100, "from": "completion"})
        async with emulator(contract, upstream, clock=clock) as (engine, _):
            await ask(engine, call())
            await upstream.reached.wait()
            clock.advance(1000)
            assert kind(await ask(engine, call())) is A.REPLAYED  # it still runs, so it is not forgotten
            assert upstream.gate is not None
            upstream.gate.set()
            await engine.settled()
            clock.advance(99)
            assert kind(await ask(engine, call())) is A.REPLAYED
            clock.advance(1)
            assert kind(await ask(engine, call())) is A.ACCEPTED

    run(play())


def test_the_time_counts_from_the_first_attempt_that_the_caller_asserts() -> None:
    clock = Still()
    contract = mine(
        key__first_sent={"at": "header:First-Sent", "window": 300}, retention={"at_least": 100, "from": "first-sent"}
    )
    request = call(headers={"First-Sent": formatdate(clock.now() - 60, usegmt=True)})
    assert run(classes(contract, clock, request, 39, request, 2, request)) == [A.ACCEPTED, A.REPLAYED, A.ACCEPTED]


# --- Chosen by the caller --------------------------------------------------------------------------------

CHOSEN = {"at_least": 1000, "chosen_at": "header:X-Idempotency-Expiration", "chosen_max": 5000}


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


@pytest.mark.parametrize(
    ("ahead", "written", "age", "expected"),
    [
        (50, str, 49, A.REPLAYED),
        (50, str, 51, A.ACCEPTED),
        (2000, iso, 1999, A.REPLAYED),
        (2000, iso, 2001, A.ACCEPTED),
        (9999, str, 4999, A.REPLAYED),
        (9999, str, 5001, A.ACCEPTED),
    ],
)
def test_a_caller_chooses_the_time_up_to_a_limit(ahead: float, written: Any, age: float, expected: AnswerClass) -> None:
    clock = Still()
    request = call(headers={"X-Idempotency-Expiration": written(clock.now() + ahead)})
    assert run(classes(mine(retention=CHOSEN), clock, request, age, request)) == [A.ACCEPTED, expected]


@pytest.mark.parametrize("value", ["soon", "", "2026-13-01T00:00:00Z", "-5"])
def test_a_chosen_time_that_is_none_is_refused(value: str) -> None:
    request = call(headers={"X-Idempotency-Expiration": value})
    assert run(classes(mine(retention=CHOSEN), Still(), request)) == [A.KEY_INVALID]


# --- Sends for later -------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [iso, float, str])
def test_a_mail_leaves_at_its_time_and_its_key_is_kept_from_then(written: Any) -> None:
    async def play() -> None:
        clock = Still()
        contract = mine(
            scheduled={"at": "/scheduled_at", "keeps": 500}, retention={"at_least": 100, "from": "scheduled-time"}
        )
        body = {**body_for("mine"), "scheduled_at": written(clock.now() + 1000)}
        async with emulator(contract, clock=clock) as (engine, upstream):
            first = await ask(engine, call(body=body))
            await engine.settled()
            clock.advance(999)
            again = await ask(engine, call(body=body))
            assert (kind(first), kind(again), upstream.keys) == (A.ACCEPTED, A.REPLAYED, [])
            clock.advance(2)
            await upstream.reached.wait()
            await engine.settled()
            assert len(upstream.taken) == 1
            clock.advance(498)
            assert kind(await ask(engine, call(body=body))) is A.REPLAYED
            clock.advance(2)
            assert kind(await ask(engine, call(body=body))) is A.ACCEPTED

    run(play())


def test_a_mail_for_later_survives_the_process(tmp_path: Any) -> None:
    async def play() -> None:
        clock = Still()
        contract = mine(scheduled={"at": "/scheduled_at"})
        body = {**body_for("mine"), "scheduled_at": clock.now() + 1000}
        state = tmp_path / "state.db"
        async with emulator(contract, clock=clock, state=state) as (engine, first):
            await ask(engine, call(body=body))
        async with emulator(contract, clock=clock, state=state) as (engine, second):
            await engine.settled()
            assert (first.keys, second.keys) == ([], [])
            clock.advance(1001)
            await second.reached.wait()
            await engine.settled()
            assert len(second.taken) == 1

    run(play())


def test_a_time_that_has_passed_is_now() -> None:
    async def play() -> None:
        contract = mine(scheduled={"at": "/scheduled_at"})
        async with emulator(contract) as (engine, upstream):
            await ask(engine, call(body={**body_for("mine"), "scheduled_at": "2020-01-01T00:00:00Z"}))
            assert len(upstream.taken) == 1

    run(play())
