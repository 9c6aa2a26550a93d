"""Protocols whose messages consist of parts (frames, replies): cutting the stream, and gathering a message.

A :class:`Cutter` knows where the parts of one direction end; a :class:`PartsReader` says, part by part, which message
each belongs to. Where the bytes are not what the protocol says, or cannot be read any more (TLS), the reader gives up
and counts segments from there on: it never keeps anything back that it does not understand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Protocol

from sendtwice.harness.edges.chunks import LONGEST, Chunk, Segments


class UnreadableError(Exception):
    """The bytes are not what the protocol says."""


class Cutter(Protocol):
    """Cuts one direction of a stream into parts."""

    def cut(self, data: bytes) -> Iterator[tuple[int, bool]]:
        """Return up to where in ``data`` the next piece goes, and whether a part ends there.

        A piece belongs to one part.
        """


class Frames(ABC):
    """Cuts a stream of frames with their length at their head; a frame's bytes are not kept, but for its beginning."""

    #: So much of a frame's content is kept in ``head``.
    KEPT = 8 * 1024

    def __init__(self, header: int) -> None:
        """Begin at a frame's first byte; ``header`` is how many bytes tell its length."""
        self.header = header
        self.kind = 0
        self.head = b""  # the beginning of the content
        self._begun = bytearray()  # of a header
        self._kept = bytearray()
        self._left: int | None = None  # of the content; None within the header

    @property
    def partial(self) -> bytes:
        """The beginning of a frame's content, as far as it has come."""
        return self.head if self._left is None else bytes(self._kept)

    @abstractmethod
    def measure(self, header: bytes) -> tuple[int, int]:
        """Return a frame's kind and the length of its content."""

    def cut(self, data: bytes) -> Iterator[tuple[int, bool]]:
        """Return up to where each piece goes, and whether a frame ends there."""
        at, size = 0, len(data)
        while at < size:
            if self._left is None:
                missing = self.header - len(self._begun)
                self._begun += data[at : at + missing]
                at = min(at + missing, size)
                if len(self._begun) < self.header:
                    yield at, False
                    return
                self.kind, self._left = self.measure(bytes(self._begun))
                self._begun.clear()
                self._kept.clear()
            end = min(at + self._left, size)
            self._kept += data[at : min(end, at + self.KEPT - len(self._kept))]
            self._left -= end - at
            at = end
            if self._left == 0:
                self.head, self._left = bytes(self._kept), None
                yield at, True
            else:
                yield at, False


class Growing:
    """A message that is being gathered."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._data = bytearray()
        self._begun = False  # its beginning was passed on already

    def __bool__(self) -> bool:
        """Whether there is anything of it."""
        return bool(self._data) or self._begun

    def add(self, data: bytes) -> None:
        """Add what has come of it."""
        self._data += data

    def take(self) -> bytes:
        """Return what was kept back; it is kept no longer."""
        data = bytes(self._data)
        self._data.clear()
        return data

    def ended(self, says: str | None) -> Chunk:
        """Return it, or what is left of it, at its end."""
        chunk = Chunk(self.take(), None if self._begun else says)
        self._begun = False
        return chunk

    def too_long(self, says: Callable[[], str]) -> list[Chunk]:
        """Return what must not be kept back any longer."""
        if not self._begun and len(self._data) <= LONGEST:
            return []
        text = None if self._begun else says()
        self._begun = True
        return [Chunk(self.take(), text, ends=False)] if self._data else []


class PartsReader(ABC):
    """Reads a connection part by part; what a protocol is made of says when a message ends."""

    def __init__(self, asks: Cutter, answers: Cutter) -> None:
        """Begin at the connection's first byte."""
        self._from_target, self._from_store = asks, answers
        self.request, self.reply = Growing(), Growing()
        self.opaque: Segments | None = None  # from here on nothing can be read

    @property
    @abstractmethod
    def waiting(self) -> int:
        """How many requests the store has yet to answer."""

    @abstractmethod
    def heard(self) -> Iterator[Chunk]:
        """A part of the target's has ended: return the message that ends with it."""

    @abstractmethod
    def told(self) -> Iterator[Chunk]:
        """A part of the store's has ended: return the message that ends with it."""

    @abstractmethod
    def request_so_far(self) -> str:
        """Return what the request says that has not ended yet."""

    @abstractmethod
    def reply_so_far(self) -> str:
        """Return what the reply says that has not ended yet."""

    @property
    def unanswered(self) -> int:
        """How many requests the store has yet to answer."""
        return self.waiting if self.opaque is None else self.opaque.unanswered

    def asked(self, data: bytes) -> list[Chunk]:
        """Take in what has come from the target."""
        chunks, rest = self._read(data, self._from_target, self.request, self.heard, self.request_so_far)
        return [*chunks, *self.opaque.asked(rest)] if self.opaque is not None and rest else chunks

    def answered(self, data: bytes) -> list[Chunk]:
        """Take in what has come from the store."""
        chunks, rest = self._read(data, self._from_store, self.reply, self.told, self.reply_so_far)
        return [*chunks, *self.opaque.answered(rest)] if self.opaque is not None and rest else chunks

    def asked_no_more(self) -> list[Chunk]:
        """Return what is left of a message that the target did not end: no store can do anything with it."""
        return [self.request.ended(None)] if self.request else []

    def answered_no_more(self) -> list[Chunk]:
        """Return what is left of a message that the store did not end, such as why it ends the connection."""
        return [self.reply.ended(self.reply_so_far())] if self.reply else []

    def _read(
        self,
        data: bytes,
        cutter: Cutter,
        message: Growing,
        ended: Callable[[], Iterator[Chunk]],
        so_far: Callable[[], str],
    ) -> tuple[list[Chunk], bytes]:
        """Return the chunks, and the bytes that are not to be read."""
        chunks: list[Chunk] = []
        at = 0
        try:
            for end, complete in () if self.opaque else cutter.cut(data):
                message.add(data[at:end])
                at = end
                chunks += ended() if complete else ()
                if self.opaque:
                    break
        except UnreadableError:
            self.opaque = Segments()
        if self.opaque:
            return chunks, message.take() + data[at:]
        return chunks + message.too_long(so_far), b""
