"""Real SDKs and HTTP libraries with the few lines of their users: each breaks what is known of it, and no more."""

import asyncio
import tomllib
from pathlib import Path

import pytest

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness import session
from sendtwice.harness.scenario import catalogue
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load
from tests.support import ROOT, missing, require

FOLDER = ROOT / "tests" / "implementations" / "callers"
#: What tells the callers apart, and takes no long waits; for the published table all scenarios of the role are played.
PLAYED = {
    "client.asked-again",
    "client.crash-after-accept",
    "client.empty-answer",
    "client.in-progress",
    "client.redirect",
    "client.response-lost",
    "client.retry-after-fraction",
}
Expected = dict[str, dict[str, dict[str, list[str]]]]
EXPECTED: Expected = tomllib.loads((FOLDER / "expected.toml").read_text())


def require_installed(name: str) -> None:
    if not (FOLDER / ".installed").exists():
        missing(name, "what the callers use is not installed; run tests/implementations/install.sh callers")
    if (FOLDER / name / "send.mjs").exists():
        require("node", "the caller is a program for it")
        if not (FOLDER / "node_modules").is_dir():
            missing(name, "its library is not installed; run tests/implementations/install.sh callers")
    elif not (FOLDER / ".venv" / "bin" / "python").exists():
        missing(name, "its library is not installed; run tests/implementations/install.sh callers")


def findings(expected: dict[str, list[str]]) -> set[tuple[str, str]]:
    """Read entries like "must at-most-once"."""
    return {(scenario, finding) for scenario, all_of in expected.items() for finding in all_of}


def test_every_caller_has_its_expectations_and_its_lines_on_the_library() -> None:
    callers = {path.parent.name for path in FOLDER.glob("*/target.toml")}

    assert set(EXPECTED) == callers
    assert {path.parent.name for path in FOLDER.glob("*/README.md")} == callers


def test_expectations_name_scenarios_of_the_catalogue() -> None:
    known = {scenario.id for scenario in catalogue()}

    assert {name for each in EXPECTED.values() for when in each.values() for name in when} <= known


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_caller_is_found_to_break_what_is_known_of_it_and_no_more(name: str, tmp_path: Path) -> None:
    require_installed(name)
    target, path = load(str(FOLDER / name / "target.toml"))
    scenarios = [scenario for scenario in catalogue() if scenario.id in PLAYED]

    result = asyncio.run(session.run(target, path, scenarios, RunSettings(reports=tmp_path, watch=0.1)))

    assert result.error is None
    assert {scenario.id for scenario in result.scenarios} == PLAYED
    found = {(s.id, f"{f.level} {f.rule}") for s in result.scenarios for f in s.findings if f.level is not Level.HOLE}
    always, sometimes = (findings(EXPECTED[name].get(when, {})) for when in ("always", "sometimes"))
    assert found - sometimes == {(scenario, finding) for scenario, finding in always if scenario in PLAYED}
