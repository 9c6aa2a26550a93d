"""The proxy is a wire: what goes in comes out, and what breaks behind it breaks before it."""

from __future__ import annotations

import asyncio
import gzip
import socket

import httpx
import pytest

from sendtwice.fake_provider.http_messages import MAX_BODY
from sendtwice.harness.doctor.peers import RawPeer, RawServer, status
from sendtwice.harness.edges.proxy_link import Link
from tests.fake_provider.kit import run
from tests.harness.proxies import ANSWER, Api, answer_of, ask, attempts, proxy, request_of, through, to

GZIPPED = gzip.compress(b"x" * 99, mtime=0)


def test_a_request_arrives_as_it_was_written_and_so_does_its_answer() -> None:
    async def play() -> None:
        said = answer_of(
            b"\x00\xff\x00", "X-Odd:  two  words", "Set-Cookie: a=1", "set-COOKIE: b=2", "Content-Length: 3"
        )
        async with Api(said) as api, proxy(api) as standing:
            fields = ("X-Api-KEY: k\u00fc\u00df", "Accept: a", "accept: b", "User-Agent: x/1", "X-Empty:")
            target = "/a%2Fb//c/../d;x=1?q=1&q=%20&empty=&+"
            for method in ("POST", "GET", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"):
                body = b"" if method == "GET" else b"\x00\r\n\r\n\xfe"
                asked = request_of(body, *fields, method=method, target=target)
                assert await ask(standing, asked) == said.replace(b":  two  words", b": two  words")
                host = f"127.0.0.1:{api.port}".encode()
                assert api.requests[-1] == asked.replace(b"api.example.test", host).replace(b"X-Empty:", b"X-Empty: ")

    run(play())


def test_what_is_for_one_connection_only_does_not_go_on() -> None:
    async def play() -> None:
        said = answer_of(
            b"", "Connection: X-Hop, keep-alive", "X-Hop: 1", "Keep-Alive: timeout=5", "X-End: 1", "Content-Length: 0"
        )
        async with Api(said) as api, proxy(api) as standing:
            asked = request_of(
                b"{}",
                *("Connection: X-Mine, Keep-Alive, Host", "X-Mine: 1", "Keep-Alive: 1", "TE: trailers"),
                *("Proxy-Connection: keep-alive", "Upgrade: h2c", "X-End: 1"),
            )
            answer = await ask(standing, asked)
            assert answer == b"HTTP/1.1 200 OK\r\nX-End: 1\r\nContent-Length: 0\r\n\r\n"
            host = f"Host: 127.0.0.1:{api.port}".encode()
            assert api.requests == [
                b"POST /emails HTTP/1.1\r\n" + host + b"\r\nX-End: 1\r\nContent-Length: 2\r\n\r\n{}"
            ]

    run(play())


@pytest.mark.parametrize(("keep", "host"), [(False, "127.0.0.1:{port}"), (True, "api.example.test")])
def test_host_is_the_upstreams_or_the_callers_own(keep: bool, host: str) -> None:
    async def play() -> None:
        async with Api() as api, proxy(f"{api.url}/v1/", keep_host=keep) as standing:
            await ask(standing, request_of(target="/emails?x"))
            lines = api.requests[0].split(b"\r\n")
            assert lines[:2] == [b"POST /v1/emails?x HTTP/1.1", f"Host: {host.format(port=api.port)}".encode()]

    run(play())


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("HEAD", answer_of(b"", "Content-Length: 1234")),
        ("HEAD", answer_of(b"", "Transfer-Encoding: chunked")),
        ("GET", answer_of(b"", "X: 1", status="204 No Content")),
        ("GET", answer_of(b"", 'ETag: "1"', "Content-Length: 99", status="304 Not Modified")),
        ("GET", answer_of(b"", "Content-Length: 0", status="200 ")),
        ("GET", answer_of(b"5\r\nhello\r\n3;ext=1\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n", "Transfer-Encoding: chunked")),
        ("GET", answer_of(GZIPPED, "Content-Encoding: gzip", f"Content-Length: {len(GZIPPED)}")),
        ("GET", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ANSWER),
        ("GET", answer_of(b"", "Content-Length: 0", status="599 Odd Thing")),
    ],
    ids=["HEAD", "HEAD of chunks", "204", "304", "no reason", "chunks", "gzip", "103", "599"],
)
def test_every_kind_of_answer_keeps_its_bytes(method: str, said: bytes) -> None:
    async def play() -> None:
        async with Api(said) as api, proxy(api) as standing:
            caller = await to(standing)
            for _ in range(2):  # the connection goes on after each
                await caller.send(request_of(b"", method=method))
                caller.data = b""
                assert await caller.until(lambda data: len(data) >= len(said)) == said
            caller.close()
            assert len(api.callers) == 1

    run(play())


