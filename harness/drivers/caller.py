"""Our own HTTP caller, of a send API or of a webhook endpoint. It plays every fault of its wire.

An attempt goes through three stages, so that n of them can leave at the same instant: :meth:`prepare` connects and
sends all but the last byte, :meth:`fire` writes the last bytes of all in one go, :meth:`finish` reads the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import h11

from sendtwice.fake_provider.faults import Armed, Crossing, Fault, Faults, Place, Verb
from sendtwice.harness.drivers.wire import Answer, Wire, decoded, serialise, shown_headers
from sendtwice.harness.history import Kind, Recorder
from sendtwice.harness.requests import Built

#: Seconds between tries to get into a target whose accept queue is full.
_CROWDED = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(slots=True, eq=False)
class Flight:
    """One attempt on its way."""

    name: str
    built: Built
    scenario: str
    operation: str
    url: str
    #: The faults on this attempt's own wire.
    faults: Faults = field(default_factory=Faults)
    #: Set at the provider's edge when this attempt's answer is to be lost before it is given.
    committed: Armed | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: str = "running"
    answer: Answer | None = None
    wire: Wire | None = None
    sent_at: float | None = None
    ended_at: float | None = None
    hung_up: bool = False
    task: asyncio.Task[None] | None = None
    last: bytes = b""
    request_fault: Armed | None = None

    @property
    def ready(self) -> bool:
        """Whether the last byte waits to be written."""
        return self.wire is not None and not self.ended.is_set()


class Caller:
    """Sends requests for operations to a target."""

    def __init__(self, recorder: Recorder, *, timeout: float, tls: Any = None, edge: str = "client") -> None:
        """``timeout``: seconds within which the target answers; ``edge``: ``client``, or ``webhook`` for events."""
        self.recorder, self.timeout, self.tls = recorder, timeout, tls
        self.request, self.response = Place(f"{edge}.request"), Place(f"{edge}.response")

    # -- before the last byte -------------------------------------------------------------------------------------

    async def prepare_all(self, flights: Sequence[Flight]) -> None:
        """Prepare a crowd. A small accept queue resets some of it: those connect again, for nothing was asked yet."""
        for flight in flights:
            await self.prepare(flight)
            for pause in _CROWDED:
                if flight.wire is None or flight.ended.is_set() or flight.request_fault is not None:
                    break
                await flight.wire.flushed()
                if not flight.wire.broken:
                    break
                flight.wire.close()
                await asyncio.sleep(pause)  # for the target to accept what waits; nothing tells when it has
                await self.prepare(flight)

    async def prepare(self, flight: Flight) -> None:
        """Connect and send all but the last byte; faults that keep the request from arriving end it here."""
        armed = flight.faults.meet(Crossing(self.request, None, flight.operation, flight.name))
        flight.request_fault = armed
        built = flight.built
        host = flight.url.split("//", 1)[1].split("/", 1)[0]
        data = serialise(built.method, built.target, host, built.headers, built.body)
        try:
            flight.wire = await Wire.open(flight.url, timeout=self.timeout, tls=self.tls)
        except (OSError, TimeoutError) as error:
            self._end(flight, "unreachable", detail=str(error) or "timed out", never_arrived=True)
            return
        verb = armed.fault.verb if armed else None
        try:
            if verb is Verb.CUT and armed is not None:
                await flight.wire.write(data[: min(int(armed.fault.argument or 0), len(data) - 1)])
            else:
                await flight.wire.write(data[:-1])
            flight.last = data[-1:]
            if verb in (Verb.LOSE, Verb.RESET, Verb.CLOSE, Verb.CUT):
                await flight.wire.flushed()
                flight.wire.close() if verb is Verb.CLOSE else flight.wire.reset()
                self._end(flight, "lost", detail="the request never arrived whole", never_arrived=True)
            elif verb is Verb.ANSWER and armed is not None:
                flight.wire.reset()
                self._end(flight, "lost", detail=f"a gateway answered {armed.fault.argument}", never_arrived=True)
            elif verb is Verb.HOLD and armed is not None:
                await armed.gate.wait()
            elif verb is Verb.DELAY and armed is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(armed.gate.wait(), float(armed.fault.argument or 0))
        except OSError as error:
            flight.wire.close()
            self._end(flight, "broken", detail=str(error))

    def fire(self, flights: Sequence[Flight]) -> float:
        """Write the last bytes without a pause between them; return the spread in microseconds."""
        ready = [f for f in flights if f.ready and f.wire is not None]
        stamps = []
        for flight in ready:
            assert flight.wire is not None
            flight.wire.write_now(flight.last)
            stamps.append(self.recorder.now())
        for flight, stamp in zip(ready, stamps, strict=True):
            flight.sent_at = stamp
            self.recorder.record(
                Kind(self.request),
                scenario=flight.scenario,
                operation=flight.operation,
                attempt=flight.name,
                method=flight.built.method,
                url=flight.built.url,
                headers=shown_headers(flight.built.headers),
                body=decoded(flight.built.body),
            )
        return (max(stamps) - min(stamps)) * 1e6 if stamps else 0.0

    # -- after it -----------------------------------------------------------------------------------------------

    async def finish(self, flight: Flight) -> None:
        """Read the answer, or lose it as the scenario says."""
        if not flight.ready or flight.wire is None:
            return
        wire = flight.wire
        armed = flight.request_fault
        copy: asyncio.Task[None] | None = None
        if armed is not None and armed.fault.verb is Verb.TWICE:
            copy = asyncio.ensure_future(self._send_copy(flight))
        fault = self._response_fault(flight)
        if fault is not None and fault.fault.verb is Verb.CUT:
            wire.stop_after = int(fault.fault.argument or 0)
        reading = asyncio.ensure_future(wire.answer(flight.built.method))
        try:
            async with asyncio.timeout(self.timeout):
                if fault is not None and await self._lost(flight, wire, reading, fault):
                    return
                answer = await reading
        except TimeoutError:
            wire.reset()
            self._end(flight, "timed-out", detail=f"no answer within {self.timeout:g} s")
        except h11.RemoteProtocolError as error:
            wire.reset()
            self._end(flight, "garbage", detail=str(error))
        except (OSError, EOFError) as error:
            self._end(flight, "hung-up" if flight.hung_up else "broken", detail=str(error))
        else:
            await self._withheld(flight, fault)
            wire.close()
            gateway = self._gateway(fault.fault) if fault is not None else None
            if gateway is not None:
                self._end(flight, "lost", detail=f"a gateway answered {gateway} for the target's {answer.status}")
            else:
                self._answered(flight, answer)
        finally:
            reading.cancel()
            wire.close()
            if copy is not None:
                await copy

    def _response_fault(self, flight: Flight) -> Armed | None:
        """Return the fault that waits for this answer, without calling it fired before there is one."""
        crossing = Crossing(self.response, None, flight.operation, flight.name)
        return flight.faults.peek(crossing)

    async def _lost(self, flight: Flight, wire: Wire, reading: asyncio.Task[Answer], armed: Armed) -> bool:
        """Wait for the place where the answer is lost, and lose it; False when this fault loses nothing."""
        fault = armed.fault
        where = fault.argument
        if fault.verb in (Verb.HOLD, Verb.DELAY) or self._gateway(fault) is not None:
            return False
        if fault.verb is Verb.LOSE and where in (None, "before-answer"):
            waits: list[Callable[[], Awaitable[Any]]] = [wire.first_byte.wait]
            if flight.committed is not None:
                waits.append(flight.committed.reached.wait)
        elif fault.verb is Verb.CUT or where == "in-body":
            waits = [wire.in_body.wait]
        else:
            waits = [wire.first_byte.wait]
        tasks = [asyncio.ensure_future(wait()) for wait in waits]
        try:
            await asyncio.wait([*tasks, reading], return_when=asyncio.FIRST_COMPLETED)
            if not any(task.done() for task in tasks):
                await reading  # it broke off by itself: let the caller see why
        finally:
            for task in tasks:
                task.cancel()
        place = "before-answer" if not wire.first_byte.is_set() else str(where or "first-byte")
        flight.faults.meet(Crossing(self.response, None, flight.operation, flight.name))
        wire.close() if fault.verb is Verb.CLOSE else wire.reset()
        self._end(flight, "lost", detail=f"the caller went away at {place}")
        if flight.committed is not None:
            flight.committed.gate.set()
        return True

    @staticmethod
    def _gateway(fault: Fault) -> int | None:
        """Return what a gateway in front of a consumer tells the sender, though the consumer has answered."""
        if fault.verb is not Verb.ANSWER or fault.place is not Place.WEBHOOK_RESPONSE:
            return None
        return int(fault.argument or 502)

    async def _withheld(self, flight: Flight, armed: Armed | None) -> None:
        if armed is None:
            return
        flight.faults.meet(Crossing(self.response, None, armed.fault.operation, armed.fault.attempt))
        if armed.fault.verb is Verb.HOLD:
            await armed.gate.wait()
        elif armed.fault.verb is Verb.DELAY:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(armed.gate.wait(), float(armed.fault.argument or 0))

    async def _send_copy(self, flight: Flight) -> None:
        """Send the same bytes on a second connection, as a proxy that repeats a request; nobody reads its answer."""
        host = flight.url.split("//", 1)[1].split("/", 1)[0]
        built = flight.built
        with contextlib.suppress(OSError, TimeoutError, h11.RemoteProtocolError):
            wire = await Wire.open(flight.url, timeout=self.timeout, tls=self.tls)
            try:
                await wire.write(serialise(built.method, built.target, host, built.headers, built.body))
                async with asyncio.timeout(self.timeout):
                    await wire.answer(built.method)
            finally:
                wire.close()

    def hang_up(self, flight: Flight) -> None:
        """The caller of an attempt in flight goes away."""
        if flight.wire is not None and not flight.ended.is_set():
            flight.hung_up = True
            flight.wire.reset()
            self._end(flight, "hung-up", detail="the caller reset the connection")

    # -- the end --------------------------------------------------------------------------------------------------

    def _answered(self, flight: Flight, answer: Answer) -> None:
        flight.answer = answer
        self._end(
            flight,
            "answered",
            status=answer.status,
            headers=answer.headers,
            body=decoded(answer.body),
            size=answer.size,
        )

    def _end(self, flight: Flight, outcome: str, **data: Any) -> None:
        if flight.ended.is_set():
            return
        flight.outcome, flight.ended_at = outcome, self.recorder.now()
        self.recorder.record(
            Kind.ENDED,
            scenario=flight.scenario,
            operation=flight.operation,
            attempt=flight.name,
            outcome=outcome,
            **data,
        )
        flight.ended.set()
