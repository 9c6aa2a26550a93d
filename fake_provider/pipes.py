"""A connection without sockets: between an endpoint on its event loop and a caller anywhere in the same process.

To the endpoint it is a :class:`Connection` like any other, over an asyncio transport whose other end is a
:class:`Pipe`: what was written and not yet read, and then how the connection ended. A socket behaves so too: bytes
that were there before an end are read first, then a FIN is the end of all reading and an RST an error.

A caller may be a plain thread, or a task of any asyncio loop or of trio. It waits for an event of its own kind, which
the endpoint's thread sets.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable
from enum import Enum, IntEnum, auto
from typing import Any, TypeVar

import anyio
import httpcore

from sendtwice.fake_provider.connections import Connection
from sendtwice.fake_provider.http import Endpoint
from sendtwice.fake_provider.http_messages import Missing

_Part = TypeVar("_Part")
_BUFFER = 64 * 1024


class End(Enum):
    """How the endpoint has ended a connection."""

    FIN = auto()
    RST = auto()


class Stage(IntEnum):
    """How far an endpoint has come with a connection."""

    NOTHING = 0
    ACCEPTED = 1
    LISTENING = 2


class Pipe:
    """What an endpoint has written, for one caller to read; both may be in threads of their own."""

    def __init__(self) -> None:
        """Begin with nothing written."""
        self._lock = threading.Lock()
        self._data = bytearray()
        self._end: End | None = None
        self._stage = Stage.NOTHING
        self._wake: Callable[[], None] | None = None
        self._wanted: Stage | None = None

    # --- The endpoint's side -------------------------------------------------------------------------------

    def put(self, data: bytes) -> None:
        """Write."""
        with self._lock:
            self._data += data
        self._awake()

    def finish(self, end: End) -> None:
        """End it; the first end counts."""
        with self._lock:
            self._end = self._end or end
        self._awake()

    def reach(self, stage: Stage) -> None:
        """Come so far with the connection."""
        if stage > self._stage:
            with self._lock:
                self._stage = stage
            self._awake()

    def _awake(self) -> None:
        with self._lock:
            wake = self._wake if self._ready(self._wanted) else None
            if wake is not None:
                self._wake = None
        if wake is not None:
            wake()

    def _ready(self, stage: Stage | None) -> bool:
        return bool(self._data or self._end or (stage is not None and self._stage >= stage))

    # --- The caller's side ---------------------------------------------------------------------------------

    def take(self, most: int) -> bytes | None:
        """Read: no bytes at all after a FIN, None when there is nothing yet, httpcore.ReadError after an RST."""
        with self._lock:
            if self._data:
                taken = bytes(self._data[:most])
                del self._data[:most]
                return taken
            end = self._end
        if end is End.RST:
            raise httpcore.ReadError("[Errno 104] Connection reset by peer")
        return None if end is None else b""

    def when_ready(self, wake: Callable[[], None], stage: Stage | None = None) -> None:
        """Call ``wake``, from any thread, when there is something to read, or the endpoint has come so far."""
        with self._lock:
            ready = self._ready(stage)
            self._wake, self._wanted = (None, None) if ready else (wake, stage)
        if ready:
            wake()

    @property
    def readable(self) -> bool:
        """Whether something, or an end, can be read now."""
        with self._lock:
            return self._ready(None)

    @property
    def broken(self) -> End | None:
        """How it has ended, where nothing was written before."""
        with self._lock:
            return None if self._data else self._end


class _Transport(asyncio.Transport):
    """The endpoint's end of a pipe."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: Pipe) -> None:
        super().__init__()
        self._loop, self._pipe = loop, pipe
        self._closing = False
        self.line: Connection

    def write(self, data: Any) -> None:
        """Hand bytes to the caller."""
        if not self._closing:
            self._pipe.put(bytes(data))

    def is_closing(self) -> bool:
        """Whether this side has ended it."""
        return self._closing

    def close(self) -> None:
        """End it as with a FIN."""
        self._finish(End.FIN)

    def abort(self) -> None:
        """End it as with an RST."""
        self._finish(End.RST)

    def pause_reading(self) -> None:
        """Nothing to do: what a caller says is in memory already."""

    def resume_reading(self) -> None:
        """Nothing to do."""

    def _finish(self, end: End) -> None:
        if not self._closing:
            self._closing = True
            self._pipe.finish(end)
            self._loop.call_soon(self.line.connection_lost, None)


class _Line(Connection):
    """The endpoint's connection, which says when it begins to listen."""

    def __init__(self, accepted: Callable[[Connection], None], pipe: Pipe) -> None:
        super().__init__(accepted, memoryview(bytearray(_BUFFER)))
        self._pipe = pipe

    async def read(self, part: Callable[[], _Part | Missing]) -> _Part | None:
        """Return a part of a message."""
        self._pipe.reach(Stage.LISTENING)
        return await super().read(part)


