"""The caller does on the wire what its faults are called: bytes, FIN or RST, and the same instant."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sendtwice.fake_provider.faults import Fault, Faults, Place, Verb
from sendtwice.harness.drivers.caller import Caller, Flight
from sendtwice.harness.history import Kind, Recorder
from sendtwice.harness.requests import Built

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"id": "a"}'
BODY = b'{"to": "a@x.test"}'


@dataclass
class Seen:
    """What the server's side of one connection saw."""

    data: bytes = b""
    end: str = "open"
    at: float = 0.0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def whole(self) -> bool:
        return self.data.endswith(BODY)


@asynccontextmanager
async def server(answer: bytes = ANSWER, *, hold: asyncio.Event | None = None) -> AsyncIterator[tuple[str, list[Seen]]]:
    """A raw server that notes every byte, and how each connection ended."""
    seen: list[Seen] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = Seen()
        seen.append(mine)
        answered = False
        try:
            while data := await reader.read(65536):
                mine.data += data
                if mine.whole and not answered:
                    answered = True
                    mine.at = asyncio.get_running_loop().time()
                    if hold is not None:
                        await hold.wait()
                    writer.write(answer)
            mine.end = "FIN"
        except ConnectionResetError:
            mine.end = "RST"
        finally:
            mine.over.set()
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", seen
    finally:
        listening.close()
        await asyncio.sleep(0)


def flight(url: str, *faults: Fault, name: str = "first") -> Flight:
    built = Built("POST", f"{url}/emails", "/emails", [("Content-Type", "application/json")], BODY, "c")
    board = Faults()
    for fault in faults:
        board.arm(fault)
    return Flight(name, built, "a.scenario", "op", url, faults=board)


def caller(timeout: float = 5) -> tuple[Caller, Recorder]:
    recorder = Recorder()
    return Caller(recorder, timeout=timeout), recorder


async def send(caller_: Caller, flight_: Flight) -> Flight:
    await caller_.prepare(flight_)
    caller_.fire([flight_])
    await caller_.finish(flight_)
    return flight_


def play(main: Callable[[], Any]) -> None:
    asyncio.run(main())


def test_a_plain_request_arrives_whole_and_its_answer_is_read() -> None:
    async def main() -> None:
        async with server() as (url, seen):
            caller_, _ = caller()
            done = await send(caller_, flight(url))
            assert (done.outcome, done.answer and done.answer.status) == ("answered", 200)
            assert seen[0].whole

    play(main)


def test_a_lost_request_is_an_rst_before_its_last_byte() -> None:
    async def main() -> None:
        async with server() as (url, seen):
            caller_, _ = caller()
            done = await send(caller_, flight(url, Fault(Place.CLIENT_REQUEST, Verb.LOSE, attempt="first")))
            await seen[0].over.wait()
            assert done.outcome == "lost"
            assert (seen[0].end, seen[0].whole) == ("RST", False)
            assert seen[0].data.endswith(BODY[:-1])

    play(main)


def test_a_closed_request_is_a_fin() -> None:
    async def main() -> None:
        async with server() as (url, seen):
            caller_, _ = caller()
            await send(caller_, flight(url, Fault(Place.CLIENT_REQUEST, Verb.CLOSE, attempt="first")))
            await seen[0].over.wait()
            assert (seen[0].end, seen[0].whole) == ("FIN", False)

    play(main)


def test_a_cut_request_is_exactly_so_many_bytes() -> None:
    async def main() -> None:
        async with server() as (url, seen):
            caller_, _ = caller()
            await send(caller_, flight(url, Fault(Place.CLIENT_REQUEST, Verb.CUT, 17, attempt="first")))
            await seen[0].over.wait()
            assert (seen[0].end, len(seen[0].data)) == ("RST", 17)

    play(main)


def test_an_answer_lost_at_its_first_byte_is_reset_after_the_server_answered() -> None:
    async def main() -> None:
        async with server() as (url, seen):
            caller_, _ = caller()
            done = await send(
                caller_, flight(url, Fault(Place.CLIENT_RESPONSE, Verb.LOSE, "first-byte", attempt="first"))
            )
            await seen[0].over.wait()
            assert (done.outcome, done.answer) == ("lost", None)
            assert (seen[0].end, seen[0].whole) == ("RST", True)

    play(main)


