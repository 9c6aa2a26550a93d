"""The bytes of HTTP/1.1 on one connection, seen from the server's side. No I/O.

Nearly every request that a mail API gets is *plain*: its head is there as a whole, no field stands in it twice, and
the body is as long as Content-Length says. Such a request is read and answered with a few operations on bytes. All
others (chunks, an expected 100, HTTP/1.0, folded lines, a head in pieces, nonsense) are h11's, one message at a time.
Which of the two reads a message makes no difference to anyone but the clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

import h11

from sendtwice.fake_provider.messages import Passed, Response

MAX_BODY = 32 * 1024 * 1024
_MAX_HEAD = 256 * 1024

_TOKEN = r"[-!#$%&'*+.^_`|~0-9A-Za-z]++"
_REQUEST_LINE = re.compile(rf"({_TOKEN}) ([!-~]++) HTTP/1\.1".encode())
_FIELD_LINE = re.compile(rf"({_TOKEN}):([^\0\n\r\f\v]*+)".encode())
_FIELD = re.compile(rf"{_TOKEN}: [!-~\x80-\xff]++(?:[ \t]++[!-~\x80-\xff]++)*+")
#: Fields with which a message is not plain, whatever they say.
_SPECIAL = frozenset({"expect", "transfer-encoding", "upgrade"})
#: Fields of an answer that are not a service's to give.
_OURS = _SPECIAL | {"connection", "content-length"}


class Missing(Enum):
    """Why there is nothing to return."""

    MORE = auto()  # not all of it has come
    ALL = auto()  # none will come any more


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request; the names of its fields are in lower case, and in ``written`` as the caller wrote them."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    written: tuple[str, ...] = ()
    version: str = "1.1"


class Messages:
    """Requests in, answers out, one after the other: :meth:`head`, :meth:`body`, :meth:`answer`, :meth:`proceed`."""

    def __init__(self) -> None:
        """Begin with nothing received."""
        self._data = bytearray()  # from the first byte of the message that is being read, or answered
        self._ended = False
        self._h11: h11.Connection | None = None
        self._h11_body = bytearray()
        self._method = ""
        self._head = self._whole = 0  # how long the plain head is, and the message once it is whole
        self._length = 0
        self._keep = True
        #: Whether there was no body because it was longer than is taken.
        self.too_long = False

    def receive(self, data: bytes) -> None:
        """Take in what was read; nothing at all means the end."""
        if self._h11 is not None:
            self._h11.receive_data(data)
        elif data:
            self._data += data
        else:
            self._ended = True

    @property
    def begun(self) -> bool:
        """Whether there is the beginning of a message, and not its end."""
        if self._h11 is not None:
            return self._h11.their_state is h11.SEND_BODY or bool(self._h11.trailing_data[0])
        return len(self._data) > self._whole

    @property
    def unread(self) -> int:
        """How many bytes have come after the message that was read last."""
        return len(self._data) - self._whole if self._h11 is None else len(self._h11.trailing_data[0])

    @property
    def interim(self) -> bytes:
        """What the caller waits for before it sends more."""
        if self._h11 is None or not self._h11.they_are_waiting_for_100_continue:
            return b""
        return self._h11.send(h11.InformationalResponse(status_code=100, headers=[])) or b""

    def head(self) -> Head | Missing:
        """Return the head of a request; h11.RemoteProtocolError when what came is none."""
        if self._h11 is None:
            if not self._data:
                return Missing.ALL if self._ended else Missing.MORE
            found = self._plain_head()
            if found is not None:
                return found
            self._hand_to_h11()
        assert self._h11 is not None
        event = self._h11.next_event()
        if event is h11.NEED_DATA:
            return Missing.MORE
        if not isinstance(event, h11.Request):
            return Missing.ALL
        self._method = event.method.decode()
        fields = [(name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers.raw_items()]
        headers = tuple((name.lower(), value) for name, value in fields)
        length = dict(headers).get("content-length", "0")
        self.too_long = length.isdecimal() and int(length) > MAX_BODY
        written = tuple(name for name, _ in fields)
        return Head(self._method, event.target.decode("latin-1"), headers, written, event.http_version.decode())

    def body(self) -> bytes | Missing:
        """Return the body of the request whose head was returned."""
        if self._h11 is None:
            whole = self._head + self._length
            if len(self._data) >= whole:
                self._whole = whole
                return bytes(memoryview(self._data)[self._head : whole])
            return Missing.ALL if self._ended else Missing.MORE
        while not self.too_long and isinstance(event := self._h11.next_event(), h11.Data):
            self._h11_body += event.data
            self.too_long = len(self._h11_body) > MAX_BODY
        if self.too_long:
            self._h11_body.clear()
            return Missing.ALL
        if event is h11.NEED_DATA:
            return Missing.MORE
        return bytes(self._h11_body) if isinstance(event, h11.EndOfMessage) else Missing.ALL

    def answer(self, response: Response) -> bytes:
        """Return the bytes of the answer to the request that was read."""
        if isinstance(response, Passed):
            return self._passed(response)
        if self._h11 is None:
            around = _around_length(response.status, tuple(response.headers.items()), keep=self._keep)
            if around is not None:
                before, after = around
                body = b"" if self._method == "HEAD" else response.body
                return b"%s%d%s%s" % (before, len(response.body), after, body)
            self._hand_to_h11()
        return self._h11_answer(response)

    def proceed(self) -> bool:
        """Go on to the next request; False when the connection was good for this one only."""
        if self._h11 is None:
            del self._data[: self._whole]
            self._head = self._whole = 0
            return self._keep
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        data, self._ended = self._h11.trailing_data
        self._data, self._h11 = bytearray(data), None
        self._h11_body.clear()
        return True

    def _plain_head(self) -> Head | None:
        end = self._data.find(b"\r\n\r\n")
        plain = _plain(bytes(memoryview(self._data)[:end])) if end >= 0 else None
        if plain is None:
            return None
        self._method, self._keep = plain.head.method, plain.keep
        self._head, self._length = end + 4, plain.length
        return plain.head

    def _hand_to_h11(self) -> None:
        """Let h11 go on from here."""
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self._h11.receive_data(bytes(self._data))
        if self._ended:
            self._h11.receive_data(b"")
        if self._whole:  # it was read as a plain one
            while not isinstance(self._h11.next_event(), h11.EndOfMessage):
                pass
        self._data.clear()
        self._head = self._whole = 0

    def _passed(self, response: Passed) -> bytes:
        if self._h11 is None:
            self._keep = keep = self._keep and not response.closes
        else:
            # h11 has to know that there was an answer, and says whether the connection goes on.
            ending = [("Connection", "close")] if response.closes else []
            self._h11.send(h11.Response(status_code=response.status, headers=[("Content-Length", "0"), *ending]))
            self._h11.send(h11.EndOfMessage())
            keep = self._h11.our_state is h11.DONE
        return response.start + (b"\r\n" if keep else b"Connection: close\r\n\r\n") + response.body

    def _h11_answer(self, response: Response) -> bytes:
        assert self._h11 is not None
        headers = [(name.encode(), value.encode("latin-1")) for name, value in response.headers.items()]
        bodyless = response.status in (204, 304) or response.status < 200
        if not bodyless:
            headers.append((b"Content-Length", b"%d" % len(response.body)))
        message = h11.Response(status_code=response.status, headers=headers, reason=b"")
        data = self._h11.send(message) or b""
        if response.body and not bodyless and self._method != "HEAD":
            data += self._h11.send(h11.Data(data=response.body)) or b""
        return data + (self._h11.send(h11.EndOfMessage()) or b"")


@dataclass(frozen=True, slots=True)
class _Plain:
    """A plain head, the length of its body, and whether the connection is kept."""

    head: Head
    length: int
    keep: bool


# A caller's heads are often all the same, and where they are not, nearly all of their lines are.


@lru_cache(maxsize=256)
def _plain(data: bytes) -> _Plain | None:
    """Read a head, less its last two line ends; None unless it is plain."""
    first, *lines = data.split(b"\r\n")
    asked, found = _request_line(first), tuple(field for line in lines if (field := _field(line)) is not None)
    if asked is None or len(found) < len(lines):
        return None
    method, target = asked
    headers = tuple((name.lower(), value) for name, value in found)
    fields = dict(headers)
    length = fields.get("content-length", "0")
    connection = fields.get("connection", "keep-alive").lower()
    if (
        len(fields) < len(headers)
        or "host" not in fields
        or not fields.keys().isdisjoint(_SPECIAL)
        or connection not in ("keep-alive", "close")
        or not (length.isdecimal() and length.isascii() and len(length) < 10 and int(length) <= MAX_BODY)
        or method == "CONNECT"
    ):
        return None
    head = Head(method, target, headers, tuple(name for name, _ in found))
    return _Plain(head, int(length), connection != "close")


@lru_cache(maxsize=256)
def _request_line(line: bytes) -> tuple[str, str] | None:
    match = _REQUEST_LINE.fullmatch(line)
    return None if match is None else (match[1].decode(), match[2].decode())


@lru_cache(maxsize=1024)
def _field(line: bytes) -> tuple[str, str] | None:
    match = _FIELD_LINE.fullmatch(line)
    return None if match is None else (match[1].decode(), match[2].decode("latin-1").strip(" \t"))


@lru_cache(maxsize=256)
def _around_length(status: int, headers: tuple[tuple[str, str], ...], *, keep: bool) -> tuple[bytes, bytes] | None:
    """Return an answer's head up to the number in Content-Length, and what follows the number; None unless it is plain.

    The same few heads go out again and again.
    """
    if not 200 <= status <= 599 or status in (204, 304):
        return None
    lines = [f"HTTP/1.1 {status} "]
    for name, value in headers:
        line = f"{name}: {value}"
        if name.lower() in _OURS or not _FIELD.fullmatch(line):
            return None
        lines.append(line)
    lines.append("Content-Length: ")
    return "\r\n".join(lines).encode("latin-1"), b"\r\n\r\n" if keep else b"\r\nConnection: close\r\n\r\n"
