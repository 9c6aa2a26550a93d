"""What a MySQL connection says, command by command; the bytes are those of its protocol's description."""

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendtwice.harness.edges.mysql import MySQL
from tests.harness.edges.wires import Said, asks, expected, greeting, hear, packet, splits, tells

PROTOCOL_41, SSL, COMPRESS, NO_EOF, ATTRIBUTES = 1 << 9, 1 << 11, 1 << 5, 1 << 24, 1 << 27
MORE, CURSOR = 8, 64
INSERT, SELECT = "INSERT INTO operations (id) VALUES (?)", "SELECT id FROM operations"


def login(flags: int = PROTOCOL_41) -> bytes:
    return packet(struct.pack("<IIB", flags, 1 << 24, 45) + bytes(23) + b"app\0\0", 1)


def command(kind: int, content: str | bytes = b"") -> bytes:
    return packet(bytes([kind]) + (content.encode() if isinstance(content, str) else content))


def ok(rows: int = 0, status: int = 2) -> bytes:
    return packet(b"\0" + bytes([rows, 0]) + struct.pack("<HH", status, 0), 1)


def err(code: int, message: str) -> bytes:
    return packet(b"\xff" + struct.pack("<H", code) + b"#23000" + message.encode(), 1)


def eof(status: int = 2) -> bytes:
    return packet(b"\xfe" + struct.pack("<HH", 0, status), 2)


def last_ok(status: int = 2) -> bytes:
    return packet(b"\xfe\0\0" + struct.pack("<HH", status, 0), 2)


COLUMN, ROW, QUERY, PREPARE, EXECUTE = packet(b"\x03def..."), packet(b"\x01x"), 3, 0x16, 0x17
NUMBER = struct.pack("<I", 5)
BEGUN = [tells(greeting(), "greeting"), asks(login(), "login"), tells(ok(), "OK")]
BEGUN_NO_EOF = [BEGUN[0], asks(login(PROTOCOL_41 | NO_EOF), "login"), BEGUN[2]]


def rows(count: int, *, no_eof: bool = False, status: int = 2) -> bytes:
    return packet(b"\x01") + COLUMN + (b"" if no_eof else eof()) + ROW * count + (last_ok if no_eof else eof)(status)


DIALOGUES: dict[str, list[Said]] = {
    "statements": [
        *BEGUN,
        asks(command(QUERY, "INSERT INTO operations (id) VALUES ('k-1')"), INSERT),
        tells(ok(1), f"OK 1 for {INSERT}"),
        asks(command(QUERY, "INSERT INTO operations (id) VALUES ('k-1')"), INSERT),
        tells(err(1062, "Duplicate entry 'k-1' for key 'a'"), f"ERR 1062 Duplicate entry ? for key ? for {INSERT}"),
        asks(command(QUERY, SELECT), SELECT),
        tells(rows(0), f"rows 0 for {SELECT}"),
        asks(command(0x0E), "ping"),
        tells(ok(), "OK for ping"),
        asks(command(1)),
    ],
    "rows without a packet before them": [
        *BEGUN_NO_EOF,
        asks(command(QUERY, SELECT), SELECT),
        tells(rows(2, no_eof=True), f"rows 2+ for {SELECT}"),
    ],
    "a prepared statement": [
        *BEGUN,
        asks(command(PREPARE, INSERT), f"PREPARE {INSERT}"),
        tells(
            packet(b"\0" + NUMBER + struct.pack("<HH", 0, 1) + bytes(3)) + COLUMN + eof(), f"OK for PREPARE {INSERT}"
        ),
        asks(command(EXECUTE, NUMBER + bytes(6)), INSERT),
        tells(ok(1), f"OK 1 for {INSERT}"),
        asks(command(0x18, NUMBER + b"..") + command(0x19, NUMBER)),
        asks(command(EXECUTE, NUMBER + bytes(6)), "?"),
        tells(err(1243, "Unknown prepared statement"), "ERR 1243 Unknown prepared statement for ?"),
    ],
    "a prepared statement without any columns": [
        *BEGUN_NO_EOF,
        asks(command(PREPARE, "COMMIT"), "PREPARE COMMIT"),
        tells(packet(b"\0" + NUMBER + bytes(7)), "OK for PREPARE COMMIT"),
        asks(command(PREPARE, SELECT), f"PREPARE {SELECT}"),
        tells(packet(b"\0" + NUMBER + struct.pack("<HH", 2, 1) + bytes(3)) + COLUMN * 3, f"OK for PREPARE {SELECT}"),
    ],
    "several results": [
        *BEGUN,
        asks(command(QUERY, "SELECT 1; DELETE FROM a; SELECT 2"), "SELECT ?; DELETE FROM a; SELECT ?"),
        tells(
            rows(1, status=MORE) + ok(3, status=MORE) + rows(1),
            "rows 1; OK 2+; rows 1 for SELECT ?; DELETE FROM a; SELECT ?",
        ),
    ],
    "a cursor": [
        *BEGUN,
        asks(command(EXECUTE, NUMBER), "?"),
        tells(packet(b"\x01") + COLUMN + eof(CURSOR), "cursor for ?"),
        asks(command(0x1C, NUMBER + bytes(4)), "?"),
        tells(ROW * 2 + eof(CURSOR), "rows 2+ for ?"),
    ],
    "a file": [
        *BEGUN,
        asks(command(QUERY, "LOAD DATA LOCAL INFILE 'a' INTO TABLE t"), "LOAD DATA LOCAL INFILE ? INTO TABLE t"),
        tells(packet(b"\xfba"), "file wanted for LOAD DATA LOCAL INFILE ? INTO TABLE t"),
        asks(packet(b"1\n", 2) + packet(b"", 3), "file data"),
        tells(ok(1), "OK 1 for LOAD DATA LOCAL INFILE ? INTO TABLE t"),
    ],
    "a password": [
        BEGUN[0],
        asks(login(), "login"),
        tells(packet(b"\xfecaching_sha2_password\0nonce", 2), "authentication"),
        asks(packet(b"secret", 3), "password"),
        tells(packet(b"\x01\x03", 4) + ok(), "OK"),
        asks(command(0x11, "app\0"), "change user"),
        tells(packet(b"\xfemysql_native_password\0nonce", 2), "authentication for change user"),
        asks(packet(b"secret", 3), "password"),
        tells(err(1045, "Access denied"), "ERR 1045 Access denied for change user"),
    ],
    "what the server says unasked": [
        *BEGUN,
        tells(err(4031, "The client was disconnected"), "ERR 4031 The client was disconnected"),
    ],
}


