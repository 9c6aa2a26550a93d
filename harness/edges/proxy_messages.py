"""What a proxy passes on: a request to the upstream, its answer to the caller. Bytes in, bytes out; no I/O.

Everything is passed on as it was written, except for what is meant for one connection only (RFC 9110 section 7.6.1)
and for what says where a body ends, where that has to change:

- ``Connection``, the fields that it names, ``Keep-Alive``, ``Proxy-Connection``, ``TE`` and ``Upgrade`` are left out.
- A request's body is there as a whole when it is sent, so one that came in chunks gets a Content-Length, and an
  expected 100 has been given already (section 10.1.1).
- An answer keeps its framing, chunks and trailers included; a caller of HTTP/1.0 gets a length instead of chunks.

h11 says where the parts of an answer are, and that it is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import h11

from sendtwice.fake_provider.http_messages import MAX_BODY
from sendtwice.fake_provider.messages import Passed, Request, Response

_ONE_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "te", "upgrade"})
_MAX_HEAD = 256 * 1024
#: A caller that names these in Connection gets them passed on all the same: no message is one without them.
_NEEDED = frozenset({"host", "content-length", "transfer-encoding"})
#: What says where an answer's body ends.
_FRAMING = frozenset({"content-length", "transfer-encoding", "trailer"})


def one_hop(values: Iterable[str]) -> frozenset[str]:
    """Return the fields that are for one connection only, those that ``Connection`` names included."""
    named = (option.strip().lower() for value in values for option in value.split(","))
    return _ONE_HOP | (frozenset(named) - _NEEDED)


def ends_after(request: Request) -> bool:
    """Whether the caller's connection is good for this request only."""
    options = [option.strip().lower() for value in request.all("connection") for option in value.split(",")]
    return "close" in options or request.version < "1.1"


def forwarded(request: Request, target: str, host: str | None) -> bytes:
    """Return a request as the upstream gets it; ``host`` is None where the caller's own is kept."""
    left_out = one_hop(request.all("connection"))
    chunked = request.header("transfer-encoding") is not None
    own = f"Content-Length: {len(request.body)}"
    lines = [f"{request.method} {target} HTTP/1.1"]
    if request.header("host") is None:  # HTTP/1.0 needs none
        lines.append(f"Host: {host or 'localhost'}")
    for written, (name, value) in zip(request.written, request.headers, strict=True):
        if name == "host":
            lines.append(f"{written}: {value if host is None else host}")
        elif name == "transfer-encoding":
            lines.append(own)
        elif (
            name in left_out
            or (name == "content-length" and chunked)
            or (name == "expect" and value.lower() == "100-continue")
        ):
            continue
        else:
            lines.append(f"{written}: {value}")
    if ends_after(request):
        lines.append("Connection: close")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body


class TooLongError(Exception):
    """An answer is longer than is kept."""


class Answer:
    """An answer as it comes in: :meth:`receive` until :attr:`whole`."""

    def __init__(self, method: str, *, chunks: bool = True) -> None:
        """``method`` is the request's; without ``chunks`` its caller takes a length only."""
        self._method, self._chunks = method, chunks
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        # The parser has to know what was asked to tell where the answer ends.
        self._parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        self._parser.send(h11.EndOfMessage())
        self._interim = b""
        self._head: h11.Response | None = None
        self._raw = bytearray()  # the body as it was framed
        self._content = bytearray()
        self.whole = False

    @property
    def status(self) -> int | None:
        """Its status, once that is known."""
        return None if self._head is None else self._head.status_code

    @property
    def begun(self) -> bool:
        """Whether there is something that could be passed on."""
        return self._head is not None

    @property
    def excess(self) -> bool:
        """Whether more has come than the answer."""
        return self.whole and bool(self._parser.trailing_data[0])

    @property
    def received(self) -> int:
        """How many bytes of its body have come."""
        return len(self._raw)

    def receive(self, data: bytes) -> None:
        """Take in what has come, nothing at all for its end; h11.RemoteProtocolError when it is no answer."""
        if self._head is not None:
            self._raw += data
        self._parser.receive_data(data)
        while not self.whole:
            event = self._parser.next_event()
            match event:
                case h11.NEED_DATA | h11.PAUSED | h11.ConnectionClosed():
                    break
                case h11.InformationalResponse():
                    self._interim += _start(event, self._fields(event, frozenset())) + b"\r\n"
                case h11.Response():
                    self._head = event
                    self._raw += self._parser.trailing_data[0]
                case h11.Data():
                    self._content += event.data
                case h11.EndOfMessage():
                    self.whole = True
                    rest = len(self._parser.trailing_data[0])
                    del self._raw[len(self._raw) - rest :]
            if len(self._raw) > MAX_BODY:
                raise TooLongError

    def passed(self) -> Passed:
        """Return it as its caller gets it; of one that broke off, as much as there is."""
        head = self._head
        assert head is not None
        names = {name.lower() for name, _ in head.headers}
        empty = self._method == "HEAD" or head.status_code in (204, 304)
        framed = bytes(self._raw)
        extra: list[tuple[bytes, bytes]] = []
        left_out: frozenset[str] = frozenset()
        if b"transfer-encoding" in names and not empty:
            left_out = frozenset({"content-length"})  # RFC 9112 section 6.3: it means nothing beside the other
            if not self._chunks:
                left_out |= {"transfer-encoding", "trailer"}
                framed = bytes(self._content)
                extra = [(b"Content-Length", b"%d" % len(framed))]
        start = _start(head, [*self._fields(head, left_out), *extra])
        interim = self._interim if self._chunks else b""  # RFC 9110 section 15.2: HTTP/1.0 knows none
        until_close = not empty and names.isdisjoint({b"content-length", b"transfer-encoding"})
        goes_on = self.whole and not self.excess and not until_close and self._parser.our_state is h11.DONE
        return Passed(head.status_code, framed, start=interim + start, closes=not goes_on, plain=self._plain)

    def _plain(self) -> Response:
        """Return it without its framing."""
        assert self._head is not None
        headers: dict[str, str] = {}
        for name, value in self._fields(self._head, _FRAMING):
            written, said = name.decode("latin-1"), value.decode("latin-1")
            headers[written] = f"{headers[written]}, {said}" if written in headers else said
        return Response(self._head.status_code, bytes(self._content), headers)

    @staticmethod
    def _fields(head: h11.Response | h11.InformationalResponse, left_out: frozenset[str]) -> list[tuple[bytes, bytes]]:
        options = [value.decode("latin-1") for name, value in head.headers if name == b"connection"]
        left_out |= one_hop(options)
        return [
            (name, value) for name, value in head.headers.raw_items() if name.decode("latin-1").lower() not in left_out
        ]


def _start(head: h11.Response | h11.InformationalResponse, fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    lines = [b"HTTP/1.1 %d %b" % (head.status_code, head.reason)]
    return b"\r\n".join([*lines, *(b"%b: %b" % field for field in fields)]) + b"\r\n"
