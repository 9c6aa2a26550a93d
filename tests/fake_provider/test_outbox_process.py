"""Events of a served emulator that is killed: what has happened is told, however the process ends."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from sendtwice.fake_provider import webhooks
from tests.fake_provider.consumer import Consumer, consumer
from tests.fake_provider.kit import Served, body_for, get, post, run

SECRET = webhooks.make_secret()


async def served(to: Consumer, state: Path) -> Served:
    arguments = ("--webhook-url", to.url, "--webhook-secret", SECRET, "--webhook-schedule", "0.05,0.1")
    return await Served.start("rasket", "--state", str(state), *arguments)


async def send(to: Served, key: str) -> str:
    headers = {"Idempotency-Key": key, "User-Agent": "tests", "Authorization": "Bearer acme"}
    answer = await post(to.url, "/emails", body_for("rasket"), headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def test_killed_between_what_happened_and_its_telling_it_tells_after_the_restart(tmp_path: Path) -> None:
    """The event waits at a gate with not one byte sent, so it is on disk only."""

    async def play() -> None:
        async with consumer() as to:
            one = await served(to, tmp_path / "state.db")
            hold = {"crossing": "webhook.request", "fault": {"hold": "gate"}, "times": 9}
            assert (await post(one.url, "/_sendtwice/faults", hold)).status_code == 201
            number = await send(one, "k")
            (event,) = (await get(one.url, "/_sendtwice/webhooks")).json()["events"]
            assert event["state"] == "pending"
            await one.kill()
            assert to.got == []
            two = await served(to, tmp_path / "state.db")
            await to.until(lambda: len(to.got) == 1)
            assert (to.got[0].id, to.got[0].json["data"]["message_id"]) == (event["event_id"], number)
            assert (await get(two.url, "/_sendtwice/webhooks?settle=10")).json()["events"][0]["state"] == "delivered"
            assert await two.stop() == 0

    run(play())


def test_killed_before_the_ack_it_tells_again_under_the_same_id(tmp_path: Path) -> None:
    async def play() -> None:
        async with consumer("hang") as to:
            one = await served(to, tmp_path / "state.db")
            await send(one, "k")
            await to.until(lambda: len(to.got) == 1)
            await one.kill()
            two = await served(to, tmp_path / "state.db")
            await to.until(lambda: len(to.got) == 2)
            assert to.got[0].id == to.got[1].id
            assert await two.stop() == 0

    run(play())


def test_what_was_acknowledged_or_is_dead_is_not_told_after_a_restart(tmp_path: Path) -> None:
    async def play() -> None:
        async with consumer(204, 500, 500, 500) as to:
            one = await served(to, tmp_path / "state.db")
            await send(one, "delivered")
            assert (await get(one.url, "/_sendtwice/webhooks?settle=10")).json()["settled"] is True
            await send(one, "dead")
            shown = (await get(one.url, "/_sendtwice/webhooks?settle=10")).json()["events"]
            assert [(event["state"], event["attempts"]) for event in shown] == [("delivered", 1), ("dead", 3)]
            await one.kill()
            two = await served(to, tmp_path / "state.db")
            kept = (await get(two.url, "/_sendtwice/webhooks?settle=10")).json()["events"]
            assert [(event["event_id"], event["state"]) for event in kept] == [
                (event["event_id"], event["state"]) for event in shown
            ]
            assert len(to.got) == 4
            assert (await post(two.url, "/_sendtwice/webhooks/redrive", {"all": "dead"})).json()["count"] == 1
            await to.until(lambda: len(to.got) == 5)
            assert to.got[4].id == shown[1]["event_id"]
            assert await two.stop() == 0

    run(play())


def test_many_deaths_lose_nothing(tmp_path: Path) -> None:
    """Killed again and again while it sends and tells: in the end every message was told of."""

    async def play() -> None:
        async with consumer() as to:
            numbers: list[str] = []
            for life in range(4):
                one = await served(to, tmp_path / "state.db")
                sends = [asyncio.create_task(send(one, f"{life}/{at}")) for at in range(10)]
                numbers += await asyncio.gather(*sends)
                await one.kill()
            last = await served(to, tmp_path / "state.db")
            assert (await get(last.url, "/_sendtwice/webhooks?settle=15")).json()["settled"] is True
            told = {json.loads(got.body)["data"]["message_id"] for got in to.got}
            assert told == set(numbers)
            assert len({got.id for got in to.got}) == len(numbers)
            assert await last.stop() == 0

    run(play())


def test_a_secret_that_is_not_given_is_made_and_told_where_it_listens() -> None:
    async def play() -> None:
        async with consumer() as to:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "sendtwice.fake_provider.serve", "--contract", "rasket", "--port", "0"),
                *("--webhook-url", to.url),
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            line = json.loads(await process.stdout.readline())
            await send(Served(process, line["url"]), "k")
            await to.until(lambda: len(to.got) == 1)
            webhooks.check_secret(line["webhook_secret"])
            stamp = int(to.got[0].headers["webhook-timestamp"])
            webhooks.verify(line["webhook_secret"], to.got[0].headers, to.got[0].body, now=stamp)
            process.terminate()
            assert await process.wait() == 0

    run(play())
