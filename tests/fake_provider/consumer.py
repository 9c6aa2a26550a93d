"""A webhook endpoint for tests: it answers as it is told, and keeps what it got."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import h11


@dataclass(frozen=True, slots=True)
class Got:
    """One request, as it arrived whole."""

    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Consumer:
    """``script`` holds the next answers: a status, one with headers, or ``hang`` and ``drop``; then it takes all."""

    script: list[int | str | tuple[int, dict[str, str]]] = field(default_factory=list)
    got: list[Got] = field(default_factory=list)
    broken: int = 0
    url: str = ""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, done: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(done)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            got = await self._read(reader)
        except (h11.RemoteProtocolError, ConnectionError):
            got = None
        async with self._changed:
            if got is None:
                self.broken += 1
            else:
                self.got.append(got)
            self._changed.notify_all()
        if got is None:
            writer.close()
            return
        what = self.script.pop(0) if self.script else 204
        match what:
            case "hang":
                await reader.read()
            case "drop":
                pass
            case (status, headers):
                writer.write(_answer(status, headers))
            case status:
                writer.write(_answer(int(status), {}))
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Got | None:
        parser = h11.Connection(h11.SERVER)
        request: h11.Request | None = None
        body = b""
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                parser.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                headers = {name.decode(): value.decode() for name, value in request.headers}
                return Got(request.target.decode(), headers, body)
            else:
                return None


def _answer(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "Content-Length: 0"]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


@contextlib.asynccontextmanager
async def consumer(*script: int | str | tuple[int, dict[str, str]]) -> AsyncIterator[Consumer]:
    one = Consumer(list(script))
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await one.serve(reader, writer)
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks?from=test"
    try:
        yield one
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
