"""What an exploration tells while it goes on. Reporters subscribe; the explorer does not know them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sendtwice.harness.explore.coverage import Coverage, State
from sendtwice.harness.explore.plans import Plan
from sendtwice.harness.explore.points import Point
from sendtwice.harness.explore.result import Counterexample, Result


@dataclass(frozen=True, slots=True)
class Started:
    """The points are known; ``plans`` of one deed will be played."""

    points: tuple[Point, ...]
    plans: int


@dataclass(frozen=True, slots=True)
class Progress:
    """A plan was played; ``left`` are still to come in this pass, in about ``seconds``."""

    plan: Plan
    state: State
    played: int
    left: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PassEnded:
    """All plans of so many deeds are played, or the budget is over."""

    deeds: int
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class Ended:
    """The exploration is over."""

    result: Result


Event = Started | Progress | Counterexample | PassEnded | Ended
Subscriber = Callable[[Event], None]
