"""Real libraries, and good and naive twins on real stores: each is found to break what is known of it, and no more."""

import asyncio
import shutil
import tomllib
from pathlib import Path

import pytest

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness import session
from sendtwice.harness.result import Verdict
from sendtwice.harness.scenario import Scenario, catalogue, parse
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.steps import RestartStep
from sendtwice.harness.target import Target, load
from tests.support import ROOT, missing, require

FOLDER = ROOT / "tests" / "implementations"
STORES = {"redis": "redis-server", "postgres": "postgres"}
#: Of the scenarios that start a server again, which takes most of the time, these are played here; for the published
#: matrix all of them are.
RESTARTS = {
    "outcome.store-crash-at-result",
    "send.crash-after-accept",
    "send.crash-before-accept",
    "send.stop-in-flight",
    "unknown.after-restart",
}
#: Scenarios in which a retry meets another instance, or what one that was killed left behind.
TWO = {
    "outcome.store-down-at-claim",
    "outcome.store-down-at-result",
    "send.burst",
    "send.concurrent",
    "send.crash-after-accept",
    "send.crash-before-accept",
    "send.gateway-timeout",
    "send.hang-up",
    "send.repeat",
    "send.response-lost",
}
EXPECTED: dict[str, dict[str, dict[str, list[str]]]] = tomllib.loads((FOLDER / "expected.toml").read_text())


def installed(folder: Path) -> bool:
    """Whether install.sh was here and what it installed can run."""
    if not (folder / ".installed").exists():
        return False
    if (folder / "package.json").exists():
        return (folder / "node_modules").is_dir() and shutil.which("node") is not None
    return (folder / ".venv" / "bin" / "python").exists()


def load_or_skip(file: Path) -> tuple[Target, Path]:
    """A target that can run here."""
    if not installed(file.parent):
        missing(file.parent.name, "it is not installed; run tests/implementations/install.sh")
    target, path = load(str(file))
    for process in target.target.processes:
        if process.name in STORES:
            require(STORES[process.name], "the target keeps its operations there")
    return target, path


def restarts(scenario: Scenario) -> bool:
    return any(isinstance(step, RestartStep) for step in scenario.steps)


def pairs(expected: dict[str, list[str]]) -> set[tuple[str, str]]:
    return {(scenario, rule) for scenario, rules in expected.items() for rule in rules}


def test_every_implementation_has_its_expectations() -> None:
    assert set(EXPECTED) == {path.parent.name for path in FOLDER.glob("*/target.toml")}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_implementation_is_found_to_break_what_is_known_of_it_and_no_more(name: str, tmp_path: Path) -> None:
    target, path = load_or_skip(FOLDER / name / "target.toml")
    scenarios = [s for s in catalogue() if s.role == target.target.role and (s.id in RESTARTS or not restarts(s))]
    played = {scenario.id for scenario in scenarios}

    result = asyncio.run(session.run(target, path, scenarios, RunSettings(reports=tmp_path)))

    assert result.error is None
    found = {(s.id, f.rule) for s in result.scenarios for f in s.findings if f.level is Level.MUST}
    always, sometimes = (pairs(EXPECTED[name].get(when, {})) for when in ("always", "sometimes"))
    assert found - sometimes == {(scenario, rule) for scenario, rule in always if scenario in played}


@pytest.mark.parametrize("name", ["postgres-operations", "redis-lease"])
def test_good_twin_keeps_its_contract_with_two_instances(name: str, tmp_path: Path) -> None:
    target, path = load_or_skip(FOLDER / name / "replicas.toml")
    scenarios = [scenario for scenario in catalogue() if scenario.id in TWO]

    result = asyncio.run(session.run(target, path, scenarios, RunSettings(reports=tmp_path)))

    assert result.error is None
    assert {s.id: s.verdict for s in result.scenarios} == dict.fromkeys(TWO, Verdict.PASSED)
    assert [f for s in result.scenarios for f in s.findings] == []


STORE_KILLED = """
id: outcome.store-killed
title: The store is killed after one result was written, and while another mail is on its way
role: api
why: What it has acknowledged is there again, and a connection that broke is opened anew.
source: tests
steps:
  - send: {as: first}
  - send: {as: second, op: o2, at: {provider.response: hold}}
  - crash: STORE
  - restart: STORE
  - release: second
  - await: second
  - send: {as: again, like: second}
  - send: {as: third, op: o3, key: k3}
  - finish: third
  - send: {as: last, like: first}
expect:
  answers: {first: accepted, second: [accepted, unknown], last: replayed}
  deliveries: {first: 1, o2: 1, o3: 1}
"""


@pytest.mark.parametrize(("name", "store"), [("postgres-operations", "postgres"), ("redis-lease", "redis")])
def test_good_twin_goes_on_when_its_store_was_killed(name: str, store: str, tmp_path: Path) -> None:
    target, path = load_or_skip(FOLDER / name / "target.toml")
    scenario = parse(STORE_KILLED.replace("STORE", store))

    result = asyncio.run(session.run(target, path, [scenario], RunSettings(reports=tmp_path)))

    assert result.error is None
    (played,) = result.scenarios
    assert (played.verdict, played.reason, list(played.findings)) == (Verdict.PASSED, None, [])
