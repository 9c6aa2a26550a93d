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


FAULTS = {
    "{client.response: lose}": "the API's answer is lost",
    "{client.response: {lose: first-byte}}": "the API's answer breaks off after its first byte",
    "{client.response: {lose: in-chunks}}": "the API's answer breaks off in its chunks, before the last",
    "{client.response: {close: after-answer}}": "the connection is closed (FIN) after the API's answer",
    "{client.response: {drip: 2}}": "the API's answer comes bit by bit, for 2 s",
    "{client.response: {garble: html}}": "the API's answer comes as a page of HTML",
    "{client.response: {garble: gzip}}": "the API's answer comes with half of its gzip",
    "{client.response: {answer: 502}}": "the API has done it, and the target is answered 502",
    "{client.request: {garble: empty}}": (
        "the target's request is answered with success and an empty body, and nothing is done"
    ),
    "{client.request: {answer: 503, retry_after: {date: 2}}}": (
        "the API answers 503 and does nothing, and asks to wait 2 s (said as a date)"
    ),
    "{client.request: {answer: 307, location: other}}": (
        "the API answers 307 and does nothing, and sends the caller to another origin"
    ),
    "{client.request: {reset: , stage: connect, nth: 2}}": (
        "the connection is reset (RST) at the target's request (at its connect stage, number 2)"
    ),
}


@pytest.mark.parametrize(("at", "text"), FAULTS.items())
def test_a_fault_of_a_callers_api_says_what_the_caller_meets(at: str, text: str) -> None:
    scenario = parse(f"{{id: own.fault, title: t, role: client, steps: [{{operate: {{as: first, at: {at}}}}}]}}")
    assert words.steps_in_words(scenario) == [f"ask the target to perform first; {text}"]
    assert words.faults_of(scenario) == [f"first: {text}"]


def test_what_one_operation_has_to_do_with_another_is_said() -> None:
    steps = "[operate: {as: a}, operate: {as: b, like: a}, operate: {as: c, op: c, like: a}]"
    assert words.steps_in_words(parse(f"{{id: own.again, title: t, role: client, steps: {steps}}}")) == [
        "ask the target to perform a",
        "ask the target again for what a asked for, as b",
        "ask the target to perform c, with the content of a's",
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
