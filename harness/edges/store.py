"""The wire between a target and one of its stores: every message can be held, delayed, refused or cut.

The edge listens where the target takes its store to be, and has a connection to the store for each of the target's.
What it does to them is in :mod:`link`, what their messages say in a reader per protocol. TLS cannot be read: then what
comes in one piece counts as a message, and says ``TLS``.

A connection that a fault refuses (``stage: connect``) is taken by the kernel before anybody can refuse it. So the
target sees it made and then reset or closed, before any byte: not "connection refused", but never a word of the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from sendtwice.fake_provider.faults import Armed, Crossing, Faults, Place
from sendtwice.fake_provider.sockets import readable
from sendtwice.harness.edges.guess import Guess
from sendtwice.harness.edges.link import Link

#: Called for every message: place, the store's name, what the message says, and the connection's number.
Stored = Callable[[Place, str, str, int], None]

#: How long a store that was never reached may take to be, in seconds.
_CONNECT = 5


class StoreEdge:
    """A listener in front of one store."""

    def __init__(self, name: str, upstream: str, protocol: str, faults: Faults, observe: Stored) -> None:
        """``upstream`` is ``HOST:PORT``; nothing listens before :meth:`start`."""
        self.name, self.upstream, self.protocol = name, upstream, protocol
        self.faults, self.observe = faults, observe
        self.moving = asyncio.Event()  # cleared while callers die
        self.moving.set()
        self._buffer = memoryview(bytearray(64 * 1024))
        self._numbers = itertools.count(1)
        self._links: set[Link] = set()
        self._waiting: set[Link] = set()  # with a message that has no answer yet
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._reached = False  # there was a connection to the store

    @property
    def used(self) -> bool:
        """Whether the target has ever gone through it to the store."""
        return self._reached

    async def start(self, host: str = "127.0.0.1") -> str:
        """Listen on a free port of this machine, and return the address for the target."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accepted, host, 0, backlog=1024)
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._server is not None:
            self._server.close()
        for link in list(self._links):
            link.drop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def idle(self) -> None:
        """Wait until no message of the target is without its answer; one that waits for an event does not count."""
        await self._idle.wait()

    async def complaint(self) -> str | None:
        """Return why the store cannot be reached, in one line; None when it could be, or can be now."""
        if self._reached:
            return None
        try:
            async with asyncio.timeout(_CONNECT):
                transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, *self._address)
        except OSError as error:  # a TimeoutError is one too
            refused = isinstance(error, ConnectionError) and error.errno is not None
            why = os.strerror(error.errno or 0) if refused else error.strerror or "no answer"
            return (
                f"nothing answers at {self.upstream}, the upstream of store {self.name!r} ({why}); "
                f"start it, or correct target.store.{self.name}.upstream"
            )
        transport.close()
        return None

    @contextlib.asynccontextmanager
    async def callers_die(self) -> AsyncIterator[None]:
        """Discard what processes that die inside this block had sent and the store not yet got.

        Requests are frozen for the length of the block. The kernel closes a dead process's sockets before its parent
        can reap it, so at the end a connection that shows its end belonged to the dead.
        """
        self.moving.clear()
        try:
            yield
            # What died in the backlog must be accepted before it can be told from who connects afterwards.
            # The kernel has no event for a backlog that is empty.
            listening = self._server.sockets if self._server is not None else ()
            while any(map(readable, listening)):
                await asyncio.sleep(0)
            for _ in range(20):  # let the loop read what is already there
                await asyncio.sleep(0)
            for link in list(self._links):
                if link.orphaned:
                    link.drop()
        finally:
            self.moving.set()

    # --- What a link needs ---------------------------------------------------------------------------------

    def announce(self, place: Place, message: str, connection: int) -> Armed | None:
        """Tell of a message, and return the fault that it meets."""
        self.observe(place, self.name, message, connection)
        if not self.faults.lie_on(place):
            return None
        return self.faults.meet(Crossing(place, store=self.name, message=message))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that ends with the edge."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def changed(self, link: Link) -> None:
        """Learn that a message has come, was passed on, or was answered."""
        if link.waits:
            self._waiting.add(link)
            self._idle.clear()
        else:
            self._waiting.discard(link)
            if not self._waiting:
                self._idle.set()

    def left(self, link: Link) -> None:
        """Learn that a link has ended."""
        self._links.discard(link)
        self.changed(link)

    async def connect(self, link: Link) -> None:
        """Connect it with the store, unless a fault refuses it."""
        if self.faults.lie_on(Place.STORE_REQUEST, "connect"):
            armed = self.faults.meet(Crossing(Place.STORE_REQUEST, "connect", store=self.name))
            if armed is not None and await link.stopped(armed):
                return
        try:
            await asyncio.get_running_loop().create_connection(lambda: link.store, *self._address)
        except OSError:
            # As near as an edge comes to a store that is not there.
            await link.break_off(reset=True)
            return
        self._reached = True
        link.requests.go_on()

    @property
    def _address(self) -> tuple[str, int]:
        host, _, port = self.upstream.rpartition(":")
        return host.strip("[]"), int(port)

    def _accepted(self) -> asyncio.BaseProtocol:
        link = Link(self, next(self._numbers), Guess(self.protocol), self._buffer)
        self._links.add(link)
        return link.target
