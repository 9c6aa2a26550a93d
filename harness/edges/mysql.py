"""Reads the protocol of MySQL and MariaDB ("Client/Server Protocol" in MySQL's source documentation).

The server speaks first. Then every command is a request, and all that the server says to it an answer: one packet, or
the columns and rows of one result after the other. A request says its statement, also when that was prepared earlier,
and any other command its name; an answer what the statement has come to, and which statement::

    INSERT INTO operations (id) VALUES (?)
    ERR 1062 Duplicate entry ? for key ? for INSERT INTO operations (id) VALUES (?)

Encrypted or compressed connections cannot be read: there, and in a replication, segments are counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from sendtwice.harness.edges.chunks import Chunk, Segments, answering
from sendtwice.harness.edges.frames import Frames, PartsReader, UnreadableError
from sendtwice.harness.edges.sql import remember, statement

#: Capabilities of a client, and the sizes of its first packet.
_PROTOCOL_41, _SSL, _COMPRESS, _OPTIONAL_COLUMNS, _ZSTD = 1 << 9, 1 << 11, 1 << 5, 1 << 25, 1 << 26
_NO_EOF, _ATTRIBUTES = 1 << 24, 1 << 27
_SSL_REQUEST = 32
#: Status flags: another result follows; the rows are fetched later.
_MORE, _CURSOR = 0x0008, 0x0040
_OK, _MORE_AUTH, _FILE, _EOF, _ERR = 0x00, 0x01, 0xFB, 0xFE, 0xFF
_WHOLE = 0xFFFFFF  # a packet of this size is continued in the next
_QUIT, _QUERY, _FIELDS, _STATISTICS, _CHANGE_USER = 0x01, 0x03, 0x04, 0x09, 0x11
_PREPARE, _EXECUTE, _LONG_DATA, _CLOSE, _FETCH = 0x16, 0x17, 0x18, 0x19, 0x1C
_DUMPS = (0x12, 0x1E)
_NAMES = {
    0x02: "use",
    _FIELDS: "fields",
    _STATISTICS: "statistics",
    0x0E: "ping",
    _CHANGE_USER: "change user",
    0x1A: "reset statement",
    0x1B: "set option",
    0x1F: "reset connection",
}
#: What comes next of an answer: how it begins; columns; what ends them; rows; parts of a statement; one packet.
_FIRST, _COLUMNS, _END_OF_COLUMNS, _ROWS, _PARTS, _ONE, _LOGIN = range(7)


def begins(data: bytes) -> bool | None:
    """Whether a server that speaks so first is MySQL; None when more must be seen."""
    if len(data) < 5:
        return None if not any(data[1:]) else False
    return data[3] == 0 and (data[4] == 10 or data[4:7] in (b"\xff\x10\x04", b"\xff\x69\x04", b"\xff\x6a\x04"))


class _Packets(Frames):
    """A packet's kind is its number in the exchange."""

    def __init__(self) -> None:
        super().__init__(4)
        self.size = 0
        self._first: bytes | None = None  # the beginning of what this packet continues

    def measure(self, header: bytes) -> tuple[int, int]:
        self.size = int.from_bytes(header[:3], "little")
        return header[3], self.size

    def content(self) -> bytes | None:
        """Return the beginning of what has ended with this packet; None when it goes on in the next."""
        first = self.head if self._first is None else self._first
        self._first = first if self.size == _WHOLE else None
        return None if self.size == _WHOLE else first


@dataclass(slots=True)
class _Asked:
    """A command that the server has yet to answer."""

    says: str
    command: int = 0
    state: int = _FIRST


