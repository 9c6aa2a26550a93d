"""Scenarios and targets in words: what `scenarios`, `explain` and `--dry-run` say of processes."""

from pathlib import Path

import pytest

from sendtwice.harness import dry_run, words
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.scenario import Scenario, catalogue, parse
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load

PLAN = """
id: own.processes
title: t
role: api
steps:
  - send: {as: first, replica: 1, at: {provider.request: hold}}
  - pause: target.1
  - resume: target.1
  - stop
  - restart
  - crash: worker
  - until: {met: first, or_after: grace}
  - until: {delivered: first, or_after: 0.5}
  - until: {answered: first}
"""


def test_every_step_says_what_becomes_of_which_process() -> None:
    assert words.steps_in_words(parse(PLAN)) == [
        "send first, to the target's instance 1; the mail on its way to the provider is held",
        "stop the target's instance 1 for a while (SIGSTOP)",
        "let the target's instance 1 go on (SIGCONT)",
        "ask the target to end (SIGTERM)",
        "start the target again, with the state it kept",
        "kill the target's process worker (SIGKILL)",
        "wait for something to meet the fault 'first', or for the grace period",
        "wait for the first delivery of first, or for 0.5 s",
        "wait for the answer of first",
    ]


def test_what_is_done_to_processes_is_announced() -> None:
    assert words.kills_of(parse(PLAN)) == [
        "the target's instance 1 is stopped for a while (SIGSTOP)",
        "the target is asked to end (SIGTERM)",
        "the target is started again",
        "the target's process worker is killed (SIGKILL)",
    ]


@pytest.mark.parametrize("scenario", catalogue(), ids=lambda s: s.id)
def test_no_step_of_the_catalogue_is_left_without_words(scenario: Scenario) -> None:
    told = words.steps_in_words(scenario)
    assert len(told) >= len(scenario.steps)
    assert not {"stop", "pause", "resume", "advance", "call"} & set(told), "the name of a step is no sentence"


def test_a_dry_run_says_how_many_of_each_process_are_started(tmp_path: Path) -> None:
    (tmp_path / "target.toml").write_text(
        '[target]\n[target.api]\nurl = "http://127.0.0.1:{port}"\n'
        '[[target.process]]\nname = "web"\ncommand = ["web", "--fast"]\nreplicas = 3\n'
        '[[target.process]]\nname = "worker"\ncommand = ["work"]\n'
    )
    target, path = load(str(tmp_path / "target.toml"))
    told = list(dry_run.lines(target, effective_contract(target, path.parent), [parse(PLAN)], RunSettings()))
    assert "starts: web --fast, 3 times (as web)" in told
    assert "starts: work (as worker)" in told
    assert target.target.instances == "3 instances of web"
