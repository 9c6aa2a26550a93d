"""A fault is what it is called: looked at from the other end of a raw socket."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import time
from typing import Any

import pytest

from sendtwice.fake_provider.faults import Fault, Place, Verb
from sendtwice.fake_provider.http_messages import MAX_BODY
from sendtwice.fake_provider.sockets import unsent
from tests.fake_provider.kit import Wire, body_for, message, provider, run

REQUEST, RESPONSE = Place.PROVIDER_REQUEST, Place.PROVIDER_RESPONSE


@pytest.mark.parametrize(
    ("place", "verb", "ending", "commits"),
    [
        (REQUEST, Verb.RESET, "rst", 0),
        (REQUEST, Verb.LOSE, "rst", 0),
        (REQUEST, Verb.CLOSE, "fin", 0),
        (RESPONSE, Verb.RESET, "rst", 1),
        (RESPONSE, Verb.LOSE, "rst", 1),
        (RESPONSE, Verb.CLOSE, "fin", 1),
    ],
)
def test_an_ending_is_the_one_that_was_asked_for(place: Place, verb: Verb, ending: str, commits: int) -> None:
    async def play() -> None:
        async with provider() as fake:
            armed = fake.faults.arm(Fault(place, verb))
            wire = await Wire.to(fake)
            await wire.send(message())
            assert await wire.rest() == (b"", ending)
            assert fake.ledger.commits == commits
            assert armed.fired == 1
            wire.close()

    run(play())


@pytest.mark.parametrize("count", [0, 1, 17, 60])
def test_a_cut_sends_exactly_so_many_bytes_and_then_a_reset(count: int) -> None:
    async def play() -> None:
        async with provider() as fake:
            whole = await Wire.to(fake)
            await whole.send(message(Connection="close"))
            complete, _ = await whole.rest()
            fake.faults.arm(Fault(RESPONSE, Verb.CUT, count))
            wire = await Wire.to(fake)
            await wire.send(message(Connection="close"))
            data, ending = await wire.rest()
            assert (len(data), ending) == (count, "rst")
            # The id of the message differs; all before it is the same.
            assert data[:60] == complete[:count][:60]
            assert fake.ledger.commits == 2
            whole.close()
            wire.close()

    run(play())


def test_an_answer_lost_in_its_body_has_a_whole_head_and_half_a_body() -> None:
    async def play() -> None:
        async with provider() as fake:
            fake.faults.arm(Fault(RESPONSE, Verb.LOSE, "in-body"))
            wire = await Wire.to(fake)
            await wire.send(message())
            data, ending = await wire.rest()
            head, _, body = data.partition(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            assert ending == "rst"
            assert 0 < len(body) < length
            assert fake.ledger.commits == 1
            wire.close()

    run(play())


def test_an_answer_lost_at_its_first_byte_is_one_byte_and_a_reset() -> None:
    async def play() -> None:
        async with provider() as fake:
            fake.faults.arm(Fault(RESPONSE, Verb.LOSE, "first-byte"))
            wire = await Wire.to(fake)
            await wire.send(message())
            assert await wire.rest() == (b"H", "rst")
            assert fake.ledger.commits == 1
            wire.close()

    run(play())


def test_an_answer_lost_in_its_chunks_has_half_a_body_and_no_last_chunk() -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            fake.faults.arm(Fault(Place.CLIENT_RESPONSE, Verb.LOSE, "in-chunks"))
            wire = await Wire.to(fake)
            await wire.send(message())
            data, ending = await wire.rest()
            head, _, chunk = data.partition(b"\r\n\r\n")
            assert (head[:13], ending) == (b"HTTP/1.1 200 ", "rst")
            assert b"transfer-encoding: chunked" in head.lower()
            assert b"content-length" not in head.lower()
            size, _, body = chunk.partition(b"\r\n")
            assert body.startswith(b'{"id":')
            assert len(body) == int(size, 16) + len(b"\r\n")
            assert fake.ledger.commits == 1
            wire.close()

    run(play())


def test_a_connection_can_end_right_after_a_whole_answer_that_promised_to_keep_it() -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            fake.faults.arm(Fault(Place.CLIENT_RESPONSE, Verb.CLOSE, "after-answer"))
            wire = await Wire.to(fake)
            await wire.send(message())
            data, ending = await wire.rest()
            head, _, body = data.partition(b"\r\n\r\n")
            assert (json.loads(body).keys(), ending) == ({"id"}, "fin")
            assert b"connection:" not in head.lower()
            assert fake.ledger.commits == 1
            # The whole answer was given, and the attempt says so.
            (attempt,) = fake.control.attempts.since(0)
            assert (attempt.status, attempt.sent) == (200, True)
            wire.close()

    run(play())


def test_an_answer_that_drips_comes_bit_by_bit_in_its_time_and_whole() -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            fake.faults.arm(Fault(Place.CLIENT_RESPONSE, Verb.DRIP, 0.3))
            wire = await Wire.to(fake)
            begun = time.monotonic()
            await wire.send(message())
            data, times = b"", []
            while not data.endswith(b"}"):
                data += await wire.recv()
                times.append(time.monotonic() - begun)
            assert fake.ledger.commits == 1
            assert len(times) >= 5  # pieces that come at once are read at once on a busy machine
            assert times[0] < 0.3 <= times[-1]
            # The connection goes on, and the next answer comes at once.
            await wire.send(message())
            assert (await wire.answer())[0] == 200
            wire.close()

    run(play())


def test_who_does_not_wait_for_the_end_of_a_drip_was_not_answered() -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            fake.faults.arm(Fault(Place.CLIENT_RESPONSE, Verb.DRIP, 0.2))
            wire = await Wire.to(fake)
            await wire.send(message())
            assert (await wire.recv())[:1] == b"H"
            wire.close()
            await fake.endpoint.idle()
            (attempt,) = fake.control.attempts.since(0)
            assert (attempt.status, attempt.sent, fake.ledger.commits) == (200, False, 1)

    run(play())


def test_a_request_that_is_cut_on_its_way_to_the_api_has_no_effect() -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            armed = fake.faults.arm(Fault(Place.CLIENT_REQUEST, Verb.CUT, 40))
            wire = await Wire.to(fake)
            await wire.send(message())
            assert await wire.rest() == (b"", "rst")
            assert (fake.ledger.commits, armed.fired) == (0, 1)
            wire.close()

    run(play())


@pytest.mark.parametrize("framing", ["length", "chunks", "length that waits"])
def test_a_body_that_is_too_long_is_refused_with_words(framing: str) -> None:
    """Also while its sender is still sending: an end in the middle of that would hide the answer."""

    async def play() -> None:
        async with provider() as fake:
            wire, size = await Wire.to(fake), MAX_BODY + 100_000
            fields = b"Transfer-Encoding: chunked" if framing == "chunks" else b"Content-Length: %d" % size
            if framing == "length that waits":
                fields += b"\r\nExpect: 100-continue"
            await wire.send(b"POST /emails HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n\r\n")
            if framing == "chunks":
                await wire.send(b"%x\r\n" % size)
            if framing != "length that waits":
                await wire.send(b"x" * size)
            status, body = await wire.answer()
            assert (status, json.loads(body)) == (413, {"error": "sendtwice takes bodies of at most 32 MiB"})
            assert fake.ledger.commits == 0
            wire.close()

    run(play())


@pytest.mark.parametrize(
    ("place", "what", "status", "commits"),
    [
        (REQUEST, 503, 503, 0),
        (REQUEST, "refused", 422, 0),
        (RESPONSE, "unknown", 504, 1),
        (RESPONSE, 504, 504, 1),
    ],
)
def test_another_answer_replaces_the_effect_or_hides_it(
    place: Place, what: str | int, status: int, commits: int
) -> None:
    async def play() -> None:
        async with provider() as fake:
            fake.faults.arm(Fault(place, Verb.ANSWER, what))
            wire = await Wire.to(fake)
            await wire.send(message())
            assert (await wire.answer())[0] == status
            assert fake.ledger.commits == commits
            # The connection goes on, and so does the next message.
            await wire.send(message())
            assert (await wire.answer())[0] == 200
            assert fake.ledger.commits == commits + 1
            wire.close()

    run(play())


@pytest.mark.parametrize(("place", "commits"), [(REQUEST, 0), (RESPONSE, 1)])
def test_a_delay_is_waited_before_or_after_the_commit(place: Place, commits: int) -> None:
    async def play() -> None:
        async with provider() as fake:
            armed = fake.faults.arm(Fault(place, Verb.DELAY, 0.2))
            wire = await Wire.to(fake)
            begun = time.monotonic()
            await wire.send(message())
            await armed.reached.wait()
            assert fake.ledger.commits == commits
            assert (await wire.answer())[0] == 200
            assert time.monotonic() - begun >= 0.2
            assert fake.ledger.commits == 1
            wire.close()

    run(play())


@pytest.mark.parametrize(("place", "commits"), [(REQUEST, 0), (RESPONSE, 1)])
def test_a_hold_keeps_its_window_open_until_it_is_released(place: Place, commits: int) -> None:
    async def play() -> None:
        async with provider() as fake:
            armed = fake.faults.arm(Fault(place, Verb.HOLD))
            wire = await Wire.to(fake)
            await wire.send(message())
            await armed.reached.wait()
            assert fake.ledger.commits == commits
            with pytest.raises(BlockingIOError):
                wire.sock.recv(1)
            armed.gate.set()
            assert (await wire.answer())[0] == 200
            assert fake.ledger.commits == 1
            wire.close()

    run(play())


@pytest.mark.parametrize(("verb", "ending"), [(Verb.RESET, "rst"), (Verb.CLOSE, "fin")])
def test_a_connection_can_end_before_anything_is_sent(verb: Verb, ending: str) -> None:
    async def play() -> None:
        async with provider() as fake:
            fake.faults.arm(Fault(REQUEST, verb, stage="connect"))
            wire = await Wire.to(fake)
            assert await wire.rest() == (b"", ending)
            wire.close()

    run(play())


def test_a_connection_can_end_after_the_head_and_before_the_body() -> None:
    async def play() -> None:
        async with provider() as fake:
            fake.faults.arm(Fault(REQUEST, Verb.RESET, stage="headers"))
            wire = await Wire.to(fake)
            head, _, body = message().partition(b"\r\n\r\n")
            await wire.send(head + b"\r\n\r\n" + body[:5])
            assert await wire.rest() == (b"", "rst")
            assert fake.ledger.commits == 0
            wire.close()

    run(play())


def test_a_bare_status_can_answer_a_head() -> None:
    async def play() -> None:
        async with provider() as fake:
            fake.faults.arm(Fault(REQUEST, Verb.ANSWER, 503, stage="headers"))
            wire = await Wire.to(fake)
            await wire.send(message().partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
            data, _ = await wire.rest()
            assert data.startswith(b"HTTP/1.1 503 ")
            assert fake.ledger.commits == 0
            wire.close()

    run(play())


def test_a_delivery_can_be_read_before_the_first_byte_of_its_answer() -> None:
    async def play() -> None:
        async with provider() as fake:
            wire = await Wire.to(fake)
            for number in range(1, 20):
                await wire.send(message())
                first = await wire.recv(1)
                assert first
                assert fake.ledger.commits == number
                await wire.recv()
            wire.close()

    run(play())


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_caller_that_hangs_up_while_it_is_held_does_not_undo_the_send(how: str) -> None:
    async def play() -> None:
        async with provider() as fake:
            armed = fake.faults.arm(Fault(REQUEST, Verb.HOLD))
            wire = await Wire.to(fake)
            await wire.send(message())
            await armed.reached.wait()
            if how == "rst":
                wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.close()
            armed.gate.set()
            assert await fake.ledger.wait(lambda: fake.ledger.commits == 1, timeout=5)

    run(play())


CALLER = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(bytes.fromhex(sys.argv[2]))
print("sent", flush=True)
s.recv(1)
"""


