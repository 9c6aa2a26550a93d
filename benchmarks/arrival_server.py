"""A bare server that notes when the last byte of each request came, in a process of its own: ``arrival_server.py N``.

It answers when N requests are there, so that no answer is written between two arrivals. ``GET /arrivals`` returns how
many came since it was asked last, and the microseconds from the first to the last.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

_stamps: list[int] = []
_waiting: list[asyncio.Transport] = []


class _Connection(asyncio.Protocol):
    """One caller; as little work as can be between the kernel and the stamp."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter_ns()
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        lowered = head.lower()
        at = lowered.find(b"\r\ncontent-length:")
        if at >= 0 and len(body) < int(lowered[at + 17 :].split(b"\r", 1)[0]):
            return
        self._data = b""
        if head.startswith(b"GET"):
            first, last = min(_stamps, default=0), max(_stamps, default=0)
            _answer(self._transport, {"count": len(_stamps), "microseconds": (last - first) / 1000})
            _stamps.clear()
            return
        _stamps.append(now)
        _waiting.append(self._transport)
        if len(_waiting) == int(sys.argv[1]):
            for transport in _waiting:
                _answer(transport, {})
            _waiting.clear()


def _answer(transport: asyncio.Transport, data: dict[str, float]) -> None:
    text = json.dumps(data).encode()
    kind = b"Content-Type: application/json"
    transport.write(b"HTTP/1.1 200 OK\r\n%s\r\nContent-Length: %d\r\n\r\n%s" % (kind, len(text), text))


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"ready": True, "url": f"http://127.0.0.1:{port}"}), flush=True)  # noqa: T201
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
