"""Did requests that were meant to overlap really do so? A race that was none voids a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sendtwice.harness.history import Kind, Recorder
from sendtwice.harness.live import Live


class Overlaps:
    """What a scenario meant to happen at the same time."""

    def __init__(self) -> None:
        """Nothing is meant yet."""
        self._crowds: list[tuple[list[str], float]] = []
        self._meetings: list[tuple[str, str]] = []

    def crowd(self, names: Sequence[str], spread: float) -> None:
        """Requests that left together, their last bytes within ``spread`` microseconds."""
        self._crowds.append((list(names), spread))

    def meeting(self, first: str, second: str) -> None:
        """``second`` (an attempt, or something that happens to ``first``) was meant to find ``first`` in flight."""
        self._meetings.append((first, second))

    def record(self, recorder: Recorder, scenario: str, live: Mapping[str, Live]) -> None:
        """Note for each whether it came about."""
        for names, spread in self._crowds:
            flights = [live[name].flight for name in names]
            times = [(f.sent_at, f.ended_at) for f in flights if f.sent_at is not None and f.ended_at is not None]
            met = any(a[0] < b[1] and b[0] < a[1] for i, a in enumerate(times) for b in times[i + 1 :])
            _note(recorder, scenario, attempts=names, overlapped=met, spread_us=round(spread, 1))
        for first, second in self._meetings:
            mine = live[first].flight
            yours = live[second].flight if second in live else None
            later = yours is None or (yours.sent_at or 0) > (mine.ended_at or 0)
            missed = mine.outcome == "answered" and later
            _note(recorder, scenario, attempts=[first, second], overlapped=not missed, answered_first=missed)


def _note(recorder: Recorder, scenario: str, **data: Any) -> None:
    recorder.record(Kind.OVERLAP, scenario=scenario, **data)
