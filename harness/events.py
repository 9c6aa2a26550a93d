"""What a run tells while it goes on. Reporters subscribe; the runner does not know them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sendtwice.harness.result import RunResult, ScenarioResult
from sendtwice.harness.scenario import Scenario


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The target is up and the canary has arrived; ``scenarios`` will be played, ``skipped`` will not."""

    target: str
    role: str
    contract: str
    scenarios: tuple[Scenario, ...]
    skipped: tuple[ScenarioResult, ...]
    expected_seconds: float


@dataclass(frozen=True, slots=True)
class ScenarioStarted:
    """A scenario is being played."""

    scenario: Scenario
    number: int
    total: int


@dataclass(frozen=True, slots=True)
class ScenarioEnded:
    """A provisional verdict: what must never happen is final only at the end of the run."""

    result: ScenarioResult


@dataclass(frozen=True, slots=True)
class Watching:
    """All scenarios are played; late deliveries are watched for."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ScenarioReopened:
    """A late delivery changed a verdict."""

    before: ScenarioResult
    after: ScenarioResult


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The final result, or the error that ended the run early."""

    result: RunResult


RunEvent = RunStarted | ScenarioStarted | ScenarioEnded | Watching | ScenarioReopened | RunEnded
Subscriber = Callable[[RunEvent], None]
