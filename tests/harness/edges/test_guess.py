"""A protocol is known from the first bytes of a connection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendtwice.harness.edges.guess import READERS, Guess
from tests.harness.edges.wires import STARTUP, asks, first_frame, greeting, hear, splits, tells


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (STARTUP, "startup"),
        (first_frame(80877103), "SSLRequest"),
        (b"*1\r\n$4\r\nPING\r\n", "PING"),
        (b"PING\r\n", "PING"),
        (b"auth secret\r\n", "AUTH ?"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"GET /index.html HTTP/1.1\r\n\r\n", "segment"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x01", "segment"),
        (b"set key 0 0 5\r\nvalue\r\n", "segment"),  # memcached
        (b"*name", "segment"),
    ],
)
def test_who_speaks_first_says_what_it_speaks(first: bytes, says: str) -> None:
    assert hear(Guess(), [asks(first)]) == [(says,)]


def test_mysql_is_known_by_the_server() -> None:
    assert hear(Guess(), [tells(greeting(), "greeting")]) == [("greeting",)]
    assert hear(Guess(), [tells(b"220 mail ready\r\n")]) == [("segment",)]


@given(splits())
def test_the_first_bytes_may_come_one_by_one(pieces: list[int]) -> None:
    for first in (STARTUP, b"*1\r\n$4\r\nPING\r\n"):
        assert [len(says) for says in hear(Guess(), [asks(first)], pieces)] == [1]
    assert hear(Guess(), [tells(greeting())], pieces) == [("greeting",)]


@given(st.binary(max_size=100), st.binary(max_size=100), splits(), st.sampled_from(["auto", *READERS]))
def test_no_byte_is_lost(asked: bytes, told: bytes, pieces: list[int], protocol: str) -> None:
    hear(Guess(protocol), [asks(asked), tells(told), asks(asked)], pieces)
    hear(Guess(protocol), [tells(told), asks(asked), tells(told)], pieces)


@pytest.mark.parametrize("protocol", ["postgresql", "redis"])
def test_tls_is_told_from_a_protocol_that_is_given(protocol: str) -> None:
    assert hear(Guess(protocol), [asks(b"\x16\x03\x01\x00"), tells(b"\x16\x03\x03")]) == [("TLS",), ("TLS",)]
