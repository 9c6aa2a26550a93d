"""``--write-known``: what failed, as accepted deviations to look through and give reasons for."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from pathlib import Path

from sendtwice.fake_provider.contracts import Level
from sendtwice.fake_provider.documents import BadFileError, load_toml, read_text
from sendtwice.harness import toml
from sendtwice.harness.judge.rules import RULES
from sendtwice.harness.nearest import nearest
from sendtwice.harness.report.files import write_text
from sendtwice.harness.result import RunResult, Verdict
from sendtwice.harness.target import Target


def check(path: Path) -> None:
    """Raise :class:`BadFileError` before a run if its known deviations could not be added to this file."""
    _present(path)


def check_entries(target: Target, scenarios: Iterable[str]) -> None:
    """Raise :class:`BadFileError` for an entry that can never match: its deviation would fail the run unexplained."""
    # What `sendtwice explore` finds is called by its rule; both commands read the same file.
    ids = sorted({*scenarios, *(f"explore.{rule}" for rule in RULES)})
    for number, entry in enumerate(target.known):
        if not fnmatch.filter(ids, entry.scenario):
            message = f"{entry.scenario!r} fits no scenario; {nearest(entry.scenario, ids)}"
            raise BadFileError(target.file, message, where=f"known.{number}.scenario")
        if entry.rule not in RULES:
            message = f"{entry.rule!r} is no rule; {nearest(entry.rule, RULES)}"
            raise BadFileError(target.file, message, where=f"known.{number}.rule")


def write(path: Path, result: RunResult) -> int:
    """Add a ``[[known]]`` entry for every new finding that failed the run; return how many."""
    present = _present(path)
    header = "[[tool.sendtwice.known]]" if path.name == "pyproject.toml" else "[[known]]"
    entries: list[str] = []
    for scenario in result.scenarios:
        if scenario.verdict is not Verdict.FAILED:
            continue
        for finding in scenario.findings:
            if finding.level is not Level.MUST or (scenario.id, finding.rule) in present:
                continue
            present.add((scenario.id, finding.rule))
            reason = f"say why this is accepted; on {result.started[:10]}: {finding.message}"
            entries.append(toml.table(header, {"scenario": scenario.id, "rule": finding.rule, "reason": reason}))
    if entries:
        before = read_text(path) if path.exists() else ""
        glue = "" if not before else "\n" if before.endswith("\n") else "\n\n"
        write_text(path, before + glue + "\n".join(entries))
    elif not path.exists():
        write_text(path, "")
    return len(entries)


def _present(path: Path) -> set[tuple[str, str]]:
    if not path.exists():
        return set()
    data = load_toml(path).data
    if path.name == "pyproject.toml":
        data = data.get("tool", {}).get("sendtwice", {})
    known = data.get("known", [])
    entries = known if isinstance(known, list) else []
    return {(str(e.get("scenario")), str(e.get("rule"))) for e in entries if isinstance(e, dict)}