def test_an_answer_that_ends_with_its_connection_ends_the_callers_too() -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server) as standing:
            caller, peer = await through(standing, server)
            await peer.send(b"HTTP/1.1 200 OK\r\nX: 1\r\n\r\nall of it")
            peer.close()
            assert await caller.over() == "FIN"
            assert caller.data == b"HTTP/1.1 200 OK\r\nX: 1\r\nConnection: close\r\n\r\nall of it"
            caller.close()

    run(play())


def test_a_caller_of_http_1_0_gets_a_length_and_no_chunks() -> None:
    async def play() -> None:
        chunks = answer_of(b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", "Transfer-Encoding: chunked", "Trailer: X-Sum")
        async with Api(b"HTTP/1.1 103 Early Hints\r\n\r\n" + chunks) as api, proxy(api) as standing:
            caller = await to(standing)
            await caller.send(b"GET /old HTTP/1.0\r\n\r\n")
            assert await caller.over() == "FIN"
            assert caller.data == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
            host = f"Host: 127.0.0.1:{api.port}".encode()
            assert api.requests == [b"GET /old HTTP/1.1\r\n" + host + b"\r\nConnection: close\r\n\r\n"]
            caller.close()

    run(play())


def test_a_body_in_chunks_arrives_with_its_length_and_an_expected_100_is_given() -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            caller = await to(standing)
            head = b"POST /emails HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
            await caller.send(head)
            assert await caller.message() == b"HTTP/1.1 100 \r\n\r\n"
            await caller.send(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            assert await caller.message() == ANSWER
            host = f"Host: 127.0.0.1:{api.port}".encode()
            assert api.requests == [b"POST /emails HTTP/1.1\r\n" + host + b"\r\nContent-Length: 5\r\n\r\nabcde"]
            caller.close()

    run(play())


def test_requests_of_one_connection_stay_on_one_connection_and_in_their_order() -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            async with httpx.AsyncClient(base_url=standing.url, trust_env=False) as client:
                for number in range(5):
                    answer = await client.post(
                        f"/{number}", json={"n": number}, headers={"Idempotency-Key": f"k{number}"}
                    )
                    assert answer.json() == {"id": "a"}
            caller = await to(standing)
            await caller.send(request_of(target="/a") + request_of(target="/b"))  # one behind the other
            assert [await caller.message(), await caller.message()] == [ANSWER, ANSWER]
            caller.close()
            assert len(api.callers) == 2
            assert [request.split()[1] for request in api.requests] == [*(b"/%d" % n for n in range(5)), b"/a", b"/b"]
            assert await api.ended(0) == "FIN"

    run(play())


def test_fifty_callers_at_once_get_each_its_own_answer() -> None:
    async def play() -> None:
        def echo(request: bytes) -> bytes:
            body = request.partition(b"\r\n\r\n")[2]
            return answer_of(body, f"Content-Length: {len(body)}")

        async with Api(echo) as api, proxy(api) as standing:
            async with httpx.AsyncClient(base_url=standing.url, trust_env=False, limits=httpx.Limits()) as client:
                answers = await asyncio.gather(*(client.post("/", content=b"%d" % n * 1000) for n in range(50)))
            assert [answer.content for answer in answers] == [b"%d" % n * 1000 for n in range(50)]
            assert len(api.requests) == 50

    run(play())


# --- What goes wrong -------------------------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_an_upstream_that_is_not_there_is_a_502_that_says_who_speaks_and_why() -> None:
    async def play() -> None:
        gone = f"http://127.0.0.1:{_free_port()}"
        async with proxy(gone) as standing:
            answer = await ask(standing, request_of(key="k"))
            assert status(answer) == 502
            said = f'{{"error":"sendtwice proxy: {gone} cannot be reached (connection refused); nothing was sent"}}'
            assert answer.endswith(said.encode())
            (attempt,) = await attempts(standing)
            assert (attempt["status"], attempt["sent"], attempt["forwarded"]) == (502, True, [])
            assert "cannot be reached" in attempt["problem"]

    run(play())


@pytest.mark.parametrize("how", ["FIN", "RST"])
@pytest.mark.parametrize("given", [0, 7, 60], ids=["nothing", "half a head", "half a body"])
def test_what_breaks_off_behind_it_breaks_off_before_it_in_the_same_way(
    how: str, given: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = bytearray()
    receive = Link.data_received

    def data_received(link: Link, data: bytes) -> None:
        read.extend(data)
        receive(link, data)

    monkeypatch.setattr(Link, "data_received", data_received)

    async def play() -> None:
        said = answer_of(b"x" * 100, "Content-Length: 100")
        async with RawServer() as server, proxy(server) as standing:
            caller, peer = await through(standing, server)
            await peer.send(said[:given])
            while len(read) < given:  # what is on its way when an RST comes is lost to whoever reads
                await asyncio.sleep(0)
            peer.close() if how == "FIN" else peer.reset()
            assert await caller.over() == how
            assert caller.data == (b"" if given < 40 else said[:38] + b"Connection: close\r\n\r\n" + said[40:given])
            caller.close()
            (attempt,) = await attempts(standing)
            (sending,) = attempt["forwarded"]
            where = "after 20 bytes of the answer's body" if given == 60 else "before an answer"
            did = {"FIN": "closed", "RST": "reset"}[how]
            assert sending == {"status": None, "problem": f"the upstream {did} the connection {where}"}
            assert (attempt["status"], attempt["sent"], attempt["over"]) == (None, False, True)

    run(play())


def test_a_request_is_never_sent_again_by_itself() -> None:
    """Not on a connection that was kept too long, nor after any other end: that would be our own duplicate."""

    async def play() -> None:
        async with RawServer() as server, proxy(server) as standing:
            for how in ("FIN", "RST"):
                caller, peer = await through(standing, server, request_of(key="first"))
                await peer.send(ANSWER)
                assert await caller.message() == ANSWER
                # The second goes out on the kept connection, and the upstream ends it without a word.
                await caller.send(request_of(key="second"))
                assert b"second" in await peer.message()
                peer.close() if how == "FIN" else peer.reset()
                assert (await caller.over(), caller.data) == (how, b"")
                caller.close()
                with pytest.raises(TimeoutError):  # nobody comes with it again
                    async with asyncio.timeout(0.1):
                        await server.accepted()
            sent = [(one["key"], len(one["forwarded"])) for one in await attempts(standing)]
            assert sent == [("first", 1), ("second", 1)] * 2

    run(play())


def test_a_connection_that_the_upstream_ends_while_it_is_idle_ends_for_the_caller_too() -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server) as standing:
            caller, peer = await through(standing, server)
            await peer.send(ANSWER)
            assert await caller.message() == ANSWER
            peer.close()
            assert (await caller.over(), caller.data) == ("FIN", b"")
            caller.close()

    run(play())


def test_what_an_upstream_says_unasked_is_no_answer_to_anything() -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server) as standing:
            caller, peer = await through(standing, server)
            await peer.send(ANSWER + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
            assert await caller.message() == ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            assert (await peer.over(), await caller.over(), caller.data) == ("FIN", "FIN", b"")
            caller.close()
            caller, peer = await through(standing, server)
            await peer.send(ANSWER)
            assert await caller.message() == ANSWER
            await peer.send(ANSWER)  # while nobody asks
            assert (await caller.over(), caller.data) == ("FIN", b"")
            caller.close()

    run(play())


def test_what_crossed_is_told_and_its_body_is_not_kept() -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            await ask(standing, request_of(b"x" * 1_000_000, key="k"))
            (crossed,) = standing.log.attempts
            assert (crossed.request, crossed.path, crossed.key) == (None, "/emails", "k")

    run(play())


def test_an_upstream_that_restarts_between_two_callers_is_asked_anew() -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server) as standing:
            for _ in range(2):
                caller, peer = await through(standing, server)
                await peer.send(ANSWER)
                assert await caller.message() == ANSWER
                peer.reset()
                await caller.over()
                caller.close()

    run(play())


@pytest.mark.parametrize("how", ["FIN", "RST"])
def test_a_caller_that_hangs_up_is_hung_up_on_behind_it(how: str) -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server) as standing:
            caller, peer = await through(standing, server)
            caller.close() if how == "FIN" else caller.reset()
            assert await peer.over() == how
            peer.close()
            await standing.endpoint.idle()
            (attempt,) = await attempts(standing)
            assert (attempt["sent"], attempt["forwarded"]) == (
                False,
                [{"status": None, "problem": "the caller hung up"}],
            )

    run(play())