async def caller(port: int, body: dict[str, Any]) -> asyncio.subprocess.Process:
    """Another process, which has sent its message and waits for the answer."""
    arguments = (sys.executable, "-c", CALLER, str(port), message(body).hex())
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"sent\n"
    return process


LIVING, DEAD = body_for("generic", subject="of the living"), body_for("generic", subject="of the dead")


def test_what_a_killed_process_had_sent_is_discarded_and_nobody_elses() -> None:
    async def play() -> None:
        async with provider() as fake:
            holds = [fake.faults.arm(Fault(REQUEST, Verb.HOLD, nth=nth)) for nth in (1, 2)]
            other = await Wire.to(fake)
            await other.send(message(LIVING))
            await holds[0].reached.wait()
            process = await caller(fake.port, DEAD)
            await holds[1].reached.wait()
            async with fake.endpoint.callers_die():
                process.kill()
                await process.wait()
            for hold in holds:
                hold.gate.set()
            assert (await other.answer())[0] == 200
            await fake.endpoint.idle()
            assert [delivery.mail.subject for delivery in fake.ledger.deliveries] == ["of the living"]
            other.close()

    run(play())


def test_a_message_that_was_sent_in_the_moment_of_the_death_is_discarded_too() -> None:
    async def play() -> None:
        async with provider() as fake:
            other = await Wire.to(fake)
            async with fake.endpoint.callers_die():
                process = await caller(fake.port, DEAD)
                await other.send(message(LIVING))
                process.kill()
                await process.wait()
            assert (await other.answer())[0] == 200
            await fake.endpoint.idle()
            assert [delivery.mail.subject for delivery in fake.ledger.deliveries] == ["of the living"]
            other.close()

    run(play())


