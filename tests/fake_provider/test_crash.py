"""Killed at any instant and started again on the same state, the emulator keeps its contract.

Two ways. *Simulated*: the store and the provider die at the n-th boundary, for every n there is; what is on
disk is all that the next engine gets.  *Real*: a served process is killed while its provider is held.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.emulator.engine import Emulator
from sendtwice.fake_provider.emulator.records import Claim, State, new_messages
from sendtwice.fake_provider.emulator.store import Store
from sendtwice.fake_provider.faults import Fault, Place, Verb
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Response
from tests.fake_provider.kit import (
    Scripted,
    Served,
    ask,
    body_for,
    emulator,
    kind,
    post,
    provider,
    request_for,
    run,
)
from tests.fake_provider.mortal import Death, Life, MortalStore, MortalUpstream

# --- Simulated ------------------------------------------------------------------------------------------


async def live(name: str, state: Path, real: Scripted, boundaries: float) -> tuple[bool, Response | None]:
    """One life of the process; whether it saw its end, and the answer that its caller got."""
    life = Life(boundaries)
    loop = asyncio.get_running_loop()
    # Background tasks die too, and nobody is left to hear of it.
    loop.set_exception_handler(lambda _, __: None)
    store = MortalStore(state, life)
    engine = Emulator(contracts.load(name), upstream=MortalUpstream(real, life), store=store)
    answer: Response | None = None
    died = False
    try:
        await engine.start()
        answer = await ask(engine, request_for(name))
        await engine.settled()
    except Death:
        died = True
    died = died or life.left < 0
    life.left = -1
    await engine.settled()
    store.close()  # what was not committed is gone, as it is when a process dies
    return died, answer


@pytest.mark.parametrize("deduplicates", [True, False])
@pytest.mark.parametrize(
    ("name", "script"),
    [
        *(("postfleet", script) for script in (None, "busy", "lost", "unknown")),
        # The other contracts share its courier; these two windows are the ones in which they could differ.
        *((name, script) for name in ("rasket", "pylota", "resend") for script in (None, "lost")),
    ],
)
def test_every_instant_of_death(name: str, deduplicates: bool, script: str | None, tmp_path: Path) -> None:
    async def play() -> None:
        for boundary in itertools.count():
            real = Scripted(deduplicates=deduplicates, script=[script] if script else [])
            state = tmp_path / f"{boundary}.db"
            died, answer = await live(name, state, real, boundary)
            store = Store(state)
            in_doubt = bool(real.keys) or any(m.state is State.HANDING for m in store.unfinished())
            store.close()
            at = f"death at boundary {boundary}, in doubt: {in_doubt}"
            async with emulator(name, real, state=state) as (engine, _):
                answers = []
                for _ in range(3):  # one may be refused as busy, one is the first success, one its replay
                    answers.append(await ask(engine, request_for(name)))
                    await engine.settled()
                last = kind(answers[-1])
                assert kind(await ask(engine, request_for(name, text="other"))) is AnswerClass.CONFLICT, at
                if answer is not None and kind(answer) is AnswerClass.ACCEPTED:
                    assert json.loads(answers[0].body)["id"] == json.loads(answer.body)["id"], at
                assert len(real.taken) <= 1, at
                if deduplicates or (not in_doubt and script != "lost"):
                    assert len(real.taken) == 1, at
                if deduplicates or name in ("rasket", "pylota"):
                    assert last is AnswerClass.REPLAYED, at
                elif in_doubt and not real.taken:
                    assert last is AnswerClass.IN_PROGRESS, at
            if not died:
                assert boundary > 4
                break

    run(play())


@pytest.mark.parametrize("name", ["postfleet", "pylota"])
def test_two_deaths_in_a_row(name: str, tmp_path: Path) -> None:
    """The second death comes while the first one's work is taken up."""

    async def play() -> None:
        for first, second in itertools.product(range(0, 14, 2), range(0, 8, 2)):
            real = Scripted(deduplicates=True)
            state = tmp_path / f"{first}-{second}.db"
            await live(name, state, real, first)
            await live(name, state, real, second)
            async with emulator(name, real, state=state) as (engine, _):
                await ask(engine, request_for(name))
                await engine.settled()
                assert kind(await ask(engine, request_for(name))) is AnswerClass.REPLAYED
            assert len(real.taken) == 1

    run(play())


@pytest.mark.parametrize("name", ["postfleet", "pylota"])
def test_what_was_claimed_and_not_handed_over_is_handed_over_by_the_next_process(name: str, tmp_path: Path) -> None:
    async def play() -> None:
        state = tmp_path / "state.db"
        asked = emulator(name, state=state)
        async with asked as (engine, _):
            request = engine.begin(request_for(name)).asked
            claim = Claim(request.scope, request.key or "", request.fingerprint)
            now = engine.clock.now()
            engine.store.claim(claim, new_messages(request.mails, now=now), now=now)
        async with emulator(name, state=state) as (engine, upstream):
            await engine.settled()
            assert len(upstream.taken) == 1
            assert kind(await ask(engine, request_for(name))) is AnswerClass.REPLAYED

    run(play())


