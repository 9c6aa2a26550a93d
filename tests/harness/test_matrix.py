"""Every flaw is caught by the rule meant for it, and nothing sound is accused: real processes, the shipped catalogue.

Three kinds of targets. The *flawed* (``tests/flawed``) make one mistake each, which their ``flaw.toml`` names: the
rule that must find it, at which level, the scenarios in which it must, and what other rules may say of it. The *sound*
(``tests/sound``) keep their contracts in unusual ways. The *emulated* are the shipped contracts themselves.

What is played is bounded, because the whole catalogue takes 10 to 30 seconds for a target, most of it waiting, and
there are well over a hundred targets:

- a sound or emulated target plays everything; one that differs from ``tests/targets_common/careful.py`` in a single
  decision leaves out :data:`PATIENT`, the few scenarios that wait out a time limit in a place that all of them share;
- a flawed target plays the scenarios that must see it and the smoke ones, which shows that it is caught (about 2
  seconds). A tenth of them play everything but :data:`PATIENT`, which shows what else is said of them. Which tenth
  follows from their names and the size of the catalogue, so it turns with each new scenario and is the same for one
  tree. ``WHOLE_MATRIX=1`` plays everything for all.

A flaw that survives, or that is caught by a rule that its file does not name, fails its test. What each was caught by
is shown at the end of a run (``tests/conftest.py``) and written to ``reports/flaws.md``.
"""

import asyncio
import os
import tomllib
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness import session
from sendtwice.harness.clocks import library
from sendtwice.harness.events import RunEvent, ScenarioReopened
from sendtwice.harness.judge import RULES
from sendtwice.harness.result import RunResult, Verdict
from sendtwice.harness.scenario import Scenario, catalogue
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load
from tests.support import ROOT, missing, require

FLAWED = sorted(path.parent for path in (ROOT / "tests" / "flawed").glob("*/flaw.toml"))
SOUND = sorted(path.parent for path in (ROOT / "tests" / "sound").glob("*/target.toml"))
EMULATED = sorted((ROOT / "tests" / "emulated").glob("*.toml"))

# Where every answer of a target is wrong, each scenario retries for as long as it may.
pytestmark = pytest.mark.timeout(300)

#: Scenarios that wait for seconds until a target gives up on its provider.
PATIENT = {"send.provider-late", "send.provider-hangs", "send.keep-alive-closed", "send.crash-while-queued"}
PART = 10
WHOLE = os.environ.get("WHOLE_MATRIX") == "1"


@cache
def shipped() -> tuple[Scenario, ...]:
    return tuple(catalogue())


def play(target_file: Path, reports: Path, scenarios: Iterable[Scenario]) -> RunResult:
    target, path = load(str(target_file))
    commands = [process.command[0] for process in target.target.processes]
    if target.target.client is not None:
        commands += target.target.client.command[:1]
    if "node" in commands:
        require("node", "this target is written in JavaScript")
    clock = target.target.clock
    if clock is not None and clock.kind == "faketime" and library.complaint(clock.library) is not None:
        missing("faketime", "this target's clock is moved with it")
    settings = RunSettings(reports=reports, watch=0.3)
    events: list[RunEvent] = []
    result = asyncio.run(session.run(target, path, list(scenarios), settings, [events.append]))
    calmed = [e.after.id for e in events if isinstance(e, ScenarioReopened) and e.after.verdict is Verdict.PASSED]
    assert not calmed, f"was accused for a while, and wrongly: {calmed}"
    return result


def broken(result: RunResult, level: Level = Level.MUST) -> dict[str, set[str]]:
    """The rules with a finding at a level, each with the scenarios that found it."""
    found: dict[str, set[str]] = {}
    for scenario in result.scenarios:
        for finding in scenario.findings:
            if finding.level is level:
                found.setdefault(finding.rule, set()).add(scenario.id)
    return found


def plays_everything(name: str) -> bool:
    return WHOLE or zlib.crc32(f"{name} {len(shipped())}".encode()) % PART == 0


def chosen(name: str, wanted: list[str]) -> list[Scenario]:
    """Return what a flawed target plays. A wanted ``scenario.route`` is one of those that ``scenario`` becomes."""
    if plays_everything(name):
        return [s for s in shipped() if WHOLE or s.id in wanted or s.id not in PATIENT]
    return [
        s
        for s in shipped()
        if s.id in wanted or "smoke" in s.tags or (s.each and any(w.startswith(f"{s.id}.") for w in wanted))
    ]


def is_variant(folder: Path) -> bool:
    """Whether a program is the careful one with a single decision of its own."""
    program = folder / "mailer.py"
    return program.exists() and "from vendors import" in program.read_text("utf-8") and "careful-" not in folder.name


@pytest.mark.parametrize("folder", FLAWED, ids=lambda folder: folder.name)
def test_a_flaw_is_caught_by_the_rule_meant_for_it(
    folder: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    flaw = tomllib.loads((folder / "flaw.toml").read_text("utf-8"))
    result = play(folder / "target.toml", tmp_path, chosen(folder.name, flaw["scenarios"]))
    assert result.error is None
    found = broken(result)
    caught = broken(result, Level(flaw.get("level", "must"))).get(flaw["rule"], set())
    record_property(
        "flaw",
        {
            "name": folder.name,
            "what": flaw["what"],
            "contract": result.contract,
            "rule": flaw["rule"],
            "played": len(result.scenarios),
            "found": {rule: sorted(scenarios) for rule, scenarios in {**found, flaw["rule"]: caught}.items()},
        },
    )
    missed = set(flaw["scenarios"]) - caught
    assert not missed, f"{flaw['rule']} did not see it in {missed}; found: {found}"
    others = set(found) - {flaw["rule"], *flaw.get("also", [])}
    assert not others, f"caught by accident as well: { ({rule: found[rule] for rule in others}) }"


@pytest.mark.parametrize("folder", SOUND, ids=lambda folder: folder.name)
def test_a_sound_implementation_is_not_accused(folder: Path, tmp_path: Path) -> None:
    left_out = PATIENT if is_variant(folder) and not WHOLE else set()
    result = play(folder / "target.toml", tmp_path, [s for s in shipped() if s.id not in left_out])
    assert result.error is None
    assert broken(result) == {}
    if load(str(folder / "target.toml"))[0].target.role == "client":
        assert broken(result, Level.SHOULD) == {}
    passed = [s.id for s in result.scenarios if s.verdict is Verdict.PASSED]
    assert passed, "nothing was shown at all"


@pytest.mark.parametrize("target_file", EMULATED, ids=lambda path: path.stem)
def test_an_emulated_vendor_passes_all_that_applies_to_it(target_file: Path, tmp_path: Path) -> None:
    result = play(target_file, tmp_path, shipped())
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


def test_every_flaw_names_rules_and_scenarios_that_exist() -> None:
    known = {scenario.id for scenario in shipped()}
    for folder in FLAWED:
        flaw = tomllib.loads((folder / "flaw.toml").read_text("utf-8"))
        assert {flaw["rule"], *flaw.get("also", [])} <= RULES.keys(), folder.name
        assert flaw["scenarios"], folder.name
        for name in flaw["scenarios"]:
            assert name in known or any(name.startswith(f"{other}.") for other in known), f"{folder.name}: {name}"
