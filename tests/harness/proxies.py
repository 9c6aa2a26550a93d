"""What the tests of the proxy share: a proxy, an upstream that does what it is told, and callers on raw sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import httpx

from sendtwice.harness.doctor.peers import RawPeer, RawServer
from sendtwice.harness.edges.proxy import Proxy
from sendtwice.harness.edges.proxy_forward import Upstream
from tests.fake_provider.kit import DEADLINE

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"id": "a"}'


def request_of(
    body: bytes = b"{}", *fields: str, method: str = "POST", target: str = "/emails", key: str | None = None
) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {target} HTTP/1.1", "Host: api.example.test", *fields]
    lines += [f"Idempotency-Key: {key}"] if key is not None else []
    lines += [f"Content-Length: {len(body)}"] if body or method == "POST" else []
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def answer_of(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    """The bytes of an answer."""
    return "\r\n".join([f"HTTP/1.1 {status}", *fields]).encode("latin-1") + b"\r\n\r\n" + body


class Api(RawServer):
    """An upstream: it keeps every request, and answers each with what ``answer`` makes of it; None is no answer."""

    def __init__(self, answer: Callable[[bytes], bytes | None] | bytes = ANSWER) -> None:
        super().__init__()
        self.answer = (lambda _: answer) if isinstance(answer, bytes) else answer
        self.requests: list[bytes] = []
        self.callers: list[RawPeer] = []
        self.arrived = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._tasks.append(asyncio.create_task(self._accept()))
        return self

    async def __aexit__(self, *problem: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().__aexit__()

    async def _accept(self) -> None:
        while True:
            peer = await self.accepted()
            self.callers.append(peer)
            self._tasks.append(asyncio.create_task(self._serve(peer)))

    async def _serve(self, peer: RawPeer) -> None:
        while request := await peer.message():
            self.requests.append(request)
            self.arrived.set()
            answer = self.answer(request)
            if answer is not None:
                await peer.send(answer)

    async def ended(self, number: int = 0) -> str:
        """How a connection ended, once it has."""
        while len(self.callers) <= number:
            await asyncio.sleep(0)
        while self.callers[number].end == "open":  # whoever serves it reads on
            await asyncio.sleep(0.001)
        return self.callers[number].end


@contextlib.asynccontextmanager
async def proxy(
    upstream: str | RawServer, *, upstream_tls: ssl.SSLContext | None = None, **settings: Any
) -> AsyncIterator[Proxy]:
    url = upstream if isinstance(upstream, str) else upstream.url
    standing = Proxy(Upstream.at(url, upstream_tls), **settings)
    await standing.start()
    try:
        yield standing
    finally:
        await standing.stop()


async def to(standing: Proxy) -> RawPeer:
    """A caller."""
    return await RawPeer.to(standing.endpoint.port)


async def through(standing: Proxy, server: RawServer, request: bytes | None = None) -> tuple[RawPeer, RawPeer]:
    """A caller whose request has arrived, and the upstream's end of its connection."""
    caller = await to(standing)
    await caller.send(request or request_of())
    peer = await server.accepted()
    await peer.message()
    return caller, peer


async def ask(standing: Proxy, request: bytes) -> bytes:
    """One request on a connection of its own, and its answer."""
    caller = await to(standing)
    await caller.send(request)
    answer = await caller.message()
    caller.close()
    return answer


async def control(standing: Proxy, what: str, given: Any = None, *, verify: Any = False) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE, verify=verify) as client:
        url = f"{standing.url}/_sendtwice/{what}"
        return await (client.get(url) if given is None else client.post(url, content=json.dumps(given)))


async def attempts(standing: Proxy, query: str = "") -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = (await control(standing, f"attempts{query}")).json()["attempts"]
    return shown
