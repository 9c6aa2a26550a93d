"""Answers that a fault has changed are whole HTTP messages, and say what the fault is called: read from raw sockets."""

from __future__ import annotations

import email.utils
import gzip
import json

import pytest

from sendtwice.fake_provider.altered import altered, chunked
from sendtwice.fake_provider.faults import Fault, Place, Verb
from sendtwice.fake_provider.messages import Request, Response
from tests.fake_provider.kit import Wire, call, message, provider, run

REQUEST, RESPONSE = Place.CLIENT_REQUEST, Place.CLIENT_RESPONSE


def read(data: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    assert len(headers) == len(fields), "no header is there twice"
    return int(first.split()[1]), headers, body


async def asked(fault: Fault) -> tuple[int, dict[str, str], bytes, int]:
    """The answer to a mail, on a connection that is over then, and how many mails are out."""
    async with provider("resend", edge="client") as fake:
        armed = fake.faults.arm(fault)
        wire = await Wire.to(fake)
        await wire.send(message(Connection="close"))
        data, ending = await wire.rest()
        wire.close()
        assert (ending, armed.fired) == ("fin", 1)
        return *read(data), fake.ledger.commits


@pytest.mark.parametrize(("place", "commits"), [(REQUEST, 0), (RESPONSE, 1)])
@pytest.mark.parametrize("how", ["html", "empty", "half", "gzip"])
def test_a_garbled_answer_is_whole_and_says_nothing(place: Place, commits: int, how: str) -> None:
    status, headers, body, made = run(asked(Fault(place, Verb.GARBLE, how)))
    assert (status, made) == (200, commits)
    assert int(headers["content-length"]) == len(body)
    assert (headers["content-type"] == "text/html") == (how == "html")
    assert ("content-encoding" in headers) == (how == "gzip")
    with pytest.raises(ValueError, match=r"Expecting|decode|Unterminated"):
        json.loads(body)
    match how:
        case "html":
            assert body.startswith(b"<!DOCTYPE html>")
        case "empty":
            assert body == b""
        case "half":
            assert body.startswith(b'{"id":')
        case _:
            with pytest.raises(EOFError):  # it is gzip, and its end is missing
                gzip.decompress(body)


def test_a_caller_can_go_on_with_the_connection_after_a_garbled_answer() -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            fake.faults.arm(Fault(RESPONSE, Verb.GARBLE, "html"))
            wire = await Wire.to(fake)
            for begins, commits in ((b"<!DOC", 1), (b'{"id"', 2)):
                await wire.send(message())
                status, body = await wire.answer()
                assert (status, body[:5], fake.ledger.commits) == (200, begins, commits)
            wire.close()

    run(play())


@pytest.mark.parametrize(("seconds", "written"), [(2, "2"), (0.4, "0.4"), (86_400, "86400")])
def test_retry_after_is_a_number_whole_or_not(seconds: float, written: str) -> None:
    status, headers, _, commits = run(asked(Fault(REQUEST, Verb.ANSWER, "rate_limited", retry_after=seconds)))
    assert (status, headers["retry-after"], commits) == (429, written, 0)


def test_retry_after_is_a_date_that_asks_for_no_less_than_was_meant() -> None:
    request = call()
    for now, wanted in ((1_000_000.0, 1_000_002), (1_000_000.25, 1_000_003), (1_000_000.999, 1_000_003)):
        fault = Fault(REQUEST, Verb.ANSWER, 503, retry_after=2.0, as_date=True)
        told = altered(Response.of(503, {}), fault, request, now=now).headers["Retry-After"]
        assert told.endswith(" GMT")
        assert email.utils.parsedate_to_datetime(told).timestamp() == wanted


@pytest.mark.parametrize(
    ("host", "where", "location"),
    [
        ("127.0.0.1:81", "same", "http://127.0.0.1:81/emails?x=1"),
        ("127.0.0.1:81", "other", "http://localhost:81/emails?x=1"),
        ("localhost:81", "other", "http://127.0.0.1:81/emails?x=1"),
        ("localhost", "other", "http://127.0.0.1/emails?x=1"),
        ("[::1]:81", "other", "http://localhost:81/emails?x=1"),
        ("[::1]", "same", "http://[::1]/emails?x=1"),
        ("[::1]", "other", "http://localhost/emails?x=1"),
    ],
)
def test_a_caller_is_sent_to_the_same_origin_or_to_another(host: str, where: str, location: str) -> None:
    request = Request("POST", "/emails?x=1", (("host", host),), b"")
    fault = Fault(REQUEST, Verb.ANSWER, 307, location=where)
    assert altered(Response(307), fault, request, now=0).headers == {"Location": location}
    secure = altered(Response(307), fault, request, now=0, scheme="https").headers["Location"]
    assert secure == location.replace("http:", "https:")


def test_headers_and_body_of_a_fault_stand_for_those_of_the_answer() -> None:
    fault = Fault(
        RESPONSE, Verb.ANSWER, 502, headers=(("content-type", "text/plain"), ("X-Cache", "miss")), body="no größe"
    )
    status, headers, body, commits = run(asked(fault))
    assert (status, body.decode(), commits) == (502, "no größe", 1)
    assert (headers["content-type"], headers["x-cache"]) == ("text/plain", "miss")
    assert int(headers["content-length"]) == len(body)


@pytest.mark.parametrize(("body", "end"), [(b'{"id": "1"}', b'6\r\n{"id":\r\n'), (b"1", b"1\r\n1\r\n"), (b"", b"")])
def test_what_is_broken_off_in_chunks_has_no_last_one(body: bytes, end: bytes) -> None:
    """Not even where there is nothing to send: a chunk of no bytes is the last one."""
    head, _, rest = chunked(Response(200, body, {"X-Id": "ü"})).partition(b"\r\n\r\n")
    assert head == "HTTP/1.1 200 \r\nX-Id: ü\r\nTransfer-Encoding: chunked".encode("latin-1")
    assert rest == end


def test_an_answer_that_is_not_changed_is_the_same_one() -> None:
    response = Response.of(503, {})
    assert altered(response, Fault(REQUEST, Verb.ANSWER, 503), call(), now=0) is response
