"""The clock that is passed in: real by default, moved by hand in tests and by the control API."""

from __future__ import annotations

import time


class Clock:
    """Wall-clock seconds plus an offset that only moves forward."""

    def __init__(self) -> None:
        """Start at the machine's own time."""
        self._offset = 0.0

    def now(self) -> float:
        """Return seconds since the epoch, as this clock sees them."""
        return time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        if seconds < 0:
            raise ValueError("a clock only moves forward")
        self._offset += seconds