def test_a_key_that_the_provider_has_forgotten_is_not_trusted(tmp_path: Path) -> None:
    """A hand-over in doubt is repeated only while the provider must still know its key."""

    async def play() -> None:
        state = tmp_path / "state.db"
        store = Store(state)
        mail = Mail("a@example.test", ("b@example.test",), "s", "t")
        (message,) = messages = new_messages([mail], now=0.0)
        store.add(messages, now=0.0)
        store.mark(message, State.HANDING)
        store.close()
        upstream = Scripted(deduplicates=True, remembers=86_400)
        async with emulator("postfleet", upstream, state=state) as (engine, _):
            await engine.settled()
            assert not upstream.keys
            kept = engine.store.message(message.id)
            assert kept is not None
            assert kept.state is State.UNKNOWN

    run(play())


def test_a_graceful_stop_keeps_what_waits(tmp_path: Path) -> None:
    async def play() -> None:
        state = tmp_path / "state.db"
        async with emulator("pylota", Scripted(script=["busy"] * 100), state=state) as (engine, first):
            await ask(engine, request_for("pylota"))
            await first.reached.wait()
        async with emulator("pylota", state=state) as (engine, second):
            await engine.settled()
            assert (len(first.taken), len(second.taken)) == (0, 1)

    run(play())


def test_two_processes_cannot_share_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "state.db")
    monkeypatch.setattr("sqlite3.connect", functools.partial(sqlite3.connect, timeout=0))
    with pytest.raises(BadFileError, match=r"state\.db: cannot hold the state \(database is locked\); give another"):
        Store(tmp_path / "state.db")
    store.close()


def test_a_file_that_is_no_state_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("this is not a database, and it is long enough to be sure of that" * 20)
    with pytest.raises(BadFileError, match=r"notes\.txt: cannot hold the state"):
        Store(path)


def test_a_store_that_fails_in_the_background_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        async with emulator("pylota", upstream) as (engine, _):
            await ask(engine, request_for("pylota"))
            await upstream.reached.wait()
            engine.store._db.execute("DROP TABLE message")
            assert upstream.gate is not None
            upstream.gate.set()
            await engine.settled()

    with caplog.at_level(logging.ERROR):
        run(play())
    assert "goes on after a restart" in caplog.text


# --- Real -----------------------------------------------------------------------------------------------


def headers_for(name: str) -> dict[str, str]:
    return {"Authorization": "Bearer one", **({} if name == "postfleet" else {"Idempotency-Key": "k1"})}


async def send(served: Served, name: str) -> httpx.Response:
    return await post(served.url, contracts.load(name).request.path, body_for(name, key="k1"), headers_for(name))


@pytest.mark.parametrize("place", [Place.PROVIDER_REQUEST, Place.PROVIDER_RESPONSE])
@pytest.mark.parametrize("dialect", ["generic", "resend"])
@pytest.mark.parametrize("name", ["postfleet", "rasket", "pylota"])
def test_a_served_emulator_is_killed_in_the_middle_of_a_hand_over(
    name: str, dialect: str, place: Place, tmp_path: Path
) -> None:
    committed = place is Place.PROVIDER_RESPONSE
    deduplicates = dialect == "resend"
    answered: asyncio.Queue[str] = asyncio.Queue()

    def observe(event: str, /, **_: Any) -> None:
        if event == Place.PROVIDER_RESPONSE:
            answered.put_nowait(event)

    async def play() -> None:
        async with provider(dialect, observe=observe) as upstream:
            arguments = [
                *("--state", str(tmp_path / "state.db")),
                *("--upstream", upstream.url, "--upstream-dialect", dialect),
            ]
            held = upstream.faults.arm(Fault(place, Verb.HOLD))
            served = await Served.start(name, *arguments)
            caller = asyncio.create_task(send(served, name))
            await held.reached.wait()
            async with upstream.endpoint.callers_die():
                await served.kill()
            first, *_ = await asyncio.gather(caller, return_exceptions=True)
            upstream.faults.withdraw(held)
            await upstream.endpoint.idle()
            assert upstream.ledger.commits == committed

            served = await Served.start(name, *arguments)
            if deduplicates:
                while not answered.empty():
                    answered.get_nowait()
                await answered.get()
                # Its answer is on the way to the process; the repeat after it is told, or waits.
                again = await send(served, name)
                while again.status_code == 409:
                    again = await send(served, name)
                assert upstream.ledger.commits == 1
                assert again.status_code in (200, 202)
            else:
                again = await send(served, name)
                assert again.status_code == (409 if name == "postfleet" else {"rasket": 200, "pylota": 202}[name])
                assert upstream.ledger.commits == committed
            if isinstance(first, httpx.Response):
                assert name != "postfleet"
                assert first.json()["id"] == again.json()["id"]
            assert await served.stop() == 0

    run(play())


def test_a_provider_that_is_down_at_the_restart_is_waited_for(tmp_path: Path) -> None:
    async def play() -> None:
        async with provider("resend") as upstream:
            port, url = upstream.port, upstream.url
        arguments = ("--state", str(tmp_path / "state.db"), "--upstream", url, "--upstream-dialect", "resend")
        served = await Served.start("pylota", *arguments)
        assert (await send(served, "pylota")).status_code == 202
        await served.kill()
        served = await Served.start("pylota", *arguments)
        upstream = await _provider_on(port)
        assert await upstream.ledger.wait(lambda: upstream.ledger.commits == 1, timeout=10)
        assert await served.stop() == 0
        await upstream.stop()

    run(play())


async def _provider_on(port: int) -> Any:
    from sendtwice.fake_provider.provider import FakeProvider  # noqa: PLC0415

    fake = FakeProvider("resend")
    await fake.start(port=port)
    return fake
