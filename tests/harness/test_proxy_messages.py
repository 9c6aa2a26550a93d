"""What a proxy makes of bytes, however they come: no sockets here."""

from __future__ import annotations

import h11
import pytest

from sendtwice.fake_provider.http_messages import Messages, Missing
from sendtwice.fake_provider.messages import Request
from sendtwice.harness.edges.proxy_messages import Answer, forwarded
from tests.harness.proxies import ANSWER, answer_of

ANSWERS = {
    "plain": ("POST", ANSWER),
    "interim": ("POST", b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ANSWER),
    "chunks": (
        "GET",
        answer_of(b"5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", "Transfer-Encoding: chunked", "Content-Length: 9"),
    ),
    "head": ("HEAD", answer_of(b"", "Content-Length: 77")),
    "204": ("DELETE", answer_of(b"", status="204 No Content")),
    "304": ("GET", answer_of(b"", "Content-Length: 77", status="304 Not Modified")),
    "until the end": ("GET", answer_of(b"all of it")),
    "1.0": ("GET", answer_of(b"abc", "Content-Length: 3").replace(b"/1.1", b"/1.0")),
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("chunks", [True, False], ids=["1.1", "1.0"])
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(name: str, chunks: bool) -> None:
    method, data = ANSWERS[name]

    def read(size: int) -> tuple[int, bytes, bytes, bool]:
        answer = Answer(method, chunks=chunks)
        for place in range(0, len(data), size):
            assert not answer.whole
            answer.receive(data[place : place + size])
        if not answer.whole:
            answer.receive(b"")
        assert (answer.whole, answer.excess) == (True, False)
        passed = answer.passed()
        return passed.status, passed.start, passed.body, passed.closes

    at_once = read(len(data))
    assert all(read(size) == at_once for size in (1, 2, 3, 7, 40))
    _, start, body, closes = at_once
    assert closes is (name in ("until the end", "1.0"))
    if name == "chunks" and not chunks:
        assert (start, body) == (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", b"hello")
    elif name == "interim" and not chunks:
        assert start + b"\r\n" + body == ANSWER
    else:
        assert start + b"\r\n" + body == data.replace(b"/1.0", b"/1.1").replace(b"Content-Length: 9\r\n", b"")


def test_what_comes_after_an_answer_is_not_a_part_of_it() -> None:
    answer = Answer("POST")
    answer.receive(ANSWER + b"HTTP/1.1 200 OK\r\n")
    assert (answer.whole, answer.excess, answer.passed().closes) == (True, True, True)
    assert answer.passed().start + b"\r\n" + answer.passed().body == ANSWER


@pytest.mark.parametrize("data", [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", b"\0\r\n\r\n", b"x" * 300_000])
def test_what_is_no_answer_never_becomes_one(data: bytes) -> None:
    answer = Answer("GET")
    with pytest.raises(h11.RemoteProtocolError):  # noqa: PT012  # the end may be what is wrong
        answer.receive(data)
        answer.receive(b"")
    assert not answer.whole


def _request(data: bytes) -> Request:
    messages = Messages()
    messages.receive(data)
    head = messages.head()
    assert not isinstance(head, Missing)
    body = messages.body()
    assert isinstance(body, bytes)
    return Request(head.method, head.target, head.headers, body, 1, head.written, head.version)


@pytest.mark.parametrize("pieces", ["at once", "by h11"])
def test_a_request_goes_on_in_its_own_words(pieces: str) -> None:
    """Both ways in which a head is read keep the names of its fields, and their order."""
    data = b"POST /a?b HTTP/1.1\r\nHOST: me\r\nX-b: 2\r\nx-A: 1\r\nX-b: 3\r\nCONTENT-length: 2\r\n\r\n{}"
    if pieces == "at once":  # a field that stands twice is h11's
        data = data.replace(b"X-b: 3\r\n", b"")
    asked = _request(data)
    assert forwarded(asked, asked.target, None) == data
    assert forwarded(asked, "/v1/a", "up:1") == data.replace(b"/a?b", b"/v1/a").replace(b"HOST: me", b"HOST: up:1")
    closing = _request(data.replace(b"X-b: 2", b"Connection: close"))
    assert b"\r\nConnection: close\r\n\r\n{}" in forwarded(closing, "/", None)
