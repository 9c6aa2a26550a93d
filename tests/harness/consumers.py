"""A consumer in this process, and playing a scenario against it: what came over the wire is there to be looked at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11

from sendtwice.fake_provider import contracts
from sendtwice.harness.bench import Bench
from sendtwice.harness.history import Event
from sendtwice.harness.judge import Judgement, judge
from sendtwice.harness.launch.process import free_port
from sendtwice.harness.runner import Play
from sendtwice.harness.scenario import parse
from sendtwice.harness.target import TargetBody


@dataclass(slots=True)
class Got:
    """One event as it arrived."""

    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass(slots=True)
class Consumer:
    """Answers every event as it is told, and sends no mail unless it is told to."""

    answers: Callable[[Got], Awaitable[int | tuple[int, dict[str, str]]]]
    got: list[Got] = field(default_factory=list)
    provider_url: str = ""
    mails: list[dict[str, Any]] = field(default_factory=list)  # the send API's answers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser, body, headers = h11.Connection(h11.SERVER), b"", {}
        try:
            while not isinstance(event := parser.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    data = await reader.read(65536)
                    if not data:
                        return
                    parser.receive_data(data)
                elif isinstance(event, h11.Request):
                    headers = {name.decode(): value.decode() for name, value in event.headers}
                elif isinstance(event, h11.Data):
                    body += event.data
            self.got.append(Got(headers, body))
            told = await self.answers(self.got[-1])
            status, extra = told if isinstance(told, tuple) else (told, {})
            lines = "".join(f"{name}: {value}\r\n" for name, value in extra.items())
            writer.write(f"HTTP/1.1 {status} Told\r\n{lines}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
        except (ConnectionError, h11.RemoteProtocolError):
            pass
        finally:
            writer.close()

    async def send(self, got: Got) -> None:
        """Answer the message with a mail."""
        message = got.data["data"]
        mail = {"from": "a@house.test", "to": [message["from"]], "subject": message["subject"], "text": message["text"]}
        raw = json.dumps(mail).encode()
        host = self.provider_url.removeprefix("http://")
        reader, writer = await asyncio.open_connection(*host.split(":"))
        writer.write(
            f"POST /emails HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(raw)}\r\nConnection: close\r\n\r\n".encode()
            + raw
        )
        answer = await reader.read()
        writer.close()
        self.mails.append(json.loads(answer.partition(b"\r\n\r\n")[2]))


@dataclass(slots=True)
class Played:
    """What was seen on both sides."""

    consumer: Consumer
    events: list[Event]
    judgement: Judgement

    @property
    def got(self) -> list[Got]:
        return self.consumer.got

    def rules(self) -> set[tuple[str, str]]:
        return {(found.rule, found.level.value) for found in self.judgement.findings}


def play(
    tmp_path: Path,
    steps: str,
    answers: Callable[[Consumer, Got], Awaitable[int | tuple[int, dict[str, str]]]],
    **settings: Any,
) -> Played:
    """Play ``steps`` (YAML) on a consumer that answers as ``answers`` says."""

    async def run() -> Played:
        consumer = Consumer(lambda got: answers(consumer, got))
        server = await asyncio.start_server(consumer.serve, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks"
            target = TargetBody.model_validate(
                {
                    "role": "consumer",
                    "consumer": {"url": url, **settings},
                    "provider": {"port": free_port()},
                    "timing": {"answers_within": 3, "delivers_within": 0.3},
                }
            )
            bench = Bench(target, contracts.load("universal"), tmp_path, tmp_path)
            await bench.start()
            consumer.provider_url = bench.provider.url
            try:
                scenario = parse(f"{{id: story, title: t, role: consumer, steps: {steps}}}")
                bench.playing.add(scenario.id)
                await Play(bench, scenario).run()
                events = bench.recorder.of(scenario.id)
            finally:
                await bench.stop()
        return Played(consumer, events, judge(bench.contract, events, role="consumer"))

    return asyncio.run(run())


async def answered(consumer: Consumer, got: Got) -> int:
    """Send a mail for each event, and acknowledge."""
    await consumer.send(got)
    return 200


async def ignored(consumer: Consumer, got: Got) -> int:
    """Acknowledge, and do nothing."""
    return 200
