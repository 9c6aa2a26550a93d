"""Plans become scenarios that the language can say: names exist, a file keeps them, their steps do what they say."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.faults import Place, Verb
from sendtwice.harness.explore import deeds
from sendtwice.harness.explore.deeds import How
from sendtwice.harness.explore.plans import Move, Plan, Writer, in_store
from sendtwice.harness.explore.points import Point
from sendtwice.harness.needs import missing
from sendtwice.harness.report.saved import as_document, write_saved
from sendtwice.harness.result import ScenarioResult, Verdict
from sendtwice.harness.scenario import Scenario, load, made_of
from sendtwice.harness.side_by_side import sharable
from sendtwice.harness.steps import AwaitStep, CrashStep, PauseStep, ReleaseStep, RestartStep, ResumeStep, SendStep
from sendtwice.harness.target import TargetBody

HTTP = {"url": "http://127.0.0.1:{port}/clock"}
CLOCKS: dict[str, Any] = {
    "no-clock": None,
    "none": {"kind": "none"},
    "http": HTTP,
    "faketime": {"kind": "faketime"},
    "restart": {"kind": "restart"},
}


@cache
def writer(
    contract: str = "rasket", *, replicas: int = 1, clock: str = "http", lease: float | None = 60, queued: bool = False
) -> Writer:
    given: dict[str, Any] = {
        "api": {"url": "http://127.0.0.1:{port}"},
        "start": {"command": ["target"], "env": {"T": "{clock_offset}"}, "replicas": replicas},
        "store": {"cache": {"upstream": "127.0.0.1:6379"}},
        "clock": CLOCKS[clock],
        "timing": {} if lease is None else {"lease": lease},
    }
    return Writer(TargetBody.model_validate(given), contracts.load(contract), queued)


def points_of(attempt: str) -> list[Point]:
    provider = [
        Point(attempt, place, nth) for place in (Place.PROVIDER_REQUEST, Place.PROVIDER_RESPONSE) for nth in (1, 2)
    ]
    stores = [
        Point(attempt, Place.STORE_REQUEST, 1, "cache", "GET lock:…", 1),
        Point(attempt, Place.STORE_RESPONSE, 1, "cache", "(nil) for GET lock:…", 1),
        Point(attempt, Place.STORE_REQUEST, 2, "cache", 'INSERT INTO "a: b" VALUES ($1, ?) # - {x}', 4),
    ]
    return [Point(attempt, Place.CLIENT_REQUEST), *stores, *provider, Point(attempt, Place.CLIENT_RESPONSE)]


def moves_of(on: Writer, attempt: str) -> list[Move]:
    moves = [Move(point, deed) for point in points_of(attempt) for deed in deeds.at(point)]
    return [move for move in moves if on.unfit(move) is None]


WRITERS = {
    f"{contract}-{replicas}-{clock}-{lease}{'-queued' if queued else ''}": writer(
        contract, replicas=replicas, clock=clock, lease=lease, queued=queued
    )
    for contract, replicas, (clock, lease), queued in itertools.product(
        ("rasket", "universal"),
        (1, 2),
        (("http", 60), ("restart", 2), ("none", None)),
        (False, True),
    )
}


def saved_and_loaded(scenario: Scenario, folder: Path) -> Scenario:
    path = folder / "saved.yaml"
    write_saved(path, scenario, None, ScenarioResult(scenario.id, scenario.title, Verdict.FAILED), 1)
    return load(path).model_copy(update={"saved": None})


def says_itself(scenario: Scenario) -> None:
    """Hold a scenario against the language: its names are checked as a file's are."""
    assert made_of(as_document(scenario)) == scenario


# -- every plan can be written -----------------------------------------------------------------------------------


@pytest.mark.parametrize("on", WRITERS.values(), ids=WRITERS)
def test_every_deed_at_every_point_is_a_scenario(on: Writer) -> None:
    says_itself(on.scenario(Plan(), 0))
    for attempt in on.attempts:
        for move in moves_of(on, attempt):
            says_itself(on.scenario(Plan((move,)), 1))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Writer, Plan]:
    on = draw(st.sampled_from(list(WRITERS.values())))
    first = draw(st.integers(0, len(on.attempts) - 1))
    second = draw(st.integers(first, len(on.attempts) - 1))
    one = draw(st.sampled_from(moves_of(on, on.attempts[first])))
    other = draw(st.sampled_from(moves_of(on, on.attempts[second])).filter(lambda move: move != one))
    return on, Plan((one, other))


