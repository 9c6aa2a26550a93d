"""The search, on a stage where what each plan shows is written: what is played, what is believed, when it ends."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sendtwice.harness.explore import explorer as searching
from sendtwice.harness.explore.coverage import State
from sendtwice.harness.explore.events import Ended, Event, PassEnded, Progress, Started
from sendtwice.harness.explore.explorer import Explorer, Settings
from sendtwice.harness.explore.result import AGAIN, Counterexample
from sendtwice.harness.history import Event as Seen
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import Judgement
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.target import Known
from tests.harness.explore.scripted import FINE, RULE, Clock, Script, ScriptedStage, broken, explored, usual
from tests.harness.explore.wires import Wires

RESET = "first: provider.request: reset"
TWICE = "first: client.request: twice"
PLAIN = "without faults"
CACHE = {"store": {"cache": {"upstream": "127.0.0.1:6379"}}}


def when(title: str, judgement: Judgement, *, plays: Sequence[int] | None = None) -> Any:
    """Give a judgement to a plan, in all of its plays or in some of them; all others are fine."""
    return lambda scenario, before: (
        judgement if scenario.title == title and (plays is None or before in plays) else FINE
    )


def late_judgements(title: str, judgement: Judgement) -> Any:
    return lambda scenario: judgement if scenario.title == title else FINE


# -- what is believed --------------------------------------------------------------------------------------------


def test_what_breaks_once_and_never_again_is_not_reported(tmp_path: Path) -> None:
    done = explored(Script(judges=when(RESET, broken(), plays=[0])), tmp_path)
    assert done.result.broken == []
    assert [str(plan) for plan in done.result.doubted] == [RESET]
    assert done.all(Counterexample) == []
    assert (done.result.exit_code, done.result.verdict) == (3, "inconclusive")
    assert done.stage.titles.count(RESET) == 1 + AGAIN
    cell = next(cell for move, cell in done.result.coverage.cells.items() if str(move) == RESET)
    assert cell.state is State.INCONCLUSIVE
    assert "once" in str(cell.reason)


@pytest.mark.parametrize("plays", [[0, 1], [0, 2, 3], [0, 1, 2, 3]])
def test_what_breaks_again_is_reported_with_how_often(plays: list[int], tmp_path: Path) -> None:
    done = explored(Script(judges=when(RESET, broken(), plays=[*plays, *range(4, 100)])), tmp_path)
    (example,) = done.result.broken
    assert (str(example.plan), example.finding.rule, example.again) == (RESET, RULE, len(plays) - 1)
    assert done.result.exit_code == 1
    assert done.result.as_json()["broken"][0]["again"] == f"{len(plays) - 1} of {AGAIN}"
    assert [str(event.plan) for event in done.all(Counterexample)] == [RESET]


def test_another_rule_the_next_time_is_not_the_same_thing(tmp_path: Path) -> None:
    def judges(scenario: Scenario, before: int) -> Judgement:
        return broken(RULE if before == 0 else "no-loss") if scenario.title == RESET else FINE

    done = explored(Script(judges=judges), tmp_path)
    assert done.result.broken == []
    assert len(done.result.doubted) == 1


def test_one_that_was_broken_beside_others_is_played_again_by_itself(tmp_path: Path) -> None:
    done = explored(Script(judges=when(RESET, broken())), tmp_path, jobs=8)
    where = [number for number, title in enumerate(done.stage.titles) if title == RESET]
    assert done.stage.together[where[0]] > 1
    assert all(done.stage.together[number] == 1 for number in where[1:])


def test_the_same_promise_broken_by_many_plans_is_shown_once_by_the_plainest(tmp_path: Path) -> None:
    titles = {"first: provider.request: answer 500", "first: store.response cache '(nil) for GET ?': reset"}
    script = Script(
        judges=lambda scenario, before: broken() if scenario.title in titles else FINE,
        shows=lambda scenario, before: usual(scenario, stores=True),
    )
    done = explored(script, tmp_path, target=CACHE)
    assert {str(example.plan) for example in done.result.broken} == titles
    (smallest,) = done.result.smallest
    assert "store.response" in str(smallest.plan)
    assert smallest.replay == str(tmp_path / "explore.at-most-once.yaml")
    assert [example.replay for example in done.result.broken].count(None) == 1


def test_of_two_alike_the_one_that_happens_more_often_is_shown(tmp_path: Path) -> None:
    def judges(scenario: Scenario, before: int) -> Judgement:
        seldom = scenario.title == TWICE and before in (0, 2)
        return broken() if seldom or scenario.title == "first: provider.response: close" else FINE

    done = explored(Script(judges=judges), tmp_path)
    assert {str(one.plan): one.again for one in done.result.broken} == {TWICE: 1, "first: provider.response: close": 3}
    assert [str(one.plan) for one in done.result.smallest] == ["first: provider.response: close"]


def test_of_two_alike_the_one_in_which_a_window_is_held_open_is_shown(tmp_path: Path) -> None:
    titles = {TWICE, "first: provider.response: pause", "first: provider.request: met by a repeat"}
    done = explored(Script(judges=lambda s, before: broken() if s.title in titles else FINE), tmp_path, jobs=1)
    assert len(done.result.broken) == 3
    assert [str(one.plan) for one in done.result.smallest] == ["first: provider.request: met by a repeat"]


def test_each_broken_promise_has_its_own_smallest(tmp_path: Path) -> None:
    def judges(scenario: Scenario, before: int) -> Judgement:
        return {RESET: broken(RULE), TWICE: broken("no-loss")}.get(scenario.title, FINE)

    done = explored(Script(judges=judges), tmp_path)
    assert {one.finding.rule: str(one.plan) for one in done.result.smallest} == {RULE: RESET, "no-loss": TWICE}
    assert {one.scenario.id for one in done.result.smallest} == {f"explore.{RULE}", "explore.no-loss"}


# -- known deviations --------------------------------------------------------------------------------------------


def known(scenario: str, rule: str = RULE, until: dt.date | None = None) -> Known:
    return Known(scenario=scenario, rule=rule, reason="we live with it", until=until)


@pytest.mark.parametrize("pattern", ["explore.at-most-once", "explore.*", "*"])
def test_a_known_deviation_is_accepted(pattern: str, tmp_path: Path) -> None:
    done = explored(Script(judges=when(RESET, broken())), tmp_path, known=(known(pattern),))
    assert (done.result.broken, done.result.doubted, done.result.exit_code) == ([], [], 0)
    assert done.stage.titles.count(RESET) == 1


@pytest.mark.parametrize(
    "entry",
    [
        known("send.repeat"),
        known("explore.at-most-once", "no-loss"),
        known("explore.at-most-once", until=dt.date(2020, 1, 1)),
    ],
    ids=["another scenario", "another rule", "no longer"],
)
def test_what_is_known_of_something_else_accepts_nothing(entry: Known, tmp_path: Path) -> None:
    done = explored(Script(judges=when(RESET, broken())), tmp_path, known=(entry,))
    assert done.result.exit_code == 1


def test_of_two_broken_promises_the_unknown_one_is_reported(tmp_path: Path) -> None:
    done = explored(Script(judges=when(RESET, broken(RULE, "no-loss"))), tmp_path, known=(known("explore.*"),))
    assert [example.finding.rule for example in done.result.broken] == ["no-loss"]
    assert [example.finding.rule for example in done.result.smallest] == ["no-loss"]


# -- the plan without faults -------------------------------------------------------------------------------------


def test_a_plan_that_is_broken_without_faults_is_the_smallest_of_all(tmp_path: Path) -> None:
    done = explored(Script(judges=when(PLAIN, broken())), tmp_path, deeds=2)
    (example,) = done.result.smallest
    assert str(example.plan) == PLAIN
    assert example.replay == str(tmp_path / "explore.at-most-once.yaml")
    assert set(done.stage.titles) == {PLAIN}
    assert done.result.exit_code == 1
    assert done.all(Started) == []


def test_a_plan_that_was_broken_without_faults_once_is_doubted_and_the_search_goes_on(tmp_path: Path) -> None:
    done = explored(Script(judges=when(PLAIN, broken(), plays=[1])), tmp_path)
    assert [str(plan) for plan in done.result.doubted] == [PLAIN]
    assert done.result.exit_code == 3
    assert RESET in done.stage.titles


def test_where_the_plan_without_faults_shows_nothing_there_is_nothing_to_explore(tmp_path: Path) -> None:
    done = explored(Script(judges=when(PLAIN, Judgement(voids=("first did not end within 10 s",)))), tmp_path)
    assert done.result.exit_code == 4
    assert "first did not end within 10 s" in str(done.result.error)


def test_crossings_that_come_and_go_are_left_out_and_named(tmp_path: Path) -> None:
    def shows(scenario: Scenario, before: int) -> Sequence[Seen]:
        return usual(scenario, stores=scenario.title != PLAIN or before != 2)

    done = explored(Script(shows=shows), tmp_path, target=CACHE)
    unstable = {str(point) for point in done.result.coverage.unstable}
    assert "first: store.request cache 'GET ?'" in unstable
    assert not any(point.store for point in done.result.coverage.points)
    assert done.result.as_json()["unstable"] == [str(point) for point in done.result.coverage.unstable]
    assert done.result.exit_code == 3


# -- what a plan comes to ----------------------------------------------------------------------------------------


def states(done: Any) -> dict[str, State]:
    return {str(move): cell.state for move, cell in done.result.coverage.cells.items()}


def test_each_plan_comes_to_one_state(tmp_path: Path) -> None:
    shown = {
        "first: provider.request: close": Judgement(voids=("provider.request: close never fired",)),
        "first: provider.request: answer 500": Judgement(absent=("the target has no such thing",)),
        "first: provider.request: answer 503": Judgement(voids=("first did not end within 10 s",)),
        RESET: broken(),
    }
    done = explored(Script(judges=lambda scenario, before: shown.get(scenario.title, FINE)), tmp_path)
    seen = states(done)
    assert seen["first: provider.request: close"] is State.NOT_REACHED
    assert seen["first: provider.request: answer 500"] is State.NOT_APPLICABLE
    assert seen["first: provider.request: answer 503"] is State.INCONCLUSIVE
    assert seen[RESET] is State.BROKEN
    assert seen["first: provider.request: answer 429"] is State.HELD
    assert seen["first: provider.request: crash of one"] is State.NOT_APPLICABLE
    assert sum(done.result.coverage.counts().values()) == len(seen) > 20


def test_what_showed_nothing_beside_others_is_played_again_by_itself(tmp_path: Path) -> None:
    nothing = Judgement(voids=("provider.request: reset never fired",))
    done = explored(Script(judges=when(RESET, nothing, plays=[0])), tmp_path)
    assert states(done)[RESET] is State.HELD
    assert done.stage.titles.count(RESET) == 2
    assert done.result.exit_code == 0


@pytest.mark.parametrize("jobs", [1, 8])
def test_a_window_that_is_not_reached_is_tried_three_times(jobs: int, tmp_path: Path) -> None:
    missed = Judgement(voids=("provider.request: reset never fired",))
    done = explored(Script(judges=when(RESET, missed)), tmp_path, jobs=jobs)
    assert states(done)[RESET] is State.NOT_REACHED
    assert done.stage.titles.count(RESET) == (3 if jobs == 1 else 4)
    assert (done.result.complete, done.result.exit_code) == ((False, False), 3)
    done = explored(Script(judges=when(RESET, missed, plays=[0, 1])), tmp_path, jobs=jobs)
    assert states(done)[RESET] is State.HELD
    assert done.result.exit_code == 0


def test_what_is_absent_is_not_applicable_but_for_a_lease_that_was_waited_out(tmp_path: Path) -> None:
    absent = Judgement(absent=("first was answered before rival could meet it in flight",))
    met, past = "first: provider.request: met by a repeat", "first: provider.request: held past its lease"
    target = {"timing": {"lease": 1.0}}
    done = explored(Script(judges=lambda s, _: absent if s.title in (met, past) else FINE), tmp_path, target=target)
    assert (states(done)[met], states(done)[past]) == (State.NOT_APPLICABLE, State.HELD)
    assert done.result.exit_code == 0


def test_what_is_not_conclusive_leaves_one_fault_incomplete(tmp_path: Path) -> None:
    done = explored(Script(judges=when(RESET, Judgement(voids=("first did not end",)))), tmp_path, deeds=2)
    assert done.result.complete == (False, False)
    assert done.result.exit_code == 3
    assert [event.deeds for event in done.all(PassEnded)] == [1]


# -- one deed, then two ------------------------------------------------------------------------------------------


def test_the_second_pass_begins_when_the_first_is_complete(tmp_path: Path) -> None:
    done = explored(Script(), tmp_path, deeds=2)
    assert [event.deeds for event in done.all(PassEnded)] == [1, 2]
    assert done.result.complete == (True, True)
    assert done.result.exit_code == 0
    first = next(n for n, title in enumerate(done.stage.titles) if ", then " in title)
    assert not any(", then " not in title for title in done.stage.titles[first:])


def test_no_second_pass_after_something_broke(tmp_path: Path) -> None:
    done = explored(Script(judges=when(RESET, broken())), tmp_path, deeds=2)
    assert [event.deeds for event in done.all(PassEnded)] == [1]
    assert done.result.complete == (True, False)
    assert not any(", then " in title for title in done.stage.titles)


def test_what_two_deeds_break_is_a_counterexample_of_two(tmp_path: Path) -> None:
    def judges(scenario: Scenario, before: int) -> Judgement:
        return broken() if scenario.title.endswith(", then again: client.response: lose in-body") else FINE

    done = explored(Script(judges=judges), tmp_path, deeds=2)
    assert {len(example.plan.moves) for example in done.result.broken} == {2}
    assert done.result.exit_code == 1
    assert done.result.coverage.pairs[State.BROKEN] == len(done.result.broken)


def test_plays_with_equal_traces_are_followed_once(tmp_path: Path) -> None:
    alike = explored(Script(), tmp_path, deeds=2)
    seen: Counter[str] = Counter()

    def shows(scenario: Scenario, before: int) -> Sequence[Seen]:
        seen[scenario.title] += 0
        return usual(scenario, status=200 + list(seen).index(scenario.title))

    different = explored(Script(shows=shows), tmp_path, deeds=2)
    firsts = {title.partition(", then ")[0] for title in alike.stage.titles if ", then " in title}
    # Whatever a fault does looks alike here; where somebody comes meanwhile, there is one more attempt to be seen.
    assert len([title for title in firsts if "met by" not in title and "pause" not in title]) == 1
    assert len({t.partition(", then ")[0] for t in different.stage.titles if ", then " in t}) > 20


def test_of_equal_traces_the_one_with_more_to_come_is_followed(tmp_path: Path) -> None:
    # A request that comes twice leaves no trace, whether it is the first or the second; the second is played first.
    again = "again: client.request: twice"
    nothing = Judgement(voids=("they did not overlap",))
    seen: Counter[str] = Counter()

    def shows(scenario: Scenario, before: int) -> Sequence[Seen]:
        seen[scenario.title] += 0
        return usual(scenario, status=200 if scenario.title in (TWICE, again) else 300 + len(seen))

    done = explored(Script(shows=shows, judges=when(TWICE, nothing, plays=[0])), tmp_path, deeds=2)
    assert done.stage.titles.index(again) < len(done.stage.titles) - done.stage.titles[::-1].index(TWICE)
    followed = {title.partition(", then ")[0] for title in done.stage.titles if ", then " in title}
    assert TWICE in followed
    assert again not in followed


def test_no_pair_is_played_in_both_orders(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()

    def shows(scenario: Scenario, before: int) -> Sequence[Seen]:
        # Every deed is noted at the beginning, so that everything comes after it, and no two look alike.
        seen[scenario.title] += 0
        events = usual(scenario, status=200 + list(seen).index(scenario.title))
        fired = Seen(0, 0.0, Kind.FIRED)
        return [fired, *(event for event in events if event.kind is not Kind.FIRED)]

    done = explored(Script(shows=shows), tmp_path, deeds=2)
    pairs = [frozenset(title.split(", then ")) for title in done.stage.titles if ", then " in title]
    assert len(pairs) > 100
    assert all(len(pair) == 2 for pair in pairs)
    assert Counter(pairs).most_common(1)[0][1] == 1


def test_one_message_is_not_hit_twice(tmp_path: Path) -> None:
    # A request that comes twice is noted after the fault has fired.
    done = explored(Script(), tmp_path, deeds=2)
    pairs = [title.split(", then ") for title in done.stage.titles if ", then " in title]
    assert len(pairs) > 20
    assert [pair for pair in pairs if pair[0].rpartition(": ")[0] == pair[1].rpartition(": ")[0]] == []


def test_what_a_deed_brings_forth_is_a_point_of_the_second_pass(tmp_path: Path) -> None:
    def shows(scenario: Scenario, before: int) -> Sequence[Seen]:
        if scenario.title != RESET:
            return usual(scenario)
        wires = Wires()
        wires.begin("first")
        wires.ask("first")
        wires.hand_over(how="request-lost")
        wires.hand_over()  # the target's own second try
        wires.end("first")
        return wires.events

    done = explored(Script(shows=shows), tmp_path, deeds=2)
    assert f"{RESET}, then first: provider.request #2: reset" in done.stage.titles


def test_where_two_come_a_target_with_a_store_is_played_alone_so_that_its_messages_are_known(tmp_path: Path) -> None:
    script = Script(shows=lambda scenario, before: usual(scenario, stores=True))
    done = explored(script, tmp_path, target=CACHE, deeds=2, jobs=8)
    together = dict(zip(done.stage.titles, done.stage.together, strict=True))
    assert {n for title, n in together.items() if ", then " not in title} == {1}
    # Nothing follows the second deed.
    assert max(n for title, n in together.items() if ", then " in title) == 8
    once = explored(script, tmp_path, target=CACHE, deeds=1, jobs=8)
    assert max(once.stage.together) == 8


# -- the budget --------------------------------------------------------------------------------------------------


def test_a_budget_that_is_over_leaves_the_rest_unplayed(tmp_path: Path) -> None:
    done = explored(Script(takes=lambda scenario: 1.0), tmp_path, budget=10, jobs=1, deeds=2)
    counts = done.result.coverage.counts()
    assert counts[State.HELD] == 8  # three plays find the points, and the last is begun at 10
    assert counts[State.NOT_PLAYED] > 10
    assert done.result.complete == (False, False)
    assert done.result.exit_code == 3
    assert done.result.plans == 8
    assert [event.deeds for event in done.all(PassEnded)] == [1]


def test_a_budget_that_is_over_among_pairs_is_no_failure(tmp_path: Path) -> None:
    once = explored(Script(takes=lambda scenario: 1.0), tmp_path, jobs=1)
    done = explored(Script(takes=lambda scenario: 1.0), tmp_path, budget=once.stage.clock.time + 5, jobs=1, deeds=2)
    assert done.result.complete == (True, False)
    assert done.result.exit_code == 0
    assert done.result.coverage.pairs[State.HELD] > 3
    assert done.result.coverage.pairs[State.NOT_PLAYED] > 3
    assert done.result.as_json()["complete"] == {"one": True, "two": False}


def test_without_a_budget_it_goes_on_to_the_end(tmp_path: Path) -> None:
    done = explored(Script(takes=lambda scenario: 1000.0), tmp_path, budget=None)
    assert done.result.complete == (True, False)


def test_rounds_are_watched_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "ROUND", 10)
    done = explored(Script(), tmp_path, watch=0.25)
    plans = done.result.plans
    assert done.stage.watched == [0.25] * (-(-plans // 10))
    assert done.result.coverage.complete


# -- late mails --------------------------------------------------------------------------------------------------


def test_a_late_mail_reopens_its_plan_which_is_watched_longer_when_played_again(tmp_path: Path) -> None:
    script = Script(late=lambda watch: [RESET] if watch == 1 else [], judges_late=late_judgements(RESET, broken()))
    done = explored(script, tmp_path)
    assert [str(example.plan) for example in done.result.broken] == [RESET]
    assert done.result.broken[0].again == AGAIN
    assert states(done)[RESET] is State.BROKEN
    assert done.result.exit_code == 1
    assert len(done.stage.watched) > AGAIN


def test_a_late_mail_that_breaks_nothing_changes_nothing(tmp_path: Path) -> None:
    done = explored(Script(late=lambda watch: [RESET] if watch == 1 else []), tmp_path)
    assert (done.result.broken, done.result.doubted, done.result.exit_code) == ([], [], 0)
    assert done.stage.titles.count(RESET) == 2
    assert done.result.plans == len(done.all(Progress))


def test_a_late_mail_that_breaks_a_promise_once_is_doubted(tmp_path: Path) -> None:
    times: Counter[str] = Counter()

    def judges_late(scenario: Scenario) -> Judgement:
        times[scenario.title] += 1
        return broken() if scenario.title == RESET and times[RESET] == 1 else FINE

    done = explored(Script(late=lambda watch: [RESET] if watch == 1 else [], judges_late=judges_late), tmp_path)
    assert [str(plan) for plan in done.result.doubted] == [RESET]
    assert done.result.exit_code == 3


def test_a_late_mail_of_a_plan_that_is_broken_already_tells_nothing_new(tmp_path: Path) -> None:
    script = Script(
        judges=when(RESET, broken()), late=lambda watch: [RESET] if watch == 1 else [],
        judges_late=late_judgements(RESET, broken()),
    )  # fmt: skip
    done = explored(script, tmp_path)
    assert len(done.result.broken) == 1
    assert len(done.all(Counterexample)) == 1


def test_a_late_mail_of_a_pair_moves_it_from_one_state_to_another(tmp_path: Path) -> None:
    def late(watch: int) -> Sequence[str]:
        return [title for title in stage_titles if ", then " in title][:1] if watch == 2 else []

    stage_titles: list[str] = []

    def judges(scenario: Scenario, before: int) -> Judgement:
        stage_titles.append(scenario.title)
        return FINE

    script = Script(
        judges=judges, late=late, judges_late=lambda scenario: broken() if ", then " in scenario.title else FINE
    )
    done = explored(script, tmp_path, deeds=2)
    assert len(done.result.broken) == 1
    pairs = {title for title in done.stage.titles if ", then " in title}
    skipped = done.result.coverage.pairs[State.NOT_APPLICABLE]
    assert sum(done.result.coverage.pairs.values()) == len(pairs) + skipped
    assert done.result.coverage.pairs[State.BROKEN] == 1


def test_nothing_of_a_play_is_kept_that_was_judged(tmp_path: Path) -> None:
    script = Script(
        judges=when(TWICE, broken()),
        late=lambda watch: [RESET] if watch == 1 else [],
        judges_late=late_judgements(RESET, broken()),
    )
    done = explored(script, tmp_path, deeds=2)
    assert len(done.result.broken) == 2
    assert done.stage.kept == set()


# -- errors and interruptions ------------------------------------------------------------------------------------


def test_a_target_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    done = explored(Script(starts="the target did not start: exit 3"), tmp_path)
    assert (done.result.exit_code, done.result.verdict) == (4, "error")
    assert done.result.error == "the target did not start: exit 3"
    assert [event.result for event in done.all(Ended)] == [done.result]
    assert done.stage.stopped == 0  # it has done so itself


@pytest.mark.parametrize("jobs", [1, 8])
def test_a_target_that_dies_is_an_error_and_what_was_covered_stands(jobs: int, tmp_path: Path) -> None:
    def fails(scenario: Scenario, before: int) -> str | None:
        return "the target ended by itself (exit 1)" if scenario.title == "first: provider.response: close" else None

    done = explored(Script(fails=fails), tmp_path, jobs=jobs)
    assert done.result.exit_code == 4
    assert "the target ended by itself (exit 1)" in str(done.result.error)
    assert "first: provider.response: close" in str(done.result.error)
    counts = done.result.coverage.counts()
    assert counts[State.HELD] > 2
    assert counts[State.NOT_PLAYED] > 2
    assert done.stage.stopped == 1


def test_an_error_outweighs_what_was_broken_before(tmp_path: Path) -> None:
    def fails(scenario: Scenario, before: int) -> str | None:
        return "the target ended by itself" if scenario.title == RESET and before == 2 else None

    done = explored(Script(judges=when(RESET, broken()), fails=fails), tmp_path)
    assert done.result.exit_code == 4


async def interrupted(folder: Path, stop_at: str) -> tuple[Explorer, ScriptedStage, list[Event]]:
    told: list[Event] = []

    def judges(scenario: Scenario, before: int) -> Judgement:
        if scenario.title == stop_at:
            task.cancel()
        return FINE

    stage = ScriptedStage(Script(judges=judges), folder)
    explorer = Explorer(stage, Settings(deeds=1), [told.append])
    task = asyncio.ensure_future(explorer.run())
    with pytest.raises(asyncio.CancelledError):
        await task
    return explorer, stage, told


@pytest.mark.parametrize("stop_at", [PLAIN, RESET, "first: provider.request: crash"])
def test_an_interruption_ends_with_what_was_covered(stop_at: str, tmp_path: Path) -> None:
    explorer, stage, told = asyncio.run(interrupted(tmp_path, stop_at))
    assert isinstance(told[-1], Ended)
    assert told[-1].result.error == "interrupted"
    assert told[-1].result.exit_code == 4
    assert stage.stopped == 1
    if stop_at != PLAIN:
        assert explorer.result.coverage.counts()[State.NOT_PLAYED] > 0


# -- how far it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 4])
def test_progress_counts_down_to_nothing_left(jobs: int, tmp_path: Path) -> None:
    def judges(scenario: Scenario, before: int) -> Judgement:
        nothing = Judgement(voids=("it never fired",))
        return (
            {RESET: broken(), TWICE: nothing}.get(scenario.title, FINE)
            if before == 0 or scenario.title == RESET
            else FINE
        )

    done = explored(Script(judges=judges, takes=lambda scenario: 1.0), tmp_path, jobs=jobs)
    progress = done.all(Progress)
    assert [event.played for event in progress] == list(range(1, len(progress) + 1))
    assert [event.left for event in progress] == list(reversed(range(len(progress))))
    assert progress[-1].seconds == 0
    assert all(event.seconds > 0 for event in progress[:-1])
    assert {str(event.plan) for event in progress} == {t for t in done.stage.titles if t != PLAIN}


def test_the_estimate_is_honest_about_what_is_played_alone(tmp_path: Path) -> None:
    # 0.1 seconds each side by side, eight at a time, and 5 seconds each alone.
    def takes(scenario: Scenario) -> float:
        return 5.0 if any(word in scenario.title for word in ("crash", "pause")) else 0.1

    done = explored(Script(takes=takes), tmp_path, jobs=8)
    end = done.stage.clock.time
    alone = [event for event in done.all(Progress) if "crash" in str(event.plan) or "pause" in str(event.plan)]
    assert len(alone) > 4
    for event in alone[2:]:
        assert event.seconds == pytest.approx(5.0 * event.left)
    assert end == pytest.approx(5.0 * len(alone), rel=0.2)


def test_the_start_says_what_will_be_played(tmp_path: Path) -> None:
    done = explored(Script(), tmp_path)
    (started,) = done.all(Started)
    assert [str(point) for point in started.points] == [str(point) for point in done.result.coverage.points]
    assert started.plans == len(done.all(Progress))


# -- the result as JSON ------------------------------------------------------------------------------------------


def test_the_table_adds_up(tmp_path: Path) -> None:
    script = Script(
        judges=when(RESET, broken()), shows=lambda scenario, before: usual(scenario, stores=True),
        takes=lambda scenario: 1.0,
    )  # fmt: skip
    done = explored(script, tmp_path, target=CACHE, budget=20, jobs=1)
    data = done.result.as_json()
    cells = [(cell["crossing"], cell["fault"]) for cell in data["cells"]]
    assert len(set(cells)) == len(cells)
    assert {cell["state"] for cell in data["cells"]} <= {state.value for state in State}
    assert sum(data["one"].values()) == len(cells)
    assert data["one"] == dict(Counter(cell["state"] for cell in data["cells"]))
    assert set(data["crossings"]) == {crossing for crossing, _ in cells}
    assert set(data["faults"]) == {fault for _, fault in cells}
    assert data["two"] == {}
    assert data["plans"] == sum(data["one"].get(state, 0) for state in ("held", "broken"))


def test_every_pair_is_counted_once(tmp_path: Path) -> None:
    done = explored(Script(), tmp_path, deeds=2)
    data = done.result.as_json()
    played = {title for title in done.stage.titles if ", then " in title}
    assert data["two"]["held"] == len(played)
    assert sum(data["two"].values()) == data["two"]["held"] + data["two"].get("not applicable", 0)


def test_time_is_the_recorders(tmp_path: Path) -> None:
    done = explored(Script(takes=lambda scenario: 0.5), tmp_path, jobs=1)
    assert isinstance(done.stage.bench.recorder, Clock)
    assert done.result.seconds == done.stage.clock.time
