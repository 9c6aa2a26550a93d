"""``--require-all``: a scenario that showed nothing is a failure too."""

from __future__ import annotations

from dataclasses import replace

from sendtwice.harness.result import RunResult, ScenarioResult, Verdict


def all_required(result: RunResult) -> RunResult:
    """Return the result with what was skipped or inconclusive as failed; the reason says so."""
    return replace(result, scenarios=tuple(map(_required, result.scenarios)))


def _required(scenario: ScenarioResult) -> ScenarioResult:
    if scenario.verdict not in (Verdict.SKIPPED, Verdict.INCONCLUSIVE):
        return scenario
    why = scenario.reason or "; ".join(scenario.needs) or "no reason is given"
    return replace(scenario, verdict=Verdict.FAILED, reason=f"{scenario.verdict.value}, and all are required: {why}")
