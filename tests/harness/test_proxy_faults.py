"""Every fault at both crossings of a proxy: looked at from the caller's side, and from the upstream's."""

from __future__ import annotations

import asyncio
import gzip
import time

import pytest

from sendtwice.fake_provider.faults import Fault, Place, Verb
from sendtwice.harness.doctor.answers import in_words
from sendtwice.harness.doctor.peers import RawServer, status
from tests.fake_provider.kit import body_for, message, provider, run
from tests.harness.proxies import ANSWER, Api, answer_of, ask, attempts, control, proxy, request_of, through, to

REQUEST, RESPONSE = Place.CLIENT_REQUEST, Place.CLIENT_RESPONSE
IN_CHUNKS = b'HTTP/1.1 200 \r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{"id":\r\n'
#: Answers of an upstream that are no plain JSON with a length.
CHUNKS = answer_of(
    b'6\r\n{"id":\r\n5\r\n "a"}\r\n0\r\nX-Sum: 1\r\n\r\n', "Transfer-Encoding: chunked", "Trailer: X-Sum"
)
PACKED = gzip.compress(b'{"id": "a"}', mtime=0)
ZIPPED = answer_of(PACKED, "content-encoding: gzip", f"Content-Length: {len(PACKED)}", "Via: a", "Via: b")


@pytest.mark.parametrize(
    ("place", "verb", "argument", "end", "given", "arrived"),
    [
        (REQUEST, Verb.LOSE, None, "RST", b"", 0),
        (REQUEST, Verb.RESET, None, "RST", b"", 0),
        (REQUEST, Verb.CLOSE, None, "FIN", b"", 0),
        (RESPONSE, Verb.LOSE, None, "RST", b"", 1),
        (RESPONSE, Verb.LOSE, "before-answer", "RST", b"", 1),
        (RESPONSE, Verb.LOSE, "first-byte", "RST", ANSWER[:1], 1),
        (RESPONSE, Verb.LOSE, "in-body", "RST", ANSWER[:-6], 1),
        (RESPONSE, Verb.LOSE, "in-chunks", "RST", IN_CHUNKS, 1),
        (RESPONSE, Verb.RESET, None, "RST", b"", 1),
        (RESPONSE, Verb.CLOSE, None, "FIN", b"", 1),
        (RESPONSE, Verb.CUT, 0, "RST", b"", 1),
        (RESPONSE, Verb.CUT, 17, "RST", ANSWER[:17], 1),
        (RESPONSE, Verb.CUT, 10_000, "RST", ANSWER, 1),
    ],
)
def test_an_ending_is_the_one_that_was_asked_for(
    place: Place, verb: Verb, argument: str | int | None, end: str, given: bytes, arrived: int
) -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            standing.faults.arm(Fault(place, verb, argument))
            caller = await to(standing)
            await caller.send(request_of(key="k"))
            assert (await caller.over(), caller.data) == (end, given)
            caller.close()
            assert len(api.requests) == arrived
            (attempt,) = await attempts(standing)
            done = f"{place}: {verb}" + (f" {argument}" if argument is not None else "")
            assert (attempt["faults"], len(attempt["forwarded"]), attempt["sent"]) == ([done], arrived, False)
            # The fault was for one; the retry goes through.
            assert await ask(standing, request_of(key="k")) == ANSWER

    run(play())


@pytest.mark.parametrize("count", [0, 1, 40, 10_000])
def test_a_request_that_is_cut_arrives_for_so_many_bytes_and_never_whole(count: int) -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server, keep_host=True) as standing:
            standing.faults.arm(Fault(REQUEST, Verb.CUT, count))
            caller, asked = await to(standing), request_of(b"0123456789")
            await caller.send(asked)
            peer = await server.accepted()
            assert await peer.over() == "RST"
            assert peer.data == asked[: min(count, len(asked) - 1)]
            assert (await caller.over(), caller.data) == ("RST", b"")
            caller.close()

    run(play())