class MySQL(PartsReader):
    """Reads one connection."""

    def __init__(self) -> None:
        """Begin at the connection's first byte, which is the server's."""
        self._client, self._server = _Packets(), _Packets()
        super().__init__(self._client, self._server)
        self._greeted = False
        self._offered = 0  # capabilities of the server, then of both
        self._open: deque[_Asked] = deque()
        self._authenticated = False
        self._sending = False  # the client sends a file
        self._statements: dict[int, str] = {}
        self._left = 0  # columns or parts that are still to come
        self._rows = 0
        self._tags: list[str] = []

    @property
    def waiting(self) -> int:
        """How many requests the store has yet to answer."""
        return len(self._open)

    # --- From the client -----------------------------------------------------------------------------------

    def heard(self) -> Iterator[Chunk]:
        """A packet of the client has ended."""
        head = self._client.content()
        if head is None:
            return
        if not self._greeted:
            raise UnreadableError
        if self._sending:
            if not head:
                self._sending = False
                yield self.request.ended("file data")
        elif not self._authenticated:
            yield self._login(head)
        else:
            yield self._command(head)

    def request_so_far(self) -> str:
        """Return what the request says that has not ended yet."""
        return "file data" if self._sending else self._text(self._client.partial)

    def _login(self, head: bytes) -> Chunk:
        if self._open:  # what the server has asked for since
            self._open[0].state = _LOGIN
            return self.request.ended("password")
        flags = int.from_bytes(head[:4], "little")
        if not flags & _PROTOCOL_41 or flags & _OPTIONAL_COLUMNS:
            raise UnreadableError
        if flags & _SSL and len(head) == _SSL_REQUEST:
            self.opaque = Segments("TLS")
            return self.request.ended("SSLRequest")
        self._offered &= flags
        self._open.append(_Asked("", state=_LOGIN))
        return self.request.ended("login")

    def _command(self, head: bytes) -> Chunk:
        command, says = head[0] if head else 0, self._text(head)
        if command in (_QUIT, _CLOSE, _LONG_DATA):
            if command == _CLOSE:
                self._statements.pop(int.from_bytes(head[1:5], "little"), None)
            return self.request.ended(None)  # never answered
        if command in _DUMPS:
            self.opaque = Segments("replication")
            return self.request.ended("replication")
        state = {_QUERY: _FIRST, _EXECUTE: _FIRST, _PREPARE: _FIRST, _FIELDS: _ROWS, _FETCH: _ROWS}.get(command, _ONE)
        if command == _CHANGE_USER:
            self._authenticated, state = False, _LOGIN
        self._open.append(_Asked(says, command, state))
        return self.request.ended(says)

    def _text(self, head: bytes) -> str:
        command, rest = head[0] if head else 0, head[1:]
        if command == _QUERY:
            if self._offered & _ATTRIBUTES:
                if rest[:1] != b"\0":
                    return "query with attributes"
                rest = rest[2:]
            return statement(rest, "mysql")
        if command == _PREPARE:
            return "PREPARE " + statement(rest, "mysql")
        if command in (_EXECUTE, _FETCH):
            return self._statements.get(int.from_bytes(rest[:4], "little"), "?")
        return _NAMES.get(command, f"command {command}")

    # --- From the server -----------------------------------------------------------------------------------

    def told(self) -> Iterator[Chunk]:
        """A packet of the server has ended."""
        head = self._server.content()
        if head is None:
            return
        kind = head[0] if head else -1
        if not self._greeted:
            self._greet(kind, head)
            yield self.reply.ended(_error(head) if kind == _ERR else "greeting")
        elif not self._open:
            yield self.reply.ended(_error(head) if kind == _ERR else None)
        elif self._answers(self._open[0], kind, head):
            text = answering("; ".join(self._tags) or "OK", self._open[0].says)
            self._tags, self._rows = [], 0
            if not self._sending and self._open[0].state != _LOGIN:
                self._open.popleft()
            yield self.reply.ended(text)

    def reply_so_far(self) -> str:
        """Return what the reply says that has not ended yet."""
        return answering("; ".join(self._tags) or "rows", self._open[0].says if self._open else "")

    def _greet(self, kind: int, head: bytes) -> None:
        self._greeted = True
        if kind != _ERR:
            after = head.find(b"\0", 1) + 1 + 4 + 8 + 1  # the version, the connection's number, a half of a nonce
            self._offered = int.from_bytes(head[after : after + 2] + head[after + 5 : after + 7], "little")

    def _answers(self, asked: _Asked, kind: int, head: bytes) -> bool:
        """Whether the answer ends with this packet."""
        if kind == _ERR and asked.state != _COLUMNS:
            self._tags.append(_error(head))
            asked.state = _FIRST
            return True
        match asked.state:
            case _ if asked.state == _LOGIN:
                return self._logged_in(asked, kind, head)
            case _ if asked.state == _FIRST:
                return self._first(asked, kind, head)
            case _ if asked.state in (_COLUMNS, _PARTS):
                self._left -= 1
                if self._left == 0:
                    if asked.state == _PARTS:
                        return True
                    asked.state = _ROWS if self._offered & _NO_EOF else _END_OF_COLUMNS
            case _ if asked.state == _END_OF_COLUMNS:
                asked.state = _ROWS
                if int.from_bytes(head[3:5], "little") & _CURSOR:
                    self._tags.append("cursor")
                    return True
            case _ if asked.state == _ROWS:
                return self._row(asked, kind, head)
        return asked.state == _ONE

    def _logged_in(self, asked: _Asked, kind: int, head: bytes) -> bool:
        if kind == _MORE_AUTH and head[1:2] == b"\x03":
            return False  # the password was in a cache, and OK follows
        if kind != _OK:
            self._tags.append("authentication")
            return True
        self._authenticated, asked.state = True, _FIRST
        if self._offered & (_COMPRESS | _ZSTD):
            self.opaque = Segments("compressed")
        return True

    def _first(self, asked: _Asked, kind: int, head: bytes) -> bool:
        """Read the beginning of an answer."""
        if kind == _FILE:
            self._sending = True
            self._tags.append("file wanted")
            return True
        if kind == _OK and asked.command == _PREPARE:
            remember(self._statements, int.from_bytes(head[1:5], "little"), asked.says.removeprefix("PREPARE "))
            groups = [int.from_bytes(head[at : at + 2], "little") for at in (5, 7)]
            ends = 0 if self._offered & _NO_EOF else sum(map(bool, groups))
            self._left, asked.state = sum(groups) + ends, _PARTS
            return self._left == 0
        if kind == _OK:
            count, at = _number(head, 1)
            self._tags.append(f"OK {_few(count)}")
            return not _status(head, at) & _MORE
        self._left, at = _number(head, 0)
        asked.state = _COLUMNS
        if at < len(head) and head[at] == 0:  # MariaDB: the client knows the columns
            asked.state = _ROWS if self._offered & _NO_EOF else _END_OF_COLUMNS
        return False

    def _row(self, asked: _Asked, kind: int, head: bytes) -> bool:
        """Read a row, or what ends them."""
        if kind != _EOF or (self._server.size >= 9 and not self._offered & _NO_EOF):
            self._rows += 1
            return False
        self._tags.append(f"rows {_few(self._rows)}")
        self._rows, asked.state = 0, _FIRST
        if self._server.size < 9 and not self._offered & _NO_EOF:
            return not int.from_bytes(head[3:5], "little") & _MORE
        return not _status(head, _number(head, 1)[1]) & _MORE


def _number(head: bytes, at: int) -> tuple[int, int]:
    """Return a length-encoded number, and where it ends."""
    first = head[at] if at < len(head) else 0
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
    if size is None:
        return first, at + 1
    return int.from_bytes(head[at + 1 : at + 1 + size], "little"), at + 1 + size


def _status(head: bytes, at: int) -> int:
    """Return the status flags of an OK packet: they come behind the number of the last row inserted."""
    at = _number(head, at)[1]
    return int.from_bytes(head[at : at + 2], "little")


def _few(count: int) -> str:
    return str(count) if count < 2 else "2+"


def _error(head: bytes) -> str:
    """Return an error's number and message; the values in it are quoted."""
    code, text = int.from_bytes(head[1:3], "little"), head[3:]
    text = text[6:] if text[:1] == b"#" else text
    return f"ERR {code} {statement(text, 'mysql')}"
