"""Wires on which we call: our own caller of a send API and of a webhook endpoint, and the wire of the API's own events.

On the other side stands a server of bare sockets, which says what arrived of a request and how the caller left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from sendtwice.fake_provider.emulator.outbox import Answer
from sendtwice.fake_provider.faults import Armed, Crossing, Fault, Faults, Place, Verb
from sendtwice.fake_provider.webhook_wire import WebhookWire
from sendtwice.harness.doctor.peers import End, RawPeer, RawServer
from sendtwice.harness.doctor.rows import QUIET, Row, Seen, WrongError, deadline, faults_of, late, probed, size
from sendtwice.harness.drivers.caller import Caller, Flight
from sendtwice.harness.history import Recorder
from sendtwice.harness.requests import Built

_BODY = b'{"to": "a@example.test"}'
_HEAD, _TOLD = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n", b'{"id": "one"}'


@dataclass
class Sent:
    """One request that a wire of ours sends through a fault: to a server that is there, and what it comes to."""

    server: RawServer
    armed: Armed
    done: asyncio.Future[Any]
    #: How much of a request a plain one is; None until that is known.
    whole: int
    #: Tell the caller that its answer is ready to be given, as the provider's edge does.
    ready: Armed | None = None

    async def arrived(self) -> RawPeer:
        """Wait for the connection."""
        return await self.server.accepted()


# --- What is called with -----------------------------------------------------------------------------------


@asynccontextmanager
async def by_caller(edge: str, fault: Fault, whole: int) -> AsyncIterator[Sent]:
    """Our own caller."""
    caller = Caller(Recorder(), timeout=5, edge=edge)
    async with RawServer() as server:
        flight = _flight(server)
        armed = flight.faults.arm(fault)
        if fault.verb is Verb.LOSE and fault.argument == "before-answer":
            flight.committed = Faults().arm(Fault(Place.PROVIDER_RESPONSE, Verb.HOLD))

        async def fly() -> str:
            await caller.prepare(flight)
            caller.fire([flight])
            await caller.finish(flight)
            return flight.outcome

        async with _running(fly(), server) as done:
            yield Sent(server, armed, done, whole, flight.committed)
        if flight.wire is not None:
            flight.wire.close()


def _flight(server: RawServer) -> Flight:
    built = Built("POST", f"{server.url}/emails", "/emails", [("Content-Type", "application/json")], _BODY, "doctor")
    return Flight("first", built, "doctor", "doctor", server.url)


@asynccontextmanager
async def by_outbox(_: str, fault: Fault, whole: int) -> AsyncIterator[Sent]:
    """The wire on which the API's own events go out."""
    faults = Faults()
    armed = faults.arm(fault)

    async def post() -> str:
        answer: Answer = await wire.post(Crossing(Place.WEBHOOK_REQUEST), {"X-Event": "doctor"}, _BODY)
        return {None: "lost", 200: "answered"}.get(answer.status, str(answer.status))

    async with RawServer() as server:
        wire = WebhookWire(f"{server.url}/hooks", faults, timeout=5)
        async with _running(post(), server) as done:
            yield Sent(server, armed, done, whole)


@asynccontextmanager
async def _running(work: Any, server: RawServer) -> AsyncIterator[asyncio.Task[Any]]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        server.leave()  # what it waits for there does not come any more
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# --- What is seen ------------------------------------------------------------------------------------------


async def _ask(sent: Sent) -> Seen:
    """Look at a fault of the request."""
    fault = sent.armed.fault
    match fault.verb:
        case Verb.HOLD:
            return await _held(sent)
        case Verb.DELAY:
            return await _delayed(sent)
        case Verb.TWICE:
            return await _doubled(sent)
    peer = await sent.arrived()
    end = await peer.over()
    count = int(fault.argument or 0) if fault.verb is Verb.CUT else sent.whole - 1
    wanted = End.FIN if fault.verb is Verb.CLOSE else End.RST
    told = await _told(sent.done)
    return Seen(
        f"{end} after {_of(len(peer.data), sent.whole)}; the caller took it for {told}",
        f"{wanted} after {_of(count, sent.whole)}; the caller took it for lost",
    )


def _of(count: int, whole: int) -> str:
    return f"{size(count)} of {whole}"


async def _told(done: Awaitable[Any]) -> str:
    return str(await done)


async def _first(sent: Sent, within: float) -> RawPeer | None:
    """Return the connection if there is one already: some wires connect before a hold, and some after it."""
    try:
        async with asyncio.timeout(within):
            return await sent.arrived()
    except TimeoutError:
        return None


async def _held(sent: Sent) -> Seen:
    await sent.armed.reached.wait()
    peer = await _first(sent, QUIET)
    if peer is not None:
        await _request(peer, sent.whole - 1)
        await peer.quiet(QUIET)
    held = len(peer.data) if peer is not None else 0
    before = "the request was not whole" if held < sent.whole else "the whole request came"
    sent.armed.gate.set()
    peer = peer or await sent.arrived()
    after = "it came whole" if len(await _request(peer, sent.whole)) == sent.whole else "it never came whole"
    return Seen(f"while it was held {before}; let go: {after}", _HELD)


_HELD = "while it was held the request was not whole; let go: it came whole"


async def _request(peer: RawPeer, whole: int) -> bytes:
    return await peer.until(lambda data: len(data) >= whole)


async def _delayed(sent: Sent) -> Seen:
    begun = time.monotonic()  # nothing has been sent yet, so no delay seems shorter than it is
    peer = await sent.arrived()
    await _request(peer, sent.whole)
    wanted = float(sent.armed.fault.argument or 0)
    whole = "whole" if len(peer.data) == sent.whole else "not whole"
    return Seen(f"{late(time.monotonic() - begun, wanted)}, {whole}", f"{late(wanted, wanted)}, whole")


