"""Wires on which we answer: a raw caller on one side, and on the other a service whose effects are counted.

The fake provider, the API that it serves, the proxy and the store edge are all looked at by one table: what a fault is
called says how the connection ends for the caller, how many bytes it was given, and whether the effect is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sendtwice.fake_provider.faults import Armed, Fault, Faults, Place, Verb
from sendtwice.fake_provider.provider import FakeProvider
from sendtwice.harness.doctor import answers
from sendtwice.harness.doctor.peers import End, RawPeer, RawServer, status
from sendtwice.harness.doctor.rows import (
    QUIET,
    Row,
    Seen,
    deadline,
    early_faults_of,
    faults_of,
    late,
    probed,
    size,
    times,
)
from sendtwice.harness.edges.proxy import Proxy
from sendtwice.harness.edges.proxy_forward import Upstream
from sendtwice.harness.edges.store import StoreEdge

_BODY = json.dumps({"from": "a@example.test", "to": ["b@example.test"], "subject": "s", "text": "t"}).encode()
_REQUEST = b"POST /emails HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
    _BODY
)
_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"id": "one"}'


@dataclass
class Service:
    """A wire and the service behind it; ``arrived`` are the connections behind it, where those are other sockets."""

    port: int
    faults: Faults
    effects: Callable[[], int]
    request: bytes
    read: Callable[[RawPeer], Awaitable[bytes]] = RawPeer.message
    arrived: list[RawPeer] = field(default_factory=list)


# --- The services ------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def fake_provider(*, api: bool = False) -> AsyncIterator[Service]:
    """The mail provider of a target, or the send API of a client; its effects are the ledger's commits."""
    fake = FakeProvider("generic", edge="client" if api else "provider")
    await fake.start()
    try:
        yield Service(fake.port, fake.faults, lambda: fake.ledger.commits, _REQUEST + _BODY)
    finally:
        await fake.stop()


@contextlib.asynccontextmanager
async def proxy() -> AsyncIterator[Service]:
    """A proxy before an upstream of bare sockets; its effects are the requests that arrived there as a whole."""
    async with _behind(RawPeer.message, _ANSWER) as (server, got, peers):
        standing = Proxy(Upstream.at(server.url), keep_host=True)
        await standing.start()
        try:
            request = _REQUEST + _BODY
            yield Service(standing.endpoint.port, standing.faults, lambda: got.count(request), request, arrived=peers)
        finally:
            await standing.stop()


@contextlib.asynccontextmanager
async def store() -> AsyncIterator[Service]:
    """A store's wire before a store of bare sockets, which says one line for every line."""
    async with _behind(_line, b"+OK it is stored and will not go away\n") as (server, got, peers):
        faults = Faults()
        edge = StoreEdge("doctor", f"127.0.0.1:{server.port}", "raw", faults, lambda *_: None)
        port = int((await edge.start()).rpartition(":")[2])
        request = b"store that this is done\n"
        try:
            yield Service(port, faults, lambda: got.count(request), request, _line, peers)
        finally:
            await edge.stop()


async def _line(peer: RawPeer) -> bytes:
    data = await peer.until(lambda data: b"\n" in data)
    line, found, peer.data = data.partition(b"\n")
    return line + found


@contextlib.asynccontextmanager
async def _behind(
    read: Callable[[RawPeer], Awaitable[bytes]], answer: bytes
) -> AsyncIterator[tuple[RawServer, list[bytes], list[RawPeer]]]:
    """A server of bare sockets: what it got as a whole, and its ends of all connections."""
    got: list[bytes] = []
    peers: list[RawPeer] = []
    tasks: list[asyncio.Task[None]] = []

    async def serve(peer: RawPeer) -> None:
        while (message := await read(peer)) and peer.end is End.OPEN:
            got.append(message)
            await peer.send(answer)
        peer.data = message + peer.data  # what never came whole

    async def accept(server: RawServer) -> None:
        while True:
            peers.append(await server.accepted())
            tasks.append(asyncio.create_task(serve(peers[-1])))

    async with RawServer() as server:
        tasks.append(asyncio.create_task(accept(server)))
        try:
            yield server, got, peers
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


# --- The table ---------------------------------------------------------------------------------------------


def wanted_end(fault: Fault, answer: bytes) -> tuple[End, int]:
    """Return how a connection ends after a fault, and how many bytes of the answer come before that."""
    head = len(answer.partition(b"\r\n\r\n")[0]) + 4
    if fault.place.endswith(".request"):
        return (End.FIN if fault.verb is Verb.CLOSE else End.RST), 0
    match fault.verb, fault.argument:
        case Verb.CLOSE, "after-answer":
            return End.FIN, len(answer)
        case Verb.CLOSE, _:
            return End.FIN, 0
        case Verb.CUT, count:
            return End.RST, min(int(count or 0), len(answer))
        case Verb.LOSE, "first-byte":
            return End.RST, 1
        case Verb.LOSE, "in-body":
            return End.RST, head + (len(answer) - head) // 2
    return End.RST, 0


