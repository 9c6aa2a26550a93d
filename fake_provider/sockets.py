"""What a socket can be asked and made to do: RST instead of FIN, what is unsent, whether the peer is gone."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct


def abort(transport: asyncio.BaseTransport) -> None:
    """End a connection with an RST, as when a peer dies or a firewall drops it."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


def unsent(sock: socket.socket | None) -> int:
    """Return how many written bytes the peer's kernel has not acknowledged; 0 where that cannot be asked."""
    if sock is None:
        return 0  # no kernel is in between
    import fcntl  # noqa: PLC0415  # not on every platform
    import termios  # noqa: PLC0415

    if sock.fileno() < 0:
        return 0  # it is closed
    try:
        return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0])
    except OSError:
        return 0


async def flushed(sock: socket.socket | None, *, within: float) -> None:
    """Wait until the peer's kernel has all that was written, for at most so many seconds: no RST may overtake it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while unsent(sock) and loop.time() < deadline:
        await asyncio.sleep(0.001)  # the kernel has no event for this


def peer_closed(sock: socket.socket | None) -> bool:
    """Whether the peer's end has come to our kernel, read or not (Linux: the state in TCP_INFO)."""
    if sock is None:
        return False  # no kernel is in between: what has come has been noticed
    option = getattr(socket, "TCP_INFO", None)
    try:
        if option is not None:
            return sock.getsockopt(socket.IPPROTO_TCP, option, 1)[0] in (7, 8)  # CLOSE, CLOSE_WAIT
        return sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def readable(sock: socket.socket) -> bool:
    """Whether something, or an end, can be read now."""
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))