@settings(max_examples=150, deadline=None)
@given(drawn=pairs())
def test_every_two_deeds_are_a_scenario(drawn: tuple[Writer, Plan]) -> None:
    on, plan = drawn
    says_itself(on.scenario(plan, 1))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=pairs())
def test_what_is_saved_is_what_was_played(drawn: tuple[Writer, Plan], tmp_path: Path) -> None:
    on, plan = drawn
    scenario = on.scenario(plan, 1)
    assert saved_and_loaded(scenario, tmp_path) == scenario


@pytest.mark.parametrize("move", moves_of(writer(), "first"), ids=str)
def test_every_deed_is_saved_as_it_was_played(move: Move, tmp_path: Path) -> None:
    scenario = writer().scenario(Plan((move,)), 1)
    assert saved_and_loaded(scenario, tmp_path) == scenario


@settings(max_examples=150, deadline=None)
@given(drawn=pairs())
def test_whoever_is_held_is_let_go_before_anyone_waits_for_it(drawn: tuple[Writer, Plan]) -> None:
    on, plan = drawn
    one, other = plan.moves
    # An attempt that has its answer is not held by what becomes of its mail.
    assume(one.point.attempt != other.point.attempt or one.point.place is not Place.CLIENT_RESPONSE)
    held: dict[str, str] = {}  # label: attempt
    for step in on.scenario(plan, 1).steps:
        match step:
            case SendStep(send=send):
                held |= {str(spec.label): send.name for spec in send.at if spec.verb is Verb.HOLD}
            case ReleaseStep(release=label):
                held.pop(label, None)
            case AwaitStep(awaited=name):
                assert name not in held.values(), f"{name} is held at {held}, and waited for"


# -- what the steps are ------------------------------------------------------------------------------------------


def steps_of(on: Writer, how: How, attempt: str = "first", place: Place = Place.PROVIDER_REQUEST) -> list[Any]:
    point = next(point for point in points_of(attempt) if point.place is place)
    deed = next(deed for deed in deeds.at(point) if deed.how is how)
    move = Move(point, deed)
    assert on.unfit(move) is None
    return list(as_document(on.scenario(Plan((move,)), 1))["steps"])


def names(steps: list[Any]) -> list[str]:
    return [step if isinstance(step, str) else next(iter(step)) for step in steps]


def test_without_faults_all_attempts_follow_one_another_and_the_caller_ends_by_knowing() -> None:
    steps = as_document(writer().scenario(Plan(), 0))["steps"]
    assert steps == [
        {"send": {"as": "first"}},
        {"send": {"as": "again", "like": "first"}},
        {"send": {"as": "other", "op": "other", "like": "first", "change": {"text": "other"}}},
        {"finish": "first"},
    ]


def test_other_content_comes_only_where_the_contract_says_what_becomes_of_it() -> None:
    assert writer("universal").attempts == ("first", "again")
    assert writer("rasket").attempts == ("first", "again", "other")
    point = Point("first", Place.PROVIDER_REQUEST)
    other = next(deed for deed in deeds.at(point) if deed.how is How.PREEMPT_OTHER)
    assert "contract universal does not say" in str(writer("universal").unfit(Move(point, other)))
    assert writer("rasket").unfit(Move(point, other)) is None


def test_a_fault_is_met_and_the_attempts_up_to_it_are_made() -> None:
    steps = steps_of(writer(), How.FAULT)
    assert steps == [
        {"send": {"as": "first", "at": {"provider.request": {"reset": None, "label": "first.1"}}}},
        {"send": {"as": "again", "like": "first"}},
        {"finish": "first"},
    ]


def test_a_message_to_a_store_is_named_by_its_words_and_an_outage_by_its_number() -> None:
    (send, *_) = steps_of(writer(), How.FAULT, place=Place.STORE_REQUEST)
    assert send["send"]["at"] == {
        "store.request": {"reset": None, "label": "first.1", "store": "cache", "message": "GET lock:…"}
    }
    (send, release, *_) = steps_of(writer(), How.OUTAGE, place=Place.STORE_RESPONSE)
    fault = send["send"]["at"]["store.response"]
    assert (fault["store"], "message" in fault, fault["times"] > 1000) == ("cache", False, True)
    assert release == {"release": "first.1"}


