"""One HTTP/1.1 request on a raw connection, because its caller must be able to misbehave exactly.

A client library cannot withhold a request's last byte, reset a connection while it waits, or stop in the middle of
an answer. This one writes bytes, reads at all times (a target may answer early), and ends a connection by RST or
FIN as it is told.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import h11

from sendtwice.fake_provider.sockets import abort, flushed

#: What is kept of an answer's body; the rest is read and counted.
KEEP = 256 * 1024
#: More than this is no answer.
MAX_ANSWER = 32 * 1024 * 1024


@dataclass(slots=True)
class Answer:
    """A complete answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    size: int


@dataclass(slots=True)
class Wire:
    """A connection that carries one request and its answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    first_byte: asyncio.Event = field(default_factory=asyncio.Event)
    in_body: asyncio.Event = field(default_factory=asyncio.Event)
    received: int = 0
    stop_after: int | None = None  # cut: so many bytes of the answer are read and no more
    _parser: h11.Connection = field(
        default_factory=lambda: h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    )

    @classmethod
    async def open(cls, url: str, *, timeout: float, tls: ssl.SSLContext | None = None) -> Wire:
        """Connect to the host of ``url``; OSError or TimeoutError when that fails."""
        parts = urlsplit(url)
        context = tls if parts.scheme == "https" else None
        port = parts.port or (443 if context else 80)
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context, limit=1 << 20)
        return cls(reader, writer)

    async def write(self, data: bytes) -> None:
        """Write bytes and hand them to the kernel."""
        self.writer.write(data)
        await self.writer.drain()

    def write_now(self, data: bytes) -> None:
        """Write bytes without giving up control: how n requests leave at the same instant."""
        self.writer.write(data)

    async def flushed(self, timeout: float = 1.0) -> None:
        """Wait until the peer's kernel has all that was written, so that an RST cannot overtake it."""
        await flushed(self.writer.get_extra_info("socket"), within=timeout)

    async def answer(self, method: str) -> Answer:
        """Read the answer. ConnectionError: it broke off. h11.RemoteProtocolError: it is no HTTP."""
        self._parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        self._parser.send(h11.EndOfMessage())
        kept = bytearray()
        size = 0
        head: h11.Response | None = None
        while True:
            event = self._parser.next_event()
            if event is h11.NEED_DATA:
                data = await self._read()
                if not data and (
                    head is None or (self._parser.their_state is h11.SEND_BODY and not self._until_close(head))
                ):
                    raise ConnectionResetError("the connection was closed before the answer was whole")
                self._parser.receive_data(data)
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                size += len(event.data)
                if len(kept) < KEEP:
                    kept += event.data[: KEEP - len(kept)]
                if size > MAX_ANSWER:
                    raise h11.RemoteProtocolError(f"the answer is longer than {MAX_ANSWER >> 20} MiB")
                self.in_body.set()
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {n.decode("latin-1").lower(): v.decode("latin-1") for n, v in head.headers}
                return Answer(head.status_code, headers, bytes(kept), size)
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("the connection was closed before an answer")

    @staticmethod
    def _until_close(head: h11.Response) -> bool:
        """Whether a body without a length ends where the connection does (RFC 9112 section 6.3)."""
        names = {name.lower() for name, _ in head.headers}
        return not names & {b"content-length", b"transfer-encoding"}

    async def _read(self) -> bytes:
        size = 65536
        if self.stop_after is not None:
            size = self.stop_after - self.received
            if size <= 0:
                await asyncio.get_running_loop().create_future()  # never: whoever cut it ends the connection
        data = await self.reader.read(size)
        if data:
            self.received += len(data)
            self.first_byte.set()
            if self.stop_after is not None and self.received >= self.stop_after:
                self.in_body.set()
        return data

    @property
    def broken(self) -> bool:
        """Whether the peer has ended the connection already."""
        return self.reader.exception() is not None or self.reader.at_eof() or self.writer.is_closing()

    def reset(self) -> None:
        """End the connection with an RST."""
        abort(self.writer.transport)

    def close(self) -> None:
        """End the connection with a FIN."""
        self.writer.close()


def tls_context(verify: bool | str) -> ssl.SSLContext:
    """Return the context for https targets: verified, with an own CA file, or not at all."""
    context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
    if verify is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def serialise(method: str, target: str, host: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
    """Return a request's bytes. Header values are sent as they are (UTF-8): odd keys are the point."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def decoded(body: bytes) -> str:
    """Return a body for the history; what is no UTF-8 keeps its shape in escapes."""
    return body.decode("utf-8", "backslashreplace")


def shown_headers(headers: list[tuple[str, str]]) -> dict[str, Any]:
    """Return headers for the history; of a doubled one both values."""
    shown: dict[str, Any] = {}
    for name, value in headers:
        shown[name] = value if name not in shown else f"{shown[name]}, {value}"
    return shown
