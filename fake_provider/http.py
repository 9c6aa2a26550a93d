"""An HTTP/1.1 endpoint on a real socket, every stage of which can be held, lost or cut.

The stages of one message, in order::

    connect -> headers -> [request]  message complete, nothing committed
                          perform    the service commits: from here on the effect is real
                          [response] committed, not one byte answered -> the answer's bytes

A *service* says what a message means and does it; the endpoint owns the socket and does the faults: a
``reset`` is an RST (SO_LINGER of zero), a ``close`` a FIN, a ``cut`` so many bytes and then an RST.
Handlers are never cancelled by a caller that hangs up, so a commit cannot be lost on the way.

What the bytes say is read and written in :mod:`http_messages`, which does no I/O.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextvars import ContextVar
from typing import Any

import h11

from sendtwice.fake_provider.altered import altered, chunked
from sendtwice.fake_provider.connections import Connection
from sendtwice.fake_provider.faults import Armed, Crossing, Fault, Faults, Place, Verb
from sendtwice.fake_provider.http_messages import MAX_BODY
from sendtwice.fake_provider.messages import Control, Exchange, Observe, Request, Response, Service
from sendtwice.fake_provider.sockets import peer_closed, readable

#: The connection whose message is being performed: a ledger's listener learns from it who caused a commit.
current_connection: ContextVar[int | None] = ContextVar("current_connection", default=None)
_FOREVER = 3600.0
#: In so many pieces an answer drips.
_DROPS = 20
#: Seconds for a caller to send the rest of what is not taken, and to read why.
_LINGER = 5.0


class Endpoint:
    """A listening HTTP server in front of one service."""

    def __init__(
        self,
        service: Service,
        *,
        edge: str,
        faults: Faults | None = None,
        observe: Observe | None = None,
        control: Control | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Announce crossings of ``edge`` (``provider`` or ``client``) to ``faults`` and ``observe``.

        ``now`` is the time that dates in answers are told by.
        """
        self.service, self.edge, self.control = service, edge, control
        self.faults = faults or Faults()
        self._observe: Observe = observe or (lambda _, /, **__: None)
        self._now = now
        self._request, self._response = Place(f"{edge}.request"), Place(f"{edge}.response")
        self._connections: dict[Connection, asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._in_flight: Counter[str | None] = Counter()  # by operation; None where that is not known
        self._ended = asyncio.Event()
        self._committing = asyncio.Event()
        self._committing.set()
        self.url = ""
        self.port = 0

    async def start(self, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port."""
        loop = asyncio.get_running_loop()
        buffer = memoryview(bytearray(64 * 1024))
        self._server = await loop.create_server(
            lambda: Connection(self._accept, buffer), host, port, backlog=1024, ssl=tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{shown}:{self.port}"
        return self.port

    @property
    def takes(self) -> Callable[[Connection], None] | None:
        """What takes in a connection that comes by another way than its socket; None when it does not listen."""
        return self._accept if self._server is not None and self._server.is_serving() else None

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._server is not None:
            self._server.close()
        self.faults.withdraw_all()
        self._committing.set()
        tasks = list(self._connections.items())
        for connection, task in tasks:
            connection.dropped.set()
            connection.reset()
            task.cancel()
        await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)

    @property
    def in_flight(self) -> int:
        """How many messages have been read and not yet answered."""
        return self._in_flight.total()

    async def idle(self, of: Container[str] | None = None) -> None:
        """Wait until no message is between its last byte and its answer: none at all, or none of these operations.

        One whose operation is not known may be anybody's.
        """
        while any(of is None or operation is None or operation in of for operation in self._in_flight):
            self._ended.clear()
            await self._ended.wait()

    @contextlib.asynccontextmanager
    async def callers_die(self) -> AsyncIterator[None]:
        """Discard what callers that die inside this block had sent and this endpoint not yet committed.

        Commits are frozen for the length of the block. The kernel closes a dead process's sockets before its
        parent can reap it, so at the end a connection that shows its end belonged to the dead.
        """
        self._committing.clear()
        try:
            yield
            # What died in the backlog must be accepted before it can be told from who connects afterwards.
            # The kernel has no event for a backlog that is empty.
            listening = self._server.sockets if self._server is not None else ()
            while any(map(readable, listening)):
                await asyncio.sleep(0)
            for _ in range(20):  # let the loop read what is already there
                await asyncio.sleep(0)
            for connection in list(self._connections):
                if connection.gone or peer_closed(connection.socket):
                    connection.dropped.set()
                    if connection.unheard:
                        self._observe("discarded", operation=None, attempt=None, connection=connection.number)
        finally:
            self._committing.set()

    def _accept(self, connection: Connection) -> None:
        connection.number = next(self._numbers)
        self._connections[connection] = asyncio.get_running_loop().create_task(self._see_through(connection))

    async def _see_through(self, connection: Connection) -> None:
        try:
            await self._serve(connection)
        except ConnectionResetError:
            if connection.heard:
                self._observe("unread", operation=None, attempt=None, connection=connection.number)
        except (ConnectionError, h11.RemoteProtocolError, h11.LocalProtocolError, asyncio.CancelledError):
            pass  # the caller went away or spoke no HTTP; what it did is in the history already
        finally:
            self._connections.pop(connection, None)
            connection.close()

    async def _serve(self, connection: Connection) -> None:
        if await self._early(connection, "connect"):
            return
        messages = connection.messages
        while (head := await connection.read(messages.head)) is not None:
            if await self._early(connection, "headers", head.target):
                return
            body = await connection.read(messages.body)
            if body is None:
                if messages.too_long:
                    await _refuse_long(connection)
                return
            connection.heard += 1
            request = Request(
                head.method, head.target, head.headers, body, connection.number, head.written, head.version
            )
            if not await self._answer(connection, request) or not messages.proceed():
                return

    async def _early(self, connection: Connection, stage: str, target: str = "") -> bool:
        """Do a fault that hits before the message is complete; True when the connection is over."""
        if not self.faults.lie_on(self._request, stage):
            return False
        if self.control is not None and self._for_control(target.partition("?")[0]):
            return False  # whoever would let it go, or look at it, is not kept from that
        armed = self.faults.meet(Crossing(self._request, stage))
        if armed is None:
            return False
        if armed.fault.verb is Verb.ANSWER:
            status = int(armed.fault.argument or 503)
            connection.write(f"HTTP/1.1 {status} \r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            # The caller may still be sending: an end of ours would overtake the answer.
            await connection.listened_to(within=_LINGER)
            return True
        return await self._stopped(connection, armed)

    def _for_control(self, path: str) -> bool:
        return path.startswith("/_sendtwice/") or path == "/healthz"

    async def _answer(self, connection: Connection, request: Request) -> bool:
        """Handle one message; False when the connection is over."""
        if self.control is not None and self._for_control(request.path):
            response = await self.control(request)
            connection.write(connection.messages.answer(response))
            await connection.drained()
            return True
        exchange = self.service.begin(request)
        self._in_flight[exchange.operation] += 1
        try:
            return await self._exchange(connection, request, exchange)
        finally:
            self._in_flight[exchange.operation] -= 1
            if not self._in_flight[exchange.operation]:
                del self._in_flight[exchange.operation]
            self._ended.set()

    async def _exchange(self, connection: Connection, request: Request, exchange: Exchange) -> bool:
        known: dict[str, Any] = {
            "operation": exchange.operation,
            "attempt": exchange.attempt,
            "connection": connection.number,
        }
        self._observe(self._request, **known, key=exchange.key, request=request, **exchange.notes)
        asked = {fault.place: fault for fault in exchange.faults}

        armed = self._meet(self._request, exchange, asked)
        replaced: Response | None = None
        if armed is not None:
            if await self._stopped(connection, armed):
                return False
            if armed.fault.verb in (Verb.ANSWER, Verb.GARBLE):
                replaced = self._instead(exchange, armed.fault, request)
        if not self._committing.is_set():
            await self._committing.wait()
        if connection.dropped.is_set():
            self._observe("discarded", **known)
            return False
        current_connection.set(connection.number)
        response = replaced or await self._performed(connection, exchange)
        if armed is not None and armed.fault.verb is Verb.TWICE:
            response = await self._performed(connection, self.service.begin(request))

        limit: int | None = None
        if replaced is None:
            armed = self._meet(self._response, exchange, asked)
            if armed is not None:
                fault = armed.fault
                if fault.verb is Verb.ANSWER:
                    response = self._instead(exchange, fault, request)
                    known["replaced"] = True
                elif fault.verb is Verb.GARBLE:
                    response = altered(response, fault, request, now=self._now())
                    known["garbled"] = True
                elif fault.verb is Verb.DRIP:
                    return await self._drip(connection, response, known, float(fault.argument or 0))
                elif fault.verb is Verb.CLOSE and fault.argument == "after-answer":
                    await self._write(connection, response, known, None)
                    connection.close()
                    return False
                elif fault.verb is Verb.LOSE and fault.argument == "in-chunks":
                    return await self._broken_off(connection, response, known, chunked(response))
                elif fault.verb is Verb.CUT:
                    limit = int(fault.argument or 0)
                elif fault.verb is Verb.LOSE and fault.argument == "first-byte":
                    limit = 1
                elif fault.verb is Verb.LOSE and fault.argument == "in-body":
                    limit = -1
                elif await self._stopped(connection, armed):
                    self._observe(self._response, **known, response=response, sent=False)
                    return False
        elif armed is not None and armed.fault.verb is Verb.GARBLE:
            known["garbled"] = True
        return await self._write(connection, response, known, limit)

    async def _performed(self, connection: Connection, exchange: Exchange) -> Response:
        """Have an exchange performed, and tell it of a caller that does not wait for its end."""
        if connection.gone:
            # What is performed has begun by then.
            asyncio.get_running_loop().call_soon(exchange.hung_up)
        else:
            connection.left = exchange.hung_up
        try:
            return await exchange.perform()
        finally:
            connection.left = None

    async def _write(
        self, connection: Connection, response: Response, known: dict[str, Any], limit: int | None
    ) -> bool:
        data = connection.messages.answer(response)
        if limit is not None:
            # -1: the head and half of the body.
            cut = limit if limit >= 0 else len(data) - (len(response.body) + 1) // 2
            return await self._broken_off(connection, response, known, data[:cut])
        alive = not connection.gone and not connection.dropped.is_set()
        self._observe(self._response, **known, response=response, sent=alive)
        connection.write(data)
        await connection.drained()
        return alive

    async def _broken_off(self, connection: Connection, response: Response, known: dict[str, Any], data: bytes) -> bool:
        """Write the beginning of an answer, and end the connection."""
        connection.write(data)
        with contextlib.suppress(ConnectionError):
            await connection.drained()
        self._observe(self._response, **known, response=response, sent=False)
        # The bytes before the cut must be read before the RST overtakes them.
        await connection.flushed()
        connection.reset()
        return False

    async def _drip(self, connection: Connection, response: Response, known: dict[str, Any], seconds: float) -> bool:
        """Write an answer in small pieces, so that it takes so many seconds; its caller may not wait for the end."""
        data = connection.messages.answer(response)
        size = -(-len(data) // _DROPS)
        places = range(0, len(data), size)
        for at in places:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connection.dropped.wait(), seconds / len(places))
            if connection.gone or connection.dropped.is_set():
                break
            connection.write(data[at : at + size])
        alive = not connection.gone and not connection.dropped.is_set()
        self._observe(self._response, **known, response=response, sent=alive)
        if alive:
            await connection.drained()
        return alive

    def _instead(self, exchange: Exchange, fault: Fault, request: Request) -> Response:
        """Return the answer that a fault puts in the place of the real one; one that is garbled claims success."""
        what = "accepted" if fault.verb is Verb.GARBLE else fault.argument or 503
        scheme = self.url.partition(":")[0] or "http"
        return altered(exchange.answer(what), fault, request, now=self._now(), scheme=scheme)

    def _meet(self, place: Place, exchange: Exchange, asked: dict[Place, Fault]) -> Armed | None:
        armed = None
        if self.faults.lie_on(place):
            mail = exchange.notes.get("mail")
            recipients: tuple[str, ...] = getattr(mail, "recipients", ())
            crossing = Crossing(place, None, exchange.operation, exchange.attempt, exchange.key, recipients)
            crossing.message = exchange.notes.get("message", "")
            armed = self.faults.meet(crossing)
        if armed is None and place in asked:
            armed = Armed(asked[place], met=1, fired=1)
        return armed

    async def _stopped(self, connection: Connection, armed: Armed) -> bool:
        """Do what a fault says at this point; True when the connection has ended."""
        match armed.fault.verb:
            case Verb.HOLD:
                await _first(armed.gate.wait(), connection.dropped.wait())
                return False
            case Verb.DELAY:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(connection.dropped.wait(), float(armed.fault.argument or 0))
                return False
            case Verb.LOSE | Verb.RESET | Verb.CUT:  # a request that was cut never came whole
                connection.reset()
                return True
            case Verb.CLOSE:
                connection.close()
                return True
            case _:
                return armed.fault.stage is not None


async def _refuse_long(connection: Connection) -> None:
    """Say that a body is longer than is taken; the caller may still be sending it."""
    error = Response.of(413, {"error": f"sendtwice takes bodies of at most {MAX_BODY >> 20} MiB"})
    fields = "".join(f"{name}: {value}\r\n" for name, value in error.headers.items())
    head = f"HTTP/1.1 413 \r\n{fields}Content-Length: {len(error.body)}\r\nConnection: close\r\n\r\n"
    connection.write(head.encode() + error.body)
    await connection.listened_to(within=_LINGER)


async def _first(*waits: Awaitable[Any]) -> None:
    """Wait for the first of several events."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=_FOREVER)
    finally:
        for task in tasks:
            task.cancel()
