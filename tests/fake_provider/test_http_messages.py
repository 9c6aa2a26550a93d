"""A request is the same whether it is read at one go or by h11, and so is its answer."""

from __future__ import annotations

import string
from dataclasses import dataclass

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sendtwice.fake_provider.http_messages import MAX_BODY, Head, Messages, Missing
from sendtwice.fake_provider.messages import Response

ANSWER = Response.of(200, {"id": "m1"}, {"Idempotent-Replayed": "true"})


@dataclass(frozen=True)
class Read:
    """What came of bytes: each message with its answer, and how it ended."""

    messages: tuple[tuple[Head, bytes, bytes], ...]
    end: str


def read(pieces: list[bytes], answer: Response = ANSWER) -> Read:
    """Read messages until the bytes end, the connection may not go on, or what comes is no HTTP."""
    messages, left = Messages(), iter([*pieces, b""])
    found: list[tuple[Head, bytes, bytes]] = []

    def part(ask: object) -> object:
        assert callable(ask)
        while (got := ask()) is Missing.MORE:
            interim = messages.interim  # it is said once
            assert interim == b"" or b" 100 " in interim
            messages.receive(next(left))
        return got

    try:
        while isinstance(head := part(messages.head), Head):
            body = part(messages.body)
            if not isinstance(body, bytes):
                return Read(tuple(found), "cut off")
            found.append((head, body, messages.answer(answer)))
            if not messages.proceed():
                return Read(tuple(found), "closed")
    except h11.ProtocolError:
        return Read(tuple(found), "cut off")
    return Read(tuple(found), "over")


NAMES = st.sampled_from(
    ["Content-Type", "Idempotency-Key", "X-1", "idempotency-key", "Authorization", "Connection", "Upgrade", "Expect"]
)
VALUES = st.one_of(
    st.sampled_from(["close", "keep-alive", "Keep-Alive", "close, x", "", " a b ", "ü", "\t", "100-continue", "h2c"]),
    st.text(alphabet=string.printable.strip() + " \t\x01\x80ÿ", max_size=12),
)
LENGTHS = st.sampled_from(
    ["", "Content-Length: {}", "content-length:{} ", "Content-Length: 0{}", "Content-Length: {0}, {0}"]
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from(["POST", "GET", "HEAD", "PUT", "post", "P!T"]))
    target = draw(st.sampled_from(["/emails", "/", "*", "/a?b=c", "//[", "http://x/y", "/%20"]))
    version = draw(st.sampled_from(["1.1", "1.1", "1.1", "1.0"]))
    body = draw(st.binary(max_size=30))
    lines = draw(st.sampled_from([["Host: x"], ["host:x"], ["Host: x", "Host: x"], []]))
    lines = [*lines, *(f"{name}: {value}" for name, value in draw(st.lists(st.tuples(NAMES, VALUES), max_size=4)))]
    length = draw(LENGTHS)
    if length:
        lines.append(length.format(len(body)))
    else:
        body = b""
    end = draw(st.sampled_from(["\r\n", "\r\n", "\r\n", "\n"]))
    return end.join([f"{method} {target} HTTP/{version}", *lines, "", ""]).encode("latin-1") + body


@given(st.lists(requests(), min_size=1, max_size=3), st.integers(0, 40))
@example([b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"], 0)
@example([b"POST / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n"], 0)
@example([b"POST / HTTP/1.1\r\nHost: x\r\nX : a\r\n\r\n"], 0)
@example([b"POST / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n"], 0)
@example([b"POST / HTTP/1.1\r\nHost: x\r\nX: a\x0bb\r\n\r\n"], 0)
@example([b"POST / HTTP/1.1\r\nHost: x\r\nX: \x1f\r\n\r\n"], 0)
@example([b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"], 0)
@example([b"\r\nPOST / HTTP/1.1\r\nHost: x\r\n\r\n"], 0)
def test_bytes_at_one_go_mean_what_the_same_bytes_mean_one_by_one(messages: list[bytes], missing: int) -> None:
    """One by one is h11's way: there is no whole head when it begins."""
    data = b"".join(messages)
    data = data[: len(data) - missing]
    assert read([data]) == read([data[place : place + 1] for place in range(len(data))])


@pytest.mark.parametrize("cut", range(1, 122))
def test_a_message_may_come_in_two_pieces_cut_anywhere(cut: int) -> None:
    text = b'{"from":"a@example.test","subject":"a"}'
    head = b"POST /emails HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: k1\r\nContent-Length: %d\r\n\r\n" % len(text)
    data = head + text
    assert read([data[:cut], data[cut:]]) == read([data])
    ((understood, body, _),) = read([data]).messages
    fields = (("host", "localhost"), ("idempotency-key", "k1"), ("content-length", str(len(text))))
    written = ("Host", "Idempotency-Key", "Content-Length")
    assert (understood, body) == (Head("POST", "/emails", fields, written), text)


@pytest.mark.parametrize(
    "answer",
    [
        Response(204),
        Response(304, b"", {"ETag": "1"}),
        Response(200, b"x", {"Connection": "close"}),
        Response(200, b"x", {"X": ""}),
        Response(303, b"", {"Location": "/a b"}),
        Response(599, b"{}"),
        Response(200, b"12345", {"Retry-After": "1"}),
        Response(200, b"x", {"Idempotency-Key": "k é".encode().decode("latin-1")}),
    ],
    ids=lambda answer: f"{answer.status} {answer.headers}",
)
@pytest.mark.parametrize("extra", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
@pytest.mark.parametrize("method", [b"POST", b"HEAD"])
def test_an_answer_has_the_same_bytes_in_both_ways(answer: Response, extra: bytes, method: bytes) -> None:
    data = method + b" / HTTP/1.1\r\nHost: x\r\n" + extra + b"Content-Length: 2\r\n\r\nab"
    plain, by_h11 = read([data], answer), read([data[:5], data[5:]], answer)
    assert plain == by_h11
    assert len(plain.messages) == 1


def test_a_caller_that_waits_for_100_is_told_to_go_on() -> None:
    messages = Messages()
    messages.receive(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert isinstance(messages.head(), Head)
    assert messages.body() is Missing.MORE
    assert messages.interim.startswith(b"HTTP/1.1 100 ")
    messages.receive(b"ab")
    assert messages.body() == b"ab"


def test_what_has_begun_and_not_ended_can_be_told_from_what_is_whole() -> None:
    messages = Messages()
    seen = [messages.begun]
    messages.receive(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
    assert isinstance(messages.head(), Head)
    assert messages.body() is Missing.MORE
    seen.append(messages.begun)
    messages.receive(b"b")
    assert messages.body() == b"ab"
    seen.append(messages.begun)
    messages.receive(b"POST")
    seen.append(messages.begun)
    assert seen == [False, True, False, True]


def test_a_body_that_nobody_could_mean_is_not_waited_for() -> None:
    messages = Messages()
    messages.receive(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1))
    assert isinstance(messages.head(), Head)
    assert (messages.body(), messages.too_long) == (Missing.ALL, True)


def test_a_body_of_which_nobody_knows_that_it_is_too_long_ends_where_it_is() -> None:
    messages = Messages()
    messages.receive(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (MAX_BODY + 1))
    assert isinstance(messages.head(), Head)
    assert (messages.body(), messages.too_long) == (Missing.MORE, False)
    messages.receive(b"x" * (MAX_BODY + 1))
    assert (messages.body(), messages.too_long) == (Missing.ALL, True)
