"""What an exploration tells a person and leaves for programs: the table, the counterexample, JSON, JUnit, files."""

from __future__ import annotations

import asyncio
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.harness.explore.console import _MARKS, ExploreConsole
from sendtwice.harness.explore.coverage import State
from sendtwice.harness.explore.events import Subscriber
from sendtwice.harness.explore.explorer import Explorer, Settings
from sendtwice.harness.explore.files import ExploreJson, Saved
from sendtwice.harness.explore.junit import ExploreJUnit
from sendtwice.harness.explore.result import Result
from sendtwice.harness.judge import Judgement
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report.paint import _ASCII
from sendtwice.harness.scenario import Scenario, load
from tests.harness.explore.scripted import FINE, RULE, Script, ScriptedStage, broken, usual

RESET = "first: provider.request: reset"
CLOSE = "first: provider.request: close"
LATE = "again: client.response: lose in-body"


def shows(scenario: Scenario, before: int) -> Judgement:
    seen = {
        RESET: broken(),
        CLOSE: Judgement(voids=("provider.request: close never fired",)),
        LATE: Judgement(voids=("first did not end within 10 s",)),
    }
    return seen.get(scenario.title, FINE)


def told(script: Script, folder: Path, *subscribers: Subscriber, **settings: object) -> tuple[Result, str]:
    """What is printed of an exploration."""
    stream = io.StringIO()
    verbosity = settings.pop("verbosity", 0)
    assert isinstance(verbosity, int)
    console = ExploreConsole(
        Redactor(["hunter2-hunter2"]), name="mailer", contract="universal", target="target.toml", stream=stream,
        verbosity=verbosity,
    )  # fmt: skip
    stage = ScriptedStage(script, folder, store={"cache": {"upstream": "127.0.0.1:6379"}})
    given = Settings(**{"deeds": 1, "reports": folder, **settings})  # type: ignore[arg-type]
    result = asyncio.run(Explorer(stage, given, [*subscribers, console]).run())
    return result, stream.getvalue()


STORED = Script(judges=shows, shows=lambda scenario, before: usual(scenario, stores=True))


def rows(text: str) -> dict[str, dict[str, str]]:
    """The table, read as a person reads it: by the letter of a column."""
    lines = text.splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("crossing "))
    letters = {n: letter for n, letter in enumerate(lines[head]) if n > lines[head].index("  ") and letter != " "}
    names = {}
    for line in lines[head + 1 :]:
        if line.startswith("  ") and line[2:3].isalpha() and line[3:5] == "  ":
            names[line[2]] = line[5:]
    table = {}
    for line in lines[head + 1 :]:
        if not line:
            break
        cells = {names[letter]: line[n] for n, letter in letters.items() if n < len(line) and line[n] != " "}
        table[line[: min(letters)].rstrip()] = cells
    return table


def test_the_table_says_what_came_of_every_window(tmp_path: Path) -> None:
    result, text = told(STORED, tmp_path)
    table = rows(text)
    assert list(table) == [str(point) for point in result.coverage.points]
    for move, cell in result.coverage.cells.items():
        assert table[str(move.point)][move.deed.name] == _MARKS[cell.state][0], str(move)
    assert sum(map(len, table.values())) == len(result.coverage.cells)
    assert table["first: provider.request"]["reset"] == "✗"
    assert table["first: provider.request"]["close"] == "?"
    assert table["again: client.response"]["lose in-body"] == "~"
    assert table["first: store.request cache 'GET ?'"]["store down"] == "✓"
    assert "\x1b" not in text


def test_marks_are_told_apart_in_ascii_too() -> None:
    marks = [mark.translate(_ASCII) for mark, _ in _MARKS.values()]
    assert len(set(marks)) == len(State) == len(_MARKS)


def test_it_begins_with_how_much_there_is_and_ends_with_how_to_play_it_again(tmp_path: Path) -> None:
    result, text = told(STORED, tmp_path)
    lines = text.splitlines()
    assert lines[0].startswith("exploring mailer (contract universal): ")
    assert f"{len(result.coverage.points)} crossings, {result.plans} plans of one fault" in lines[0]
    assert f"✗ {RULE}: {RESET}" in lines
    assert lines[-2].startswith(f"broken: {RULE}, by 1 plans: {result.plans} plans in ")
    assert lines[-1] == f"sendtwice replay {tmp_path}/explore.{RULE}.yaml target.toml"
    counted = next(line for line in lines if line.startswith("one fault: "))
    assert "1 broken, " in counted
    assert "1 not reached, 1 inconclusive" in counted
    assert any(line.startswith("not applicable: the target has one instance") for line in lines)


def test_quiet_says_only_what_is_not_well(tmp_path: Path) -> None:
    _, text = told(STORED, tmp_path, verbosity=-1)
    assert "crossing " not in text
    assert RESET in text
    assert text.splitlines()[-1].startswith("sendtwice replay ")


def test_verbose_says_what_came_of_each_plan(tmp_path: Path) -> None:
    result, text = told(STORED, tmp_path, verbosity=1)
    for move, cell in result.coverage.cells.items():
        if cell.state not in (State.NOT_APPLICABLE, State.NOT_PLAYED):
            assert f"{_MARKS[cell.state][0]} {move}" in text.splitlines()


