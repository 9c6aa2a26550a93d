"""A fault on the wire to a store is what it is called, seen from both ends of it."""

import asyncio
import socket
import time
from collections.abc import Callable

import pytest

from sendtwice.fake_provider.faults import Place, Verb
from sendtwice.harness.edges.chunks import LONGEST
from tests.harness.edges.wires import REQUEST, RESPONSE, Peer, a_fake_store, a_line, an_edge, run
from tests.servers import free_port

SET, GET, INCR = (f"{words}\r\n".encode() for words in ("SET lock:abc 1 NX", "GET lock:abc", "INCR n"))
Leave = Callable[[Peer], None]
ENDINGS = [(Verb.RESET, "RST"), (Verb.LOSE, "RST"), (Verb.CLOSE, "FIN")]


def test_bytes_pass_both_ways_and_every_message_is_announced() -> None:
    async def play() -> None:
        async with a_line() as line:
            await line.target.send(SET + GET)
            await line.store.get(SET + GET)
            await line.store.send(b"+OK\r\n$1\r\n1\r\n")
            await line.target.get(b"+OK\r\n$1\r\n1\r\n")
            assert line.messages == [
                (">", "SET lock:… ? NX"),
                (">", "GET lock:…"),
                ("<", "OK for SET lock:… ? NX"),
                ("<", "(value) for GET lock:…"),
            ]

    run(play())


@pytest.mark.parametrize(("verb", "ending"), ENDINGS)
def test_a_request_that_is_refused_never_gets_to_the_store(verb: Verb, ending: str) -> None:
    async def play() -> None:
        async with a_line() as line:
            armed = line.arm(REQUEST, verb, message="incr")
            await line.target.send(SET + INCR + GET)
            assert await line.target.end() == (b"", ending)
            assert await line.store.end() == (SET, "FIN")
            assert armed.fired == 1
            assert line.said(">") == ["SET lock:… ? NX", "INCR ?"]

    run(play())


@pytest.mark.parametrize(("verb", "ending"), ENDINGS)
def test_an_answer_that_is_lost_was_given(verb: Verb, ending: str) -> None:
    async def play() -> None:
        async with a_line() as line:
            line.arm(RESPONSE, verb, nth=2)
            await line.target.send(SET + INCR)
            await line.store.get(SET + INCR)
            await line.store.send(b"+OK\r\n:1\r\n")
            assert await line.target.end() == (b"+OK\r\n", ending)
            assert await line.store.end() == (b"", "FIN")

    run(play())


@pytest.mark.parametrize("count", [0, 1, 4, 100])
def test_a_request_is_cut_after_so_many_bytes(count: int) -> None:
    async def play() -> None:
        async with a_line() as line:
            line.arm(REQUEST, Verb.CUT, count, nth=2)
            await line.target.send(SET + INCR + GET)
            assert await line.store.end() == (SET + INCR[:count], "FIN")
            assert await line.target.end() == (b"", "RST")

    run(play())


@pytest.mark.parametrize("count", [0, 1, 4, 100])
def test_an_answer_is_cut_after_so_many_bytes(count: int) -> None:
    async def play() -> None:
        async with a_line() as line:
            line.arm(RESPONSE, Verb.CUT, count, nth=2)
            await line.target.send(SET + INCR + GET)
            await line.store.send(b"+OK\r\n:1\r\n$-1\r\n")
            assert await line.target.end() == (b"+OK\r\n" + b":1\r\n"[:count], "RST")

    run(play())


