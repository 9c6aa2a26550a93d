"""The clock that is passed in: real by default, moved by hand in tests and by the control API."""

from __future__ import annotations

import asyncio
import contextlib
import time


class Clock:
    """Wall-clock seconds plus an offset that only moves forward."""

    def __init__(self) -> None:
        """Start at the machine's own time."""
        self._offset = 0.0
        self._moved: set[asyncio.Event] = set()

    def now(self) -> float:
        """Return seconds since the epoch, as this clock sees them."""
        return time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Move the clock forward, in the loop of those who wait for it."""
        if seconds < 0:
            raise ValueError("a clock only moves forward")
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