async def _doubled(sent: Sent) -> Seen:
    peers = [await sent.arrived(), await sent.arrived()]
    requests = [await _request(peer, sent.whole) for peer in peers]
    for peer in peers:
        await peer.send(_HEAD + _TOLD)
    same = "the same bytes" if requests[0] == requests[1] else "other bytes"
    return Seen(
        f"{sum(len(one) == sent.whole for one in requests)} whole requests, {same}", "2 whole requests, the same bytes"
    )


async def _lose(sent: Sent) -> Seen:
    """Look at a fault of the answer: it is given bit by bit, and the caller must leave at its place and no earlier."""
    fault = sent.armed.fault
    peer = await sent.arrived()
    await _request(peer, sent.whole)
    match fault.verb:
        case Verb.HOLD | Verb.DELAY:
            return await _withheld(sent, peer)
        case Verb.ANSWER if fault.place is Place.WEBHOOK_RESPONSE:
            return await _replaced(sent, peer, "lost")
    before, at = _place(fault)
    if before or fault.argument == "before-answer":
        if before:
            await peer.send(before)
        if not await peer.quiet(QUIET):
            raise WrongError(f"{peer.end} after {size(len(before))} of the answer, which is too early")
    if sent.ready is not None:
        sent.ready.fire()
    elif at:
        await peer.send(at)
    end = await peer.over()
    wanted = End.FIN if fault.verb is Verb.CLOSE else End.RST
    place = f"after {size(len(before) + len(at))} of the answer"
    told = await _told(sent.done)
    return Seen(f"{end} {place}; the caller took it for {told}", f"{wanted} {place}; the caller took it for lost")


def _place(fault: Fault) -> tuple[bytes, bytes]:
    """Return the part of an answer at which the caller must still be there, and the one at which it leaves."""
    match fault.verb, fault.argument:
        case Verb.LOSE, "before-answer":
            return b"", b""
        case Verb.LOSE, "in-body":
            return _HEAD, _TOLD[:4]
        case Verb.CUT, count:
            return _HEAD[: int(count or 0) - 1], _HEAD[int(count or 0) - 1 : int(count or 0)]
    return b"", _HEAD[:1]


async def _withheld(sent: Sent, peer: RawPeer) -> Seen:
    """Look at an answer that its caller has and does not get."""
    wanted = float(sent.armed.fault.argument or 0)
    begun = await peer.send(_HEAD + _TOLD)
    await sent.armed.reached.wait()
    if sent.armed.fault.verb is Verb.DELAY:
        told = await _told(sent.done)
        return Seen(f"{late(time.monotonic() - begun, wanted)}: {told}", f"{late(wanted, wanted)}: answered")
    _, pending = await asyncio.wait([sent.done], timeout=QUIET)
    before = "nothing was told" if pending else "something was told"
    sent.armed.gate.set()
    return Seen(
        f"{before} while it was held; let go: {await _told(sent.done)}",
        "nothing was told while it was held; let go: answered",
    )


async def _replaced(sent: Sent, peer: RawPeer, taken_for: str) -> Seen:
    """Look at an ack that was given, and in whose place its sender gets a gateway's answer."""
    await peer.send(_HEAD + _TOLD)
    end = await peer.over()
    return Seen(
        f"{end} after the answer; the sender took it for {await _told(sent.done)}",
        f"{End.FIN} after the answer; the sender took it for {taken_for}",
    )


async def _lost_ack(sent: Sent) -> Seen:
    """Look at an ack that is lost on its way back: the consumer has seen nothing of that."""
    peer = await sent.arrived()
    await _request(peer, sent.whole)
    if sent.armed.fault.verb is Verb.ANSWER:
        return await _replaced(sent, peer, f"{sent.armed.fault.argument}")
    if sent.armed.fault.verb is not Verb.LOSE:
        return await _withheld(sent, peer)
    await peer.send(_HEAD + _TOLD)
    end = await peer.over()
    return Seen(f"{end} after the answer; the API took it for {await _told(sent.done)}", _LOST_ACK)


_LOST_ACK = "FIN after the answer; the API took it for lost"


# --- All of it ---------------------------------------------------------------------------------------------


async def _size_of(opened: Any, edge: str) -> int:
    """Return how long a plain request is."""
    never = Fault(Place(f"{edge}.request"), Verb.HOLD, nth=1_000_000)
    async with opened(edge, never, 0) as sent, deadline():
        peer = await sent.arrived()
        request = await peer.message()
        await peer.send(_HEAD + _TOLD)
        await sent.done
        return len(request)


async def _all(where: str, opened: Any, edge: str, response: Any) -> list[Row]:
    whole = await _size_of(opened, edge)
    looks = {Place(f"{edge}.request"): _ask, Place(f"{edge}.response"): response}

    async def play(fault: Fault, look: Any) -> Seen:
        async with opened(edge, fault, whole) as sent:
            found: Seen = await look(sent)
            return found

    return [await probed(where, str(fault), partial(play, fault, looks[fault.place])) for fault in faults_of(*looks)]


async def by_our_caller() -> list[Row]:
    """Look at our own caller, of a send API and of a webhook endpoint."""
    return [
        *await _all("our caller", by_caller, "client", _lose),
        *await _all("our webhooks", by_caller, "webhook", _lose),
    ]


async def by_the_apis_events() -> list[Row]:
    """Look at the wire on which the API's own events go out."""
    return await _all("the API's events", by_outbox, "webhook", _lost_ack)