def test_a_crash_is_at_the_point_and_the_target_is_started_again() -> None:
    steps = steps_of(writer(), How.CRASH)
    assert names(steps) == ["send", "crash", "release", "restart", "send", "finish"]
    assert steps[0]["send"]["at"] == {"provider.request": {"hold": None, "label": "first.1"}}


def test_a_crash_after_the_answer_has_left_waits_for_nobody() -> None:
    steps = steps_of(writer(), How.CRASH, place=Place.CLIENT_RESPONSE)
    assert names(steps) == ["send", "release", "await", "crash", "restart", "send", "finish"]


def test_of_several_instances_the_one_that_has_it_is_killed_and_the_retry_meets_another() -> None:
    steps = steps_of(writer(replicas=2), How.CRASH_ONE, "again")
    assert names(steps) == ["send", "send", "crash", "release", "send", "restart", "finish"]
    assert [step["send"]["replica"] for step in steps if "send" in step] == [1, 2, 1]
    assert [step for step in steps if "crash" in step or "restart" in step] == [
        {"crash": "target.2"},
        {"restart": "target.2"},
    ]
    point = Point("first", Place.PROVIDER_REQUEST)
    alone = next(deed for deed in deeds.at(point) if deed.how is How.CRASH_ONE)
    assert writer().unfit(Move(point, alone)) == "the target has one instance: replicas of its process"


@pytest.mark.parametrize("replicas", [2, 3])
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_nobody_asks_an_instance_that_is_down_or_asleep(replicas: int, data: st.DataObject) -> None:
    on = writer(replicas=replicas)
    moves = [move for attempt in on.attempts for move in moves_of(on, attempt)]
    killing = [move for move in moves if move.deed.how in (How.CRASH_ONE, How.PAUSE)]
    one = data.draw(st.sampled_from(killing))
    others = [
        m
        for m in moves
        if m.point != one.point and on.attempts.index(m.point.attempt) >= on.attempts.index(one.point.attempt)
    ]
    other = data.draw(st.none() | st.sampled_from([m for m in others if m.deed.how not in (How.CRASH_ONE, How.PAUSE)]))
    plan = Plan((one,) if other is None else (one, other))
    away: set[int] = set()
    for step in on.scenario(plan, 1).steps:
        match step:
            case CrashStep(crash=name) | PauseStep(pause=name) if name != "target":
                away.add(int(name.rpartition(".")[2]))
            case CrashStep() | RestartStep() | ResumeStep():
                away.clear()
            case SendStep(send=send):
                assert send.replica not in away, f"{send.name} asks {away} in {plan}"


def test_a_target_that_sleeps_is_met_by_a_repeat_and_wakes() -> None:
    steps = steps_of(writer(), How.PAUSE)
    assert names(steps) == ["send", "pause", "release", "send", "until", "resume", "await", "await", "send", "finish"]
    assert steps[3]["send"] == {"as": "rival", "like": "first", "wait": "none"}


@pytest.mark.parametrize("place", [Place.PROVIDER_REQUEST, Place.STORE_REQUEST, Place.STORE_RESPONSE])
def test_a_repeat_comes_while_the_message_is_held(place: Place) -> None:
    steps = steps_of(writer(), How.PREEMPT, place=place)
    assert names(steps) == ["send", "send", "until", "release", "await", "await", "send", "finish"]
    assert steps[2] == {"until": {"answered": "rival", "or_after": "grace"}}
    assert steps[3] == {"release": "first.1"}
    other = steps_of(writer(), How.PREEMPT_OTHER, place=place)
    assert other[1]["send"] == {
        "as": "rival", "op": "rival", "like": "first", "change": {"text": "other"}, "wait": "none",
    }  # fmt: skip


def test_a_caller_hangs_up_while_the_message_is_held_and_asks_again() -> None:
    steps = steps_of(writer(), How.HANG_UP)
    assert names(steps) == ["send", "hang_up", "send", "until", "release", "await", "await", "send", "finish"]
    assert steps[1] == {"hang_up": "first"}
    assert steps[2]["send"] == {"as": "rival", "like": "first", "wait": "none"}


