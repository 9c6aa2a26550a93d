"""``sendtwice demo``: the same scenarios against a sound and a flawed implementation, side by side.

The sound one is the emulator of Postfleet's contract, the flawed one a small mailer that passes every ordinary test.
Both are real processes that are really killed; their mail goes to the fake provider and nowhere else.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sendtwice.harness import session
from sendtwice.harness.cli_run import until_signal
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.events import RunEvent, ScenarioStarted
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report.blocks import duration
from sendtwice.harness.report.console import Console
from sendtwice.harness.report.paint import Color, Paper
from sendtwice.harness.result import RunResult, ScenarioResult, Verdict
from sendtwice.harness.scenario import catalogue
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load

HERE = Path(__file__).resolve().parent
_SIGNS = {
    Verdict.PASSED: ("✓", "green"),
    Verdict.FAILED: ("✗", "red"),
    Verdict.INCONCLUSIVE: ("?", "yellow"),
    Verdict.KNOWN: ("~", "yellow"),
    Verdict.SKIPPED: ("-", "cyan"),
}


def main(color: Color = "auto") -> int:
    """Play, print the table, and return 0 when each of the two was told for what it is."""
    paper = Paper(sys.stdout, color=color)
    paper.line(paper.style("sendtwice demo: one catalogue, two implementations", bold=True))
    paper.line("  emulated Postfleet   keeps its contract, also when it is killed")
    paper.line("  hurried mailer       looks the key up, sends, then stores it; forgets on restart")
    paper.line("Both run on this machine and hand their mail to a fake provider that counts deliveries.")
    paper.line()
    with tempfile.TemporaryDirectory(prefix="sendtwice-demo-") as scratch:
        try:
            sound, flawed = until_signal(_both(Path(scratch), paper))
        finally:
            paper.clear()
        for result in (sound, flawed):
            if result.error is not None:
                raise HarnessError(f"{result.target}: {result.error}")
        _table(paper, sound, flawed)
        _worst(paper, flawed, color)
    _closing(paper, sound, flawed)
    return 0 if sound.verdict == "passed" and flawed.verdict == "failed" else 1


async def _both(scratch: Path, paper: Paper) -> tuple[RunResult, RunResult]:
    return await _play("emulated.toml", scratch, paper), await _play("hurried.toml", scratch, paper)


async def _play(name: str, scratch: Path, paper: Paper) -> RunResult:
    target, path = load(str(HERE / name))
    scenarios = [s for s in catalogue() if s.role == "api"]

    def progress(event: RunEvent) -> None:
        if isinstance(event, ScenarioStarted):
            paper.progress(f"{target.target.name}  {event.number}/{event.total}  {event.scenario.title}")

    settings = RunSettings(reports=scratch / path.stem)
    result = await session.run(target, path, scenarios, settings, [progress])
    paper.clear()
    return result


def _table(paper: Paper, sound: RunResult, flawed: RunResult) -> None:
    left = {s.id: s for s in sound.scenarios}
    right = {s.id: s for s in flawed.scenarios}
    paper.line(paper.style(f"{'window':<30} {'emulated Postfleet':<24} hurried mailer", bold=True))
    for name in sorted(left.keys() | right.keys()):
        a, b = left.get(name), right.get(name)
        if a is None or b is None or a.verdict is b.verdict is Verdict.SKIPPED:
            continue
        cell = _cell(a)
        shown = paper.style(cell, _SIGNS[a.verdict][1]) + " " * max(0, 24 - len(cell))
        paper.line(f"{name:<30} {shown} {paper.style(_cell(b), _SIGNS[b.verdict][1])}")
    paper.line()


def _cell(scenario: ScenarioResult) -> str:
    sign = _SIGNS[scenario.verdict][0]
    if scenario.verdict is Verdict.SKIPPED:
        return f"{sign} skipped"
    if scenario.verdict is Verdict.FAILED:
        rules = {finding.rule for finding in scenario.findings if finding.level == "must"}
        most = max(scenario.deliveries.values(), default=0)
        if any(rule.startswith("at-most-once") for rule in rules):
            return f"{sign} {most} mails instead of 1"
        return f"{sign} {', '.join(sorted(rules))}"
    return f"{sign} {scenario.verdict.value}"


def _worst(paper: Paper, flawed: RunResult, color: Color) -> None:
    """Show one verdict in full, as a run prints it."""
    shown = next(
        (s for s in flawed.scenarios if s.id == "send.provider-silent" and s.verdict is Verdict.FAILED),
        next((s for s in flawed.scenarios if s.verdict is Verdict.FAILED), None),
    )
    if shown is None:
        return
    paper.line("One of these verdicts in full:")
    Console(Redactor(set()), color=color).failure(shown, replay=False)
    paper.line()


def _closing(paper: Paper, sound: RunResult, flawed: RunResult) -> None:
    twice = [
        s.id
        for s in flawed.scenarios
        if s.verdict is Verdict.FAILED and any(f.rule.startswith("at-most-once") for f in s.findings)
    ]
    paper.line(
        paper.style(
            f"emulated Postfleet: {sound.verdict}; hurried mailer: {flawed.verdict}, "
            f"a second mail got out in {len(twice)} windows",
            bold=True,
        )
    )
    paper.line(f"played in {duration(sound.seconds + flawed.seconds)}; no mail left this machine")
    paper.line("Next: write a target file for your own API, then  sendtwice check sendtwice.toml")
