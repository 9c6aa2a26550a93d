"""What a target of role client is asked to do, and what it may say became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

#: What a caller reports of an operation: the mail is out, it certainly is not, or nobody knows.
Told = Literal["sent", "not_sent", "unknown"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One logical effect, such as the receipt of an order. ``id`` is the same each time it is asked for."""

    id: str
    to: str
    subject: str
    text: str
    sender: str


#: Performs an operation inside this process, and says what became of it.
Perform = Callable[[Operation], Awaitable[Told]]