def test_nothing_found_says_how_much_that_is(tmp_path: Path) -> None:
    _, text = told(Script(), tmp_path)
    assert "nothing found: complete for one fault: " in text
    _, text = told(Script(), tmp_path, deeds=2)
    assert "nothing found: complete for two faults: " in text
    assert "two faults: " in text
    _, text = told(Script(takes=lambda scenario: 1.0), tmp_path, budget=8, jobs=1)
    assert "nothing found, but not all of one fault was covered: " in text
    assert " not played" in text


def test_what_broke_once_is_told_and_not_as_broken(tmp_path: Path) -> None:
    script = Script(judges=lambda s, before: broken() if s.title == RESET and before == 0 else FINE)
    _, text = told(script, tmp_path)
    assert f"~ broke a promise once, and not in 3 more plays: {RESET}" in text
    assert "sendtwice replay" not in text


def test_an_error_is_told_with_the_table_so_far(tmp_path: Path) -> None:
    script = Script(fails=lambda scenario, before: "the target died" if scenario.title == LATE else None)
    _, text = told(script, tmp_path, jobs=1)
    assert "sendtwice could not do its work: the target died" in text
    table = rows(text)
    assert "✓" in table["first: provider.request"].values()
    assert "_" in table["again: client.response"].values()
    assert text.count("crossing ") == 1


def test_no_secret_is_printed_or_written(tmp_path: Path) -> None:
    script = Script(starts="the target said hunter2-hunter2 and ended")
    path = tmp_path / "result.json"
    _, text = told(script, tmp_path, ExploreJson(str(path), "mailer", "universal", Redactor(["hunter2-hunter2"])))
    assert "hunter2" not in text + path.read_text()
    assert "the target said *** and ended" in text


# -- files -------------------------------------------------------------------------------------------------------


def test_the_result_is_written_as_json(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result, _ = told(STORED, tmp_path, ExploreJson(str(path), "mailer", "universal", Redactor()))
    data = json.loads(path.read_text())
    assert data.items() >= result.as_json().items()
    assert (data["target"], data["contract"], data["verdict"]) == ("mailer", "universal", "failed")
    (example,) = data["broken"]
    assert example["plan"] == [RESET]
    assert example["replay"] == str(tmp_path / f"explore.{RULE}.yaml")


def test_the_smallest_counterexample_is_a_scenario_file(tmp_path: Path) -> None:
    target = tmp_path / "target.toml"
    result, _ = told(STORED, tmp_path, Saved(target, "universal", Redactor()))
    (example,) = result.smallest
    assert example.replay is not None
    scenario = load(example.replay)
    assert scenario.id == f"explore.{RULE}"
    assert scenario.saved is not None
    assert (scenario.saved["target"], scenario.saved["contract"], scenario.saved["rule"]) == (
        "target.toml", "universal", RULE,
    )  # fmt: skip
    assert scenario.model_copy(update={"saved": None}) == example.scenario


def test_a_counterexample_of_an_exploration_that_was_interrupted_is_saved_as_it_was_found(tmp_path: Path) -> None:
    playing: list[asyncio.Future[Result]] = []

    def judges(scenario: Scenario, before: int) -> Judgement:
        if scenario.title == "first: provider.request: crash":
            playing[0].cancel()
        return broken() if scenario.title == RESET else FINE

    async def explore() -> None:
        stage = ScriptedStage(Script(judges=judges), tmp_path)
        saved = Saved(tmp_path / "target.toml", "universal", Redactor())
        playing.append(asyncio.ensure_future(Explorer(stage, Settings(reports=tmp_path), [saved]).run()))
        with pytest.raises(asyncio.CancelledError):
            await playing[0]

    asyncio.run(explore())
    assert load(tmp_path / f"explore.{RULE}.yaml").title == RESET


def test_junit_has_a_case_for_each_window(tmp_path: Path) -> None:
    path = tmp_path / "result.xml"
    junit = ExploreJUnit(path, "mailer", contracts.load("universal"), Redactor())
    result, _ = told(STORED, tmp_path, junit)
    suite = ET.parse(path).find("testsuite")
    assert suite is not None
    cases = {str(case.get("name")): case for case in suite.findall("testcase")}
    assert set(cases) == {f"explore.{move}" for move in result.coverage.cells}
    failure = cases[f"explore.{RESET}"].find("failure")
    assert failure is not None
    assert failure.get("type") == RULE
    assert cases[f"explore.{CLOSE}"].find("skipped") is not None
    assert list(cases["explore.first: provider.request: answer 500"]) == []
    assert suite.get("failures") == "1"


def test_junit_has_a_case_for_what_is_broken_without_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "result.xml"
    junit = ExploreJUnit(path, "mailer", contracts.load("universal"), Redactor())
    told(Script(judges=lambda scenario, before: broken()), tmp_path, junit)
    names = [case.get("name") for case in ET.parse(path).iter("testcase")]
    assert names == ["explore.without faults"]
