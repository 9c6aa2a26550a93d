"""What a person reads of an exploration: how far it is, the table of what was covered, and what broke."""

from __future__ import annotations

import string
import sys
from typing import TextIO

from sendtwice.harness.explore.coverage import Coverage, State
from sendtwice.harness.explore.events import Ended, Event, PassEnded, Progress, Started
from sendtwice.harness.explore.points import Point
from sendtwice.harness.explore.result import AGAIN, Counterexample, Result
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report import blocks
from sendtwice.harness.report.console import Console
from sendtwice.harness.report.paint import Color, Paper

_MARKS = {
    State.HELD: ("✓", "green"),
    State.BROKEN: ("✗", "red"),
    State.NOT_APPLICABLE: ("·", "cyan"),
    State.NOT_REACHED: ("?", "yellow"),
    State.INCONCLUSIVE: ("~", "yellow"),
    State.NOT_PLAYED: ("_", "yellow"),
}
#: The longest name of a crossing in the table.
_WIDEST = 76


class ExploreConsole:
    """Prints an exploration as it goes on."""

    def __init__(
        self,
        redactor: Redactor,
        *,
        name: str,
        contract: str,
        target: str | None,
        stream: TextIO | None = None,
        color: Color = "auto",
        verbosity: int = 0,
    ) -> None:
        """``name`` is the target's own, ``target`` how the user named its file."""
        self._redactor, self._name, self._contract, self._target = redactor, name, contract, target
        self._paper = Paper(stream or sys.stdout, color=color)
        self._failures = Console(redactor, target=target, stream=stream, color=color, verbosity=verbosity)
        self._verbosity = verbosity
        self._shown = False  # the table

    def __call__(self, event: Event) -> None:
        """Take one event of the explorer."""
        match event:
            case Started():
                where = f"exploring {self._name} (contract {self._contract})"
                self._say(f"{where}: {len(event.points)} crossings, {event.plans} plans of one fault", bold=True)
            case Progress():
                self._progress(event)
            case Counterexample():
                self._say(f"✗ {event.finding.rule}: {event.plan}", "red", bold=True)
            case PassEnded(deeds=1, coverage=coverage):
                self._table(coverage)
            case PassEnded():
                pass
            case Ended(result=result):
                self._ended(result)

    def starting(self) -> None:
        """Say that the target is being started."""
        self._paper.progress(f"starting {self._redactor.text(self._name)}")

    def clear(self) -> None:
        """Take the progress line away."""
        self._paper.clear()

    def _progress(self, event: Progress) -> None:
        left = f"{event.left} to come in about {blocks.duration(event.seconds)}" if event.left else "ending"
        self._paper.progress(f"{event.played} played, {left}  {event.plan}")
        if self._verbosity > 0:
            mark, color = _MARKS[event.state]
            self._say(f"{mark} {event.plan}", color)

    # -- the table ---------------------------------------------------------------------------------------------------

    def _table(self, coverage: Coverage) -> None:
        if self._verbosity < 0 or self._shown or not coverage.cells:
            return
        self._shown = True
        letters = dict(zip(coverage.deeds, string.ascii_letters, strict=False))
        names = {point: _shortened(str(point)) for point in coverage.points}
        width = max(map(len, names.values()), default=0)
        self._paper.line()
        self._say(f"{'crossing':<{width}}  {' '.join(letters.values())}", bold=True)
        for point, name in names.items():
            self._paper.line(self._redactor.text(f"{name:<{width}}  {self._row(coverage, point)}"))
        self._paper.line()
        for deed, letter in letters.items():
            self._say(f"  {letter}  {deed}")
        legend = ", ".join(f"{mark} {state.value}" for state, (mark, _) in _MARKS.items())
        self._say(f"  {legend}", dim=True)

    def _row(self, coverage: Coverage, point: Point) -> str:
        cells = []
        for deed in coverage.deeds:
            cell = coverage.cell(point, deed)
            mark, color = _MARKS[cell.state] if cell is not None else (" ", None)
            cells.append(self._paper.style(mark, color, bold=cell is not None and cell.state is State.BROKEN))
        return " ".join(cells).rstrip()

    # -- the end -----------------------------------------------------------------------------------------------------

    def _ended(self, result: Result) -> None:
        self._paper.clear()
        self._table(result.coverage)  # of a first pass that did not come to its end
        for number, example in enumerate(result.smallest):
            self._failures.failure(example.as_result(), replay=number > 0)
        self._paper.line()
        coverage = result.coverage
        if coverage.cells:
            self._say(f"one fault: {_counted(coverage, 1)}")
        if coverage.pairs:
            self._say(f"two faults: {_counted(coverage, 2)}")
        for text in _notes(result):
            self._say(text, dim=True)
        for plan in result.doubted:
            self._say(f"~ broke a promise once, and not in {AGAIN} more plays: {plan}", "yellow")
        if result.error is not None:
            self._say(f"sendtwice could not do its work: {result.error}", "red")
        self._say(f"{_verdict(result)}: {result.plans} plans in {blocks.duration(result.seconds)}", bold=True)
        if result.smallest:
            self._say(blocks.replay_command(result.smallest[0].as_result(), self._target))

    def _say(self, text: str, color: str | None = None, *, bold: bool = False, dim: bool = False) -> None:
        self._paper.line(self._paper.style(self._redactor.text(text), color, bold=bold, dim=dim))


def _verdict(result: Result) -> str:
    if result.error is not None:
        return "could not finish"
    if result.broken:
        rules = ", ".join(example.finding.rule for example in result.smallest)
        return f"broken: {rules}, by {len(result.broken)} plans"
    one, two = result.complete
    if not one:
        return "nothing found, but not all of one fault was covered"
    return "nothing found: complete for " + ("two faults" if two else "one fault")


def _notes(result: Result) -> list[str]:
    found = []
    coverage = result.coverage
    if coverage.unstable:
        shown = ", ".join(map(str, coverage.unstable[:3]))
        found.append(f"{len(coverage.unstable)} crossings differ from play to play and were left out: {shown}")
    missed = [move for move, cell in coverage.cells.items() if cell.state is State.NOT_REACHED]
    if missed:
        more = f", and {len(missed) - 3} more" if len(missed) > 3 else ""
        found.append(f"not reached in three plays: {'; '.join(map(str, missed[:3]))}{more}")
    reasons = {cell.reason for cell in coverage.cells.values() if cell.state is State.NOT_APPLICABLE and cell.reason}
    found += [f"not applicable: {reason}" for reason in sorted(reasons)]
    return found


def _counted(coverage: Coverage, deeds: int) -> str:
    counts = coverage.counts() if deeds == 1 else coverage.pairs
    return ", ".join(f"{counts[state]} {state.value}" for state in State if counts[state])


def _shortened(name: str) -> str:
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 1]}…"