class Line:
    """The caller's end of a connection to an endpoint on another thread's loop, or on the caller's own."""

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        """Connect; httpcore.ConnectError where nobody listens."""
        self._endpoint, self._loop, self._closed = endpoint, loop, False
        self.pipe = Pipe()
        if endpoint.takes is None or not loop.is_running():
            raise httpcore.ConnectError("[Errno 111] Connection refused")
        self._transport = _Transport(loop, self.pipe)
        self._connection = self._transport.line = _Line(self._accepted, self.pipe)
        self._tell(self._made)

    def write(self, data: bytes) -> None:
        """Say something; whether anybody hears it is seen when the answer is read."""
        self._tell(self._heard, data)

    def close(self) -> None:
        """Go away."""
        if not self._closed:
            self._closed = True
            self._tell(self._left)

    def extra_info(self, info: str) -> Any:
        """Return what httpcore asks of a stream: whether an idle one was ended by the other side."""
        return self.pipe.readable if info == "is_readable" else None

    def check(self, *, secure: bool) -> None:
        """Raise httpcore.ConnectError where a connection was reset at once; TLS cannot begin after a FIN either."""
        if self.pipe.broken is End.RST or (secure and self.pipe.broken is End.FIN):
            raise httpcore.ConnectError("[Errno 104] Connection reset by peer")

    def _tell(self, what: Callable[..., object], *said: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and every connection of it before
            self._loop.call_soon_threadsafe(what, *said)

    # In the endpoint's loop:

    def _made(self) -> None:
        self._connection.connection_made(self._transport)
        # Whoever serves it begins before that: an end that it makes at once is seen.
        self._loop.call_soon(self.pipe.reach, Stage.ACCEPTED)

    def _accepted(self, connection: Connection) -> None:
        takes = self._endpoint.takes
        if takes is None:
            connection.reset()
        else:
            takes(connection)

    def _heard(self, data: bytes) -> None:
        for at in range(0, len(data), _BUFFER):
            if self._transport.is_closing():
                return
            part = data[at : at + _BUFFER]
            self._connection.get_buffer(len(part))[: len(part)] = part
            self._connection.buffer_updated(len(part))

    def _left(self) -> None:
        if not self._transport.is_closing():
            self._connection.eof_received()


class Stream(httpcore.NetworkStream):
    """A connection for a caller in a plain thread."""

    def __init__(self, line: Line) -> None:
        """Read and write on ``line``."""
        self._line = line

    def connected(self, timeout: float | None, *, secure: bool) -> None:
        """Wait for the endpoint, as TLS would or not; httpcore.ConnectError or ConnectTimeout."""
        there = threading.Event()
        self._line.pipe.when_ready(there.set, Stage.LISTENING if secure else Stage.ACCEPTED)
        if not there.wait(timeout):
            raise httpcore.ConnectTimeout("timed out")
        self._line.check(secure=secure)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read, or wait for something to read."""
        pipe = self._line.pipe
        while (data := pipe.take(max_bytes)) is None:
            there = threading.Event()
            pipe.when_ready(there.set)
            if not there.wait(timeout):
                raise httpcore.ReadTimeout("timed out")
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002  # there is always room
        """Write."""
        self._line.write(buffer)

    def close(self) -> None:
        """Go away."""
        self._line.close()

    def get_extra_info(self, info: str) -> Any:
        """Return what httpcore asks."""
        return self._line.extra_info(info)


class AsyncStream(httpcore.AsyncNetworkStream):
    """A connection for a caller in a task of asyncio or trio."""

    def __init__(self, line: Line) -> None:
        """Read and write on ``line``."""
        self._line = line

    async def connected(self, timeout: float | None, *, secure: bool) -> None:
        """Wait for the endpoint, as TLS would or not; httpcore.ConnectError or ConnectTimeout."""
        there = anyio.Event()
        self._line.pipe.when_ready(_from_any_thread(there.set), Stage.LISTENING if secure else Stage.ACCEPTED)
        try:
            with anyio.fail_after(timeout):
                await there.wait()
        except TimeoutError:
            raise httpcore.ConnectTimeout("timed out") from None
        self._line.check(secure=secure)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read, or wait for something to read."""
        pipe = self._line.pipe
        while (data := pipe.take(max_bytes)) is None:
            there = anyio.Event()
            pipe.when_ready(_from_any_thread(there.set))
            try:
                with anyio.fail_after(timeout):
                    await there.wait()
            except TimeoutError:
                raise httpcore.ReadTimeout("timed out") from None
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002  # there is always room
        """Write."""
        self._line.write(buffer)

    async def aclose(self) -> None:
        """Go away."""
        self._line.close()

    def get_extra_info(self, info: str) -> Any:
        """Return what httpcore asks."""
        return self._line.extra_info(info)


def library() -> str | None:
    """Return which of ``asyncio`` and ``trio`` runs the caller; None in a plain thread."""
    trio: Any = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        return "trio"
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return None
    return "asyncio"


def _from_any_thread(wake: Callable[[], object]) -> Callable[[], None]:
    """Return what does something in the task's own loop, called from wherever."""
    soon: Callable[[Callable[[], object]], object]
    if library() == "trio":
        trio: Any = sys.modules["trio"]
        soon = trio.lowlevel.current_trio_token().run_sync_soon
    else:
        soon = asyncio.get_running_loop().call_soon_threadsafe

    def call() -> None:
        # A caller whose loop has ended waits no more. (trio's RunFinishedError is a RuntimeError.)
        with contextlib.suppress(RuntimeError):
            soon(wake)

    return call
