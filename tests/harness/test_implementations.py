"""Real libraries: what is published about each is found again, and nothing else is said against it."""

import asyncio
import shutil
import tomllib
from pathlib import Path

import pytest

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness import session
from sendtwice.harness.scenario import catalogue
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load
from tests.support import ROOT, missing

FOLDER = ROOT / "tests" / "implementations"
EXPECTED: dict[str, dict[str, dict[str, list[str]]]] = tomllib.loads((FOLDER / "expected.toml").read_text())


def installed(folder: Path) -> bool:
    """Whether install.sh was here and what it installed can run."""
    if not (folder / ".installed").exists():
        return False
    if (folder / "package.json").exists():
        return (folder / "node_modules").is_dir() and shutil.which("node") is not None
    return (folder / ".venv" / "bin" / "python").exists()


def pairs(expected: dict[str, list[str]]) -> set[tuple[str, str]]:
    return {(scenario, rule) for scenario, rules in expected.items() for rule in rules}


def test_every_implementation_has_its_expectations() -> None:
    assert set(EXPECTED) == {path.parent.name for path in FOLDER.glob("*/target.toml")}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_library_is_found_to_break_what_is_published_and_no_more(name: str, tmp_path: Path) -> None:
    if not installed(FOLDER / name):
        missing(name, "the library is not installed; run tests/implementations/install.sh")
    target, path = load(str(FOLDER / name / "target.toml"))
    scenarios = [scenario for scenario in catalogue() if scenario.role == target.target.role]

    result = asyncio.run(session.run(target, path, scenarios, RunSettings(reports=tmp_path)))

    assert result.error is None
    found = {(s.id, f.rule) for s in result.scenarios for f in s.findings if f.level is Level.MUST}
    always, sometimes = (pairs(EXPECTED[name].get(when, {})) for when in ("always", "sometimes"))
    assert found - sometimes == always
