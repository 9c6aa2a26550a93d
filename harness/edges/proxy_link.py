"""A connection to the upstream. Each belongs to one connection of a caller, and lives and ends with it.

There is no pool, and so no connection that one caller left and another finds dead: the upstream sees as many
connections as there would be without a proxy, each with the requests of one caller in their order. When the upstream
ends one that is idle, the caller's ends too. When it ends one on which a request is out, nobody knows what became of
the request, and the caller is told by the same end; **nothing is ever sent again**.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import cast

import h11

from sendtwice.fake_provider.sockets import abort, flushed
from sendtwice.harness.edges.proxy_messages import Answer

#: Seconds for an upstream to accept a connection.
CONNECT = 10.0


class UpstreamEndedError(ConnectionError):
    """The upstream ended the connection before its answer was whole."""

    def __init__(self, message: str, *, by_reset: bool, answer: Answer) -> None:
        """``answer`` is as much of it as came."""
        super().__init__(message)
        self.by_reset, self.answer = by_reset, answer


class Link(asyncio.Protocol):
    """One connection to the upstream."""

    def __init__(self, idle_end: Callable[[], None]) -> None:
        """``idle_end`` is called when it ends while nothing is asked."""
        self._idle_end = idle_end
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._asked = False
        self._more: asyncio.Future[None] | None = None
        self._ended = False
        self._failure: Exception | None = None
        self._hung_up = False

    @classmethod
    async def to(cls, host: str, port: int, tls: ssl.SSLContext | None, idle_end: Callable[[], None]) -> Link:
        """Connect; OSError or TimeoutError when that fails."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT):
            _, link = await loop.create_connection(lambda: cls(idle_end), host, port, ssl=tls)
        return link

    # --- Called by the event loop --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be there."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take in what has come; what nobody asked for belongs to nothing, and ends the connection."""
        if not self._asked:
            self._transport.close()
            return
        self._received += data
        self._wake()

    def eof_received(self) -> None:
        """Learn that no more will come."""
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Learn that nothing can come or go any more."""
        self._failure = self._failure or exc
        self._end()

    def _end(self) -> None:
        first, self._ended = not self._ended, True
        self._wake()
        if first and not self._asked:
            self._idle_end()

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    # --- Called by whoever forwards -------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether a request can go out on it: nothing has ended it."""
        return not self._ended and not self._transport.is_closing()

    async def ask(self, data: bytes, answer: Answer) -> None:
        """Send one request once, and read its answer; :class:`UpstreamEndedError` when that does not come whole."""
        self._asked = True
        try:
            self._transport.write(data)
            while not answer.whole:
                if self._received:
                    received = bytes(self._received)
                    self._received.clear()
                    answer.receive(received)
                elif self._ended:
                    self._finished(answer)
                else:
                    self._more = asyncio.get_running_loop().create_future()
                    await self._more
        finally:
            self._asked = False
        if self._received or answer.excess or self._transport.get_write_buffer_size():
            self._transport.close()  # it answered half a request, or nobody's

    def _finished(self, answer: Answer) -> None:
        """Take the end of the connection as the end of the answer, where it is one."""
        by_reset = isinstance(self._failure, ConnectionError)
        if answer.begun and not by_reset:
            with contextlib.suppress(h11.RemoteProtocolError):
                answer.receive(b"")
        if answer.whole:
            return
        where = f"after {answer.received} bytes of the answer's body" if answer.begun else "before an answer"
        how = "reset" if by_reset else "closed"
        why = "the caller hung up" if self._hung_up else f"the upstream {how} the connection {where}"
        raise UpstreamEndedError(why, by_reset=by_reset, answer=answer)

    async def cut(self, data: bytes) -> None:
        """Send the beginning of a request, and end the connection with an RST when it has arrived."""
        self._asked = True  # what ends now is no idle end
        self._transport.write(data)
        await flushed(self._transport.get_extra_info("socket"), within=1.0)
        self.reset()

    def hang_up(self, *, by_reset: bool) -> None:
        """Pass on that the caller hung up: an RST, or a FIN after which an answer can still come, but not over TLS."""
        self._hung_up = True
        if by_reset:
            self.reset()
        elif self._transport.can_write_eof():
            with contextlib.suppress(OSError):
                self._transport.write_eof()
        else:
            self._transport.close()

    def reset(self) -> None:
        """End it with an RST."""
        abort(self._transport)

    def close(self) -> None:
        """End it with a FIN."""
        self._transport.close()
