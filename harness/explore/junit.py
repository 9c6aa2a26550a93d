"""An exploration as JUnit XML: a test case for each window, for the CI systems that draw them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import sendtwice
from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness.events import RunEnded
from sendtwice.harness.explore.coverage import State
from sendtwice.harness.explore.events import Ended, Event
from sendtwice.harness.explore.plans import Plan
from sendtwice.harness.explore.result import Result
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report.junit import JUnitFile
from sendtwice.harness.result import RunResult, ScenarioResult, Verdict

_VERDICTS = {
    State.HELD: Verdict.PASSED,
    State.BROKEN: Verdict.FAILED,
    State.NOT_APPLICABLE: Verdict.SKIPPED,
    State.NOT_REACHED: Verdict.SKIPPED,
    State.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    State.NOT_PLAYED: Verdict.INCONCLUSIVE,
}


class ExploreJUnit:
    """Writes ``--junit FILE``."""

    def __init__(self, path: Path, target: str, contract: Contract, redactor: Redactor) -> None:
        """Write when the exploration is over."""
        self._file = JUnitFile(path, redactor)
        self._target, self._contract = target, contract
        self._started = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, Ended):
            result = event.result
            run = RunResult(
                version=sendtwice.__version__,
                target=self._target,
                role="api",
                contract=self._contract.name,
                contract_sha256=contracts.sha256(self._contract),
                seed=1,
                started=self._started,
                seconds=result.seconds,
                scenarios=tuple(_cases(result)),
                error=result.error,
            )
            self._file(RunEnded(run))


def _cases(result: Result) -> Iterator[ScenarioResult]:
    broken = {example.plan: example.as_result() for example in result.broken}
    for move, cell in result.coverage.cells.items():
        shown = broken.pop(Plan((move,)), None)
        if shown is not None:
            yield _named(shown, str(move))
        else:
            reason = cell.reason or (None if cell.state is State.HELD else cell.state.value)
            yield ScenarioResult(f"explore.{move}", str(move), _VERDICTS[cell.state], reason)
    for plan, shown in broken.items():  # without any deed, or by two
        yield _named(shown, str(plan))


def _named(shown: ScenarioResult, name: str) -> ScenarioResult:
    return replace(shown, id=f"explore.{name}")
