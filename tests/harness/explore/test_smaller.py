"""A counterexample is made smaller: what it does not need goes, what it needs stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from sendtwice.fake_provider.faults import Place
from sendtwice.harness.explore import deeds
from sendtwice.harness.explore.plans import Move, Plan, Writer
from sendtwice.harness.explore.points import Point
from sendtwice.harness.explore.smaller import smaller
from sendtwice.harness.explore.stage import Played
from sendtwice.harness.judge import Judgement
from sendtwice.harness.report.saved import as_document
from sendtwice.harness.scenario import Scenario, made_of
from tests.harness.explore.scripted import FINE, RULE, Script, ScriptedStage, broken

STORE = {"cache": {"upstream": "127.0.0.1:6379"}}


def names(scenario: Scenario) -> list[str]:
    return [step if isinstance(step, str) else next(iter(step)) for step in as_document(scenario)["steps"]]


class Shrunk:
    """A plan in which a repeat comes while a message to the store is held, made smaller on a script."""

    def __init__(self, folder: Path, judges: Callable[[Scenario, int], Judgement]) -> None:
        self.tried: list[list[str]] = []
        kept: dict[str, int] = {}

        def judge(scenario: Scenario, before: int) -> Judgement:
            steps = names(scenario)
            times = kept[str(steps)] = kept.get(str(steps), -1) + 1
            self.tried.append(steps)
            return judges(scenario, times)

        self.stage = ScriptedStage(Script(judges=judge), folder, store=STORE)
        writer = Writer(self.stage.bench.target, self.stage.bench.contract)
        point = Point("first", Place.STORE_RESPONSE, 1, "cache", "(nil) for GET ?")
        met = next(deed for deed in deeds.at(point) if deed.name == "met by a repeat")
        self.scenario = writer.scenario(Plan((Move(point, met),)), 7)
        self.played = Played(self.scenario, broken())
        self.fewer, self.seen = asyncio.run(smaller(self.stage, self.scenario, self.played, RULE))


def needs(*wanted: str) -> Callable[[Scenario, int], Judgement]:
    """Broken as long as all of these attempts are made and the first is held."""

    def judges(scenario: Scenario, before: int) -> Judgement:
        made = {step["send"]["as"]: step["send"] for step in as_document(scenario)["steps"] if "send" in step}
        return broken() if set(wanted) <= set(made) and "at" in made["first"] else FINE

    return judges


def test_what_is_not_needed_is_left_out(tmp_path: Path) -> None:
    done = Shrunk(tmp_path, needs("first", "rival"))
    assert names(done.scenario) == ["send", "send", "until", "release", "await", "await", "send", "finish"]
    assert [step["send"]["as"] for step in as_document(done.fewer)["steps"]] == ["first", "rival"]


def test_what_is_needed_is_kept_as_it_is(tmp_path: Path) -> None:
    done = Shrunk(tmp_path, needs("first", "again"))
    steps = as_document(done.fewer)["steps"]
    assert [step["send"]["as"] for step in steps] == ["first", "again"]
    assert steps[0] == as_document(done.scenario)["steps"][0]
    assert steps[0]["send"]["at"]["store.response"]["message"] == "(nil) for GET ?"
    assert made_of(as_document(done.fewer)) == done.fewer


def test_where_every_step_is_needed_all_stay(tmp_path: Path) -> None:
    done = Shrunk(tmp_path, lambda scenario, before: FINE)
    assert done.fewer == done.scenario
    assert done.seen is done.played


def test_what_another_step_refers_to_is_not_even_tried(tmp_path: Path) -> None:
    done = Shrunk(tmp_path, lambda scenario, before: FINE)
    assert done.tried
    assert all(steps[0] == "send" for steps in done.tried)
    assert all(steps.count("send") >= 2 for steps in done.tried)


def test_a_step_without_which_it_happens_only_now_and_then_is_kept(tmp_path: Path) -> None:
    def judges(scenario: Scenario, before: int) -> Judgement:
        sure = "until" in names(scenario)
        return broken() if sure or before == 0 else FINE

    done = Shrunk(tmp_path, judges)
    assert "until" in names(done.fewer)


def test_another_broken_promise_is_not_the_same_one(tmp_path: Path) -> None:
    done = Shrunk(tmp_path, lambda scenario, before: broken("no-loss"))
    assert done.fewer == done.scenario


def test_what_is_shown_is_what_the_smaller_one_has_shown(tmp_path: Path) -> None:
    done = Shrunk(tmp_path, needs("first"))
    assert names(done.fewer) == ["send"]
    assert done.seen.scenario.steps == done.fewer.steps
    assert [found.rule for found in done.seen.broken] == [RULE]
    assert done.stage.kept == set()
