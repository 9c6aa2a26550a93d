"""What becomes of a key after each kind of first outcome, and how long its claim in flight lasts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any

import pytest

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.faults import Fault, Place, Verb
from sendtwice.fake_provider.messages import Request
from tests.fake_provider.kit import (
    Scripted,
    Wire,
    ask,
    body_for,
    call,
    emulator,
    kind,
    message,
    mine,
    post,
    provider,
    run,
    said,
)

A = AnswerClass

#: For each outcome: a provider's script, the request that has it, the same request with its cause gone, and its class.
CASES: dict[str, tuple[list[str], Request, Request, AnswerClass]] = {
    "invalid": ([], call(subject=""), call(), A.REFUSED),
    "unauthorized": ([], call(credential="one:unauthorized"), call(), A.UNAUTHORIZED),
    "rate_limited": ([], call(credential="one:rate-limited"), call(), A.RATE_LIMITED),
    "provider_refused": (["refused"], call(), call(), A.REFUSED),
    "provider_busy": (["busy", "busy"], call(), call(), A.FAILED),
    "unknown": (["lost"], call(), call(), A.UNKNOWN),
}
#: Outcomes whose repair changes the content: what is stored is then a conflict for it.
CHANGED = {"invalid"}


@pytest.mark.parametrize("outcome", CASES)
@pytest.mark.parametrize("policy", [None, "stored", "released", "kept", "poisoned"])
def test_a_key_is_stored_released_kept_or_poisoned(outcome: str, policy: str | None) -> None:
    script, bad, good, failed = CASES[outcome]
    customary = {"provider_refused": "stored", "unknown": "kept"}.get(outcome, "released")
    played = policy or customary
    expected = {
        "stored": A.CONFLICT if outcome in CHANGED else failed,
        "released": A.ACCEPTED,
        "kept": A.CONFLICT if outcome in CHANGED else A.IN_PROGRESS,
        "poisoned": A.KEY_INVALID,
    }[played]

    async def play() -> None:
        claims = {f"outcomes__{outcome}": policy} if policy else {}
        async with emulator(mine(**claims), Scripted(script=list(script))) as (engine, upstream):
            assert kind(await ask(engine, bad)) is failed
            if (outcome, played) == ("provider_busy", "released"):
                assert kind(await ask(engine, bad)) is failed
            assert kind(await ask(engine, good)) is expected
            if played == "poisoned":
                assert kind(await ask(engine, call(text="other"))) is A.KEY_INVALID
            await engine.settled()
            assert len(upstream.taken) == (played == "released" or (outcome, played) == ("provider_busy", "kept"))

    run(play())


@pytest.mark.parametrize("outcome", [name for name in CASES if name not in CHANGED])
def test_what_is_stored_is_replayed_as_it_was(outcome: str) -> None:
    script, bad, good, failed = CASES[outcome]

    async def play() -> None:
        async with emulator(mine(**{f"outcomes__{outcome}": "stored"}), Scripted(script=list(script))) as (engine, _):
            first, again = await ask(engine, bad), await ask(engine, good)
            assert (kind(first), kind(again)) == (failed, failed)
            assert (first.status, first.body, first.headers) == (again.status, again.body, again.headers)

    run(play())


@pytest.mark.parametrize(
    ("policy", "status", "mails"),
    [(None, 201, 1), ("released", 201, 1), ("stored", 500, 0), ("kept", 409, 0), ("poisoned", 400, 0)],
)
def test_an_error_of_the_api_itself_is_stored_or_not(policy: str | None, status: int, mails: int) -> None:
    async def play() -> None:
        claims = {} if policy is None else {"outcomes__server_error": policy}
        async with provider(mine(answers__failed={"status": "5xx"}, **claims), edge="client") as fake:
            body = body_for("mine", to="server-error@fault.test")
            first, again = [await post(fake, "/emails", body, {"Idempotency-Key": "k1"}) for _ in range(2)]
            assert (first.status_code, again.status_code) == (500, status)
            assert fake.ledger.commits == mails
            if policy == "stored":
                assert again.json() == first.json()

    run(play())


def test_what_is_not_sent_for_good_is_not_sent_later_either() -> None:
    """A failure that is stored is told to every repeat, so the mail must not go out behind their backs."""

    async def play() -> None:
        contract = mine(outcomes__provider_busy="stored")
        async with emulator(contract, Scripted(script=["busy"])) as (engine, upstream):
            assert kind(await ask(engine, call())) is A.FAILED
            await engine.settled()
            assert kind(await ask(engine, call())) is A.FAILED
            assert not upstream.taken

    run(play())


def test_a_mail_of_unknown_outcome_stays_known_when_its_key_is_released() -> None:
    async def play() -> None:
        contract = mine(outcomes__unknown="released")
        async with emulator(contract, Scripted(script=["unknown"])) as (engine, upstream):
            assert kind(await ask(engine, call())) is A.UNKNOWN
            assert kind(await ask(engine, call())) is A.ACCEPTED
            states = [one["status"] for one in said(await ask(engine, call(method="GET", key=None)))["data"]]
            assert (states, len(upstream.taken)) == (["sent", "unknown"], 2)

    run(play())


@pytest.mark.parametrize(
    ("policy", "during", "after", "mails"),
    [
        (None, A.IN_PROGRESS, A.REPLAYED, 1),
        ("stored", A.IN_PROGRESS, A.REPLAYED, 1),
        ("released", A.ACCEPTED, A.REPLAYED, 2),
        ("kept", A.IN_PROGRESS, A.IN_PROGRESS, 1),
        ("poisoned", A.KEY_INVALID, A.KEY_INVALID, 1),
    ],
)
def test_a_caller_that_hangs_up_leaves_its_key_as_the_contract_says(
    policy: str | None, during: AnswerClass, after: AnswerClass, mails: int
) -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        async with emulator(mine(**({"outcomes__disconnect": policy} if policy else {})), upstream) as (engine, _):
            caller = asyncio.create_task(ask(engine, call()))
            await upstream.reached.wait()
            caller.cancel()
            await asyncio.wait({caller})
            assert upstream.gate is not None
            repeat = asyncio.create_task(ask(engine, call()))
            if during is not A.ACCEPTED:
                assert kind(await repeat) is during
            upstream.gate.set()
            assert kind(await repeat) is during
            await engine.settled()
            assert kind(await ask(engine, call())) is after
            assert len(upstream.taken) == mails

    run(play())


@pytest.mark.parametrize("ending", ["fin", "rst"])
@pytest.mark.parametrize(
    ("policy", "during", "after", "mails"),
    [(None, 409, 200, 1), ("released", None, 200, 2), ("kept", 409, 409, 1), ("poisoned", 400, 400, 1)],
)
def test_a_caller_that_closes_its_socket_hangs_up(
    policy: str | None, during: int | None, after: int, mails: int, ending: str
) -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        assert upstream.gate is not None
        contract = mine(concurrent="refuse", **({"outcomes__disconnect": policy} if policy else {}))
        async with provider(contract, edge="client", upstream=upstream) as fake:
            request = message(body_for("mine"), Idempotency_Key="k1", Authorization="Bearer one")
            wire = await Wire.to(fake)
            await wire.send(request)
            await upstream.reached.wait()
            if ending == "rst":
                wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.close()
            # Its end is there before the next connection is, and so is it read before.
            repeat = await Wire.to(fake)
            await repeat.send(request)
            if during is not None:
                assert (await repeat.answer())[0] == during
            upstream.gate.set()
            await fake.endpoint.idle()
            if during is None:
                assert (await repeat.answer())[0] == 201
            await fake.emulator.settled()
            last = await Wire.to(fake)
            await last.send(request)
            assert (await last.answer())[0] == after
            assert len(upstream.taken) == mails
            assert [attempt.sent for attempt in fake.control.attempts.log] == [False, True, True]
            for one in (repeat, last):
                one.close()

    run(play())


def test_a_caller_that_was_gone_before_its_request_was_performed_has_hung_up_too() -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        assert upstream.gate is not None
        async with provider(mine(outcomes__disconnect="poisoned"), edge="client", upstream=upstream) as fake:
            hold = fake.faults.arm(Fault(Place.CLIENT_REQUEST, Verb.HOLD))
            request = message(body_for("mine"), Idempotency_Key="k1", Authorization="Bearer one")
            wire, other = await Wire.to(fake), await Wire.to(fake)
            await wire.send(request)
            await hold.reached.wait()
            wire.close()
            await other.send(message(body_for("mine")))  # by the time it is heard, so is the end of the first
            await upstream.reached.wait()
            hold.gate.set()
            upstream.gate.set()
            await fake.endpoint.idle()
            assert len(upstream.taken) == 2
            again = await Wire.to(fake)
            await again.send(request)
            assert (await again.answer())[0] == 400
            for one in (other, again):
                one.close()

    run(play())


def test_who_has_its_answer_cannot_hang_up_on_its_key() -> None:
    async def play() -> None:
        async with emulator(mine(outcomes__disconnect="released")) as (engine, upstream):
            exchange = engine.begin(call())
            await exchange.perform()
            exchange.hung_up()
            assert kind(await ask(engine, call())) is A.REPLAYED
            assert len(upstream.taken) == 1

    run(play())


# --- The lease -------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def held(clock: Clock, **claims: Any) -> Any:
    """A first request that hangs in the provider."""
    upstream = Scripted(gate=asyncio.Event())
    async with emulator(mine(lease={"lasts": 60, **claims}), upstream, clock=clock) as (engine, _):
        first = asyncio.create_task(ask(engine, call()))
        await upstream.reached.wait()
        assert upstream.gate is not None
        yield engine, upstream, first
        upstream.gate.set()
        await asyncio.wait({first})


@pytest.mark.parametrize(
    ("then", "expected"),
    [("refuse", A.REFUSED), ({"value": "unknown"}, A.UNKNOWN), ("execute", A.ACCEPTED), ("resume", A.REPLAYED)],
)
def test_a_claim_that_is_older_than_its_lease_lapses(then: Any, expected: AnswerClass) -> None:
    async def play() -> None:
        clock = Clock()
        async with held(clock, then=then) as (engine, upstream, first):
            clock.advance(59)
            assert kind(await ask(engine, call())) is A.IN_PROGRESS
            clock.advance(2)
            repeat = asyncio.create_task(ask(engine, call()))
            if then in ("execute", "resume"):
                await asyncio.sleep(0)
                upstream.gate.set()
            assert kind(await repeat) is expected
            upstream.gate.set()
            assert kind(await first) is A.ACCEPTED
            assert len(upstream.taken) == 1 + (then == "execute")
            assert kind(await ask(engine, call())) is A.REPLAYED

    run(play())


@pytest.mark.parametrize(("late", "mails"), [("fenced", 1), ("commits", 2), (None, 1)])
def test_an_original_that_has_not_handed_over_yet_is_fenced_off_or_commits(late: str | None, mails: int) -> None:
    async def play() -> None:
        clock = Clock()
        lease = {"lasts": 60, "then": "execute", **({"late_original": late} if late else {})}
        contract = mine(lease=lease, outcomes__provider_busy="kept")
        async with emulator(contract, Scripted(script=["busy", "busy"]), clock=clock) as (engine, upstream):
            assert kind(await ask(engine, call())) is A.FAILED  # and goes on in the background
            clock.advance(61)
            assert kind(await ask(engine, call())) is A.ACCEPTED
            await engine.settled()
            assert len(upstream.taken) == mails
            assert kind(await ask(engine, call())) is A.REPLAYED

    run(play())


def test_what_is_known_to_be_unknown_is_no_claim_in_flight() -> None:
    async def play() -> None:
        clock = Clock()
        contract = mine(lease={"lasts": 60, "then": "execute"})
        async with emulator(contract, Scripted(script=["unknown"]), clock=clock) as (engine, upstream):
            await ask(engine, call())
            clock.advance(3600)
            assert kind(await ask(engine, call())) is A.IN_PROGRESS
            assert len(upstream.taken) == 1

    run(play())


@pytest.mark.parametrize("concurrent", ["wait", "execute"])
def test_a_repeat_in_flight_waits_or_is_sent_too(concurrent: str) -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        async with emulator(mine(concurrent=concurrent), upstream) as (engine, _):
            first = asyncio.create_task(ask(engine, call()))
            await upstream.reached.wait()
            repeat = asyncio.create_task(ask(engine, call()))
            await asyncio.sleep(0)
            assert not repeat.done()
            assert upstream.gate is not None
            upstream.gate.set()
            assert kind(await first) is A.ACCEPTED
            assert kind(await repeat) is (A.REPLAYED if concurrent == "wait" else A.ACCEPTED)
            assert len(upstream.taken) == 1 + (concurrent == "execute")

    run(play())


def test_a_contract_says_how_long_a_repeat_waits() -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        async with emulator(mine(concurrent="wait", waits=0.02), upstream) as (engine, _):
            first = asyncio.create_task(ask(engine, call()))
            await upstream.reached.wait()
            assert kind(await ask(engine, call())) is A.IN_PROGRESS
            assert upstream.gate is not None
            upstream.gate.set()
            await first

    run(play())


def test_a_repeat_goes_on_where_the_first_has_stopped() -> None:
    """What a provider may have taken is handed over again only to one that deduplicates."""

    async def play() -> None:
        for deduplicates, expected in ((True, A.ACCEPTED), (False, A.UNKNOWN)):
            upstream = Scripted(deduplicates=deduplicates, script=["unknown"] * 100)
            async with emulator(mine(duplicates="resume"), upstream, retries_for=0.01) as (engine, _):
                assert kind(await ask(engine, call())) is A.UNKNOWN
                await engine.settled()
                upstream.script.clear()
                assert kind(await ask(engine, call())) is expected
                assert kind(await ask(engine, call(text="other"))) is A.CONFLICT
                assert (len(upstream.taken), len(set(upstream.keys))) == (1, 1)

    run(play())


# --- The store -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "expected", "mails"), [(None, A.FAILED, 0), ("closed", A.FAILED, 0), ("open", A.ACCEPTED, 1)]
)
def test_a_store_that_fails_is_fatal_or_ignored(policy: str | None, expected: AnswerClass, mails: int) -> None:
    async def play() -> None:
        async with emulator(mine(**({"store_failure": policy} if policy else {}))) as (engine, upstream):
            engine.store._db.execute("DROP TABLE entry")
            assert kind(await ask(engine, call(subject=""))) in (A.FAILED, A.REFUSED)
            assert kind(await ask(engine, call())) is expected
            assert len(upstream.taken) == mails

    run(play())


@pytest.mark.parametrize(("claim", "forwarded"), [(None, False), ("not-forwarded", False), ("forwarded", True)])
def test_the_callers_key_is_handed_on_or_not(claim: str | None, forwarded: bool) -> None:
    async def play() -> None:
        async with emulator(mine(**({"propagation": claim} if claim else {}))) as (engine, upstream):
            first = await ask(engine, call())
            await ask(engine, call(key=None))
            assert upstream.keys[0] == ("k1" if forwarded else said(first)["id"])
            assert len(set(upstream.keys)) == 2

    run(play())