@pytest.mark.parametrize("how", [How.PREEMPT, How.PREEMPT_OTHER, How.PAST_LEASE, How.PAUSE])
def test_at_a_target_that_answers_first_a_repeat_is_not_said_to_meet_one_in_flight(how: How) -> None:
    steps = steps_of(writer(queued=True), how)
    (rival,) = (step["send"] for step in steps if "send" in step and step["send"]["as"] == "rival")
    assert rival["wait"] == "none"  # whether it is answered meanwhile is the target's business
    assert "like" not in rival
    assert (rival["key"], rival["content"]) == ("first", "first")
    assert rival["op"] == ("rival" if how is How.PREEMPT_OTHER else "first")


def test_at_a_target_that_answers_first_the_mail_is_awaited_before_the_next_attempt() -> None:
    steps = as_document(writer(queued=True).scenario(Plan(), 0))["steps"]
    # For as long as it may take: what is killed while its queue is at work may have lost a mail, and be right.
    assert steps[1] == {"until": {"delivered": "first", "or_after": writer().target.timing.delivers_within}}
    # Also where only the answer is lost; but not where a fault may keep the mail from coming.
    assert names(steps_of(writer(queued=True), How.FAULT, place=Place.CLIENT_RESPONSE))[:2] == ["send", "until"]
    assert "until" not in names(steps_of(writer(queued=True), How.FAULT))
    assert "until" not in names(steps_of(writer(queued=True), How.CRASH, place=Place.CLIENT_RESPONSE))


# -- a lease -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", ["http", "faketime"])
def test_past_a_lease_the_clock_is_moved(clock: str) -> None:
    steps = steps_of(writer(clock=clock), How.PAST_LEASE)
    assert steps[1] == {"advance": {"by": 60.0, "plus": 1.0}}


@pytest.mark.parametrize("clock", ["no-clock", "none", "restart"])
def test_a_short_lease_is_waited_out_and_a_long_one_is_not(clock: str) -> None:
    steps = steps_of(writer(clock=clock, lease=1.5), How.PAST_LEASE)
    assert steps[1]["until"]["or_after"] > 1.5
    point = Point("first", Place.PROVIDER_REQUEST)
    past = next(deed for deed in deeds.at(point) if deed.how is How.PAST_LEASE)
    for lease in (60, None):
        assert "no lease is declared" in str(writer(clock=clock, lease=lease).unfit(Move(point, past)))


def test_the_contract_may_declare_the_lease() -> None:
    declaring = [name for name in contracts.names() if contracts.load(name).lease.lasts.judged]
    assert declaring, "no shipped contract declares a lease"
    steps = steps_of(writer(declaring[0], lease=None), How.PAST_LEASE)
    assert steps[1]["advance"]["by"] == contracts.load(declaring[0]).lease.lasts.value


# -- what is played with what ------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", WRITERS.values(), ids=WRITERS)
def test_a_plan_that_fits_needs_nothing_more_of_the_target(on: Writer) -> None:
    for move in moves_of(on, "first"):
        lacking = missing(on.scenario(Plan((move,)), 1), on.target, on.contract)
        assert [why for why in lacking if "libfaketime" not in why] == []


def test_what_touches_a_store_or_a_process_is_played_alone_and_the_rest_beside_others() -> None:
    on = writer(replicas=2)
    whole = (How.CRASH, How.CRASH_ONE, How.PAUSE, How.PAST_LEASE)
    for move in moves_of(on, "first"):
        alone = move.point.store is not None or move.deed.how in whole
        plan = Plan((move,))
        assert sharable(on.scenario(plan, 1)) is not alone, str(move)
        assert in_store(plan) is (move.point.store is not None)


def test_a_plan_says_what_it_does() -> None:
    reset = next(deed for deed in deeds.at(Point("first", Place.PROVIDER_REQUEST)) if deed.name == "reset")
    one, two = (
        Move(Point("first", Place.PROVIDER_REQUEST), reset),
        Move(Point("again", Place.PROVIDER_RESPONSE, 2), reset),
    )
    assert str(Plan()) == "without faults"
    assert str(Plan((one, two))) == "first: provider.request: reset, then again: provider.response #2: reset"
