"""What a PostgreSQL connection says, message by message, however the bytes are cut."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendtwice.harness.edges.chunks import LONGEST
from sendtwice.harness.edges.postgresql import PostgreSQL
from tests.harness.edges.wires import (
    DESCRIBE_PORTAL,
    FLUSH,
    READY,
    STARTUP,
    SYNC,
    WELCOME,
    Said,
    asks,
    bind,
    done,
    error,
    execute,
    expected,
    first_frame,
    frame,
    hear,
    parse,
    query,
    splits,
    tells,
)

INSERT = "INSERT INTO operations (key) VALUES ($1)"
SELECT = "SELECT id FROM operations WHERE key = $1"
PARSED, BOUND, NO_ROWS = frame("1"), frame("2"), frame("n")
ROWS, ROW = frame("T", struct.pack("!H", 0)), frame("D", struct.pack("!H", 0))
BEGUN = [asks(STARTUP, "startup"), tells(WELCOME, "ready")]

DIALOGUES: dict[str, list[Said]] = {
    "encryption is refused": [
        asks(first_frame(80877104), "GSSENCRequest"),
        tells(b"N", "no TLS"),
        asks(first_frame(80877103), "SSLRequest"),
        tells(b"N", "no TLS"),
        *BEGUN,
    ],
    "a password": [
        asks(STARTUP, "startup"),
        tells(frame("R", struct.pack("!I", 10) + b"SCRAM-SHA-256\0\0"), "authentication"),
        asks(frame("p", b"SCRAM-SHA-256\0secret"), "password"),
        tells(frame("R", struct.pack("!I", 11) + b"r=x"), "authentication"),
        asks(frame("p", b"secret"), "password"),
        tells(frame("R", struct.pack("!I", 12) + b"v=x") + WELCOME, "ready"),
    ],
    "simple queries": [
        *BEGUN,
        asks(query("BEGIN"), "BEGIN"),
        tells(done("BEGIN") + frame("Z", b"T"), "BEGIN for BEGIN"),
        asks(query("SELECT  id\nFROM operations WHERE key = 'k-1'"), "SELECT id FROM operations WHERE key = ?"),
        tells(ROWS + ROW * 3 + done("SELECT 3") + READY, "SELECT 2+ for SELECT id FROM operations WHERE key = ?"),
        asks(query(""), ""),
        tells(frame("I") + READY, "empty"),
    ],
    "two statements in one query": [
        *BEGUN,
        asks(query("DELETE FROM a; DELETE FROM b"), "DELETE FROM a; DELETE FROM b"),
        tells(done("DELETE 0") + done("DELETE 1") + READY, "DELETE 0; DELETE 1 for DELETE FROM a; DELETE FROM b"),
    ],
    "an error": [
        *BEGUN,
        asks(parse(INSERT) + bind(b"k") + DESCRIBE_PORTAL + execute() + SYNC, INSERT),
        tells(
            PARSED + BOUND + NO_ROWS + error("23505", 'duplicate key value violates unique constraint "k"') + READY,
            f'ERROR 23505 duplicate key value violates unique constraint "k" for {INSERT}',
        ),
    ],
    "a statement is prepared, then executed by its name": [
        *BEGUN,
        asks(parse(SELECT, "s1") + frame("D", b"Ss1\0") + FLUSH, f"PREPARE {SELECT}"),
        tells(PARSED + frame("t", b"\0\0") + ROWS, f"ready for PREPARE {SELECT}"),
        asks(bind(b"k", statement="s1", portal="p") + execute("p") + SYNC, SELECT),
        tells(BOUND + ROW + done("SELECT 1") + READY, f"SELECT 1 for {SELECT}"),
        asks(frame("C", b"Ss1\0") + SYNC, f"CLOSE {SELECT}"),
        tells(frame("3") + READY, f"ready for CLOSE {SELECT}"),
        asks(bind(statement="s1") + execute() + SYNC, "?"),
    ],
    "several statements before one Sync": [
        *BEGUN,
        asks(
            parse("BEGIN") + bind() + execute() + parse(INSERT) + (bind(b"a") + execute()) * 2 + SYNC,
            f"BEGIN; {INSERT} (2 times)",
        ),
        tells(
            PARSED + BOUND + done("BEGIN") + PARSED + (BOUND + done("INSERT 0 1")) * 2 + READY,
            f"BEGIN; INSERT 0 1 (2 times) for BEGIN; {INSERT} (2 times)",
        ),
    ],
    "a pipeline: the answers come in order": [
        *BEGUN,
        asks(
            query("BEGIN") + parse(INSERT) + bind(b"a") + execute() + SYNC + query("COMMIT"),
            "BEGIN",
            INSERT,
            "COMMIT",
        ),
        tells(
            done("BEGIN") + READY + PARSED + BOUND + done("INSERT 0 1") + READY + done("COMMIT") + READY,
            "BEGIN for BEGIN",
            f"INSERT 0 1 for {INSERT}",
            "COMMIT for COMMIT",
        ),
    ],
    "a cursor is read in parts": [
        *BEGUN,
        asks(parse(SELECT) + bind(b"k") + execute(rows=1) + FLUSH, SELECT),
        tells(PARSED + BOUND + ROW + frame("s"), f"suspended for {SELECT}"),
        asks(execute(rows=1) + FLUSH, SELECT),
        tells(done("SELECT 0"), f"SELECT 0 for {SELECT}"),
        asks(SYNC, "sync"),
        tells(READY, "ready for sync"),
    ],
    "what was flushed behind an error is never answered": [
        *BEGUN,
        asks(parse("SELEC") + FLUSH + parse(SELECT) + FLUSH, "PREPARE SELEC", f"PREPARE {SELECT}"),
        tells(error("42601", "syntax error"), "ERROR 42601 syntax error for PREPARE SELEC"),
        asks(parse(SELECT) + FLUSH, f"PREPARE {SELECT}"),
        asks(SYNC, "sync"),
        tells(READY, "ready for sync"),
        asks(query("BEGIN"), "BEGIN"),
        tells(done("BEGIN") + READY, "BEGIN for BEGIN"),
    ],
    "a Flush alone says nothing": [
        *BEGUN,
        asks(parse(SELECT) + SYNC + FLUSH, f"PREPARE {SELECT}"),
        tells(PARSED + READY, f"ready for PREPARE {SELECT}"),
    ],
    "COPY": [
        *BEGUN,
        asks(query("COPY t FROM STDIN"), "COPY t FROM STDIN"),
        tells(frame("G", b"\0\0\0"), "COPY IN for COPY t FROM STDIN"),
        asks(frame("d", b"1\n") + frame("d", b"2\n") + frame("c"), "COPY data"),
        tells(done("COPY 2") + READY, "COPY 2+ for COPY t FROM STDIN"),
        asks(query("COPY t TO STDOUT"), "COPY t TO STDOUT"),
        tells(
            frame("H", b"\0\0\0") + frame("d", b"1\n") + frame("c") + done("COPY 1") + READY,
            "COPY 1 for COPY t TO STDOUT",
        ),
    ],
    "COPY, prepared": [
        *BEGUN,
        asks(parse("COPY t FROM STDIN") + bind() + execute() + SYNC, "COPY t FROM STDIN"),
        tells(PARSED + BOUND + frame("G", b"\0\0\0"), "COPY IN for COPY t FROM STDIN"),
        asks(frame("d", b"1\n") + frame("c") + SYNC, "COPY data"),
        tells(done("COPY 1") + READY, "COPY 1 for COPY t FROM STDIN"),
        asks(query("BEGIN"), "BEGIN"),
        tells(done("BEGIN") + READY, "BEGIN for BEGIN"),
    ],
    "a COPY that fails while its data come": [
        *BEGUN,
        asks(query("COPY t FROM STDIN"), "COPY t FROM STDIN"),
        tells(frame("G", b"\0\0\0"), "COPY IN for COPY t FROM STDIN"),
        asks(frame("d", b"x\n")),
        tells(error("22P02", "invalid input") + READY, "ERROR 22P02 invalid input for COPY t FROM STDIN"),
        asks(frame("d", b"1\n") + frame("c") + query("ROLLBACK"), "ROLLBACK"),
        tells(done("ROLLBACK") + READY, "ROLLBACK for ROLLBACK"),
    ],
    "what the server says unasked": [
        *BEGUN,
        tells(frame("A", struct.pack("!I", 7) + b"jobs\0payload\0"), "NOTIFY jobs"),
        tells(frame("N", b"SNOTICE\0\0") + frame("S", b"TimeZone\0UTC\0")),
        asks(query("SELECT 1"), "SELECT ?"),
        tells(
            frame("A", struct.pack("!I", 7) + b"jobs\0\0") + done("SELECT 1") + READY,
            "NOTIFY jobs",
            "SELECT 1 for SELECT ?",
        ),
        tells(error("57P01", "terminating connection", "FATAL"), "FATAL 57P01 terminating connection"),
    ],
    "a cancel request": [asks(first_frame(80877102, struct.pack("!II", 7, 99)), "cancel")],
    "good bye": [*BEGUN, asks(frame("X"))],
}


@pytest.mark.parametrize("name", DIALOGUES)
def test_a_dialogue_is_read_as(name: str) -> None:
    reader = PostgreSQL()
    assert hear(reader, DIALOGUES[name]) == expected(DIALOGUES[name])
    last = DIALOGUES[name][-1]
    assert reader.unanswered == len(last.messages if last.by_target and last.messages != ("cancel",) else ())


@given(st.sampled_from(sorted(DIALOGUES)), splits())
def test_it_is_the_same_however_the_bytes_are_cut(name: str, pieces: list[int]) -> None:
    assert hear(PostgreSQL(), DIALOGUES[name], pieces) == expected(DIALOGUES[name])


@given(st.binary(max_size=300), st.binary(max_size=300), splits())
def test_bytes_that_are_no_postgresql_pass_all_the_same(asked: bytes, told: bytes, pieces: list[int]) -> None:
    hear(PostgreSQL(), [*BEGUN], pieces)
    reader = PostgreSQL()
    passed, answered = b"", b""
    for at in range(0, 300, pieces[0]):
        passed += b"".join(chunk.data for chunk in reader.asked(asked[at : at + pieces[0]]))
        answered += b"".join(chunk.data for chunk in reader.answered(told[at : at + pieces[0]]))
    passed += b"".join(chunk.data for chunk in reader.asked_no_more())
    answered += b"".join(chunk.data for chunk in reader.answered_no_more())
    assert (passed, answered) == (asked, told)


def test_behind_tls_segments_are_counted() -> None:
    hear(reader := PostgreSQL(), [asks(first_frame(80877103), "SSLRequest")])
    assert [chunk.says for chunk in reader.answered(b"S")] == ["TLS"]
    assert [(chunk.data, chunk.says) for chunk in reader.asked(b"\x16\x03\x01...")] == [(b"\x16\x03\x01...", "TLS")]
    assert [chunk.says for chunk in reader.answered(b"\x16\x03\x03...")] == ["TLS"]


def test_an_answer_that_the_server_breaks_off_says_why() -> None:
    reader = PostgreSQL()
    hear(reader, [*BEGUN, asks(query("SELECT 1"), "SELECT ?")])
    assert reader.answered(error("57P01", "terminating connection", "FATAL")) == []
    assert [chunk.says for chunk in reader.answered_no_more()] == ["FATAL 57P01 terminating connection for SELECT ?"]


def test_long_messages_say_what_they_are_before_their_end() -> None:
    reader = PostgreSQL()
    hear(reader, BEGUN)
    size = LONGEST + 10
    request = parse(INSERT) + bind(b"x" * size) + execute() + SYNC
    first, *rest = [*reader.asked(request[:size]), *reader.asked(request[size:])]
    assert (first.says, first.ends) == (INSERT, False)
    assert [(chunk.says, chunk.ends) for chunk in rest] == [(None, True)]
    answer = PARSED + BOUND + ROW * (LONGEST // len(ROW) + 1) + done("SELECT 9") + READY
    first, *rest = [*reader.answered(answer[:-20]), *reader.answered(answer[-20:])]
    assert (first.says, first.ends) == (f"rows for {INSERT}", False)
    assert [(chunk.says, chunk.ends) for chunk in rest] == [(None, True)]
    assert reader.unanswered == 0


def test_statements_that_are_never_closed_are_forgotten() -> None:
    reader = PostgreSQL()
    hear(reader, BEGUN)
    for number in range(5000):
        reader.asked(parse(f"SELECT {number}", f"s{number}") + SYNC)
        reader.answered(PARSED + READY)
    assert len(reader._statements) < 5000
    assert [chunk.says for chunk in reader.asked(bind(statement="s4999") + execute() + SYNC)] == ["SELECT ?"]
