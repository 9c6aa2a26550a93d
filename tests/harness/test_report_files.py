"""What a run leaves behind: the result, JUnit, histories, saved failures, and what the last run was."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from sendtwice.harness.events import RunEnded, RunStarted
from sendtwice.harness.history import Kind
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report.files import write_text
from sendtwice.harness.report.jsonfile import Histories, JsonFile, LastRun, history_path, last_failed
from sendtwice.harness.report.junit import JUnitFile
from sendtwice.harness.report.saved import as_document, write_saved
from sendtwice.harness.result import RunResult, Verdict
from sendtwice.harness.scenario import Scenario, catalogue, load, parse
from sendtwice.harness.settings import RunSettings
from tests.harness.stories import failed, finding, other, run_of, twice


def junit(result: RunResult, **options: Any) -> ET.Element:
    return ET.fromstring(JUnitFile(Path("unused"), Redactor(), **options).text(result).encode())


EVERY = run_of(
    failed(),
    other("send.repeat", Verdict.PASSED),
    other("key.max", Verdict.SKIPPED, reason="contract x names no longest key", needs=("no longest key",)),
    other("send.burst", Verdict.INCONCLUSIVE, reason="they did not overlap"),
    other("send.hang-up", Verdict.KNOWN, reason="TICKET-412"),
)


def test_junit_has_one_case_for_each_scenario() -> None:
    suite = junit(EVERY).find("testsuite")
    assert suite is not None
    assert {k: suite.attrib[k] for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "0",
        "skipped": "3",
    }
    names = [(case.attrib["classname"], case.attrib["name"]) for case in suite.iter("testcase")]
    assert names[0] == ("sendtwice.send", "send.response-lost")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.attrib == {
        "message": "first: 2 mails were delivered where one is allowed",
        "type": "at-most-once",
    }
    assert "mail 2 to rz87e…@sendtwice.test committed" in str(failure.text)
    assert "replay: sendtwice replay reports/run/send.response-lost.yaml" in str(failure.text)
    skipped = [element.attrib["message"] for element in suite.iter("skipped")]
    assert skipped == [
        "skipped: contract x names no longest key",
        "inconclusive: they did not overlap",
        "known: TICKET-412",
    ]


def test_junit_with_all_required_has_no_skips_but_known_ones() -> None:
    suite = junit(EVERY, require_all=True).find("testsuite")
    assert suite is not None
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("3", "1")


def test_junit_tells_an_error_of_the_harness() -> None:
    error = junit(run_of(error="the target did not start")).find("testsuite/testcase/error")
    assert error is not None
    assert error.attrib["message"] == "the target did not start"


def test_junit_bears_what_xml_does_not() -> None:
    story = twice()
    story.answer("retry", body="\x00\x1b[31m <&> \ud800 \ufffe")
    text = junit(run_of(failed(story=story))).find("testsuite/testcase/failure")
    assert text is not None
    assert "<&>" in str(text.text)


def test_the_json_is_the_result_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "result.json"
    reporter = JsonFile(path, Redactor({"hunter2hunter2"}))
    reporter(RunStarted("t", "api", "rasket", (), (), 1.0))
    assert not path.exists()
    result = run_of(failed(findings=(finding("at-most-once", "saw hunter2hunter2"),)))
    reporter(RunEnded(result))
    data = json.loads(path.read_text())
    assert data["verdict"] == "failed"
    assert data["counts"] == {"passed": 0, "failed": 1, "skipped": 0, "inconclusive": 0, "known": 0}
    assert data["scenarios"][0]["findings"][0]["message"] == "saw ***"


def test_a_dash_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    JsonFile(Path("-"), Redactor())(RunEnded(run_of(failed())))
    assert json.loads(capsys.readouterr().out)["target"] == "my-mailer"


def test_histories_are_json_lines_without_secrets(tmp_path: Path) -> None:
    story = twice()
    story.send("third", headers={"Authorization": "Bearer xyz"})
    Histories(tmp_path, Redactor())(RunEnded(run_of(failed(story=story), other("key.max", Verdict.SKIPPED))))
    assert [path.name for path in tmp_path.iterdir()] == ["send.response-lost.history.jsonl"]
    lines = [json.loads(line) for line in history_path(tmp_path, "send.response-lost").read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(story.events) + 1))
    request = [line for line in lines if line["kind"] == Kind.CLIENT_REQUEST][-1]
    assert request["data"]["headers"]["Authorization"] == "***"


def test_the_last_run_knows_what_failed(tmp_path: Path) -> None:
    target = tmp_path / "target.toml"
    LastRun(tmp_path, target, Redactor())(RunEnded(EVERY))
    assert last_failed(tmp_path, target) == (["send.response-lost"], None)


def test_without_a_last_run_of_this_target_all_is_played_and_why_is_said(tmp_path: Path) -> None:
    target = tmp_path / "target.toml"
    failed_ids, note = last_failed(tmp_path, target)
    assert failed_ids == []
    assert "there is no last run" in str(note)
    LastRun(tmp_path, tmp_path / "another.toml", Redactor())(RunEnded(EVERY))
    assert "of another target" in str(last_failed(tmp_path, target)[1])
    LastRun(tmp_path, target, Redactor())(RunEnded(run_of(other("send.repeat", Verdict.PASSED))))
    assert "nothing failed" in str(last_failed(tmp_path, target)[1])
    (tmp_path / "last-run.json").write_text("[]")
    assert "cannot be read" in str(last_failed(tmp_path, target)[1])


def test_a_run_that_could_not_begin_is_not_the_last_run(tmp_path: Path) -> None:
    LastRun(tmp_path, None, Redactor())(RunEnded(run_of(error="no")))
    assert list(tmp_path.iterdir()) == []


def test_files_are_written_whole_and_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    write_text(path, "one")
    write_text(path, "two")
    assert path.read_text() == "two"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]
    assert path.stat().st_mode & 0o400


# -- saved failures ---------------------------------------------------------------------------------------


def bare(scenario: Scenario) -> Scenario:
    """A scenario without what saving may change: where it came from, and the line breaks of its prose."""
    prose = {name: " ".join(getattr(scenario, name).split()) for name in ("why", "source")}
    return scenario.model_copy(update={"saved": None, **prose})


@pytest.mark.parametrize("scenario", catalogue(), ids=lambda s: s.id)
def test_every_scenario_is_the_same_after_saving_and_loading(scenario: Scenario, tmp_path: Path) -> None:
    path = RunSettings(reports=tmp_path).replay_path(scenario.id)
    write_saved(path, scenario, tmp_path / "target.toml", failed(scenario.id), 3, contract="rasket")
    again = load(path)
    assert bare(again) == bare(scenario)
    assert again.saved == {
        "target": "target.toml",
        "contract": "rasket",
        "seed": 3,
        "verdict": "failed",
        "rule": "at-most-once",
        "message": "first: 2 mails were delivered where one is allowed",
    }


ODD = """
id: odd.one
title: "Everything: that the language has"
role: api
steps:
  - hold: {crossing: provider.request, of: first, nth: 2, label: door}
  - hold: {crossing: provider.response, delay: 0.5, of: first}
  - send:
      as: first
      key: {of: k, size: max+1, twice: different}
      recipients: 2
      at: {client.response: {lose: in-body}, provider.request: {answer: 503, times: 2}}
  - send:
      as: gone
      key: {absent: true}
      wait: none
      at: [{crossing: client.request, delay: 0.5}, {crossing: client.request, cut: 20, nth: 2}]
  - send: {as: other, like: first, op: o2, by: other-mailbox, change: {to: other, fields: reordered}}
  - parallel: {as: burst, count: 20, like: first}
  - parallel: [{as: a, like: first}, {as: b, op: o3}]
  - until: {answered: [a, b], or_after: 0.5}
  - release: door
  - hang_up: gone
  - call: {name: approve, of: first}
  - call: reject
  - crash
  - restart
  - crash: worker
  - check: {deliveries: {first: [0, 1]}}
  - await: a
  - finish: first
  - settle