@pytest.mark.parametrize(("place", "arrived"), [(REQUEST, 0), (RESPONSE, 1)])
def test_a_hold_keeps_its_window_open_until_it_is_released(place: Place, arrived: int) -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            armed = standing.faults.arm(Fault(place, Verb.HOLD))
            caller = await to(standing)
            await caller.send(request_of())
            await armed.reached.wait()
            assert await caller.quiet(0.03)
            assert len(api.requests) == arrived
            armed.gate.set()
            assert await caller.message() == ANSWER
            assert len(api.requests) == 1
            caller.close()

    run(play())


@pytest.mark.parametrize(("place", "arrived"), [(REQUEST, 0), (RESPONSE, 1)])
def test_a_delay_is_waited_on_its_side_of_the_upstream(place: Place, arrived: int) -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            armed = standing.faults.arm(Fault(place, Verb.DELAY, 0.1))
            caller = await to(standing)
            begun = time.monotonic()
            await caller.send(request_of())
            await armed.reached.wait()
            assert len(api.requests) == arrived
            assert await caller.message() == ANSWER
            assert time.monotonic() - begun >= 0.1
            caller.close()

    run(play())


@pytest.mark.parametrize(("place", "arrived"), [(REQUEST, 0), (RESPONSE, 1)])
def test_another_answer_stands_for_the_effect_or_hides_it(place: Place, arrived: int) -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            standing.faults.arm(Fault(place, Verb.ANSWER, 503))
            caller = await to(standing)
            await caller.send(request_of())
            answer = await caller.message()
            assert (status(answer), b"sendtwice proxy" in answer) == (503, True)
            assert len(api.requests) == arrived
            await caller.send(request_of())  # the connection goes on
            assert await caller.message() == ANSWER
            caller.close()

    run(play())


@pytest.mark.parametrize(("place", "arrived"), [(REQUEST, 0), (RESPONSE, 1)])
@pytest.mark.parametrize(
    ("how", "body"), [("html", "a page of HTML"), ("empty", "an empty body"), ("half", "half of its JSON")]
)
def test_a_whole_answer_can_say_nothing(place: Place, arrived: int, how: str, body: str) -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            standing.faults.arm(Fault(place, Verb.GARBLE, how))
            caller = await to(standing)
            await caller.send(request_of())
            answer = await caller.message()
            assert (status(answer), in_words(answer)) == (200, body)
            assert len(api.requests) == arrived
            await caller.send(request_of())  # the connection goes on
            assert await caller.message() == ANSWER
            caller.close()
            first, second = await attempts(standing)
            assert (first["faults"], first["sent"], second["sent"]) == ([f"{place}: garble {how}"], True, True)

    run(play())


@pytest.mark.parametrize(
    ("upstream", "how", "fields", "body"),
    [
        (CHUNKS, "half", b"Content-Length: 5", b'{"id"'),
        (CHUNKS, "html", b"Content-Type: text/html\r\nContent-Length: 101", None),
        (ZIPPED, "half", b"content-encoding: gzip\r\nVia: a, b\r\nContent-Length: 15", PACKED[:15]),
        (ZIPPED, "html", b"Via: a, b\r\nContent-Type: text/html\r\nContent-Length: 101", None),
        (ZIPPED, "empty", b"content-encoding: gzip\r\nVia: a, b\r\nContent-Length: 0", b""),
        (answer_of(b'{"id": "a"}'), "half", b"Content-Length: 5", b'{"id"'),
    ],
    ids=["chunks: half", "chunks: html", "gzip: half", "gzip: html", "gzip: empty", "until the end: half"],
)
def test_an_answer_that_is_changed_gets_a_length_of_its_own(
    upstream: bytes, how: str, fields: bytes, body: bytes | None
) -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server) as standing:
            standing.faults.arm(Fault(RESPONSE, Verb.GARBLE, how))
            caller, peer = await through(standing, server)
            await peer.send(upstream)
            if b"\r\nContent-Length" not in upstream and b"chunked" not in upstream:
                peer.close()
            head, _, said = (await caller.message()).partition(b"\r\n\r\n")
            assert head == b"HTTP/1.1 200 \r\n" + fields
            assert said.startswith(b"<!DOCTYPE html>") if body is None else said == body
            caller.close()

    run(play())


