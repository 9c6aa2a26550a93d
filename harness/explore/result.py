"""What an exploration has shown: the table, and what broke a promise and did so again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sendtwice.harness.explore.coverage import Coverage
from sendtwice.harness.explore.deeds import ORDER
from sendtwice.harness.explore.plans import Plan, in_store
from sendtwice.harness.explore.stage import Played
from sendtwice.harness.judge import Finding
from sendtwice.harness.result import ScenarioResult, Verdict
from sendtwice.harness.scenario import Scenario

#: How often a plan that broke a promise is played again before it is believed.
AGAIN = 3


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A plan that broke a promise, and did so ``again`` in so many of :data:`AGAIN` more plays."""

    plan: Plan
    scenario: Scenario
    played: Played
    finding: Finding
    again: int
    replay: str | None = None  # where it is saved

    def as_result(self) -> ScenarioResult:
        """Return it as a scenario's result: shown, saved and played again like any other failure."""
        played = self.played
        return ScenarioResult(
            self.scenario.id,
            f"{self.plan} ({self.again} of {AGAIN} more plays)",
            Verdict.FAILED,
            self.finding.message,
            seconds=played.seconds,
            findings=played.judgement.findings,
            replay=self.replay,
            history=played.history,
        )


@dataclass(slots=True)
class Result:
    """All of it."""

    coverage: Coverage = field(default_factory=Coverage)
    broken: list[Counterexample] = field(default_factory=list)
    doubted: list[Plan] = field(default_factory=list)  # broke a promise once, and never again
    plans: int = 0
    seconds: float = 0.0
    complete: tuple[bool, bool] = (False, False)  # for one deed, for two
    error: str | None = None

    @property
    def smallest(self) -> list[Counterexample]:
        """One counterexample of each rule: one deed before two, and one that names a message to a store before others.

        That message is the place in the target's own code. Of those, the one that happens most often, and in which a
        window is held open rather than met by chance.
        """
        plainest: dict[str, Counterexample] = {}
        for example in sorted(self.broken, key=_plainness):
            plainest.setdefault(example.finding.rule, example)
        return list(plainest.values())

    @property
    def verdict(self) -> str:
        """In one word, as a run's."""
        return {0: "passed", 1: "failed", 3: "inconclusive"}.get(self.exit_code, "error")

    @property
    def exit_code(self) -> int:
        """4 before 1 before 3; two deeds are beyond what was asked first, and need not be complete."""
        if self.error is not None:
            return 4
        if self.broken:
            return 1
        return 0 if self.complete[0] and not self.doubted else 3

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "verdict": self.verdict,
            "error": self.error,
            "plans": self.plans,
            "seconds": round(self.seconds, 3),
            "complete": {"one": self.complete[0], "two": self.complete[1]},
            **self.coverage.as_json(),
            "broken": [
                {
                    "plan": [str(move) for move in example.plan.moves],
                    "rule": example.finding.rule,
                    "message": example.finding.message,
                    "again": f"{example.again} of {AGAIN}",
                    "replay": example.replay,
                }
                for example in self.broken
            ],
            "doubted": [str(plan) for plan in self.doubted],
        }


def _plainness(example: Counterexample) -> tuple[int, bool, int, list[int]]:
    moves = example.plan.moves
    return len(moves), not in_store(example.plan), -example.again, [ORDER.index(move.deed.how) for move in moves]
