"""Requests to a target that are no sends: what it answers, and what becomes of a target that does not."""

import asyncio
import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from sendtwice.harness import calls
from sendtwice.harness.errors import ScenarioError


def bench(tls: ssl.SSLContext | None = None) -> Any:
    timing = SimpleNamespace(answers_within=5)
    return SimpleNamespace(
        target=SimpleNamespace(timing=timing), driver=SimpleNamespace(tls=tls), fill=lambda text: text
    )


def asked(answer: bytes) -> tuple[int, bytes]:
    """Ask a server that answers with these bytes and closes."""

    async def play() -> tuple[int, bytes]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await calls.request(bench(), f"http://127.0.0.1:{port}", "POST", "/approve", {}, b"")

    return asyncio.run(play())


def test_the_status_and_the_body_of_a_call_are_told() -> None:
    assert asked(b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}") == (409, b"{}")


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", b"220 mail.example ESMTP\r\n\r\n"]
)
def test_a_call_without_an_answer_ends_the_scenario_and_not_the_run(answer: bytes) -> None:
    with pytest.raises(ScenarioError, match="POST /approve got no answer"):
        asked(answer)


def test_a_call_to_a_target_with_tls_speaks_tls() -> None:
    async def first_bytes() -> bytes:
        seen: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.set_result(await reader.read(1))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(ScenarioError):
                await calls.request(bench(ssl.create_default_context()), url, "POST", "/", {}, b"")
            return await seen

    assert asyncio.run(first_bytes()) == b"\x16", "a TLS handshake (RFC 8446, 5.1)"