def _ended(end: End, given: int, effects: int) -> str:
    return f"{end} after {size(given)}, {times(effects)}"


def wanted_effects(fault: Fault) -> int:
    """Return how often a message has its effect after a fault is over."""
    if fault.verb is Verb.TWICE:
        return 2
    goes_on = fault.place.endswith(".response") or fault.verb in (Verb.HOLD, Verb.DELAY)
    return 1 if goes_on else 0


class Looked:
    """Plays faults on one wire."""

    def __init__(self, service: Service) -> None:
        """Look at ``service``."""
        self.service = service
        self._whole = b""  # a plain answer
        self._before = 0

    @property
    def _effects(self) -> int:
        return self.service.effects() - self._before

    async def plain(self) -> None:
        """See what an answer is when nothing is done to it."""
        peer = await RawPeer.to(self.service.port)
        with contextlib.closing(peer):
            async with deadline():
                await peer.send(self.service.request)
                self._whole = await self.service.read(peer)

    async def look(self, fault: Fault) -> Seen:
        """Play one fault, and say what was seen."""
        self._before = self.service.effects()
        armed = self.service.faults.arm(fault)
        begun, at = time.monotonic(), time.time()
        peer = await RawPeer.to(self.service.port)
        try:
            sent = begun if fault.stage == "connect" else await self._send(peer, fault)
            match fault.verb:
                case Verb.HOLD:
                    return await self._held(peer, armed)
                case Verb.DELAY:
                    return await self._delayed(peer, armed, sent)
                case Verb.ANSWER:
                    return await self._answered(peer, fault, at)
                case Verb.GARBLE:
                    return await self._garbled(peer, fault)
                case Verb.DRIP:
                    return await self._dripped(peer, fault, sent)
                case Verb.LOSE if fault.argument == "in-chunks":
                    return await self._in_chunks(peer)
                case Verb.TWICE:
                    answer = await self.service.read(peer)
                    return Seen(self._got(answer), f"{self._plainly}, {times(wanted_effects(fault))}")
                case _:
                    return await self._ended(peer, fault)
        finally:
            peer.close()
            self.service.faults.withdraw(armed)

    async def _send(self, peer: RawPeer, fault: Fault) -> float:
        """Send as much as there is at the fault's stage: the request, or its head; return when that was."""
        head, end, _ = self.service.request.partition(b"\r\n\r\n")
        return await peer.send(head + end if fault.stage == "headers" else self.service.request)

    async def _rest(self, peer: RawPeer, fault: Fault) -> bytes:
        """Send what the stage had kept back, and read the answer."""
        head, end, body = self.service.request.partition(b"\r\n\r\n")
        if fault.stage == "connect":
            await peer.send(self.service.request)
        elif fault.stage == "headers":
            await peer.send(body if end else head)
        return await self.service.read(peer)

    @property
    def _plainly(self) -> str:
        return _short(self._whole)

    def _got(self, answer: bytes) -> str:
        return f"{_short(answer)}, {times(self._effects)}"

    async def _ended(self, peer: RawPeer, fault: Fault) -> Seen:
        end = await peer.over()
        wanted, given = wanted_end(fault, self._whole)
        asked = fault.place.endswith(".request")
        seen = _ended(end, len(peer.data), self._effects)
        should = _ended(wanted, given, wanted_effects(fault))
        if fault.verb is Verb.CUT and asked and self.service.arrived:
            behind = self.service.arrived[-1]
            while behind.end is End.OPEN:  # whoever serves it reads on
                await asyncio.sleep(0.001)
            seen += f"; {size(len(behind.data))} came through"
            should += f"; {size(int(fault.argument or 0))} came through"
        return Seen(seen, should)

    async def _held(self, peer: RawPeer, armed: Armed) -> Seen:
        await armed.reached.wait()
        quiet = await peer.quiet(QUIET)
        while_held = self._effects
        armed.gate.set()
        answer = await self._rest(peer, armed.fault)
        before = f"{'nothing' if quiet else 'something'} came while it was held, {times(while_held)}"
        asked = armed.fault.place.endswith(".request")
        return Seen(
            f"{before}; let go: {self._got(answer)}",
            f"nothing came while it was held, {times(0 if asked else 1)}; let go: {self._plainly}, {times(1)}",
        )

    async def _delayed(self, peer: RawPeer, armed: Armed, sent: float) -> Seen:
        await armed.reached.wait()
        before = times(self._effects)
        answer = await self._rest(peer, armed.fault)
        seconds = (peer.first_at or sent) - sent
        wanted = float(armed.fault.argument or 0)
        asked = armed.fault.place.endswith(".request")
        return Seen(
            f"{before} before it; {late(seconds, wanted)}: {self._got(answer)}",
            f"{times(0 if asked else 1)} before it; {late(wanted, wanted)}: {self._plainly}, {times(1)}",
        )

    async def _answered(self, peer: RawPeer, fault: Fault, since: float) -> Seen:
        if fault.stage is not None:  # a bare status, and the end
            await peer.until(lambda data: b"\r\n\r\n" in data)
            answer = peer.data
        else:
            answer = await self.service.read(peer)
        seen, should = answers.more_of(fault, answer, since)
        return Seen(f"{self._got(answer)}{seen}", f"{fault.argument}, {times(wanted_effects(fault))}{should}")

    async def _garbled(self, peer: RawPeer, fault: Fault) -> Seen:
        answer = await self.service.read(peer)
        wanted = answers.GARBLED[str(fault.argument)]
        return Seen(
            f"{self._got(answer)}: {answers.in_words(answer)}, {await self._after(peer)}",
            f"{self._plainly}, {times(wanted_effects(fault))}: {wanted}, {_GOES_ON}",
        )

    async def _dripped(self, peer: RawPeer, fault: Fault, sent: float) -> Seen:
        answer = await self.service.read(peer)
        ended, wanted = time.monotonic(), float(fault.argument or 0)
        by_bits = "bit by bit" if ended - (peer.first_at or ended) > wanted / 2 else "in one piece"
        return Seen(
            f"{late(ended - sent, wanted)}, {by_bits}: {self._got(answer)}, {await self._after(peer)}",
            f"{late(wanted, wanted)}, bit by bit: {self._plainly}, {times(1)}, {_GOES_ON}",
        )

    async def _in_chunks(self, peer: RawPeer) -> Seen:
        end = await peer.over()
        seen, should = answers.chunks(peer.data, self._whole)
        return Seen(f"{end} after {seen}, {times(self._effects)}", f"{End.RST} after {should}, {times(1)}")

    async def _after(self, peer: RawPeer) -> str:
        """Say what becomes of the connection after an answer."""
        return _GOES_ON if await peer.quiet(QUIET) else f"then {peer.end}, or more than an answer"

    async def late_effects(self, faults: Sequence[Fault]) -> Seen:
        """Say whether anything has come late that should never come."""
        await asyncio.sleep(QUIET)
        wanted = 1 + sum(map(wanted_effects, faults))
        return Seen(times(self.service.effects()), times(wanted))


