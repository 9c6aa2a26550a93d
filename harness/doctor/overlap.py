"""Whether requests that are sent at the same instant overlap, and how far apart their last bytes are.

Two numbers: from the first write of a last byte to the last one, by our own clock; and from the first arrival to the
last, by the time that the kernel put on each (SO_TIMESTAMPNS), so that no event loop stands between. A large number is
a warning: on such a machine a race that is shorter is met less often.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import time
from dataclasses import dataclass

from sendtwice.harness.doctor.peers import RawPeer, RawServer
from sendtwice.harness.doctor.rows import LONGEST, Row, State, deadline
from sendtwice.harness.drivers.caller import Caller, Flight
from sendtwice.harness.history import Recorder
from sendtwice.harness.requests import Built

#: Requests, and microseconds from the first to the last that are worth a warning.
CROWD, WIDE = 20, 5000.0
_TIMESTAMP = 35  # SO_TIMESTAMPNS of Linux; Python has no name for it
_BODY = b"{}"


@dataclass(frozen=True, slots=True)
class Spread:
    """How far apart the last bytes were, in microseconds; ``by_kernel``: the kernel put the time on each arrival."""

    requests: int
    written: float
    arrived: float
    by_kernel: bool
    overlapped: bool

    @property
    def warning(self) -> str | None:
        """What to say when it is too much."""
        widest = max(self.written, self.arrived)
        if widest <= WIDE:
            return None
        apart = f"{self.requests} requests of the same instant are {widest:.0f} microseconds apart"
        return f"{apart}; short races are met less often here: leave the machine to the run"

    def row(self) -> Row:
        """Return it as a row."""
        seen = (
            f"{self.requests} last bytes written within {self.written:.0f} microseconds, arrived within "
            f"{self.arrived:.0f}{'' if self.by_kernel else ' (as read, the kernel tells no times)'}"
        )
        if not self.overlapped:
            return Row(
                "same instant", f"{self.requests} requests", State.WRONG, seen, "all there before one is answered"
            )
        return Row("same instant", f"{self.requests} requests", State.OK, f"{seen}; all there before one was answered")


async def measured(count: int = CROWD) -> Spread:
    """Send a crowd, and look at when each arrives."""
    caller = Caller(Recorder(), timeout=LONGEST)
    async with deadline(), RawServer() as server:
        built = Built("POST", f"{server.url}/emails", "/emails", [], _BODY, "doctor")
        flights = [Flight(f"copy.{number}", built, "doctor", "doctor", server.url) for number in range(count)]
        preparing = asyncio.ensure_future(caller.prepare_all(flights))
        peers = [await server.accepted() for _ in flights]
        await preparing
        for peer in peers:  # all but the last byte, out of the way
            await peer.until(lambda data: data.endswith(b"\r\n\r\n" + _BODY[:-1]))
        by_kernel = sum(_ask_for_times(peer.sock) for peer in peers) == count
        early = any(_is_readable(peer.sock) for peer in peers)
        written = caller.fire(flights)
        arrivals = await asyncio.gather(*(_arrival(peer) for peer in peers))
        finishing = [asyncio.ensure_future(caller.finish(flight)) for flight in flights]
        answered_before = any(flight.ended.is_set() for flight in flights)
        for peer in peers:
            await peer.send(b"HTTP/1.1 204 \r\n\r\n")
        await asyncio.gather(*finishing)
        told = all(flight.outcome == "answered" for flight in flights)
        arrived = (max(arrivals) - min(arrivals)) * 1e6
        return Spread(count, written, arrived, by_kernel, overlapped=told and not early and not answered_before)


def _is_readable(sock: socket.socket) -> bool:
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    return True


def _ask_for_times(sock: socket.socket) -> bool:
    try:
        sock.setsockopt(socket.SOL_SOCKET, _TIMESTAMP, 1)
    except OSError:
        return False
    return sys.platform == "linux"


async def _arrival(peer: RawPeer) -> float:
    """Return when the last byte came."""
    while True:
        try:
            _, told, _, _ = peer.sock.recvmsg(1, 256)
        except BlockingIOError:
            await asyncio.sleep(0)
            continue
        for level, kind, data in told:
            if level == socket.SOL_SOCKET and kind == _TIMESTAMP:
                seconds, nanoseconds = struct.unpack("@ll", data)
                return int(seconds) + int(nanoseconds) / 1e9
        return time.time()
