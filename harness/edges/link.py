"""One connection of the target to its store: a socket on either side, and the messages on their way between them.

What comes is read, announced and passed on at once, in the same turn of the event loop, unless a fault lies on it. Each
way is a queue: a message that is held keeps what comes behind it on its way, and nothing else. What a fault does::

    hold, delay   the message waits; when the target's side goes away meanwhile, it is dropped: what a dead process had
                  sent and the store not yet got is never executed
    reset, lose   RST to the target. A request never gets to the store; an answer was given, and never gets back
    close         the same with a FIN
    cut           so many bytes of the message get to the other side; then RST to the target

What was passed on before a fault gets there first. After a fault that ends the connection the store sees its client
leave (FIN), so it rolls back what was not committed. An end of either side's is passed on as what it was, behind what
came before it. So is backpressure.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol, cast

from sendtwice.fake_provider.faults import Armed, Fault, Place, Verb
from sendtwice.fake_provider.sockets import abort, peer_closed, readable, unsent
from sendtwice.harness.edges.chunks import Chunk, Reader

#: So much may wait on one way; then whoever sends it has to wait as well.
_WAITING = 1024 * 1024
#: So long may the other side's kernel take for what was written before an RST follows, in seconds.
_FLUSH = 0.2


class Edge(Protocol):
    """What a link needs of the edge that it belongs to."""

    moving: asyncio.Event  # cleared while callers die

    def announce(self, place: Place, message: str, connection: int) -> Armed | None:
        """Tell of a message, and return the fault that it meets."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that ends with the edge."""

    def changed(self, link: Link) -> None:
        """Learn that a message has come, was passed on, or was answered."""

    def left(self, link: Link) -> None:
        """Learn that a link has ended."""

    async def connect(self, link: Link) -> None:
        """Connect it with the store."""


