"""What a scenario does to the target's processes: noted in order, and put right for the next one."""

import asyncio
from pathlib import Path

import pytest

from sendtwice.harness import session
from sendtwice.harness.history import Kind
from sendtwice.harness.result import RunResult, ScenarioResult, Verdict
from sendtwice.harness.scenario import parse
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load
from tests.support import ROOT

TARGET = """
[target]
name = "kept"
contract = "rasket"
[target.api]
url = "http://127.0.0.1:{port}"
headers = { Authorization = "Bearer main" }
[target.start]
command = ["{python}", "mailer.py"]
env = { PORT = "{port}", MAIL_PROVIDER_URL = "{provider_url}", STATE = "{state}" }
ready = "/healthz"
"""


def play(folder: Path, *steps: str, target: str = TARGET, ends: str = "") -> RunResult:
    """Play scenarios, each given by its steps, one after the other on one target."""
    common = ROOT / "tests" / "targets_common"
    top = f"import os, signal, sys\nsys.path.insert(0, {str(common)!r})\n{ends}\n"
    (folder / "mailer.py").write_text(f"{top}from vendors import Rasket\nRasket().serve()\n")
    (folder / "target.toml").write_text(target)
    loaded, path = load(str(folder / "target.toml"))
    chosen = [parse(f"{{id: own.s{n}, title: t, role: api, steps: [{text}]}}") for n, text in enumerate(steps, 1)]
    settings = RunSettings(reports=folder / "reports", watch=0.1)
    return asyncio.run(session.run(loaded, path, chosen, settings))


def happened(scenario: ScenarioResult, *kinds: Kind) -> list[str]:
    """What was noted, in order: each kind, and the process or the attempt that it is about."""
    return [
        f"{e.kind.value.rpartition('.')[2]} {e.data.get('process') or e.attempt}"
        for e in scenario.history
        if e.kind in kinds
    ]


PROCESS = (Kind.CRASH, Kind.STOP, Kind.PAUSE, Kind.RESUME, Kind.RESTART)


def test_what_a_scenario_leaves_down_or_asleep_is_put_right_for_the_next_one(tmp_path: Path) -> None:
    result = play(
        tmp_path,
        "{send: {as: first}}, {crash: target}",
        "{send: {as: first}}, {stop: target}",
        "{send: {as: first}}, {pause: target}, {send: {as: late, wait: none}}",
        "{send: {as: first}}, {pause: target}, {crash: target}, {restart: target}, {send: {as: retry, like: first}}",
        "{send: {as: first}}, {send: {as: retry, like: first}}",
    )
    assert result.error is None
    assert [s.verdict for s in result.scenarios] == [Verdict.PASSED] * 5, [s.reason for s in result.scenarios]
    assert [happened(s, *PROCESS) for s in result.scenarios] == [
        ["crash target", "restart target"],
        ["stop target", "restart target"],
        ["pause target", "resume target"],
        ["pause target", "crash target", "restart target"],
        [],
    ]


def test_one_that_sleeps_answers_when_it_was_woken_and_is_noted_so(tmp_path: Path) -> None:
    (scenario,) = play(
        tmp_path,
        "{pause: target}, {send: {as: first, wait: none}}, {until: {answered: first, or_after: 0.2}}, "
        "{resume: target}, {await: first}",
    ).scenarios
    assert scenario.verdict is Verdict.PASSED
    assert happened(scenario, Kind.PAUSE, Kind.RESUME, Kind.DELIVERY, Kind.ENDED) == [
        "pause target",
        "resume target",
        "delivery None",
        "ended first",
    ]


def test_a_restart_of_one_that_sleeps_wakes_it_first(tmp_path: Path) -> None:
    (scenario,) = play(
        tmp_path,
        "{send: {as: first}}, {pause: target}, {stop: target}, {restart: target}, {send: {as: retry, like: first}}",
    ).scenarios
    assert scenario.verdict is Verdict.PASSED
    assert happened(scenario, *PROCESS) == ["pause target", "stop target", "resume target", "restart target"]


@pytest.mark.parametrize("deaf", [False, True])
def test_whether_it_ended_by_itself_is_noted(deaf: bool, tmp_path: Path) -> None:
    ends = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if deaf else ""
    target = TARGET + "stop_timeout = 0.2\n" if deaf else TARGET
    steps = "{send: {as: first}}, {stop: target}, {restart: target}, {send: {as: retry, like: first}}"
    (scenario,) = play(tmp_path, steps, target=target, ends=ends).scenarios
    assert scenario.verdict is Verdict.PASSED
    assert [e.data["willingly"] for e in scenario.history if e.kind is Kind.RESTART] == [not deaf]


def test_a_mail_that_is_in_flight_when_it_is_asked_to_end_goes_out(tmp_path: Path) -> None:
    """The default of Python's signal ends it at once, and its own program could wait: both are real, and both seen."""
    waits = "signal.signal(signal.SIGTERM, lambda *_: None)"
    steps = (
        "{send: {as: first, at: {provider.request: hold}}}, {stop: target}, {release: first}, {await: first}, "
        "{restart: target}, {send: {as: retry, like: first}}, {finish: retry}"
    )
    (graceful,) = play(tmp_path, steps, target=TARGET + "stop_timeout = 0.2\n", ends=waits).scenarios
    assert (graceful.verdict, list(graceful.deliveries.values())) == (Verdict.PASSED, [1])
    assert graceful.answers["first"] == ["accepted"]
    (sudden,) = play(tmp_path, steps).scenarios
    assert (sudden.verdict, list(sudden.deliveries.values())) in ((Verdict.PASSED, [0]), (Verdict.PASSED, [1]))
    assert sudden.answers["first"] == ["broken"]


def test_instances_take_turns_unless_a_step_names_one(tmp_path: Path) -> None:
    """Keys that each instance keeps for itself: a repeat that meets the other one is a second mail."""
    two = TARGET.replace('STATE = "{state}"', 'STATE = "{state}.{replica}"') + "replicas = 2\n"
    result = play(
        tmp_path,
        "{send: {as: first, replica: 1}}, {send: {as: retry, like: first, replica: 1}}",
        "{send: {as: first}}, {send: {as: retry, like: first}}",
        "{send: {as: first, replica: 2}}, {crash: target.1}, {send: {as: retry, like: first, replica: 2}}",
        target=two,
    )
    assert result.error is None
    assert [(s.verdict, list(s.deliveries.values())) for s in result.scenarios] == [
        (Verdict.PASSED, [1]),
        (Verdict.FAILED, [2]),
        (Verdict.PASSED, [1]),
    ]


def test_an_instance_that_dies_by_itself_ends_the_run(tmp_path: Path) -> None:
    dies = "import vendors\nvendors.Rasket.clock = lambda *_: os._exit(9)"
    two = TARGET + 'replicas = 2\n[target.calls.die]\npath = "/clock"\n'
    steps = "{send: {as: first, replica: 2}}, {call: die}, {send: {as: retry, like: first, replica: 2}}"
    result = play(tmp_path, steps, target=two, ends=dies)
    assert result.exit_code == 4
    assert result.error is not None
    assert result.error.startswith("the target's process 'target.1' ended with status 9 by itself")
