"""The report that a person reads: a line for each scenario, then what failed and why, then one command.

A terminal gets a progress line and colour, a pipe plain lines. The first line says how much there is to
do, the last is the one command that repeats the worst failure.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.events import (
    RunEnded,
    RunEvent,
    RunStarted,
    ScenarioEnded,
    ScenarioReopened,
    ScenarioStarted,
    Watching,
)
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report import blocks
from sendtwice.harness.report.curl import curl_lines
from sendtwice.harness.report.paint import Color, Paper
from sendtwice.harness.report.timeline import LIMIT, as_text, timeline
from sendtwice.harness.result import RunResult, ScenarioResult, Verdict

_MARKS = {
    Verdict.PASSED: ("✓", "green"),
    Verdict.FAILED: ("✗", "red"),
    Verdict.SKIPPED: ("-", "cyan"),
    Verdict.INCONCLUSIVE: ("?", "yellow"),
    Verdict.KNOWN: ("~", "yellow"),
}


class Console:
    """Prints a run as it goes on."""

    def __init__(
        self,
        redactor: Redactor,
        *,
        target: str | None = None,
        stream: TextIO | None = None,
        color: Color = "auto",
        verbosity: int = 0,
        width: int | None = None,
        compared: Sequence[str] = (),
    ) -> None:
        """Print to ``stream`` (standard output); ``target`` is how the user named the target file.

        ``compared``: what differs between the target's own contract and the one that it is judged by.
        """
        self._redactor = redactor
        self._compared = compared
        self._target = target
        self._paper = Paper(stream or sys.stdout, color=color, width=width)
        self._verbosity = verbosity
        self._total = 0

    def __call__(self, event: RunEvent) -> None:
        """Take one event of the runner."""
        match event:
            case RunStarted():
                self._started(event)
            case ScenarioStarted(scenario=scenario, number=number, total=total):
                self._paper.progress(f"{number}/{total}  {scenario.id}  {scenario.title}")
            case ScenarioEnded(result=result):
                self._ended(result)
            case Watching(seconds=seconds):
                self._paper.progress(f"watching for late mails for {blocks.duration(seconds)}")
            case ScenarioReopened(before=before, after=after):
                change = f"{before.verdict.value} → {after.verdict.value}: {blocks.reason(after) or 'a late mail'}"
                self._say(f"↺ {after.id}  {change}", "yellow")
            case RunEnded(result=result):
                self._finished(result)

    def starting(self, name: str) -> None:
        """Say that the target is being started; nothing else can be said yet."""
        self._paper.progress(f"starting {self._redactor.text(name)}")

    def clear(self) -> None:
        """Take the progress line away: something else will be printed."""
        self._paper.clear()

    # -- while it goes on -----------------------------------------------------------------------------------

    def _started(self, event: RunStarted) -> None:
        self._total = len(event.scenarios)
        skipped = f", {len(event.skipped)} skipped" if event.skipped else ""
        self._say(
            f"{self._total} scenario{'' if self._total == 1 else 's'} against {event.target} ({event.role}, "
            f"contract {event.contract}), about {blocks.duration(event.expected_seconds)}{skipped}",
            bold=True,
        )

    def _ended(self, result: ScenarioResult) -> None:
        bad = result.verdict not in (Verdict.PASSED, Verdict.SKIPPED)
        if self._verbosity < 0 and not bad:
            return
        mark, color = _MARKS[result.verdict]
        should = next((f for f in result.findings if f.level is Level.SHOULD and f.known is None), None)
        if result.verdict is Verdict.PASSED and should is not None:
            mark, color = "!", "yellow"
        head = f"{self._paper.style(mark, color, bold=bad)} {result.id:<28} {result.verdict.value:<12} "
        text = f"{head}{result.seconds:6.2f} s"
        reason = blocks.reason(result) or (f"should: {should.message}" if should is not None else "")
        why = self._redactor.text(" ".join(reason.split()))
        self._paper.line(f"{text}  {why}" if why else text)

    # -- at the end -----------------------------------------------------------------------------------------

    def _finished(self, result: RunResult) -> None:
        self._paper.clear()
        # The plainest story of the gravest rule comes first.
        for scenario in sorted((s for s in result.scenarios if s.verdict is Verdict.FAILED), key=blocks.badness):
            self.failure(scenario)
        if self._verbosity >= 0:
            self._rest(result)
        elif unclear := [s for s in result.scenarios if s.verdict is Verdict.INCONCLUSIVE]:
            self._groups("Inconclusive", unclear, "yellow")
        if self._compared and self._verbosity >= 0:
            self._paper.line()
            for line in self._compared:
                self._wrapped(line, hanging="    ")
        self._paper.line()
        if result.error is not None:
            self._wrapped(f"sendtwice could not do its work: {result.error}", color="red")
        note = blocks.watched_note(result)
        if note and self._verbosity >= 0:
            self._wrapped(note, dim=True)
        color = {"passed": "green", "failed": "red", "error": "red"}.get(result.verdict, "yellow")
        verdict = "could not finish" if result.error is not None else result.verdict
        self._say(
            f"{verdict}: {blocks.counts(result)} in {blocks.duration(result.seconds)} (seed {result.seed})",
            color,
            bold=True,
        )
        worst = blocks.worst(result)
        if worst is not None:
            self._say(blocks.replay_command(worst, self._target))

    def failure(self, scenario: ScenarioResult, *, replay: bool = True) -> None:
        """Print one failing scenario: what was broken, the timeline that proves it, and the remedy."""
        paper = self._paper
        paper.line()
        mark, color = _MARKS[Verdict.FAILED]
        self._say(f"{mark} {scenario.id}  {scenario.title}", color, bold=True)
        must = list(scenario.broken)
        for finding in must:
            self._wrapped(f"{finding.message} [{finding.rule}]", indent="  ", hanging="    ")
        if not must:
            self._wrapped(blocks.reason(scenario), indent="  ", hanging="    ")
        cited = {seq for finding in must for seq in finding.events}
        lines = timeline(scenario.history, cited)
        for text in as_text(lines, limit=None if self._verbosity > 0 else LIMIT):
            shown = self._redactor.text(text)
            self._paper.line("  " + paper.style(shown, dim=not text.startswith("▶")))
        for operation, cell in blocks.told_and_delivered(scenario):
            self._say(f"  told × delivered   {operation}: {cell}")  # noqa: RUF001  # the sign, not the letter
        for remedy in dict.fromkeys(finding.remedy for finding in must):
            self._wrapped(remedy, indent="  remedy             ", hanging=" " * 21)
        if replay:
            self._say(f"  replay: {blocks.replay_command(scenario, self._target)}")
        curls = curl_lines(scenario.history, self._redactor) if must else []
        if curls:
            self._say("  without sendtwice:", dim=True)
            for line in curls:  # already redacted, and not wrapped: it is for copying
                paper.line(f"    {line}")

    def _rest(self, result: RunResult) -> None:
        by = {verdict: [s for s in result.scenarios if s.verdict is verdict] for verdict in Verdict}
        self._groups("Inconclusive: nothing was shown", by[Verdict.INCONCLUSIVE], "yellow")
        self._groups("Known deviations, accepted by the target file", by[Verdict.KNOWN], "yellow")
        self._groups("Skipped", by[Verdict.SKIPPED], "cyan")
        sections = [
            ("Holes: the contract permits this", (Level.HOLE,)),
            ("Should be better", (Level.SHOULD,)),
        ]
        sections += [("Observed", (Level.OBSERVE,))]
        for title, levels in sections:
            found = blocks.weaker_findings(result, *levels)
            if found:
                self._paper.line()
                self._say(title, bold=True)
            for finding, ids in found:
                self._wrapped(f"{finding.message} [{finding.rule}; {_listed(ids)}]", indent="  ", hanging="    ")
        if result.observed and self._verbosity > 0:
            self._paper.line()
            self._say("Habits that the contract leaves open", bold=True)
            for name, habit in sorted(result.observed.items()):
                self._wrapped(f"{name.replace('_', ' ')}: {habit}", indent="  ", hanging="    ")
        if result.strays:
            self._paper.line()
            self._wrapped(
                f"{result.strays} mail{'' if result.strays == 1 else 's'} belonged to no operation (strays): "
                "something else sends through this provider, or the target rewrites recipients",
                color="yellow",
            )

    def _groups(self, title: str, scenarios: Sequence[ScenarioResult], color: str) -> None:
        if not scenarios:
            return
        self._paper.line()
        self._say(title, color, bold=True)
        for why, ids in blocks.grouped(scenarios):
            self._wrapped(f"{_listed(ids)}: {why}", indent="  ", hanging="    ")

    # -- one line -------------------------------------------------------------------------------------------

    def _say(self, text: str, color: str | None = None, *, bold: bool = False, dim: bool = False) -> None:
        self._paper.line(self._paper.style(self._redactor.text(text), color, bold=bold, dim=dim))

    def _wrapped(
        self,
        text: str,
        *,
        indent: str = "",
        hanging: str | None = None,
        color: str | None = None,
        dim: bool = False,
    ) -> None:
        for line in self._paper.wrap(self._redactor.text(text), indent=indent, hanging=hanging):
            self._paper.line(self._paper.style(line, color, dim=dim))


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(ids)