def test_what_was_sent_behind_the_loops_back_before_the_death_is_discarded() -> None:
    """Connected, sent and dead before this loop has even accepted the connection."""

    async def play() -> None:
        async with provider() as fake:
            async with fake.endpoint.callers_die():
                for _ in range(20):
                    with socket.create_connection(("127.0.0.1", fake.port)) as sock:
                        sock.sendall(message(DEAD))
            await fake.endpoint.idle()
            wire = await Wire.to(fake)
            await wire.send(message(LIVING))
            await wire.answer()
            assert [delivery.mail.subject for delivery in fake.ledger.deliveries] == ["of the living"]
            wire.close()

    run(play())


def test_who_sends_on_and_on_without_an_answer_has_to_wait() -> None:
    """What comes while a message is held is not all kept in memory, and none of it is lost."""

    async def play() -> None:
        async with provider() as fake:
            hold = fake.faults.arm(Fault(REQUEST, Verb.HOLD))
            wire, count = await Wire.to(fake), 40
            sending = asyncio.create_task(wire.send(message(body_for("generic", text="x" * 400_000)) * count))
            await hold.reached.wait()
            (connection,) = fake.endpoint._connections
            while connection._transport.is_reading():
                await asyncio.sleep(0)
            assert connection.messages.unread < 3_000_000
            hold.gate.set()
            answers = b""
            while answers.count(b"HTTP/1.1 200 ") < count:
                answers += await wire.recv()
            await sending
            assert fake.ledger.commits == count
            wire.close()

    run(play())