@pytest.mark.parametrize("name", DIALOGUES)
def test_a_dialogue_is_read_as(name: str) -> None:
    reader = MySQL()
    assert hear(reader, DIALOGUES[name]) == expected(DIALOGUES[name])
    assert reader.unanswered == 0


@given(st.sampled_from(sorted(DIALOGUES)), splits())
def test_it_is_the_same_however_the_bytes_are_cut(name: str, pieces: list[int]) -> None:
    assert hear(MySQL(), DIALOGUES[name], pieces) == expected(DIALOGUES[name])


@given(st.binary(max_size=200), st.binary(max_size=200), splits())
def test_bytes_that_are_no_mysql_pass_all_the_same(asked: bytes, told: bytes, pieces: list[int]) -> None:
    hear(MySQL(), [tells(told), asks(asked), tells(told)], pieces)
    hear(MySQL(), [*BEGUN, asks(asked), tells(told)], pieces)
    hear(MySQL(), [*BEGUN, asks(command(QUERY, SELECT)), tells(told), asks(asked)], pieces)


def _opaque() -> Iterator[tuple[list[Said], str]]:
    tls = packet(struct.pack("<IIB", PROTOCOL_41 | SSL, 1 << 24, 45) + bytes(23), 1)
    yield [BEGUN[0], asks(tls, "SSLRequest")], "TLS"
    yield [BEGUN[0], asks(login(PROTOCOL_41 | COMPRESS), "login"), BEGUN[2]], "compressed"
    yield [*BEGUN, asks(command(0x12, b"...."), "replication")], "replication"
    yield [BEGUN[0], asks(login(0), "segment")], "segment"  # a client of before version 4.1


@pytest.mark.parametrize(
    ("dialogue", "says"), list(_opaque()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_where_nothing_can_be_read_segments_are_counted(dialogue: list[Said], says: str) -> None:
    reader = MySQL()
    assert hear(reader, dialogue) == expected(dialogue)
    assert hear(reader, [asks(b"\x16\x03", says), tells(b"\x16\x03\x01", says)]) == [(says,), (says,)]


def test_a_query_may_have_attributes() -> None:
    reader = MySQL()
    hear(reader, [BEGUN[0], asks(login(PROTOCOL_41 | ATTRIBUTES), "login"), BEGUN[2]])
    assert [chunk.says for chunk in reader.asked(command(QUERY, b"\0\x01" + SELECT.encode()))] == [SELECT]
    assert [chunk.says for chunk in reader.asked(command(QUERY, b"\x01\x01..."))] == ["query with attributes"]


def test_a_packet_may_be_continued_in_the_next() -> None:
    reader = MySQL()
    hear(reader, BEGUN)
    long = bytes([QUERY]) + b"INSERT INTO t VALUES ('" + b"x" * (0xFFFFFF - 24)
    chunks = [*reader.asked(packet(long)), *reader.asked(packet(b"x')", 1))]
    assert [chunk.says for chunk in chunks if chunk.says] == ["INSERT INTO t VALUES (?"]
    assert [chunk.says for chunk in reader.answered(ok(1))] == ["OK 1 for INSERT INTO t VALUES (?"]