_GOES_ON = "and the connection goes on"


def _short(answer: bytes) -> str:
    code = status(answer)
    return str(code) if code is not None else f"an answer of {size(len(answer))}"


# --- All of it ---------------------------------------------------------------------------------------------


async def _all(
    where: str, opened: contextlib.AbstractAsyncContextManager[Service], faults: Sequence[Fault]
) -> list[Row]:
    async with opened as service:
        looked = Looked(service)
        await looked.plain()
        rows = [await probed(where, str(fault), partial(looked.look, fault)) for fault in faults]
        rows.append(await probed(where, "all of them together", lambda: looked.late_effects(faults)))
    return rows


async def on_the_fake_provider() -> list[Row]:
    """Look at the mail provider."""
    places = Place.PROVIDER_REQUEST, Place.PROVIDER_RESPONSE
    faults = [
        *early_faults_of(Place.PROVIDER_REQUEST),
        *faults_of(*places, served=True),
        # Only a caller's answer has places to be lost at, and so has the provider's on the same code.
        *(Fault(Place.PROVIDER_RESPONSE, Verb.LOSE, where) for where in ("first-byte", "in-body")),
        *answers.answers_of(*places),
    ]
    return await _all("fake provider", fake_provider(), faults)


async def on_the_served_api() -> list[Row]:
    """Look at the send API that a client meets."""
    return await _all("served API", fake_provider(api=True), _of_callers())


async def on_the_proxy() -> list[Row]:
    """Look at the proxy."""
    return await _all("proxy", proxy(), _of_callers())


def _of_callers() -> list[Fault]:
    places = Place.CLIENT_REQUEST, Place.CLIENT_RESPONSE
    return [
        *early_faults_of(Place.CLIENT_REQUEST),
        *faults_of(*places, served=True),
        *answers.answers_of(*places),
    ]


async def on_the_store_edge() -> list[Row]:
    """Look at the wire between a target and its store."""
    faults = [*early_faults_of(Place.STORE_REQUEST), *faults_of(Place.STORE_REQUEST, Place.STORE_RESPONSE)]
    return await _all("store edge", store(), faults)