def test_an_answer_lost_before_it_is_given_is_reset_when_the_provider_has_committed() -> None:
    async def main() -> None:
        never = asyncio.Event()
        async with server(hold=never) as (url, seen):
            caller_, _ = caller()
            lost = flight(url, Fault(Place.CLIENT_RESPONSE, Verb.LOSE, attempt="first"))
            lost.committed = Faults().arm(Fault(Place.PROVIDER_RESPONSE, Verb.HOLD))
            task = asyncio.ensure_future(send(caller_, lost))
            while not (seen and seen[0].whole):
                await asyncio.sleep(0)
            assert not lost.ended.is_set()
            lost.committed.fire()
            await task
            assert lost.outcome == "lost"
            assert lost.committed.gate.is_set()
            never.set()
            await seen[0].over.wait()
            assert seen[0].end == "RST"

    play(main)


def test_a_cut_answer_is_read_for_exactly_so_many_bytes() -> None:
    async def main() -> None:
        async with server() as (url, _):
            caller_, _ = caller()
            done = await send(caller_, flight(url, Fault(Place.CLIENT_RESPONSE, Verb.CUT, 20, attempt="first")))
            assert done.outcome == "lost"
            assert done.wire is not None
            assert done.wire.received == 20

    play(main)


def test_a_doubled_request_arrives_twice_in_the_same_bytes() -> None:
    async def main() -> None:
        async with server() as (url, seen):
            caller_, _ = caller()
            await send(caller_, flight(url, Fault(Place.CLIENT_REQUEST, Verb.TWICE, attempt="first")))
            assert len(seen) == 2
            assert seen[0].data == seen[1].data

    play(main)


def test_a_hang_up_is_an_rst_while_the_server_works() -> None:
    async def main() -> None:
        never = asyncio.Event()
        async with server(hold=never) as (url, seen):
            caller_, _ = caller()
            mine = flight(url)
            task = asyncio.ensure_future(send(caller_, mine))
            while not (seen and seen[0].whole):
                await asyncio.sleep(0)
            caller_.hang_up(mine)
            await task
            never.set()
            await seen[0].over.wait()
            assert (mine.outcome, seen[0].end) == ("hung-up", "RST")

    play(main)


def test_twenty_requests_leave_at_the_same_instant() -> None:
    async def main() -> None:
        async with server() as (url, seen):
            caller_, recorder = caller()
            flights = [flight(url, name=f"copy.{i}") for i in range(20)]
            await asyncio.gather(*(caller_.prepare(f) for f in flights))
            while len(seen) < 20 or not all(s.data.endswith(BODY[:-1]) for s in seen):
                await asyncio.sleep(0)
            assert not any(s.whole for s in seen)  # nobody is early
            caller_.fire(flights)
            await asyncio.gather(*(caller_.finish(f) for f in flights))
            assert all(f.outcome == "answered" for f in flights)
            sent = [e.seq for e in recorder.events if e.kind is Kind.CLIENT_REQUEST]
            ended = [e.seq for e in recorder.events if e.kind is Kind.ENDED]
            assert max(sent) < min(ended)

    play(main)


def test_what_is_no_http_is_called_garbage() -> None:
    async def main() -> None:
        async with server(b"SSH-2.0-x\r\n\r\n") as (url, _):
            caller_, _ = caller()
            assert (await send(caller_, flight(url))).outcome == "garbage"

    play(main)


def test_an_answer_that_breaks_off_is_called_broken() -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(BODY)
            writer.write(ANSWER[:-4])
            writer.close()

        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        caller_, _ = caller()
        port = listening.sockets[0].getsockname()[1]
        done = await send(caller_, flight(f"http://127.0.0.1:{port}"))
        assert done.outcome == "broken"
        listening.close()

    play(main)


def test_a_silent_server_times_out() -> None:
    async def main() -> None:
        never = asyncio.Event()
        async with server(hold=never) as (url, _):
            caller_, _ = caller(timeout=0.2)
            assert (await send(caller_, flight(url))).outcome == "timed-out"
            never.set()

    play(main)


def test_nobody_listening_is_called_unreachable() -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            caller_, _ = caller()
            done = await send(caller_, flight(f"http://127.0.0.1:{taken.getsockname()[1]}"))
            assert done.outcome == "unreachable"

    play(main)