expect:
  deliveries: {first: 1, [first, o2]: [1, 2]}
  answers: {first: [accepted, replayed], [a, b]: {accepted: 1, rest: [replayed, in_progress]}}
  told: {first: sent}
  level: should
"""


def test_every_form_of_the_language_survives_saving(tmp_path: Path) -> None:
    scenario = parse(ODD)
    path = tmp_path / "x" / "odd.yaml"
    write_saved(path, scenario, None, failed("odd.one"), 1)
    assert bare(load(path)) == bare(scenario)
    assert "seed" in (load(path).saved or {})


def test_saved_faults_are_in_the_forms_that_people_write() -> None:
    steps = as_document(parse(ODD))["steps"]
    assert steps[0] == {
        "hold": {"crossing": "provider.request", "hold": None, "of": "first", "nth": 2, "label": "door"}
    }
    assert steps[2]["send"]["at"] == {
        "client.response": {"lose": "in-body"},
        "provider.request": {"answer": 503, "times": 2},
    }
    assert steps[3]["send"]["at"][0] == {"crossing": "client.request", "delay": 0.5}
    assert steps[12:15] == ["crash", "restart", {"crash": "worker"}]


def test_a_saved_failure_keeps_no_secret_and_no_full_path(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "run" / "x.yaml"
    result = failed(findings=(finding("at-most-once", "saw hunter2hunter2"),))
    write_saved(
        path,
        parse(ODD),
        tmp_path / "app" / "sendtwice.toml",
        result,
        1,
        contract=str(tmp_path / "app" / "mine.yaml"),
        redactor=Redactor({"hunter2hunter2"}),
    )
    text = path.read_text()
    assert str(tmp_path) not in text
    assert "hunter2" not in text
    saved = load(path).saved or {}
    assert saved["target"] == "../../app/sendtwice.toml"
    assert saved["contract"] == "mine.yaml"
