"""The emulator as a program."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sendtwice.fake_provider import serve
from tests.fake_provider.kit import Served, body_for, get, post, provider, run


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sendtwice.fake_provider.serve", *arguments],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={**os.environ, **environment},
    )


def test_it_says_where_it_listens_keeps_its_state_and_ends_when_asked(tmp_path: Path) -> None:
    async def play() -> None:
        state = ("--state", str(tmp_path / "state.db"))
        answers = []
        for _ in range(2):
            served = await Served.start("rasket", *state)
            headers = {"Idempotency-Key": "k"}
            answers.append(await post(served.url, "/emails", body_for("rasket"), headers))
            assert (await get(served.url, "/healthz")).json()["contract"] == "rasket"
            assert await served.stop() == 0
        assert answers[0].json() == answers[1].json()
        assert [a.headers.get("idempotent-replayed") for a in answers] == [None, "true"]

    run(play())


def test_its_mail_reaches_the_provider_that_it_is_given() -> None:
    async def play() -> None:
        async with provider() as upstream:
            served = await Served.start("postfleet", "--upstream", upstream.url)
            answer = await post(served.url, "/api/v1/send", body_for("postfleet", key="k"))
            assert answer.status_code == 201
            assert [d.recipient for d in upstream.ledger.deliveries] == ["ana@example.test"]
            await served.stop()

    run(play())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--contract", "raskett"),
            "error: contract: 'raskett' is not a shipped contract; did you mean 'rasket'?",
        ),
        (
            ("--contract", "rasket", "--upstream", "http://x", "--upstream-dialect", "resnd"),
            "error: dialect: 'resnd' is not a dialect; did you mean 'resend'?",
        ),
        (
            ("--contract", "rasket", "--state", "/nowhere/state.db"),
            "error: /nowhere/state.db: cannot hold the state",
        ),
        (
            ("--contract", "rasket", "--webhook-url", "localhost:3000"),
            "error: webhook-url: 'localhost:3000' is no http address; write http://127.0.0.1:3000/webhooks",
        ),
        (
            ("--contract", "rasket", "--webhook-url", "http://127.0.0.1:1", "--webhook-schedule", "1,soon"),
            "error: --webhook-schedule: '1,soon' is no list of seconds from 0 to 604800; write 0.1,1,5",
        ),
        (
            ("--contract", "rasket", "--webhook-url", "http://127.0.0.1:1", "--webhook-secret", "s3cr3t!"),
            "error: webhook-secret: a webhook secret is whsec_ followed by base64; make one with make_secret()",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_status_2(arguments: tuple[str, ...], message: str) -> None:
    ended = program(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(message)
    assert ended.stderr.count("\n") == 1


def test_a_clock_that_was_moved_is_where_it_was_after_a_kill(tmp_path: Path) -> None:
    """The keys in the file have the times of that clock: by another one none of them would ever be forgotten."""

    async def play() -> None:
        state = ("--state", str(tmp_path / "state.db"))
        key = {"Idempotency-Key": "k1", "User-Agent": "tests", "Authorization": "Bearer one"}

        async def send(served: Served) -> str:
            answer = await post(served.url, "/emails", body_for("rasket"), key)
            assert answer.status_code == 200
            return str(answer.json()["id"])

        async def now(served: Served, advance: float = 0) -> float:
            return float((await post(served.url, "/_sendtwice/clock", {"advance": advance})).json()["now"])

        served = await Served.start("rasket", *state)
        try:
            await now(served, 100_000)
            moved = await now(served, 100_000)
            first = await send(served)
            await served.kill()
            served = await Served.start("rasket", *state)
            assert 0 <= await now(served) - moved < 60
            assert await send(served) == first
            await now(served, 86_000)
            assert await send(served) == first
            await now(served, 4_100)
            assert await send(served) != first
            # To forget what was sent is not to go back in time.
            await post(served.url, "/_sendtwice/reset", {})
            await served.kill()
            served = await Served.start("rasket", *state)
            assert await now(served) - moved >= 90_100
        finally:
            await served.stop()

    run(play())


def test_a_port_that_is_taken_is_said_so() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        ended = program(SENDTWICE_CONTRACT="rasket", SENDTWICE_PORT=str(port))
        assert ended.returncode == 2
        assert ended.stderr == (
            f"error: 127.0.0.1:{port}: cannot be listened on (address already in use);"
            " choose another --port, or 0 for a free one\n"
        )


def test_it_ends_when_its_task_is_cancelled() -> None:
    async def play() -> None:
        ready: asyncio.Queue[str] = asyncio.Queue()
        task = asyncio.create_task(serve.serve("rasket", port=0, ready=lambda line: ready.put_nowait(line["url"])))
        url = await ready.get()
        assert (await get(url, "/healthz")).status_code == 200
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(play())