def test_chunks_of_the_upstreams_own_can_lack_their_last() -> None:
    async def play() -> None:
        async with Api(CHUNKS) as api, proxy(api) as standing:
            standing.faults.arm(Fault(RESPONSE, Verb.LOSE, "in-chunks"))
            caller = await to(standing)
            await caller.send(request_of())
            assert await caller.over() == "RST"
            assert caller.data == b'HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{"id":\r\n'
            caller.close()

    run(play())


@pytest.mark.parametrize("upstream", [ANSWER, CHUNKS], ids=["length", "chunks"])
def test_an_answer_can_drip_and_one_can_be_the_last_on_its_connection(upstream: bytes) -> None:
    async def play() -> None:
        async with Api(upstream) as api, proxy(api) as standing:
            standing.faults.arm(Fault(RESPONSE, Verb.DRIP, 0.1))
            caller = await to(standing)
            begun = time.monotonic()
            await caller.send(request_of())
            assert await caller.until(lambda data: len(data) >= len(upstream)) == upstream
            ended = time.monotonic()
            assert ended - begun >= 0.1
            assert caller.first_at is not None
            assert ended - caller.first_at > 0.05
            standing.faults.arm(Fault(RESPONSE, Verb.CLOSE, "after-answer"))
            await caller.send(request_of())
            assert (await caller.over(), caller.data) == ("FIN", upstream * 2)
            caller.close()
            assert [one["sent"] for one in await attempts(standing)] == [True, True]

    run(play())


def test_another_answer_can_say_when_and_where_to_ask_again() -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            for more in (
                {"retry_after": 0.5, "headers": {"X-Cache": "miss"}, "body": "busy"},
                {"fault": {"answer": 307}, "location": "same"},
            ):
                given = {"crossing": "client.request", "fault": {"answer": 503}, **more}
                assert (await control(standing, "faults", given)).status_code == 201
                answer = await ask(standing, request_of())
                if "body" in more:
                    assert answer.endswith(b"\r\n\r\nbusy")
                    assert (status(answer), b"Retry-After: 0.5" in answer, b"X-Cache: miss" in answer) == (
                        503,
                        True,
                        True,
                    )
                else:
                    assert (status(answer), b"Location: http://api.example.test/emails\r\n" in answer) == (307, True)
            assert api.requests == []

    run(play())


def test_twice_arrives_twice_and_the_caller_gets_the_second_answer() -> None:
    async def play() -> None:
        said = iter((ANSWER, ANSWER.replace(b'"a"', b'"b"')))
        async with Api(lambda _: next(said)) as api, proxy(api) as standing:
            standing.faults.arm(Fault(REQUEST, Verb.TWICE))
            assert (await ask(standing, request_of(key="k"))).endswith(b'{"id": "b"}')
            assert (len(api.requests), api.requests[0]) == (2, api.requests[1])
            (attempt,) = await attempts(standing)
            assert attempt["forwarded"] == [{"status": 200, "problem": None}] * 2

    run(play())


@pytest.mark.parametrize("stage", ["connect", "headers"])
@pytest.mark.parametrize(("verb", "end"), [(Verb.LOSE, "RST"), (Verb.RESET, "RST"), (Verb.CLOSE, "FIN")])
def test_a_connection_can_end_before_there_is_a_message(stage: str, verb: Verb, end: str) -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            standing.faults.arm(Fault(REQUEST, verb, stage=stage))
            caller = await to(standing)
            if stage == "headers":
                await caller.send(request_of(b"0123456789")[:-5])
            assert (await caller.over(), caller.data, api.callers) == (end, b"", [])
            caller.close()

    run(play())


