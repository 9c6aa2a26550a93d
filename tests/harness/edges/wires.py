"""What the tests of store edges share: dialogues for readers, an edge before a store, peers that see what comes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

from sendtwice.fake_provider.faults import Armed, Fault, Faults, Place, Verb
from sendtwice.harness.edges.chunks import Chunk, Reader
from sendtwice.harness.edges.store import StoreEdge

T = TypeVar("T")
REQUEST, RESPONSE = Place.STORE_REQUEST, Place.STORE_RESPONSE


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, with a deadline so that a hang is a failure."""

    async def within() -> T:
        async with asyncio.timeout(20):
            return await work

    return asyncio.run(within())


# --- For readers: what is said, and what it must be read as -------------------------------------------------


@dataclass(frozen=True)
class Said:
    """What one side says in one go, and the messages that end with it."""

    data: bytes
    messages: tuple[str, ...]
    by_target: bool


def asks(data: bytes, *messages: str) -> Said:
    return Said(data, messages, by_target=True)


def tells(data: bytes, *messages: str) -> Said:
    return Said(data, messages, by_target=False)


def splits() -> st.SearchStrategy[list[int]]:
    """Where to split what is said: pieces of these lengths, in turn."""
    return st.lists(st.integers(1, 40), min_size=1, max_size=8)


def hear(reader: Reader, dialogue: Sequence[Said], pieces: Sequence[int] = ()) -> list[tuple[str, ...]]:
    """Let a reader hear a dialogue; return the messages of each turn. Not a byte may be lost or changed."""
    heard = []
    turn = 0
    said, passed = {True: b"", False: b""}, {True: b"", False: b""}
    for one in dialogue:
        take = reader.asked if one.by_target else reader.answered
        chunks: list[Chunk] = []
        rest = one.data
        while rest:
            size = pieces[turn % len(pieces)] if pieces else len(rest)
            turn += 1
            chunks += take(rest[:size])
            rest = rest[size:]
        said[one.by_target] += one.data
        passed[one.by_target] += b"".join(chunk.data for chunk in chunks)
        assert said[one.by_target].startswith(passed[one.by_target])
        heard.append(tuple(chunk.says for chunk in chunks if chunk.says is not None))
    passed[True] += b"".join(chunk.data for chunk in reader.asked_no_more())
    passed[False] += b"".join(chunk.data for chunk in reader.answered_no_more())
    assert passed == said
    return heard


def expected(dialogue: Sequence[Said]) -> list[tuple[str, ...]]:
    return [said.messages for said in dialogue]


# --- PostgreSQL's frames --------------------------------------------------------------------------------------


def frame(kind: str, content: bytes = b"") -> bytes:
    return kind.encode() + struct.pack("!I", len(content) + 4) + content


def first_frame(code: int, content: bytes = b"") -> bytes:
    return struct.pack("!II", len(content) + 8, code) + content


STARTUP = first_frame(196608, b"user\0app\0database\0app\0\0")
READY = frame("Z", b"I")
WELCOME = frame("R", struct.pack("!I", 0)) + frame("S", b"server_version\x0015\0") + frame("K", bytes(8)) + READY


def query(sql: str) -> bytes:
    return frame("Q", sql.encode() + b"\0")


def parse(sql: str, name: str = "") -> bytes:
    return frame("P", f"{name}\0{sql}\0".encode() + b"\0\0")


def bind(*values: bytes, statement: str = "", portal: str = "") -> bytes:
    given = b"".join(struct.pack("!I", len(value)) + value for value in values)
    return frame(
        "B",
        f"{portal}\0{statement}\0".encode() + struct.pack("!HH", 0, len(values)) + given + b"\0\0",
    )


def execute(portal: str = "", rows: int = 0) -> bytes:
    return frame("E", portal.encode() + b"\0" + struct.pack("!I", rows))


SYNC, FLUSH, DESCRIBE_PORTAL = frame("S"), frame("H"), frame("D", b"P\0")


def done(tag: str) -> bytes:
    return frame("C", tag.encode() + b"\0")


def error(code: str, message: str, severity: str = "ERROR") -> bytes:
    return frame("E", f"S{severity}\0V{severity}\0C{code}\0M{message}\0".encode() + b"\0")


# --- MySQL's packets -------------------------------------------------------------------------------------------


def packet(content: bytes, number: int = 0) -> bytes:
    return len(content).to_bytes(3, "little") + bytes([number]) + content


def greeting(offered: int = 0xFFFFFFFF) -> bytes:
    low, high = (offered & 0xFFFF).to_bytes(2, "little"), (offered >> 16).to_bytes(2, "little")
    return packet(b"\x0a8.4.0\0" + struct.pack("<I", 7) + b"8bytesof\0" + low + b"\xff\x02\x00" + high + bytes(11))


