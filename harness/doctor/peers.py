"""The other end of a wire, in bare sockets: it shares no code with the wires that it looks at.

A FIN is a read of nothing, an RST is an error of the read, and a byte counts when it was read. So what a peer says of a
connection is what a program on the other side would have met.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Self

_HOST = "127.0.0.1"


class End(StrEnum):
    """How a connection ended, as seen from here."""

    OPEN = "open"
    FIN = "FIN"
    RST = "RST"


class RawPeer:
    """One end of a connection: what came, when the first of it came, and how it ended."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a connected socket."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.data = b""
        self.end = End.OPEN
        self.first_at: float | None = None

    @classmethod
    async def to(cls, port: int, host: str = _HOST) -> Self:
        """Connect."""
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, port))
        return cls(sock)

    async def send(self, data: bytes) -> float:
        """Send all of it, and return the time at which it was sent."""
        await asyncio.get_running_loop().sock_sendall(self.sock, data)
        return time.monotonic()

    async def until(self, done: Callable[[bytes], bool]) -> bytes:
        """Read until ``done`` says so of all that has come, or until the end."""
        while self.end is End.OPEN and not done(self.data):
            try:
                more = await asyncio.get_running_loop().sock_recv(self.sock, 65536)
            except ConnectionResetError:
                self.end = End.RST
                break
            if not more:
                self.end = End.FIN
                break
            if self.first_at is None:
                self.first_at = time.monotonic()
            self.data += more
        return self.data

    async def over(self) -> End:
        """Read until the end, and return how it ended."""
        await self.until(lambda _: False)
        return self.end

    async def message(self) -> bytes:
        """Read one whole HTTP message that says its length, and return it; what came before an end if there is less."""
        data = await self.until(lambda data: len(data) >= _whole(data))
        size = min(_whole(data), len(data))
        self.data = data[size:]
        return data[:size]

    async def quiet(self, seconds: float) -> bool:
        """Whether nothing comes, not even an end, for so long."""
        before, end = len(self.data), self.end
        try:
            async with asyncio.timeout(seconds):
                await self.until(lambda data: len(data) > before)
        except TimeoutError:
            return True
        return len(self.data) == before and self.end is end

    def reset(self) -> None:
        """End it with an RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self) -> None:
        """End it with a FIN."""
        self.sock.close()


def _whole(data: bytes) -> int:
    """Return how long the first message is; more than there is while its head is not whole."""
    head, found, _ = data.partition(b"\r\n\r\n")
    if not found:
        return len(data) + 1
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return len(head) + 4 + (int(lengths[0]) if lengths else 0)


def status(answer: bytes) -> int | None:
    """Return the status of an answer, or None when there is none."""
    words = answer.split(b"\r\n")[0].split()
    return int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/") else None


class RawServer:
    """Listens, and hands over each connection as a peer."""

    def __init__(self, host: str = _HOST) -> None:
        """Nothing listens before it is entered."""
        self._host = host
        self._sock: socket.socket
        self._peers: list[RawPeer] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self._sock = socket.create_server((self._host, 0), backlog=256)
        self._sock.setblocking(False)
        self.port = self._sock.getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the listener and every connection."""
        self._sock.close()
        self.leave()

    def leave(self) -> None:
        """Close every connection."""
        for peer in self._peers:
            peer.close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{self._host}:{self.port}"

    async def accepted(self) -> RawPeer:
        """Wait for the next connection."""
        sock, _ = await asyncio.get_running_loop().sock_accept(self._sock)
        peer = RawPeer(sock)
        self._peers.append(peer)
        return peer