def test_an_end_does_not_overtake_what_was_passed_on_before() -> None:
    async def play() -> None:
        async with a_line() as line:
            line.arm(RESPONSE, Verb.RESET, nth=2)
            await line.target.send(GET + INCR)
            long = b"$%d\r\n%s\r\n" % (LONGEST // 2, b"x" * (LONGEST // 2))
            await line.store.send(long + b":1\r\n")
            received, ending = await line.target.end()
            assert (len(received), ending) == (len(long), "RST")

    run(play())


def test_a_held_request_keeps_nothing_but_what_comes_behind_it() -> None:
    async def play() -> None:
        async with a_line() as line:
            await line.target.send(GET)
            await line.store.get(GET)
            armed = line.arm(REQUEST, Verb.HOLD, "claim", message="SET")
            await line.target.send(SET + INCR)
            await armed.reached.wait()
            await line.store.send(b"$-1\r\n")
            await line.target.get(b"$-1\r\n")
            target, store = await line.another()
            await target.send(INCR)
            await store.get(INCR)
            assert line.said(">") == ["GET lock:…", "SET lock:… ? NX", "INCR ?"]
            armed.gate.set()
            await line.store.get(SET + INCR)

    run(play())


def test_a_held_answer_keeps_nothing_but_what_comes_behind_it() -> None:
    async def play() -> None:
        async with a_line() as line:
            armed = line.arm(RESPONSE, Verb.HOLD, "claimed", message="OK")
            await line.target.send(SET)
            await line.store.send(b"+OK\r\n")
            await armed.reached.wait()
            await line.target.send(GET)
            await line.store.get(SET + GET)
            target, store = await line.another()
            await target.send(GET)
            await store.send(b"$-1\r\n")
            await target.get(b"$-1\r\n")
            armed.gate.set()
            await line.store.send(b"$-1\r\n")
            await line.target.get(b"+OK\r\n$-1\r\n")

    run(play())


@pytest.mark.parametrize("leave", [Peer.leave, Peer.reset, Peer.end_of_input])
@pytest.mark.parametrize("verb", [Verb.HOLD, Verb.DELAY])
def test_a_held_request_is_dropped_when_the_target_is_gone(verb: Verb, leave: Leave) -> None:
    async def play() -> None:
        async with a_line() as line:
            armed = line.arm(REQUEST, verb, 30 if verb is Verb.DELAY else None, nth=2)
            await line.target.send(SET + INCR)
            await armed.reached.wait()
            leave(line.target)
            assert await line.store.end() == (SET, "FIN")
            armed.gate.set()
            await line.edge.idle()

    run(play())


def test_a_held_answer_is_dropped_when_the_target_is_gone() -> None:
    async def play() -> None:
        async with a_line() as line:
            armed = line.arm(RESPONSE, Verb.HOLD)
            await line.target.send(SET)
            await line.store.send(b"+OK\r\n")
            await armed.reached.wait()
            line.target.leave()
            assert await line.store.end() == (SET, "FIN")

    run(play())


@pytest.mark.parametrize("place", [REQUEST, RESPONSE])
def test_a_delay_is_as_long_as_it_says(place: Place) -> None:
    async def play() -> None:
        async with a_line() as line:
            line.arm(place, Verb.DELAY, 0.1)
            started = time.monotonic()
            await line.target.send(INCR)
            await line.store.get(INCR)
            await line.store.send(b":1\r\n")
            await line.target.get(b":1\r\n")
            assert 0.1 <= time.monotonic() - started < 1

    run(play())


@pytest.mark.parametrize(("verb", "ending"), [*ENDINGS, (Verb.CUT, "RST")])
def test_a_refused_connection_ends_before_any_byte_and_never_gets_to_the_store(verb: Verb, ending: str) -> None:
    async def play() -> None:
        async with a_fake_store() as store, an_edge(store.address, "redis") as seen:
            seen.arm(REQUEST, verb, 0 if verb is Verb.CUT else None, stage="connect", store="db")
            first = await seen.connect()
            assert await first.end() == (b"", ending)
            second = await seen.connect()
            await second.send(SET)
            await (await store.client()).get(SET)  # the first that it has seen

    run(play())


def test_a_held_connection_is_made_when_it_is_released() -> None:
    async def play() -> None:
        async with a_fake_store() as store, an_edge(store.address, "redis") as seen:
            armed = seen.arm(REQUEST, Verb.HOLD, stage="connect")
            target = await seen.connect()
            await target.send(SET)
            await armed.reached.wait()
            assert seen.messages == []
            armed.gate.set()
            await (await store.client()).get(SET)

    run(play())


@pytest.mark.parametrize("leave", [Peer.leave, Peer.reset])
def test_what_a_dead_process_had_sent_and_the_store_not_got_is_never_executed(leave: Leave) -> None:
    async def play() -> None:
        async with a_line() as line:
            other, others_store = await line.another()
            async with line.edge.callers_die():
                await line.target.send(SET)
                await other.send(INCR)
                leave(line.target)
            assert await line.store.end() == (b"", "FIN")
            await others_store.get(INCR)  # who lives on is heard

    run(play())


def test_a_dead_process_may_have_connected_unnoticed() -> None:
    async def play() -> None:
        async with a_fake_store() as store, an_edge(store.address, "redis") as seen:
            async with seen.edge.callers_die():
                host, port = seen.address.split(":")
                with socket.create_connection((host, int(port))) as dead:  # blocks: no turn of the loop in between
                    dead.sendall(SET)
            alive = await seen.connect()
            await alive.send(INCR)
            ends = [await store.client(), await store.client()]
            alive.end_of_input()
            assert sorted([await end.end() for end in ends]) == [(b"", "FIN"), (INCR, "FIN")]

    run(play())


def test_an_end_of_input_passes_and_answers_still_come() -> None:
    async def play() -> None:
        async with a_line() as line:
            await line.target.send(SET)
            line.target.end_of_input()
            assert await line.store.end() == (SET, "FIN")
            await line.store.send(b"+OK\r\n")
            line.store.leave()
            assert await line.target.end() == (b"+OK\r\n", "FIN")

    run(play())


@pytest.mark.parametrize(("leave", "ending"), [(Peer.leave, "FIN"), (Peer.reset, "RST")])
def test_the_stores_end_passes_behind_what_it_said(leave: Leave, ending: str) -> None:
    async def play() -> None:
        async with a_line() as line:
            armed = line.arm(RESPONSE, Verb.HOLD, nth=2)
            await line.target.send(SET + GET)
            await line.store.get(SET + GET)
            await line.store.send(b"+OK\r\n$-1\r\n")
            await armed.reached.wait()
            leave(line.store)
            await line.target.get(b"+OK\r\n")
            armed.gate.set()
            assert await line.target.end() == (b"$-1\r\n", ending)

    run(play())


@pytest.mark.parametrize("by_target", [True, False])
def test_who_does_not_read_makes_the_other_wait_and_memory_is_bounded(*, by_target: bool) -> None:
    async def play() -> None:
        async with a_line("raw") as line:
            await line.target.send(b"x")
            await line.store.get(b"x")
            sender, receiver = (line.target, line.store) if by_target else (line.store, line.target)
            size = 48 * 1024 * 1024
            sending = asyncio.create_task(sender.send(b"x" * size))
            (link,) = line.edge._links
            way, transport = (
                (link.requests, link.target.transport) if by_target else (link.answers, link.store.transport)
            )
            assert transport is not None
            while transport.is_reading() and not sending.done():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
            assert not sending.done()
            sink = way.sink.transport
            assert sink is not None
            assert way._size + sink.get_write_buffer_size() < 2 * 1024 * 1024
            received = 0
            while received < size:
                received += len(await receiver._more())
            await sending

    run(play())


def test_a_long_message_is_not_kept_back_until_its_end() -> None:
    async def play() -> None:
        async with a_line() as line:
            head = b"*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n$%d\r\n" % (4 * LONGEST)
            await line.target.send(head + b"x" * 2 * LONGEST)
            await line.store.get(head + b"x" * LONGEST)
            assert line.messages == [(">", "SET ? …")]
            await line.target.send(b"x" * 2 * LONGEST + b"\r\n" + INCR)
            await line.store.get(b"x" * 3 * LONGEST + b"\r\n" + INCR)
            assert line.messages == [(">", "SET ? …"), (">", "INCR ?")]

    run(play())


def test_a_store_that_is_not_there_ends_the_targets_connection_and_is_complained_of() -> None:
    async def play() -> None:
        port = free_port()
        async with an_edge(f"127.0.0.1:{port}") as seen:
            target = await seen.connect()
            assert await target.end() == (b"", "RST")
            assert await seen.edge.complaint() == (
                f"nothing answers at 127.0.0.1:{port}, the upstream of store 'db' (Connection refused); "
                "start it, or correct target.store.db.upstream"
            )

    run(play())


def test_a_store_that_comes_later_is_not_complained_of() -> None:
    async def play() -> None:
        async with a_fake_store() as store, an_edge(store.address) as seen:
            assert await seen.edge.complaint() is None
        async with an_edge("no-such-host.invalid:5432") as seen:
            assert "no-such-host.invalid:5432" in str(await seen.edge.complaint())
        async with a_line() as line:
            await line.target.send(SET)
            await line.store.get(SET)
            line.upstream.refuse()
            assert await line.edge.complaint() is None  # it was reached once: that it is down is a part of the play

    run(play())


def test_idle_means_that_every_request_has_its_answer() -> None:
    async def play() -> None:
        async with a_line() as line:
            await line.edge.idle()
            await line.target.send(SET + b"BLPOP q 0\r\n")
            await line.store.get(SET)
            idle = asyncio.create_task(line.edge.idle())
            await asyncio.sleep(0)
            assert not idle.done()
            await line.store.send(b"+OK\r\n")
            await idle  # the other waits for an event, which may never come
            held = line.arm(REQUEST, Verb.HOLD)
            await line.target.send(GET)
            await held.reached.wait()
            idle = asyncio.create_task(line.edge.idle())
            await asyncio.sleep(0)
            assert not idle.done()
            line.target.leave()
            await idle

    run(play())


def test_stop_ends_every_connection_and_whatever_is_held() -> None:
    async def play() -> None:
        async with a_fake_store() as store:
            async with an_edge(store.address, "redis") as seen:
                seen.arm(REQUEST, Verb.HOLD)
                target = await seen.connect()
                upstream = await store.client()
                await target.send(SET)
                await seen.edge.stop()
                assert (await target.end())[0] == (await upstream.end())[0] == b""
                await seen.edge.idle()
            assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    run(play())


def test_where_no_protocol_is_known_each_piece_counts() -> None:
    async def play() -> None:
        async with a_line("raw") as line:
            line.arm(REQUEST, Verb.RESET, nth=3)
            await line.target.send(b"\x01\x02")
            await line.store.get(b"\x01\x02")
            await line.store.send(b"\x03")
            await line.target.get(b"\x03")
            await line.target.send(b"\x04")
            await line.store.get(b"\x04")
            await line.target.send(b"\x05")
            assert await line.store.end() == (b"", "FIN")
            assert line.messages == [(">", "segment"), ("<", "segment"), (">", "segment"), (">", "segment")]

    run(play())
