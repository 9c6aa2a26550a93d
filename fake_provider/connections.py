"""One caller's connection: its socket on one side, the messages on it on the other.

What has come is read into :class:`~sendtwice.fake_provider.http_messages.Messages` at once, whoever waits for it is
woken, and a caller that goes away is noticed while its request is being performed too.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import TypeVar, cast

from sendtwice.fake_provider.http_messages import Messages, Missing
from sendtwice.fake_provider.sockets import abort, flushed

#: So much may lie unread while an earlier message is answered; then the caller has to wait.
_UNREAD = 2 * 1024 * 1024
_Part = TypeVar("_Part")


class Connection(asyncio.BufferedProtocol):
    """A connection; ``accepted`` is called once it is there.

    What is read lands in ``buffer`` first, which all connections of one event loop may share: it is taken out before
    anybody else reads.
    """

    def __init__(self, accepted: Callable[[Connection], None], buffer: memoryview) -> None:
        """Begin with nothing received."""
        self._accepted, self._buffer = accepted, buffer
        self.number = 0
        self.messages = Messages()
        self.dropped = asyncio.Event()
        self.heard = 0  # complete messages
        #: Whether the caller has closed or reset its side.
        self.gone = False
        #: Called when the caller goes away.
        self.left: Callable[[], None] | None = None
        self._transport: asyncio.Transport
        self._lost: Exception | None = None  # why nothing can be written any more
        self._failure: Exception | None = None  # what has ended it, where neither side has closed it
        self._paused = self._deaf = False
        self._waiting: asyncio.Future[None] | None = None  # for more to read
        self._writable: asyncio.Future[None] | None = None

    # --- Called by the event loop --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be there."""
        self._transport = cast(asyncio.Transport, transport)
        self._accepted(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # more comes with the next call
        """Return where to read into."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what has come."""
        if self._deaf:
            return
        self.messages.receive(bytes(self._buffer[:nbytes]))
        if self._waiting is not None:
            self._wake()
        elif self.messages.unread > _UNREAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Learn that no more will come; an answer can still go out, but not over TLS."""
        self.messages.receive(b"")
        self._leave()
        return self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Learn that nothing can come or go any more."""
        if exc is None and not self.gone:
            self.messages.receive(b"")
        self._failure = exc
        self._lost = exc or ConnectionResetError("the connection is closed")
        self._leave()
        if self._writable is not None and not self._writable.done():
            self._writable.set_exception(self._lost)

    def pause_writing(self) -> None:
        """Wait before more is written."""
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Write on."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def _leave(self) -> None:
        self.gone = True
        self._wake()
        left, self.left = self.left, None
        if left is not None:
            left()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # --- Called by whoever serves it -----------------------------------------------------------------------

    @property
    def unheard(self) -> bool:
        """Whether its caller had begun to say something that was never heard to its end."""
        return self.heard == 0 or self.messages.begun

    @property
    def was_reset(self) -> bool:
        """Whether the caller has ended it with an RST, as far as has been noticed."""
        return isinstance(self._failure, ConnectionResetError)

    @property
    def socket(self) -> socket.socket | None:
        """Its socket; None where it is of this process alone."""
        return cast("socket.socket | None", self._transport.get_extra_info("socket"))

    async def read(self, part: Callable[[], _Part | Missing]) -> _Part | None:
        """Return a part of a message, or None when the caller ends before it is there."""
        while (found := part()) is Missing.MORE:
            if self._failure is not None:
                raise self._failure
            if interim := self.messages.interim:
                self.write(interim)
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        return None if isinstance(found, Missing) else found

    def write(self, data: bytes) -> None:
        """Write, as soon as the socket takes it."""
        self._transport.write(data)

    async def drained(self) -> None:
        """Wait until more may be written; a ConnectionError when nothing can be any more."""
        if self._lost is not None:
            raise self._lost
        if self._writable is not None:
            await self._writable

    async def flushed(self) -> None:
        """Wait until the peer's kernel has acknowledged all that was written (Linux: SIOCOUTQ is 0)."""
        await flushed(self.socket, within=0.2)

    async def listened_to(self, *, within: float) -> None:
        """Wait until the caller ends it, and throw away what it still says: an end of ours would stop its reading."""
        self._deaf = True
        self._transport.resume_reading()
        ended = asyncio.Event()
        self.left = ended.set
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if self.gone else within):
                await ended.wait()

    def close(self) -> None:
        """End it with a FIN, when all has been written."""
        self._transport.close()

    def reset(self) -> None:
        """End it with an RST."""
        abort(self._transport)
