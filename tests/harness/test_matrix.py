"""Every flaw is caught by the rule meant for it, and nothing sound is accused: whole catalogue, real processes."""

import asyncio
import tomllib
from pathlib import Path

import pytest

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness import session
from sendtwice.harness.events import RunEvent, ScenarioReopened
from sendtwice.harness.judge import RULES
from sendtwice.harness.result import RunResult, Verdict
from sendtwice.harness.scenario import catalogue
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load
from tests.support import ROOT, require

FLAWED = sorted(path.parent for path in (ROOT / "tests" / "flawed").glob("*/flaw.toml"))
SOUND = sorted(path.parent for path in (ROOT / "tests" / "sound").glob("*/target.toml"))
EMULATED = sorted((ROOT / "tests" / "emulated").glob("*.toml"))


def play(target_file: Path, reports: Path) -> RunResult:
    target, path = load(str(target_file))
    commands = [process.command[0] for process in target.target.processes]
    if target.target.client is not None:
        commands.append(target.target.client.command[0])
    if "node" in commands:
        require("node", "this target is written in JavaScript")
    settings = RunSettings(reports=reports, watch=0.3)
    events: list[RunEvent] = []
    result = asyncio.run(session.run(target, path, catalogue(), settings, [events.append]))
    calmed = [e.after.id for e in events if isinstance(e, ScenarioReopened) and e.after.verdict is Verdict.PASSED]
    assert not calmed, f"was accused for a while, and wrongly: {calmed}"
    return result


def broken(result: RunResult) -> dict[str, set[str]]:
    """The rules with a finding at level must, each with the scenarios that found it."""
    found: dict[str, set[str]] = {}
    for scenario in result.scenarios:
        for finding in scenario.findings:
            if finding.level is Level.MUST:
                found.setdefault(finding.rule, set()).add(scenario.id)
    return found


@pytest.mark.parametrize("folder", FLAWED, ids=lambda folder: folder.name)
def test_a_flaw_is_caught_by_the_rule_meant_for_it(folder: Path, tmp_path: Path) -> None:
    flaw = tomllib.loads((folder / "flaw.toml").read_text("utf-8"))
    result = play(folder / "target.toml", tmp_path)
    assert result.error is None
    found = broken(result)
    missed = {name for name in flaw["scenarios"] if name not in found.get(flaw["rule"], set())}
    assert not missed, f"{flaw['rule']} did not see it in {missed}; found: {found}"
    others = set(found) - {flaw["rule"], *flaw.get("also", [])}
    assert not others, f"caught by accident as well: { ({rule: found[rule] for rule in others}) }"


@pytest.mark.parametrize("folder", SOUND, ids=lambda folder: folder.name)
def test_a_sound_implementation_is_not_accused(folder: Path, tmp_path: Path) -> None:
    result = play(folder / "target.toml", tmp_path)
    assert result.error is None
    assert broken(result) == {}
    passed = [s.id for s in result.scenarios if s.verdict is Verdict.PASSED]
    assert passed, "nothing was shown at all"


@pytest.mark.parametrize("target_file", EMULATED, ids=lambda path: path.stem)
def test_an_emulated_vendor_passes_all_that_applies_to_it(target_file: Path, tmp_path: Path) -> None:
    result = play(target_file, tmp_path)
    assert result.error is None
    left = {s.id: s.reason for s in result.scenarios if s.verdict not in (Verdict.PASSED, Verdict.SKIPPED)}
    assert left == {}
    crashed = {s.id for s in result.scenarios if s.id.startswith("send.crash") and s.verdict is Verdict.PASSED}
    assert {"send.crash-before-accept", "send.crash-after-accept", "send.crash-after-answer"} <= crashed


def test_every_rule_has_a_flaw_that_only_it_catches() -> None:
    flaws = [tomllib.loads((folder / "flaw.toml").read_text("utf-8")) for folder in FLAWED]
    alone = {flaw["rule"] for flaw in flaws if not flaw.get("also")}
    # "expected" is what a scenario states by itself; it has no implementation to catch.
    assert alone == set(RULES) - {"expected"}
