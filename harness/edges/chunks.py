"""What a reader makes of the bytes on a wire: chunks to pass on, and where each message begins and what it says.

A reader is pure: it is given what has come from either side, in any pieces, and returns the same bytes in chunks that
the edge passes on, or not. A message is one chunk, and is returned when it is complete; only one that is longer than
:data:`LONGEST` begins before its end is there, and says what is known by then. So memory is bounded, and no long answer
waits for its last byte.

What a message says must be the same in two runs that do the same with other keys: that is how a fault finds the message
again. So it names commands, tables and columns, and never a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

#: A message that is longer is passed on before its end is there.
LONGEST = 256 * 1024
#: What a message says is cut to so many characters.
TEXT = 200
#: Of it, an answer itself takes so many at most; what it is for has the rest.
_ANSWER = 100


def answering(answer: str, request: str) -> str:
    """Return what an answer says, and to what: many requests are answered by the same words."""
    answer = " ".join(answer.split())
    if len(answer) > _ANSWER:
        answer = answer[: _ANSWER - 2].rstrip() + " …"
    return f"{answer} for {request}"[: TEXT + _ANSWER] if request else answer


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes to pass on.

    ``says`` is what the message that begins with them says; None when they belong to the message before, or to none.
    ``ends``: whether their message ends with them.
    """

    data: bytes
    says: str | None = None
    ends: bool = True


class Reader(Protocol):
    """Reads one connection, both ways."""

    @property
    def unanswered(self) -> int:
        """How many requests the store has yet to answer; a request that waits for an event does not count."""

    def asked(self, data: bytes) -> list[Chunk]:
        """Take in what has come from the target."""

    def answered(self, data: bytes) -> list[Chunk]:
        """Take in what has come from the store."""

    def asked_no_more(self) -> list[Chunk]:
        """Return what is left of a message that the target did not end."""

    def answered_no_more(self) -> list[Chunk]:
        """Return what is left of a message that the store did not end."""


class Segments:
    """Counts what comes in one piece, where nobody knows the protocol: an answer ends where the next request begins."""

    def __init__(self, says: str = "segment") -> None:
        """Each of them says the same."""
        self._says = says
        self.unanswered = 0

    def asked(self, data: bytes) -> list[Chunk]:
        """Return it as it came."""
        self.unanswered = 1
        return [Chunk(data, self._says)]

    def answered(self, data: bytes) -> list[Chunk]:
        """Return it as it came."""
        self.unanswered = 0
        return [Chunk(data, self._says)]

    def asked_no_more(self) -> list[Chunk]:
        """Nothing is kept back."""
        return []

    def answered_no_more(self) -> list[Chunk]:
        """Nothing is kept back."""
        return []
