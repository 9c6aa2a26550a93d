"""A connection whose protocol is known from its first bytes: the client's, or the server's where that speaks first."""

from __future__ import annotations

from collections.abc import Callable

from sendtwice.harness.edges import mysql, postgresql, redis
from sendtwice.harness.edges.chunks import Chunk, Reader, Segments

#: The first byte of a TLS handshake.
_TLS = b"\x16\x03"
#: How the messages of each protocol are read.
READERS: dict[str, Callable[[], Reader]] = {
    "postgresql": postgresql.PostgreSQL,
    "redis": redis.Redis,
    "mysql": mysql.MySQL,
    "raw": Segments,
}


class Guess:
    """Reads a connection as soon as it is clear how."""

    def __init__(self, protocol: str = "auto") -> None:
        """With a protocol that is known, only TLS has to be told from it."""
        self._protocol = protocol
        self._begun = b""
        self._told = b""
        self._reader: Reader | None = None

    @property
    def unanswered(self) -> int:
        """How many requests the store has yet to answer."""
        return self._reader.unanswered if self._reader is not None else int(bool(self._begun))

    def asked(self, data: bytes) -> list[Chunk]:
        """Take in what has come from the target."""
        data, self._begun = self._begun + data, b""
        if self._reader is None:
            self._reader = self._of_client(data)
        if self._reader is None:
            self._begun = data
            return []
        return self._reader.asked(data)

    def answered(self, data: bytes) -> list[Chunk]:
        """Take in what has come from the store."""
        data, self._told = self._told + data, b""
        if self._reader is None:
            verdict = mysql.begins(data) if self._protocol in ("auto", "mysql") else False
            if verdict is None:
                self._told = data
                return []
            self._reader = mysql.MySQL() if verdict else Segments()
        return self._reader.answered(data)

    def asked_no_more(self) -> list[Chunk]:
        """Return what is left of a message that the target did not end."""
        rest, self._begun = self._begun, b""
        return [*([Chunk(rest)] if rest else []), *(self._reader.asked_no_more() if self._reader is not None else [])]

    def answered_no_more(self) -> list[Chunk]:
        """Return what is left of a message that the store did not end."""
        rest, self._told = self._told, b""
        return [
            *([Chunk(rest)] if rest else []),
            *(self._reader.answered_no_more() if self._reader is not None else []),
        ]

    def _of_client(self, data: bytes) -> Reader | None:
        """Return the reader for a client that begins so; None when more must be seen."""
        if data.startswith(_TLS):
            return Segments("TLS")
        if self._protocol != "auto":
            return READERS[self._protocol]()
        verdicts = {name: begins(data) for name, begins in _CLIENTS.items()}
        found = next((name for name, verdict in verdicts.items() if verdict), None)
        if found is not None:
            return READERS[found]()
        return None if None in verdicts.values() else Segments()


_CLIENTS: dict[str, Callable[[bytes], bool | None]] = {"postgresql": postgresql.begins, "redis": redis.begins}
