"""The clock that is passed in: real by default, moved by hand in tests and by the control API."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable


class Clock:
    """Wall-clock seconds plus an offset that only moves forward."""

    def __init__(self) -> None:
        """Start at the machine's own time."""
        self._offset = 0.0
        self._moved: set[asyncio.Event] = set()
        self._notes: list[Callable[[float], None]] = []

    def keep(self, offset: float, note: Callable[[float], None]) -> None:
        """Go on at an offset that was noted, unless this one is greater, and have it noted whenever it grows."""
        if self._offset > offset:
            note(self._offset)
        self._offset = max(self._offset, offset)
        self._notes.append(note)

    def forsake(self, note: Callable[[float], None]) -> None:
        """Have nothing noted there any more."""
        self._notes.remove(note)

    def now(self) -> float:
        """Return seconds since the epoch, as this clock sees them."""
        return time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Move the clock forward, in the loop of those who wait for it."""
        if seconds < 0:
            raise ValueError("a clock only moves forward")
        for note in self._notes:
            note(self._offset + seconds)
        self._offset += seconds
        for moved in self._moved:
            moved.set()

    async def reached(self, moment: float) -> None:
        """Wait until this clock has come to a moment, by itself or because it is moved."""
        moved = asyncio.Event()
        self._moved.add(moved)
        try:
            while (left := moment - self.now()) > 0:
                moved.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(moved.wait(), left)
        finally:
            self._moved.discard(moved)