@pytest.mark.parametrize("how", ["FIN", "RST"])
def test_a_message_that_is_held_arrives_late_and_whole_after_its_caller_has_gone(how: str) -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server, keep_host=True) as standing:
            armed = standing.faults.arm(Fault(REQUEST, Verb.HOLD))
            caller = await to(standing)
            await caller.send(request_of())
            await armed.reached.wait()
            (connection,) = standing.endpoint._connections
            caller.close() if how == "FIN" else caller.reset()
            while not connection.gone:
                await asyncio.sleep(0)
            armed.gate.set()
            peer = await server.accepted()
            assert await peer.message() == request_of()
            assert await peer.quiet(0.03)
            await peer.send(ANSWER)
            assert await peer.over() == "FIN"

    run(play())


def test_an_upstream_that_ends_while_its_answer_is_held_takes_nothing_away() -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server) as standing:
            armed = standing.faults.arm(Fault(RESPONSE, Verb.HOLD))
            caller, peer = await through(standing, server)
            await peer.send(ANSWER)
            peer.close()
            await armed.reached.wait()
            assert await caller.quiet(0.03)
            armed.gate.set()
            assert await caller.message() == ANSWER
            await caller.send(request_of())  # nothing of this was ever sent on the connection that ended
            again = await server.accepted()
            await again.message()
            await again.send(ANSWER)
            assert await caller.message() == ANSWER
            caller.close()

    run(play())


def test_a_fault_is_for_the_key_the_message_and_the_number_that_it_names() -> None:
    async def play() -> None:
        async with Api() as api, proxy(api, key_header="X-Request-Id") as standing:
            second = standing.faults.arm(Fault(RESPONSE, Verb.ANSWER, 504, key="k", nth=2, times=2))
            reads = standing.faults.arm(Fault(REQUEST, Verb.ANSWER, 429, message="get /emails/"))
            seen = [
                status(await ask(standing, request_of(b"", f"X-Request-Id: {key}", method=method, target=target)))
                for key, method, target in (
                    ("k", "POST", "/emails"),
                    ("x", "POST", "/emails"),
                    ("k", "POST", "/emails"),
                    ("k", "GET", "/emails/1?a"),
                    ("k", "POST", "/emails"),
                )
            ]
            assert seen == [200, 200, 504, 429, 504]
            assert (second.met, second.fired, reads.fired) == (3, 2, 1)
            assert len(api.requests) == 4

    run(play())


def test_a_fault_is_not_spent_on_an_answer_of_the_proxys_own() -> None:
    async def play() -> None:
        async with RawServer() as server:
            url = server.url
        async with proxy(url) as standing:
            armed = standing.faults.arm(Fault(RESPONSE, Verb.LOSE))
            assert status(await ask(standing, request_of())) == 502
            assert armed.fired == 0

    run(play())


def test_behind_it_an_answer_is_lost_after_acceptance_and_the_retry_is_replayed() -> None:
    """The window that it is made for: the API behind it has the mail, and its caller does not know."""

    async def play() -> None:
        async with provider("rasket", edge="client") as api, proxy(api.url) as standing:
            standing.faults.arm(Fault(RESPONSE, Verb.LOSE))
            sent = message(body_for("rasket"), Idempotency_Key="k", Authorization="Bearer one", User_Agent="tests")
            caller = await to(standing)
            await caller.send(sent)
            assert (await caller.over(), caller.data, api.ledger.commits) == ("RST", b"", 1)
            caller.close()
            again = await ask(standing, sent)
            assert (status(again), b"Idempotent-Replayed: true" in again) == (200, True)
            assert api.ledger.commits == 1
            told = [(one["status"], one["sent"]) for one in await attempts(standing)]
            assert told == [(200, False), (200, True)]

    run(play())
