"""Reads PostgreSQL's protocol, version 3 ("Frontend/Backend Protocol" in its manual).

A request is all that the client sends until the server has to answer: a simple query; Parse, Bind, Describe, Execute
and whatever else comes before a Sync or a Flush, as one; a password; the data of a COPY. It says the statements that it
has executed, also where they were prepared earlier. The answer is everything up to ReadyForQuery, or as many replies as
a Flush has asked for; it says its command tags or errors, and what they are for::

    INSERT INTO operations (key) VALUES ($1)
    ERROR 23505 duplicate key value violates unique constraint "operations_pkey" for INSERT INTO operations ...

The reader knows which requests are unanswered, and so where each answer ends. After an error the server skips all up to
the next Sync: whatever was flushed before that has no answer. A COPY is two requests, the statement and the data. A
NOTIFY is a message of its own; what else the server says unasked (notices, changed settings) is passed on as it comes.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from sendtwice.harness.edges.chunks import Chunk, Segments, answering
from sendtwice.harness.edges.frames import Frames, PartsReader, UnreadableError
from sendtwice.harness.edges.sql import remember, shortened, statement, unnumbered

#: What a connection can begin with, instead of a frame that has a type: the code behind the length.
_CANCEL, _TLS, _GSS = 80877102, 80877103, 80877104
_MAJOR = 3
#: These frames of a client end a request: Query, FunctionCall, a password, Sync, Flush. The others add to it.
_ENDS = b"QFpSH"
_PARTS = b"PBDEC"
#: Replies that answer one frame each: completions, parameters, rows or none, and how an Execute ends.
_COUNTED = b"123tTnCIs"
#: Authentication frames that the client does not answer: Ok, and SASLFinal.
_NOT_ASKING = (0, 12)
#: How many rows: with every run there may be more.
_MANY = re.compile(r"\b(?:[2-9]|[1-9]\d+)$")


def begins(data: bytes) -> bool | None:
    """Whether a client that begins so speaks PostgreSQL; None when more must be seen."""
    if len(data) < 8:
        return None if data[:2] in (b"", b"\0", b"\0\0") else False
    length, code = struct.unpack("!II", data[:8])
    return 8 <= length <= 10_000 and (code in (_CANCEL, _TLS, _GSS) or code >> 16 == _MAJOR)


class _ClientFrames(Frames):
    """The first frames have no type."""

    def __init__(self) -> None:
        super().__init__(4)
        self.typed = False

    def measure(self, header: bytes) -> tuple[int, int]:
        kind, length = (header[0], header[1:]) if self.typed else (0, header)
        size = int.from_bytes(length, "big")
        if size < 4 or size > 0x7FFFFFFF or (not self.typed and size > 10_000):
            raise UnreadableError
        return kind, size - 4


class _ServerFrames(Frames):
    """The answer to a request for encryption is one byte."""

    def __init__(self) -> None:
        super().__init__(5)

    def measure(self, header: bytes) -> tuple[int, int]:
        if self.header == 1:
            return header[0], 0
        size = int.from_bytes(header[1:], "big")
        if size < 4 or size > 0x7FFFFFFF:
            raise UnreadableError
        return header[0], size - 4


@dataclass(slots=True)
class _Asked:
    """A request that the server has yet to answer."""

    says: str = ""
    replies: int | None = None  # after so many more, or else at ReadyForQuery
    simple: bool = False
    copying: bool = False  # the server waits for the data of a COPY


class PostgreSQL(PartsReader):
    """Reads one connection."""

    def __init__(self) -> None:
        """Begin at the connection's first byte."""
        self._client, self._server = _ClientFrames(), _ServerFrames()
        super().__init__(self._client, self._server)
        self._open: deque[_Asked] = deque()
        self._failed = False  # the server skips all up to the next Sync
        self._statements: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        self._executed: list[str] = []
        self._parts: list[str] = []  # what else the parts of this request do
        self._replies = 0  # that the parts of this request have asked for
        self._said: str | None = None  # what it said when its beginning was passed on
        self._copied = False  # the data of a COPY is sent, and the Sync behind it is still to come
        self._begun = False  # an answer has
        self._about = ""  # what the answer is for
        self._tags: list[str] = []

    @property
    def waiting(self) -> int:
        """How many requests the store has yet to answer."""
        return len(self._open)

    # --- From the client -----------------------------------------------------------------------------------

    def heard(self) -> Iterator[Chunk]:
        """A frame of the client has ended."""
        kind, head = self._client.kind, self._client.head
        if not self._client.typed:
            yield self._first(int.from_bytes(head[:4], "big"))
        elif kind in b"dcf":
            yield from self._copy(kind)
        elif kind == ord("X"):
            yield self.request.ended(None)  # Terminate: it is never answered
        elif kind in _PARTS:
            self._part(kind, head)
        elif kind in _ENDS:
            yield self._asked(kind, head)
        else:
            raise UnreadableError

    def request_so_far(self) -> str:
        """Return what the request says that has not ended yet."""
        self._said = self._saying()
        return self._said

    def _saying(self) -> str:
        kind, names = self._client.kind, self._client.partial.split(b"\0", 2)
        if self._copying is not None:
            return "COPY data"
        if kind == ord("Q"):
            return statement(names[0])
        if kind == ord("P") and not self._executed and len(names) > 1:
            return statement(names[1])
        if kind == ord("B") and not self._executed and len(names) > 1:
            return self._statements.get(names[1], "?")
        return self._text()

    def _first(self, code: int) -> Chunk:
        if code == _CANCEL:
            return self.request.ended("cancel")  # never answered, on a connection of its own
        if code in (_TLS, _GSS):
            self._open.append(_Asked())
            self._server.header = 1
            return self.request.ended("SSLRequest" if code == _TLS else "GSSENCRequest")
        if code >> 16 != _MAJOR:
            raise UnreadableError
        self._client.typed, self._client.header = True, 5
        self._open.append(_Asked())
        return self.request.ended("startup")

    def _part(self, kind: int, head: bytes) -> None:
        names = [*head.split(b"\0", 2), b"", b""]
        self._replies += 1
        if kind == ord("P"):
            sql = statement(names[1])
            remember(self._statements, names[0], sql)
            self._parts.append(f"PREPARE {sql}")
        elif kind == ord("B"):
            sql = self._statements.get(names[1], "?")
            remember(self._portals, names[0], sql)
            self._parts.append(f"BIND {sql}")
        elif kind == ord("E"):
            self._executed.append(self._portals.get(names[0], "?"))
        else:
            named = self._statements if names[0].startswith(b"S") else self._portals
            sql = named.get(names[0][1:], "?")
            if kind == ord("C"):
                named.pop(names[0][1:], None)
                self._parts.append(f"CLOSE {sql}")
            else:
                self._replies += named is self._statements  # it has parameters as well as rows
                self._parts.append(f"DESCRIBE {sql}")

    def _asked(self, kind: int, head: bytes) -> Chunk:
        flush = kind == ord("H")
        if kind == ord("Q"):
            asked = _Asked(statement(head.rstrip(b"\0")), simple=True)
        elif kind == ord("F"):
            asked = _Asked("function call", simple=True)
        elif kind == ord("p"):
            self._open.append(_Asked())
            return self.request.ended("password")
        else:
            asked = _Asked(self._text(), self._replies if flush else None)
        asked.says, self._said = self._said or asked.says, None
        self._executed, self._parts, self._replies = [], [], 0
        if self._copied:
            # The statement is still to be answered; the Sync that came with it was skipped.
            self._copied, asked.says = flush, "COPY data"
        elif flush and asked.replies == 0:
            return self.request.ended(None)  # a Flush alone: there is nothing to answer
        elif not (flush and self._failed):
            self._open.append(asked)
        return self.request.ended(asked.says)

    @property
    def _copying(self) -> _Asked | None:
        return next((asked for asked in self._open if asked.copying), None)

    def _copy(self, kind: int) -> Iterator[Chunk]:
        copying = self._copying
        if copying is None:
            # The server has ended the COPY by an error already, and skips what is still on its way.
            yield self.request.ended(None)
        elif kind != ord("d"):
            copying.copying = False
            self._copied = not copying.simple
            if copying.simple:
                self._said = None
                yield self.request.ended("COPY data")

    def _text(self) -> str:
        """Return what the parts of a request come to."""
        # A Parse comes with a Describe: the first says enough where nothing is executed.
        return shortened(_together(self._executed or self._parts[:1]) or "sync")

    # --- From the server -----------------------------------------------------------------------------------

    def told(self) -> Iterator[Chunk]:
        """A frame of the server has ended."""
        kind, head = self._server.kind, self._server.head
        asked = self._open[0] if self._open else None
        if self._server.header == 1:
            yield self._encryption(kind)
        elif kind == ord("A") and not self._begun:
            channel = head[4:].split(b"\0", 1)[0].decode("utf-8", "replace")
            yield self.reply.ended(shortened(f"NOTIFY {unnumbered(channel)}"))
        elif asked is None:
            yield self.reply.ended(_error(head) if kind == ord("E") else None)
        else:
            if not self._begun:
                self._begun, self._about = True, asked.says
            self._tell(kind, head)
            if self._answers(asked, kind, head):
                yield self._end()

    def reply_so_far(self) -> str:
        """Return what the reply says that has not ended yet."""
        return answering(_together(self._tags) or "rows", self._about)

    def _encryption(self, kind: int) -> Chunk:
        self._server.header = 5
        self._open.popleft()
        if kind == ord("N"):
            return self.reply.ended("no TLS")
        self.opaque = Segments("TLS" if kind in b"SG" else "segment")
        return self.reply.ended("TLS")

    def _tell(self, kind: int, head: bytes) -> None:
        """Note what a frame adds to the text of the answer."""
        if kind == ord("C"):
            tag = head.rstrip(b"\0").decode("utf-8", "replace")
            self._tags.append(_MANY.sub("2+", tag))
        elif kind == ord("E"):
            self._tags.append(_error(head))
        elif kind in b"IsGRW":
            found = {"I": "empty", "s": "suspended", "G": "COPY IN", "W": "COPY BOTH"}.get(chr(kind))
            found = "authentication" if kind == ord("R") and _asks(head) else found
            self._tags += [found] if found else []

    def _answers(self, asked: _Asked, kind: int, head: bytes) -> bool:
        """Whether the answer ends with this frame; if so, what was asked is asked no more."""
        if kind == ord("Z"):
            self._failed = self._copied = False
            while self._open and self._open.popleft().replies is not None:
                pass  # what was flushed before it had its answers, or was skipped
            return True
        if kind == ord("G"):
            asked.copying = True  # it is answered to its end when the data has come
            return True
        if kind == ord("W"):
            self.opaque = Segments("replication")
            return True
        if kind == ord("R") and _asks(head):
            self._open.popleft()
            return True
        if asked.replies is None:
            return False
        if kind == ord("E"):
            self._failed = True
            while self._open and self._open[0].replies is not None:
                self._open.popleft()
            return True
        if kind in _COUNTED:
            asked.replies -= 1
            if asked.replies == 0:
                self._open.popleft()
                return True
        return False

    def _end(self) -> Chunk:
        chunk = self.reply.ended(answering(_together(self._tags) or "ready", self._about))
        self._begun, self._tags = False, []
        return chunk


def _together(texts: list[str]) -> str:
    runs = [(text, len(list(same))) for text, same in itertools.groupby(texts)]
    return "; ".join(f"{text} ({times} times)" if times > 1 else text for text, times in runs)


def _asks(head: bytes) -> bool:
    """Whether the server waits for an answer to its Authentication frame."""
    return int.from_bytes(head[:4], "big") not in _NOT_ASKING


def _error(head: bytes) -> str:
    """Return an error's severity, code and message."""
    fields = {field[:1]: field[1:].decode("utf-8", "replace") for field in head.split(b"\0") if field}
    severity = fields.get(b"V") or fields.get(b"S", "ERROR")
    return unnumbered(f"{severity} {fields.get(b'C', '')} {fields.get(b'M', '')}")