# --- An edge in front of a store ------------------------------------------------------------------------------


@dataclass
class Seen:
    """An edge, and the messages that it has announced."""

    edge: StoreEdge
    address: str
    faults: Faults
    messages: list[tuple[str, str]] = field(default_factory=list)  # (`>` or `<`, what it says)
    targets: list[Peer] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def arm(self, place: Place, verb: Verb, argument: str | float | None = None, **which: Any) -> Armed:
        return self.faults.arm(Fault(place, verb, argument, **which))

    def said(self, direction: str) -> list[str]:
        return [text for way, text in self.messages if way == direction]

    async def until(self, direction: str, times: int) -> None:
        """Wait until so many messages have passed in one direction."""
        while len(self.said(direction)) < times:
            self.news.clear()
            await self.news.wait()

    async def connect(self) -> Peer:
        self.targets.append(await connect(self.address))
        return self.targets[-1]


@contextlib.asynccontextmanager
async def an_edge(upstream: str, protocol: str = "auto") -> AsyncIterator[Seen]:
    faults, messages, news = Faults(), list[tuple[str, str]](), asyncio.Event()

    def observe(place: Place, store: str, message: str, connection: int) -> None:
        assert store == "db"
        assert connection > 0
        messages.append((">" if place is REQUEST else "<", message))
        news.set()

    edge = StoreEdge("db", upstream, protocol, faults, observe)
    seen = Seen(edge, await edge.start(), faults, messages, news=news)
    try:
        yield seen
    finally:
        for target in seen.targets:
            target.leave()
        await edge.stop()


class Peer:
    """One end of a connection, and what it sees of the other: bytes, then a FIN or an RST."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._read = b""

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def get(self, expected: bytes) -> None:
        """Wait for just these bytes."""
        while len(self._read) < len(expected):
            data = await self._more()
            assert data, f"the end, after {self._read!r}"
            self._read += data
        assert self._read[: len(expected)] == expected
        self._read = self._read[len(expected) :]

    async def ask(self, data: bytes, answer: bytes) -> None:
        """Send, and wait for just this answer."""
        await self.send(data)
        await self.get(answer)

    async def until(self, data: bytes) -> bytes:
        """All up to and with some bytes."""
        while data not in self._read:
            more = await self._more()
            assert more, f"the end, after {self._read!r}"
            self._read += more
        before, _, self._read = self._read.partition(data)
        return before + data

    async def end(self) -> tuple[bytes, str]:
        """All that comes before the end, and how it ends."""
        with contextlib.suppress(ConnectionResetError):
            while data := await self._more():
                self._read += data
            return self._read, "FIN"
        return self._read, "RST"

    def leave(self) -> None:
        """End it with a FIN, as the kernel does it for a process that is killed."""
        self.sock.close()

    def reset(self) -> None:
        """End it with an RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def end_of_input(self) -> None:
        """Say no more, and listen on."""
        self.sock.shutdown(socket.SHUT_WR)

    async def _more(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.sock, 64 * 1024)


async def connect(address: str) -> Peer:
    host, port = address.rsplit(":", 1)
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
    return Peer(sock)


class FakeStore:
    """A store that answers nothing by itself: the test does."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        host, port = listener.getsockname()
        self.address = f"{host}:{port}"
        self.peers: list[Peer] = []

    async def client(self) -> Peer:
        """The next connection that is made to it."""
        sock, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        self.peers.append(Peer(sock))
        return self.peers[-1]

    def refuse(self) -> None:
        """Listen no more."""
        self._listener.close()


@contextlib.asynccontextmanager
async def a_fake_store() -> AsyncIterator[FakeStore]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        store = FakeStore(listener)
        try:
            yield store
        finally:
            for peer in store.peers:
                peer.leave()


@dataclass
class Line(Seen):
    """An edge, a target that is connected through it, and the store's end of that connection."""

    target: Peer = field(init=False)
    store: Peer = field(init=False)
    upstream: FakeStore = field(init=False)

    async def another(self) -> tuple[Peer, Peer]:
        """Another connection through the same edge: the target's end and the store's."""
        return await self.connect(), await self.upstream.client()


@contextlib.asynccontextmanager
async def a_line(protocol: str = "redis") -> AsyncIterator[Line]:
    async with a_fake_store() as upstream, an_edge(upstream.address, protocol) as seen:
        line = Line(seen.edge, seen.address, seen.faults, seen.messages, seen.targets, seen.news)
        line.upstream = upstream
        line.target, line.store = await line.another()
        yield line
