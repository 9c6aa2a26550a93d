"""An ASGI app in this process as the target: the faults are those of a wire, and its bugs are its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from sendtwice.harness import session
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.launch.asgi import App, AsgiLauncher, Message
from sendtwice.harness.result import RunResult, Verdict
from sendtwice.harness.scenario import Scenario, catalogue
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import Target

Receive = Any
DEADLINE = 60.0
API = {"name": "mailer", "contract": "universal", "api": {"url": "http://127.0.0.1:{port}"}}
CONSUMER = {
    "name": "handler",
    "role": "consumer",
    "contract": "universal",
    "consumer": {"url": "http://127.0.0.1:{port}/hooks", "signature": "standard"},
}


async def body_of(receive: Receive) -> bytes:
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return body


async def reply(send: Any, status: int, data: Any, *headers: tuple[bytes, bytes]) -> None:
    fields = [(b"content-type", b"application/json"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": json.dumps(data).encode()})


class Mailer:
    """A send API and a webhook handler. A flawed one asks whether it knows the key, and notes it when it has sent."""

    def __init__(self, provider_url: str, *, flawed: bool) -> None:
        self.url, self.flawed = f"{provider_url}/emails", flawed
        self.sent: dict[str, str] = {}
        self.bodies: dict[str, bytes] = {}
        self.running: dict[str, asyncio.Lock] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise RuntimeError("no lifespan")
        body = await body_of(receive)
        given = json.loads(body)
        if scope["path"] == "/hooks":
            key = dict(scope["headers"])[b"webhook-id"].decode()
            data = given.get("data", given)
            mail = {"from": "desk@sendtwice.test", "to": data["from"], "subject": "Re: " + data["subject"]}
            mail["text"] = data["text"]
        else:
            key = dict(scope["headers"]).get(b"idempotency-key", b"").decode()
            mail = given
        if not key:
            await self.hand_over(mail)
            await reply(send, 200, {"id": "1"})
        elif self.flawed:
            if key not in self.sent:
                await self.hand_over(mail)
                self.sent[key] = str(len(self.sent))
            await reply(send, 200, {"id": self.sent[key]})
        else:
            async with self.running.setdefault(key, asyncio.Lock()):
                if self.bodies.setdefault(key, body) != body:
                    await reply(send, 409, {"error": "another mail has this key"})
                    return
                if key not in self.sent:
                    await self.hand_over(mail)
                    self.sent[key] = str(len(self.sent))
            await reply(send, 200, {"id": self.sent[key]})

    async def hand_over(self, mail: dict[str, Any]) -> None:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            (await client.post(self.url, json=mail)).raise_for_status()


@cache
def scenarios_of_all() -> list[Scenario]:
    return catalogue()


def play(
    folder: Path, target: dict[str, Any], app: Callable[[Mapping[str, str]], App], *scenarios: str, **given: Any
) -> RunResult:
    made = Target.model_validate({"target": target})
    chosen = [s for s in scenarios_of_all() if s.id in scenarios]
    assert len(chosen) == len(scenarios)
    settings = RunSettings(reports=folder / "reports", watch=0.1)
    launcher = given.pop("launcher", AsgiLauncher)
    work = session.run(
        made, folder / "target.toml", chosen, settings, launcher=lambda values: launcher(app(values), **given)
    )
    return asyncio.run(asyncio.wait_for(work, DEADLINE))


def verdicts(result: RunResult) -> dict[str, str]:
    assert result.error is None
    return {scenario.id: scenario.verdict.value for scenario in result.scenarios}


@pytest.mark.parametrize("flawed", [False, True])
def test_a_send_api_is_judged(tmp_path: Path, flawed: bool) -> None:
    result = play(
        tmp_path,
        API,
        lambda values: Mailer(values["provider_url"], flawed=flawed),
        *("send.repeat", "send.concurrent", "send.hang-up", "send.response-lost"),
    )
    assert verdicts(result) == {
        "send.repeat": "passed",
        "send.concurrent": "failed" if flawed else "passed",
        "send.hang-up": "failed" if flawed else "passed",
        "send.response-lost": "passed",
    }


@pytest.mark.parametrize("flawed", [False, True])
def test_a_webhook_handler_is_judged(tmp_path: Path, flawed: bool) -> None:
    result = play(
        tmp_path,
        CONSUMER,
        lambda values: Mailer(values["provider_url"], flawed=flawed),
        *("webhook.twice", "webhook.ack-late", "webhook.ack-lost"),
    )
    assert verdicts(result) == {
        "webhook.twice": "passed",
        "webhook.ack-late": "failed" if flawed else "passed",
        "webhook.ack-lost": "passed",
    }


def test_what_needs_a_process_is_skipped(tmp_path: Path) -> None:
    result = play(tmp_path, API, lambda values: Mailer(values["provider_url"], flawed=False), "send.crash-after-accept")
    [skipped] = [s for s in result.scenarios if s.id == "send.crash-after-accept"]
    assert skipped.verdict is Verdict.SKIPPED
    assert "cannot be killed" in str(skipped.reason)


def test_an_app_can_run_in_a_loop_that_the_test_gives(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ran_in: set[int] = set()

    class Watched(Mailer):
        async def __call__(self, scope: Message, receive: Receive, send: Any) -> None:
            ran_in.add(threading.get_ident())
            await super().__call__(scope, receive, send)

    try:
        result = play(
            tmp_path,
            API,
            lambda values: Watched(values["provider_url"], flawed=False),
            *("send.repeat", "send.hang-up"),
            loop=loop,
        )
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert set(verdicts(result).values()) == {"passed"}
    assert ran_in == {thread.ident}


# --- What an app sees, and what becomes of its answer ---------------------------------------------------


@contextlib.asynccontextmanager
async def served(app: App, **given: Any) -> AsyncIterator[httpx.AsyncClient]:
    launcher = AsgiLauncher(app, **given)
    await launcher.start()
    url = f"http://127.0.0.1:{launcher.ports()[0]}"
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as client:
            yield client
    finally:
        await launcher.stop()


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, DEADLINE))


def test_the_scope_says_what_was_asked() -> None:
    seen: list[Message] = []

    async def app(scope: Message, receive: Receive, send: Any) -> None:
        seen.append(scope)
        await reply(send, 200, {"length": len(await body_of(receive))})

    async def play() -> None:
        async with served(app) as client:
            answer = await client.put("/a%20b/ü?x=1&x=2", content=b"x" * 100_000, headers=[("X-A", "1"), ("X-A", "2")])
            assert answer.json() == {"length": 100_000}

    run(play())
    scope = seen[-1]
    assert (scope["method"], scope["path"], scope["query_string"]) == ("PUT", "/a b/ü", b"x=1&x=2")
    assert scope["raw_path"] == b"/a%20b/%C3%BC"
    assert [value for name, value in scope["headers"] if name == b"x-a"] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("status", "body", "method"), [(200, b"yes", "GET"), (204, b"", "GET"), (404, b"no", "POST"), (200, b"yes", "HEAD")]
)
@pytest.mark.parametrize("twice", [False, True])
def test_an_answer_is_the_apps_own(status: int, body: bytes, method: str, twice: bool) -> None:
    async def app(scope: Message, receive: Receive, send: Any) -> None:
        headers = [(b"Set-Cookie", b"a=1"), (b"X-Own", b"\xe9")]
        headers += [(b"set-cookie", b"b=2")] if twice else []
        if status == 200:
            headers.append((b"content-length", b"3"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for at in range(len(body)):
            await send({"type": "http.response.body", "body": body[at : at + 1], "more_body": True})
        await send({"type": "http.response.body"})

    async def play() -> None:
        async with served(app) as client:
            for _ in range(2):  # on one connection
                answer = await client.request(method, "/")
                assert (answer.status_code, answer.content) == (status, b"" if method == "HEAD" else body)
                assert answer.headers.get_list("set-cookie") == (["a=1", "b=2"] if twice else ["a=1"])
                assert answer.headers["x-own"] == "é"

    run(play())


def test_an_answer_goes_out_before_the_work_that_comes_after_it() -> None:
    async def play() -> None:
        let_go, ended = asyncio.Event(), asyncio.Event()

        async def app(scope: Message, receive: Receive, send: Any) -> None:
            if scope["type"] == "http":
                await reply(send, 202, {})
                await let_go.wait()
                ended.set()

        async with served(app) as client:
            assert (await client.get("/")).status_code == 202
            assert not ended.is_set()
            let_go.set()
            await ended.wait()

    run(play())


def test_an_app_learns_that_its_caller_has_gone_and_is_not_cancelled() -> None:
    async def play() -> None:
        began, told, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def app(scope: Message, receive: Receive, send: Any) -> None:
            if scope["type"] != "http":
                return
            await body_of(receive)
            began.set()
            assert (await receive())["type"] == "http.disconnect"
            told.set()
            await reply(send, 200, {})
            ended.set()

        async with served(app) as client:
            task = asyncio.create_task(client.post("/", content=b"x"))
            await began.wait()
            task.cancel()
            await told.wait()
            await ended.wait()

    run(play())


@pytest.mark.parametrize("how", ["raises", "returns", "raises in its answer", "says nonsense"])
def test_a_failing_app_is_a_500_and_its_traceback_is_in_the_log(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Message, receive: Receive, send: Any) -> None:
        if scope["type"] != "http" or how == "returns":
            return
        if how == "says nonsense":
            await send({"type": "http.response.bodies"})
        if how == "raises in its answer":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError("the app's own")

    async def play() -> None:
        async with served(app) as client:
            for _ in range(2):
                assert (await client.post("/orders")).status_code == 500

    with caplog.at_level(logging.ERROR, "sendtwice.asgi"):
        run(play())
    assert caplog.messages == ["the target's app failed at POST /orders"] * 2
    expected = {"returns": "without a whole answer", "says nonsense": "'http.response.bodies' was not expected"}
    assert expected.get(how, "ZeroDivisionError: the app's own") in caplog.text


# --- Lifespan -------------------------------------------------------------------------------------------


def test_an_app_is_started_and_ended() -> None:
    said: list[str] = []

    async def app(scope: Message, receive: Receive, send: Any) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                said.append((await receive())["type"])
                scope["state"]["pool"] = "made"
                await send({"type": f"{said[-1]}.complete"})
        else:
            said.append(scope["state"]["pool"])
            scope["state"]["pool"] = "the request's own"
            await reply(send, 200, {})

    async def play() -> None:
        async with served(app) as client:
            assert [(await client.get("/")).status_code for _ in range(2)] == [200, 200]

    run(play())
    assert said == ["lifespan.startup", "made", "made", "lifespan.shutdown"]


def test_an_app_that_cannot_start_is_one_clear_error(tmp_path: Path) -> None:
    async def app(scope: Message, receive: Receive, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "Traceback:\nKeyError: 'DATABASE_URL'"})

    result = play(tmp_path, API, lambda _: app, "send.repeat")
    assert result.error == "the target's app says that it cannot start: KeyError: 'DATABASE_URL'; mend its lifespan"


@pytest.mark.parametrize("word", ["start", "end"])
def test_an_app_that_never_starts_or_ends_is_not_waited_for_for_ever(word: str) -> None:
    async def app(scope: Message, receive: Receive, send: Any) -> None:
        await receive()
        if word == "end":
            await send({"type": "lifespan.startup.complete"})
        await asyncio.Event().wait()

    async def play() -> None:
        async with served(app, patience=0.05):
            pass

    with pytest.raises(HarnessError, match=f"the target's app did not {word} within 0.05 s; look at its lifespan"):
        run(play())


@pytest.mark.parametrize("app", [None, "app:app", lambda environ, start_response: []])
def test_what_is_no_asgi_app_is_one_clear_error(app: Any) -> None:
    with pytest.raises(HarnessError, match=r"is no ASGI app: it must take scope, receive and send"):
        AsgiLauncher(app)
