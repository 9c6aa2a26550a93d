"""The fake provider without sockets, for code that sends with httpx.

:class:`InProcess` is a transport for ``httpx.Client`` and ``httpx.AsyncClient``, and its ``side_effect`` answers the
routes of respx. A request goes to the provider's own endpoint over a :class:`~sendtwice.fake_provider.pipes.Line`, so
every fault and the ledger are what they are over sockets. The answer's bytes are read by httpcore's own HTTP/1.1
connection, so httpx raises what it raises over sockets: RemoteProtocolError for an answer that ends too early,
ReadError for one that was reset, ReadTimeout for one that is held. A caller that stops waiting has hung up, and what
it has asked for is done all the same.

A connection that is reset at once is a ConnectError. There is no TLS, but a request to ``https`` is answered as well:
where its handshake would have failed, for the connection is closed or held before anything was read, it is a
ConnectError or a ConnectTimeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from types import FrameType
from typing import Any

import httpcore
import httpx

from sendtwice.fake_provider.pipes import AsyncStream, Line, Stream, library
from sendtwice.fake_provider.provider import FakeProvider

#: Seconds for which an idle connection is used again; what httpx does.
_KEPT = 5.0
_NAMES = (
    *("ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "TimeoutException"),
    *("ConnectError", "ReadError", "WriteError", "NetworkError"),
    *("LocalProtocolError", "RemoteProtocolError", "ProtocolError", "UnsupportedProtocol"),
)
_ERRORS: dict[type[Exception], type[httpx.TransportError]] = {
    getattr(httpcore, name): getattr(httpx, name) for name in _NAMES
}


class InProcess(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A fake provider as an httpx transport: whatever the host of a request is, the provider answers it."""

    def __init__(self, provider: FakeProvider, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: the event loop on which ``provider`` was started; it runs in another thread, or is the caller's."""
        self._provider, self._loop = provider, loop
        self._lock = threading.Lock()
        self._idle: list[httpcore.HTTP11Connection] = []
        self._idle_async: list[tuple[str | None, httpcore.AsyncHTTP11Connection]] = []

    # --- For httpx.Client ----------------------------------------------------------------------------------

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Have a request answered; called from any thread but the loop's own."""
        if _running_loop() is self._loop:
            raise RuntimeError(
                "a blocking request cannot be answered from the event loop that it blocks; "
                "use httpx.AsyncClient, or call from another thread (asyncio.to_thread)"
            )
        with _as_httpx():
            asked = _asked(request)
            connection = self._kept(asked.url.origin) or self._connected(asked)
            answer = connection.handle_request(asked)
        assert isinstance(answer.stream, Iterable)
        body = _Body(answer.stream, lambda: self._keep(connection))
        return httpx.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            closing, self._idle = self._idle, []
        for connection in closing:
            connection.close()

    def _connected(self, asked: httpcore.Request) -> httpcore.HTTP11Connection:
        stream = Stream(Line(self._provider.endpoint, self._loop))
        try:
            stream.connected(_connect_timeout(asked), secure=asked.url.scheme == b"https")
        except BaseException:
            stream.close()
            raise
        return httpcore.HTTP11Connection(asked.url.origin, stream, keepalive_expiry=_KEPT)

    def _kept(self, origin: httpcore.Origin) -> httpcore.HTTP11Connection | None:
        with self._lock:
            closing = [one for one in self._idle if one.has_expired()]
            self._idle = [one for one in self._idle if one not in closing]
            found = next((one for one in self._idle if one.can_handle_request(origin)), None)
            if found is not None:
                self._idle.remove(found)
        for connection in closing:
            connection.close()
        return found

    def _keep(self, connection: httpcore.HTTP11Connection) -> None:
        if connection.is_idle():
            with self._lock:
                self._idle.append(connection)

    # --- For httpx.AsyncClient -----------------------------------------------------------------------------

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Have a request answered; awaited in any asyncio loop, or in trio."""
        kind = library()
        with _as_httpx():
            asked = _asked(request)
            connection = await self._kept_async(kind, asked.url.origin) or await self._connected_async(asked)
            answer = await connection.handle_async_request(asked)
        assert isinstance(answer.stream, AsyncIterable)
        body = _AsyncBody(answer.stream, lambda: self._keep_async(kind, connection))
        return httpx.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)

    async def aclose(self) -> None:
        """Close what is idle."""
        with self._lock:
            closing, self._idle_async = self._idle_async, []
        for _, connection in closing:
            await connection.aclose()

    async def _connected_async(self, asked: httpcore.Request) -> httpcore.AsyncHTTP11Connection:
        stream = AsyncStream(Line(self._provider.endpoint, self._loop))
        try:
            await stream.connected(_connect_timeout(asked), secure=asked.url.scheme == b"https")
        except BaseException:
            await stream.aclose()
            raise
        return httpcore.AsyncHTTP11Connection(asked.url.origin, stream, keepalive_expiry=_KEPT)

    async def _kept_async(self, kind: str | None, origin: httpcore.Origin) -> httpcore.AsyncHTTP11Connection | None:
        with self._lock:
            closing = [one for one in self._idle_async if one[1].has_expired()]
            self._idle_async = [one for one in self._idle_async if one not in closing]
            found = next((o for o in self._idle_async if o[0] == kind and o[1].can_handle_request(origin)), None)
            if found is not None:
                self._idle_async.remove(found)
        for _, connection in closing:
            await connection.aclose()
        return None if found is None else found[1]

    def _keep_async(self, kind: str | None, connection: httpcore.AsyncHTTP11Connection) -> None:
        if connection.is_idle():
            with self._lock:
                self._idle_async.append((kind, connection))

    # --- For respx -----------------------------------------------------------------------------------------

    def side_effect(self, request: httpx.Request, **_: Any) -> httpx.Response | Coroutine[Any, Any, httpx.Response]:
        """Answer a route of respx: ``respx.route(host="api.resend.com").mock(side_effect=transport.side_effect)``."""
        return self._answer_async(request) if _awaited() else self._answer(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        answer = self.handle_request(request)
        assert isinstance(answer.stream, _Body)
        with contextlib.closing(answer.stream) as parts:
            return _whole(answer, b"".join(parts))

    async def _answer_async(self, request: httpx.Request) -> httpx.Response:
        answer = await self.handle_async_request(request)
        assert isinstance(answer.stream, _AsyncBody)
        async with contextlib.aclosing(answer.stream) as parts:
            return _whole(answer, b"".join([part async for part in parts]))


class _Body(httpx.SyncByteStream):
    """An answer's body as it comes."""

    def __init__(self, parts: Iterable[bytes], done: Callable[[], None]) -> None:
        self._parts, self._done = parts, done

    def __iter__(self) -> Iterator[bytes]:
        with _as_httpx():
            yield from self._parts

    def close(self) -> None:
        """End the reading; the connection may be used again when all was read."""
        self._parts.close()  # type: ignore[attr-defined]
        self._done()


class _AsyncBody(httpx.AsyncByteStream):
    """An answer's body as it comes, to a task."""

    def __init__(self, parts: AsyncIterable[bytes], done: Callable[[], None]) -> None:
        self._parts, self._done = parts, done

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx():
            async for part in self._parts:
                yield part

    async def aclose(self) -> None:
        """End the reading; the connection may be used again when all was read."""
        await self._parts.aclose()  # type: ignore[attr-defined]
        self._done()


def _asked(request: httpx.Request) -> httpcore.Request:
    url = request.url
    if url.scheme not in ("http", "https"):
        raise httpcore.UnsupportedProtocol(f"Request URL has an unsupported protocol {url.scheme + '://'!r}.")
    return httpcore.Request(
        method=request.method,
        url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


def _connect_timeout(asked: httpcore.Request) -> float | None:
    timeout: float | None = asked.extensions.get("timeout", {}).get("connect")
    return timeout


def _whole(answer: httpx.Response, body: bytes) -> httpx.Response:
    stream = httpx.ByteStream(body)
    return httpx.Response(answer.status_code, headers=answer.headers, stream=stream, extensions=answer.extensions)


@contextlib.contextmanager
def _as_httpx() -> Iterator[None]:
    """Raise httpx's exceptions instead of httpcore's, which have the same names."""
    try:
        yield
    except tuple(_ERRORS) as error:
        raise _ERRORS[type(error)](str(error)) from error


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _awaited() -> bool:
    """Whether respx awaits what its side effect returns.

    It says so by the function that it calls it from alone: a blocking client may well be used in a task.
    """
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  # it is documented
    while frame is not None:
        if frame.f_globals.get("__name__") == "respx.router" and frame.f_code.co_name in ("resolve", "aresolve"):
            return frame.f_code.co_name == "aresolve"
        frame = frame.f_back
    return library() is not None
