"""Killed at any instant: drafts leave once, unknown outcomes become known once, and a crash does what is declared."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.emulator.engine import Emulator
from sendtwice.fake_provider.emulator.records import Claim, State, new_messages
from sendtwice.fake_provider.emulator.store import Store
from sendtwice.fake_provider.faults import Fault, Place, Verb
from sendtwice.fake_provider.messages import Request
from tests.fake_provider.kit import (
    Scripted,
    Served,
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
from tests.fake_provider.mortal import Death, Life, MortalStore, MortalUpstream

A = AnswerClass
SEND = call(sender="needs-approval@example.test")
EVENT = call(
    "/hooks/provider",
    {"type": "email.delivered", "data": {"from": "shop@example.test", "to": "ana@example.test", "subject": "Receipt"}},
    key=None,
)


def approve(number: str) -> Request:
    return call(f"/drafts/{number}/approve", {}, credential="one:person", key=None)


async def live(
    contract: Contract, state: Path, real: Scripted, boundaries: float, plan: Callable[[Emulator], Awaitable[None]]
) -> bool:
    """One life of the process; whether it died before the end of its plan."""
    life = Life(boundaries)
    asyncio.get_running_loop().set_exception_handler(lambda _, __: None)
    store = MortalStore(state, life)
    engine = Emulator(contract, upstream=MortalUpstream(real, life), store=store)
    died = False
    try:
        await engine.start()
        await plan(engine)
        await engine.settled()
    except Death:
        died = True
    died = died or life.left < 0
    life.left = -1
    await engine.settled()
    store.close()
    return died


@pytest.mark.parametrize("delivery", ["inline", "queued"])
@pytest.mark.parametrize("deduplicates", [True, False])
@pytest.mark.parametrize("script", [None, "busy", "lost", "unknown"])
def test_a_draft_leaves_once_whenever_the_process_dies(
    delivery: str, deduplicates: bool, script: str | None, tmp_path: Path
) -> None:
    contract = mine(delivery=delivery, approval={}, answers__pending={"status": 202, "id": "/id"})

    async def plan(engine: Emulator) -> None:
        number = said(await ask(engine, SEND))["id"]
        await ask(engine, approve(number))

    async def play() -> None:
        for boundary in itertools.count():
            real = Scripted(deduplicates=deduplicates, script=[script] if script else [])
            state = tmp_path / f"{boundary}.db"
            died = await live(contract, state, real, boundary, plan)
            at = f"death at boundary {boundary}"
            async with emulator(contract, real, state=state) as (engine, _):
                await engine.settled()
                in_doubt = bool(real.keys) or bool(engine.store.unsure(0))
                waiting = await ask(engine, SEND)
                if kind(waiting) is A.PENDING:
                    assert not real.keys, at
                    await ask(engine, approve(said(waiting)["id"]))
                    await engine.settled()
                last = await ask(engine, SEND)
                messages = engine.store.of_account("one")
                assert len(messages) == 1, at
                assert kind(await ask(engine, approve(messages[0].id))) is A.REFUSED, at
                await engine.settled()
                assert len(real.taken) <= 1, at
                if deduplicates or (not in_doubt and script != "lost"):
                    assert len(real.taken) == 1, at
                expected = A.REPLAYED
                if messages[0].state is State.UNKNOWN and delivery == "inline":
                    expected = A.IN_PROGRESS
                assert kind(last) is expected, at
            if not died:
                assert boundary > 8
                break

    run(play())


def test_a_rejection_holds_whenever_the_process_dies(tmp_path: Path) -> None:
    contract = mine(approval={}, answers__pending={"status": 202, "id": "/id"})

    async def plan(engine: Emulator) -> None:
        number = said(await ask(engine, SEND))["id"]
        await ask(engine, call(f"/drafts/{number}/reject", {}, credential="one:person", key=None))

    async def play() -> None:
        for boundary in itertools.count():
            state, real = tmp_path / f"{boundary}.db", Scripted()
            died = await live(contract, state, real, boundary, plan)
            async with emulator(contract, real, state=state) as (engine, _):
                answer = await ask(engine, SEND)
                number = engine.store.of_account("one")[0].id
                if kind(answer) is A.PENDING:
                    await ask(engine, call(f"/drafts/{number}/reject", {}, credential="one:person", key=None))
                assert kind(await ask(engine, SEND)) is A.REFUSED
                assert kind(await ask(engine, approve(number))) is A.REFUSED
                assert not real.keys
            if not died:
                assert boundary >= 4
                break

    run(play())


@pytest.mark.parametrize("how", ["event", "person"])
def test_an_unknown_outcome_becomes_known_whenever_the_process_dies(how: str, tmp_path: Path) -> None:
    """What was told before the death is known after it, and its event is there exactly once."""
    contract = mine(routes__resolve__key="optional")

    def telling(engine: Emulator) -> Request:
        if how == "event":
            return EVENT
        number = next(iter(engine.store.of_account("one"))).id
        return call(f"/emails/{number}/resolve", {"outcome": "sent"}, key="r1")

    async def plan(engine: Emulator) -> None:
        await ask(engine, call())
        await ask(engine, telling(engine))

    async def play() -> None:
        for boundary in itertools.count():
            state, real = tmp_path / f"{boundary}.db", Scripted(script=["unknown"])
            died = await live(contract, state, real, boundary, plan)
            async with emulator(contract, real, state=state) as (engine, _):
                await ask(engine, call())
                await engine.settled()
                if engine.store.unsure(0):
                    await ask(engine, telling(engine))
                assert kind(await ask(engine, call())) is A.REPLAYED
                types = [event.type for event in engine.store.events_after(0)]
                assert types.count("message.reconciled") + types.count("message.sent") == 1
                assert len(real.taken) == len(real.keys) <= 1
                if how == "person" and not died:
                    assert kind(await ask(engine, telling(engine))) is A.REPLAYED
            if not died:
                assert boundary >= 6
                break

    run(play())


# --- What the contract says of a crash -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "state", "expected", "mails"),
    [
        ({}, State.QUEUED, A.REPLAYED, 1),
        ({}, State.HANDING, A.IN_PROGRESS, 0),
        ({"outcomes__crash": "stored"}, State.HANDING, A.UNKNOWN, 0),
        ({"outcomes__crash": "stored"}, State.QUEUED, A.REPLAYED, 1),
        ({"outcomes__crash": "released"}, State.HANDING, A.ACCEPTED, 1),
        ({"outcomes__crash": "released"}, State.QUEUED, A.ACCEPTED, 1),
        ({"outcomes__crash": "kept", "outcomes__unknown": "stored"}, State.HANDING, A.IN_PROGRESS, 0),
        ({"outcomes__crash": "poisoned"}, State.HANDING, A.KEY_INVALID, 0),
        ({"outcomes__crash": "poisoned"}, State.QUEUED, A.KEY_INVALID, 0),
        ({"lease": {"lasts": 60, "then": "execute"}}, State.HANDING, A.ACCEPTED, 1),
        ({"lease": {"lasts": 60, "then": "refuse"}}, State.HANDING, A.REFUSED, 0),
    ],
)
def test_a_key_after_a_crash_is_what_the_contract_says(
    claims: dict[str, Any], state: State, expected: AnswerClass, mails: int, tmp_path: Path
) -> None:
    contract, path = mine(**claims), tmp_path / "state.db"

    async def play() -> None:
        async with emulator(contract, state=":memory:") as (engine, _):
            asked = engine.begin(call()).asked
        store = Store(path)
        (message,) = messages = new_messages(asked.mails, now=0.0, account=asked.account)
        store.claim(Claim(asked.scope, asked.key or "", asked.fingerprint), messages, now=0.0)
        if state is State.HANDING:
            assert store.begin(message, 0.0)
        store.close()
        upstream = Scripted()
        for _ in range(2):  # a second restart changes nothing
            async with emulator(contract, upstream, state=path) as (engine, _):
                await engine.settled()
        async with emulator(contract, upstream, state=path) as (engine, _):
            assert kind(await ask(engine, call())) is expected
            assert len(upstream.taken) == mails

    run(play())


# --- Real ------------------------------------------------------------------------------------------------

PERSON = {"Authorization": "Bearer one:person"}
OWN = {"Authorization": "Bearer one"}
BODY = body_for("postfleet", key="k1", sender="needs-approval")


async def send(served: Served) -> httpx.Response:
    return await post(served.url, "/api/v1/send", BODY, OWN)


async def approved(served: Served, number: str) -> httpx.Response:
    return await post(served.url, f"/api/v1/drafts/{number}/approve", {}, PERSON)


@pytest.mark.parametrize("place", [Place.PROVIDER_REQUEST, Place.PROVIDER_RESPONSE])
@pytest.mark.parametrize("dialect", ["generic", "resend"])
def test_a_served_emulator_is_killed_in_the_middle_of_an_approval(dialect: str, place: Place, tmp_path: Path) -> None:
    committed = place is Place.PROVIDER_RESPONSE

    async def play() -> None:
        async with provider(dialect) as upstream:
            arguments = (
                *("--state", str(tmp_path / "state.db")),
                *("--upstream", upstream.url, "--upstream-dialect", dialect),
            )
            served = await Served.start("postfleet", *arguments)
            draft = await send(served)
            assert draft.status_code == 202
            number = draft.json()["draft_id"]
            await served.kill()

            served = await Served.start("postfleet", *arguments)
            assert (await send(served)).json() == draft.json()
            assert (await post(served.url, f"/api/v1/drafts/{number}/approve", {}, OWN)).status_code == 403
            held = upstream.faults.arm(Fault(place, Verb.HOLD))
            caller = asyncio.create_task(approved(served, number))
            await held.reached.wait()
            async with upstream.endpoint.callers_die():
                await served.kill()
            await asyncio.wait({caller})
            assert caller.exception() is not None
            upstream.faults.withdraw(held)
            await upstream.endpoint.idle()
            assert upstream.ledger.commits == committed

            served = await Served.start("postfleet", *arguments)
            assert (await approved(served, number)).status_code == 409
            if dialect == "resend":
                assert await upstream.ledger.wait(lambda: upstream.ledger.commits == 1, timeout=10)
                answer = await send(served)
                while answer.status_code == 409:
                    answer = await send(served)
                assert (answer.status_code, answer.json()["id"]) == (200, number)
                assert upstream.ledger.commits == 1
            else:
                assert (await send(served)).status_code == 409
                assert upstream.ledger.commits == committed
            assert (await approved(served, number)).status_code == 409
            assert await served.stop() == 0

    run(play())


def test_a_reconciliation_survives_a_kill(tmp_path: Path) -> None:
    async def play() -> None:
        async with provider("generic") as upstream:
            arguments = ("--state", str(tmp_path / "state.db"), "--upstream", upstream.url)
            served = await Served.start("postfleet", *arguments)
            upstream.faults.arm(Fault(Place.PROVIDER_RESPONSE, Verb.LOSE))
            body = body_for("postfleet", key="k1")
            assert (await post(served.url, "/api/v1/send", body, OWN)).status_code == 502
            await served.kill()

            served = await Served.start("postfleet", *arguments)
            assert (await post(served.url, "/api/v1/send", body, OWN)).status_code == 409
            data = {"from": body["mailbox_id"], "to": [body["to"]], "subject": body["subject"], "message_id": "p1"}
            told = await post(served.url, "/hooks/provider", {"type": "email.delivered", "data": data})
            number = told.json()["matched"]
            assert number is not None
            await served.kill()

            served = await Served.start("postfleet", *arguments)
            replay = await post(served.url, "/api/v1/send", body, OWN)
            assert (replay.status_code, replay.json()["id"]) == (200, number)
            assert upstream.ledger.commits == 1
            assert await served.stop() == 0

    run(play())


def test_a_launch_that_was_answered_is_not_launched_again_after_a_kill(tmp_path: Path) -> None:
    async def play() -> None:
        headers = {**OWN, "User-Agent": "tests"}
        async with provider("generic") as upstream:
            arguments = ("--state", str(tmp_path / "state.db"), "--upstream", upstream.url)
            served = await Served.start("rasket", *arguments)
            draft = await post(served.url, "/broadcasts", body_for("rasket"), headers)
            path = f"/broadcasts/{draft.json()['id']}/send"
            held = upstream.faults.arm(Fault(Place.PROVIDER_RESPONSE, Verb.HOLD))
            first = await post(served.url, path, {}, headers)
            assert first.status_code == 200
            await held.reached.wait()
            async with upstream.endpoint.callers_die():
                await served.kill()
            upstream.faults.withdraw(held)
            served = await Served.start("rasket", *arguments)
            again = await post(served.url, path, {}, headers)
            assert (again.status_code, again.json()["name"]) == (400, "validation_error")
            assert upstream.ledger.commits == 1
            assert await served.stop() == 0

    run(play())