class Side(asyncio.BufferedProtocol):
    """The socket on one side of a link; what is read lands in ``buffer`` first, which all links share."""

    def __init__(self, buffer: memoryview) -> None:
        """Nothing is connected yet."""
        self._buffer = buffer
        self.way: Way  # that begins here
        self.back: Way  # that ends here
        self.transport: asyncio.Transport | None = None
        self.gone = asyncio.Event()  # the peer has closed or reset its side
        self.full = False  # nothing more should be written now

    # --- Called by the event loop --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be there."""
        self.transport = cast(asyncio.Transport, transport)
        self.way.link.made(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # more comes with the next call
        """Return where to read into."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what has come."""
        self.way.take(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool:
        """Learn that no more will come; what goes the other way may go on."""
        self.gone.set()
        self.way.end(reset=False)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Learn that nothing can come or go any more."""
        self.gone.set()
        self.way.end(reset=exc is not None)
        self.way.link.lost(self)

    def pause_writing(self) -> None:
        """Let the other side wait."""
        self.full = True
        self.back.regulate()

    def resume_writing(self) -> None:
        """Let the other side go on."""
        self.full = False
        self.back.regulate()

    # --- Called by the link --------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Write, as soon as the socket takes it."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        """End it with a FIN, when all has been written."""
        if self.transport is not None:
            self.transport.close()

    def drop(self) -> None:
        """End it at once: what is not in the kernel yet is never sent."""
        if self.transport is not None:
            self.transport.abort()

    async def finish(self, *, reset: bool) -> None:
        """End it with an RST or a FIN, when its peer's kernel has got all that was written."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _FLUSH
        sock = transport.get_extra_info("socket")
        transport.resume_reading()  # a FIN would be an RST if anything were unread
        while transport.get_write_buffer_size() or unsent(sock) or (not reset and self._unread(sock)):
            if loop.time() > deadline or transport.is_closing():
                break
            await asyncio.sleep(0.0005)  # the kernel has no event for this
        if reset:
            abort(transport)
        else:
            transport.close()

    def _unread(self, sock: Any) -> bool:
        return not self.gone.is_set() and sock.fileno() >= 0 and readable(sock)


class Way:
    """One direction of a link: messages, one after the other."""

    def __init__(self, link: Link, place: Place, source: Side, sink: Side) -> None:
        """Begin with nothing on its way."""
        self.link, self.place, self.source, self.sink = link, place, source, sink
        self.busy = False  # something waits, and all behind it
        self._queue: deque[Chunk] = deque()
        self._size = 0
        self._cut: int | None = None  # how many bytes of a message that is cut may still pass
        self._reset: bool | None = None  # how the source has ended
        self._ended = False  # the end was passed on

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self.busy and not self._queue

    @property
    def over(self) -> bool:
        """Whether all has been passed on, the end as well."""
        return self._ended

    def take(self, data: bytes) -> None:
        """Take in what has come."""
        if self.link.over:
            return
        reader = self.link.reader
        self._add(reader.asked(data) if self.place is Place.STORE_REQUEST else reader.answered(data))

    def end(self, *, reset: bool) -> None:
        """Take in that no more will come."""
        if self.link.over or self._reset:
            return
        reader, left = self.link.reader, list[Chunk]()
        if self._reset is None:
            left = reader.asked_no_more() if self.place is Place.STORE_REQUEST else reader.answered_no_more()
        self._reset = reset
        self._add(left)

    def _add(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self._queue.append(chunk)
            self._size += len(chunk.data)
        self.run()

    def run(self) -> None:
        """Pass on whatever need not wait."""
        link = self.link
        while self._queue and not self.busy and not link.over:
            chunk = self._queue.popleft()
            self._size -= len(chunk.data)
            armed = None if chunk.says is None else link.edge.announce(self.place, chunk.says, link.number)
            if armed is None and self._cut is None and link.edge.moving.is_set():
                self.sink.write(chunk.data)
            else:
                self.busy = True
                link.edge.spawn(self._carefully(chunk, armed))
        if self._reset is not None and self.idle and not link.over:
            self._pass_end()
        self.regulate()
        link.edge.changed(link)

    def go_on(self) -> None:
        """Pass on what had to wait."""
        self.busy = False
        self.run()

    def regulate(self) -> None:
        """Let the source wait while too much is on its way, or the other side takes nothing."""
        transport = self.source.transport
        if transport is None or transport.is_closing() or self.link.over or self.source.gone.is_set():
            return
        if self._size > _WAITING or self.sink.full:
            transport.pause_reading()
        else:
            transport.resume_reading()

    async def _carefully(self, chunk: Chunk, armed: Armed | None) -> None:
        """Do what a fault says, and pass the chunk on if it says so."""
        if armed is not None:
            if armed.fault.verb is Verb.CUT:
                self._cut = int(armed.fault.argument or 0)
            elif await self.link.stopped(armed):
                return
        if self.place is Place.STORE_REQUEST:
            await self.link.edge.moving.wait()
        if self.link.over:
            return
        data = chunk.data if self._cut is None else chunk.data[: self._cut]
        self.sink.write(data)
        if self._cut is not None:
            self._cut -= len(data)
            if self._cut == 0 or chunk.ends:
                await self.link.break_off(reset=True)
                return
        self.go_on()

    def _pass_end(self) -> None:
        """End the other side as this one has ended."""
        if self._reset:
            self._ended = True
            self.link.edge.spawn(self.link.break_off(reset=True))
        elif not self._ended:
            self._ended = True
            transport = self.sink.transport
            if transport is not None and not transport.is_closing() and transport.can_write_eof():
                transport.write_eof()
            if self.link.both_ended:
                self.link.close()


class Link:
    """A connection of the target, and the one to the store that stands behind it."""

    def __init__(self, edge: Edge, number: int, reader: Reader, buffer: memoryview) -> None:
        """Wait for the target's connection."""
        self.edge, self.number, self.reader = edge, number, reader
        self.over = False
        self.target, self.store = Side(buffer), Side(buffer)
        self.requests = Way(self, Place.STORE_REQUEST, self.target, self.store)
        self.answers = Way(self, Place.STORE_RESPONSE, self.store, self.target)
        self.target.way = self.store.back = self.requests
        self.store.way = self.target.back = self.answers

    @property
    def waits(self) -> bool:
        """Whether a message of the target is without its answer."""
        return not self.over and not (self.requests.idle and self.answers.idle and self.reader.unanswered == 0)

    @property
    def both_ended(self) -> bool:
        """Whether nothing more goes either way."""
        return self.requests.over and self.answers.over

    @property
    def orphaned(self) -> bool:
        """Whether the target's side is gone, read to its end or not."""
        transport = self.target.transport
        return self.target.gone.is_set() or (transport is not None and peer_closed(transport.get_extra_info("socket")))

    def made(self, side: Side) -> None:
        """Learn that a side is connected; the store's follows the target's."""
        if side is self.target:
            self.requests.busy = True
            self.edge.spawn(self.edge.connect(self))
        elif self.over:
            side.drop()

    def lost(self, side: Side) -> None:
        """Learn that a side can neither read nor write any more."""
        if side is self.target:
            self.drop()

    async def stopped(self, armed: Armed) -> bool:
        """Do what a fault says at this point; True when the connection has ended."""
        fault: Fault = armed.fault
        gone = self.target.gone
        match fault.verb:
            case Verb.HOLD:
                await first(armed.gate, gone)
            case Verb.DELAY:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(gone.wait(), float(fault.argument or 0))
            case verb:
                await self.break_off(reset=verb is not Verb.CLOSE)
        if gone.is_set():
            self.drop()
        return self.over

    async def break_off(self, *, reset: bool) -> None:
        """End the target's side with an RST or a FIN, then the store's with a FIN."""
        self.over = True
        await self.target.finish(reset=reset)
        await self.store.finish(reset=False)
        self.drop()

    def close(self) -> None:
        """End both sides: neither has more to say."""
        self.over = True
        self.target.close()
        self.store.close()
        self.edge.left(self)

    def drop(self) -> None:
        """End both sides, and what is on its way between them."""
        self.over = True
        self.target.drop()
        self.store.drop()
        self.edge.left(self)


async def first(*events: asyncio.Event) -> None:
    """Wait for the first of several events."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