def test_a_caller_that_says_no_more_and_still_listens_gets_its_answer() -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server) as standing:
            caller, peer = await through(standing, server)
            caller.sock.shutdown(socket.SHUT_WR)
            assert await peer.over() == "FIN"
            await peer.send(ANSWER)
            assert await caller.message() == ANSWER
            caller.close()

    run(play())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "no HTTP/1.1"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "no HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "no HTTP/1.1"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1) + b"x" * (MAX_BODY + 1),
            "longer than 32 MiB",
        ),
    ],
    ids=["ssh", "101", "length", "long"],
)
def test_what_is_no_answer_is_a_502_that_says_so(said: bytes, why: str) -> None:
    async def play() -> None:
        async with RawServer() as server, proxy(server) as standing:
            caller, peer = await through(standing, server)
            sending = asyncio.ensure_future(peer.send(said))
            answer = await caller.message()
            await asyncio.gather(sending, return_exceptions=True)
            assert status(answer) == 502
            assert f"sendtwice proxy: {server.url} was asked, and ".encode() in answer
            assert why.encode() in answer
            caller.close()

    run(play())


@pytest.mark.parametrize(
    ("asked", "code", "why"),
    [
        (b"CONNECT mail.example.test:443 HTTP/1.1\r\nHost: mail.example.test\r\n\r\n", 501, "there are no tunnels"),
        (
            b"GET http://other.example.test/a HTTP/1.1\r\nHost: other.example.test\r\n\r\n",
            421,
            "is for other.example.test",
        ),
        (request_of(b"x" * (MAX_BODY + 1)), 413, "at most 32 MiB"),
    ],
    ids=["CONNECT", "another host", "long"],
)
def test_what_is_not_for_the_upstream_is_refused_and_never_sent(asked: bytes, code: int, why: str) -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            answer = await ask(standing, asked)
            assert (status(answer), why.encode() in answer) == (code, True)
            assert (api.callers, api.requests) == ([], [])

    run(play())


def test_a_client_that_takes_it_for_a_forward_proxy_reaches_the_upstream_by_name() -> None:
    async def play() -> None:
        async with Api() as api, proxy(f"{api.url}/v1") as standing:
            own = f"127.0.0.1:{standing.endpoint.port}"
            for authority, target in ((f"127.0.0.1:{api.port}", b"/a?b"), (own, b"/v1/a?b")):
                await ask(standing, request_of(b"", method="GET", target=f"http://{authority}/a?b"))
                assert api.requests[-1].split()[1] == target

    run(play())


def test_what_a_stopped_proxy_held_is_let_go_and_nothing_is_left_open() -> None:
    async def play() -> None:
        async with RawServer() as server:
            async with proxy(server) as standing:
                callers = [await to(standing) for _ in range(5)]
                peers: list[RawPeer] = []
                for caller in callers:
                    await caller.send(request_of())
                    peers.append(await server.accepted())
                    await peers[-1].message()
            for peer, caller in zip(peers, callers, strict=True):
                assert await peer.over() in ("FIN", "RST")
                assert await caller.over() == "RST"
                caller.close()

    run(play())
