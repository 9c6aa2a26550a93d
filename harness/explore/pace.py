"""How far a pass is: what is left of it, and about how long that takes.

Plans that are played side by side share the time that each takes; those that are played alone do not. So the two are
measured, and what is left of them is counted, each by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

#: Seconds that a plan takes, before any was played.
_UNTRIED = 0.3


@dataclass(slots=True)
class Pace:
    """Counts plans, and the seconds that they took: under ``True`` those that are played alone."""

    jobs: int
    _left: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    _spent: dict[bool, float] = field(default_factory=lambda: {False: 0.0, True: 0.0})
    _count: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})

    def begin(self, plans: tuple[Sequence[object], Sequence[object]]) -> None:
        """Begin a pass: what is played side by side, and what is played alone."""
        together, alone = plans
        self._left = {False: len(together), True: len(alone)}

    def played(self, seconds: float, *, alone: bool) -> None:
        """Take in how long one took."""
        self._spent[alone] += seconds
        self._count[alone] += 1

    def again(self) -> None:
        """One that was played beside others will be played alone."""
        self._left[False] -= 1
        self._left[True] += 1

    def done(self, *, alone: bool) -> None:
        """One is over."""
        self._left[alone] = max(0, self._left[alone] - 1)

    @property
    def left(self) -> int:
        """How many are still to come."""
        return sum(self._left.values())

    @property
    def seconds(self) -> float:
        """About how long that takes; what was never measured is taken to be like the other."""
        each = {alone: self._spent[alone] / count for alone, count in self._count.items() if count}
        known = max(each.values(), default=_UNTRIED)
        return self._left[False] * each.get(False, known) / self.jobs + self._left[True] * each.get(True, known)