def test_a_fault_hits_the_crossings_that_it_names() -> None:
    async def play() -> None:
        async with provider("resend") as fake:
            second = fake.faults.arm(Fault(REQUEST, Verb.ANSWER, 503, key="k", nth=2, times=2))
            to_bob = fake.faults.arm(Fault(REQUEST, Verb.ANSWER, 429, to="bob@example.test"))
            wire = await Wire.to(fake)
            seen = []
            for key in ("k", "x", "k", "k", "k"):
                await wire.send(message(Idempotency_Key=key))
                seen.append((await wire.answer())[0])
            assert seen == [200, 200, 503, 503, 200]
            await wire.send(message(body_for("resend", to="bob@example.test")))
            assert (await wire.answer())[0] == 429
            assert (second.met, second.fired, to_bob.fired) == (4, 2, 1)
            wire.close()

    run(play())


@pytest.mark.parametrize(
    "data",
    [b"GET //[ HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"[" * 100_000],
    ids=["odd target", "no HTTP", "no end"],
)
def test_nonsense_harms_nobody_else(data: bytes) -> None:
    async def play() -> None:
        async with provider() as fake:
            odd, plain = await Wire.to(fake), await Wire.to(fake)
            await odd.send(data)
            await plain.send(message())
            assert (await plain.answer())[0] == 200
            odd.close()
            plain.close()

    run(play())


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    async def play() -> None:
        async with provider() as fake:
            wire = await Wire.to(fake)
            body = b"[" * 50_000
            await wire.send(b"POST /emails HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert (await wire.answer())[0] == 422
            wire.close()

    run(play())


def test_a_socket_that_is_closed_has_nothing_unsent() -> None:
    one, other = socket.socketpair()
    one.close()
    other.close()
    assert unsent(one) == 0
