"""The points of a play: each is where a fault that is armed for it will hit, and what brings them forth is known."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendtwice.fake_provider.faults import Faults, Place
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.explore import deeds, points
from sendtwice.harness.explore.deeds import How
from sendtwice.harness.explore.plans import Move, Plan, Writer
from sendtwice.harness.explore.points import Point
from sendtwice.harness.history import Kind
from sendtwice.harness.target import load
from tests.harness.explore.wires import Wires
from tests.support import ROOT

HOW = ("answered", "request-lost", "request-answered", "response-lost", "response-answered", "response-held")
MESSAGES = ("GET ?", "get ?", "SET ? ? EX ?", "(nil) for GET ?", "(nil) for SET ? ? EX ?", "OK", "ok for SET", "")
_Act = Callable[[Wires], None]


def _hand_over(operation: str, how: str, recipients: int) -> _Act:
    return lambda wires: wires.hand_over(operation, how, recipients=recipients)


def _store(store: str, message: str, place: Place) -> _Act:
    return lambda wires: wires.store(store, message, place)


def _end(outcome: str) -> _Act:
    def act(wires: Wires) -> None:
        latest = list(wires.began)[-1]
        if not any(e.kind is Kind.ENDED and e.attempt == latest for e in wires.events):
            wires.end(latest, outcome)

    return act


ACTS = st.one_of(
    st.builds(_hand_over, st.sampled_from(["first", "other"]), st.sampled_from(HOW), st.sampled_from([1, 2])),
    st.builds(
        _store,
        st.sampled_from(["cache", "main"]),
        st.sampled_from(MESSAGES),
        st.sampled_from([Place.STORE_REQUEST, Place.STORE_RESPONSE]),
    ),
    st.builds(_end, st.sampled_from(["answered", "lost"])),
    st.just(Wires.let_go),
)


@st.composite
def plays(draw: st.DrawFn) -> Wires:
    """What may cross the wires while up to three attempts are played."""
    wires = Wires()
    for attempt in draw(st.sampled_from([("first",), ("first", "again"), ("first", "again", "other")])):
        wires.begin(attempt, "other" if attempt == "other" else "first")
        wires.ask(attempt)
        for act in draw(st.lists(ACTS, max_size=7)):
            act(wires)
    wires.let_go()
    return wires


def writer() -> Writer:
    target, path = load(str(ROOT / "tests" / "emulated" / "rasket.toml"))
    return Writer(target.target, effective_contract(target, path.parent))


WRITER = writer()


def armed(move: Move) -> Faults:
    """The fault of a move as the runner arms it when the attempt begins."""
    scenario = WRITER.scenario(Plan((move,)), 1)
    send = next(step.send for step in scenario.steps if step.send.name == move.point.attempt)  # type: ignore[union-attr]
    (spec,) = send.at
    faults = Faults()
    operation = "other" if move.point.attempt == "other" else "first"
    faults.arm(spec.fault(operation=operation, attempt=move.point.attempt))
    return faults


def told(wires: Wires) -> list[tuple[Point, int]]:
    """The points, and the event that tells of each."""
    points_told: list[tuple[Point, int]] = []
    for event in wires.events:
        known = points.found([one for one in wires.events if one.seq <= event.seq])
        points_told += [(point, event.seq) for point in known[len(points_told) :]]
    assert [point for point, _ in points_told] == points.found(wires.events)
    return points_told


@given(wires=plays())
def test_a_fault_armed_for_a_point_hits_the_message_it_was_found_at(wires: Wires) -> None:
    for point, seq in told(wires):
        for deed in deeds.at(point):
            crossed = wires.hit(armed(Move(point, deed)), point.attempt)
            assert crossed is not None, f"{point}: {deed}"
            assert crossed.told == seq, f"{point}: {deed}"


@given(wires=plays())
def test_no_message_is_two_points_and_only_unspeakable_ones_are_none(wires: Wires) -> None:
    found = points.found(wires.events)
    assert len(set(found)) == len(found)
    stores = [one for one in wires.crossings if one.crossing.store is not None and one.crossing.message]
    assert len([p for p in found if p.store is not None]) == len(stores)


@given(wires=plays(), since=st.integers(0, 40))
def test_what_was_passed_before_is_left_out_and_still_counted(wires: Wires, since: int) -> None:
    met = {one.told: one.met for one in wires.crossings}
    assert points.found(wires.events, since=since) == [point for point, seq in told(wires) if met[seq] > since]


# -- one by one --------------------------------------------------------------------------------------------------


def two_attempts() -> Wires:
    wires = Wires()
    for attempt in ("first", "again"):
        wires.begin(attempt)
        wires.ask(attempt)
        wires.query("cache", "GET ?", "(nil) for GET ?")
        wires.hand_over()
        wires.end(attempt)
    return wires


def test_every_message_is_a_point_in_the_time_of_its_attempt() -> None:
    each = [
        "client.request",
        "store.request cache 'GET ?'",
        "store.response cache '(nil) for GET ?'",
        "provider.request",
        "provider.response",
        "client.response",
    ]
    assert [str(p) for p in points.found(two_attempts().events)] == [
        f"{attempt}: {what}" for attempt in ("first", "again") for what in each
    ]


def test_messages_are_counted_as_the_fault_counts_them_by_their_words_in_any_case() -> None:
    wires = Wires()
    wires.begin("first")
    for message in ("GET lock:…", "get LOCK:… ?", "GET ?", "get lock:…"):
        wires.store("cache", message)
    wires.store("main", "GET lock:…")
    assert [(p.store, p.message, p.nth, p.order) for p in points.found(wires.events)] == [
        ("cache", "GET lock:…", 1, 1),
        ("cache", "get LOCK:… ?", 1, 2),
        ("cache", "GET ?", 1, 3),
        ("cache", "get lock:…", 3, 4),
        ("main", "GET lock:…", 1, 1),
    ]


def test_an_outage_that_begins_at_a_message_is_counted_with_those_that_say_nothing() -> None:
    wires = Wires()
    wires.begin("first")
    for message in ("", "GET ?", ""):
        wires.store("cache", message)
    (point,) = points.found(wires.events)
    outage = next(deed for deed in deeds.at(point) if deed.how is How.OUTAGE)
    crossed = wires.hit(armed(Move(point, outage)), "first")
    assert crossed is not None
    assert crossed.crossing.message == "GET ?"


def test_a_mail_that_comes_in_a_later_attempts_time_is_that_ones() -> None:
    wires = Wires()
    wires.begin("first")
    wires.ask("first")
    wires.end("first")
    wires.begin("again")
    wires.ask("again")
    wires.hand_over()
    wires.end("again")
    wires.begin("other", "other")
    wires.hand_over()
    found = [str(p) for p in points.found(wires.events)]
    assert "again: provider.request" in found
    assert "again: provider.request #2" in found  # of the operation, whose latest attempt is again
    assert not any(name.startswith("other: provider") for name in found)


def test_an_answer_that_was_not_sent_is_no_point_and_still_counted() -> None:
    wires = Wires()
    wires.begin("first")
    wires.hand_over(how="response-lost")
    wires.hand_over()
    answers = [p for p in points.found(wires.events) if p.place is Place.PROVIDER_RESPONSE]
    assert answers == [Point("first", Place.PROVIDER_RESPONSE, 2)]


def test_the_edges_own_answer_to_a_request_crosses_nothing() -> None:
    wires = Wires()
    wires.begin("first")
    wires.hand_over(how="request-answered")
    wires.hand_over()
    answers = [p for p in points.found(wires.events) if p.place is Place.PROVIDER_RESPONSE]
    assert answers == [Point("first", Place.PROVIDER_RESPONSE, 1)]


def test_an_answer_that_was_held_is_of_the_time_in_which_it_was_given() -> None:
    wires = Wires()
    wires.begin("first")
    wires.hand_over(how="response-held")
    held = wires.events[-1].seq
    wires.hand_over()
    wires.end("first")
    wires.begin("again")
    wires.let_go()
    first, second = (Point("first", Place.PROVIDER_RESPONSE, nth) for nth in (1, 2))
    assert [p for p in points.found(wires.events) if p.place is Place.PROVIDER_RESPONSE] == [second, first]
    assert points.found(wires.events, since=held)[0].place is Place.PROVIDER_REQUEST
    assert first not in points.found(wires.events, since=held)  # it has met its fault already


def test_an_answer_that_nobody_got_is_no_point() -> None:
    wires = Wires()
    wires.begin("first")
    wires.ask("first")
    wires.end("first", "lost")
    assert [p.place for p in points.found(wires.events)] == [Place.CLIENT_REQUEST]


def test_before_the_first_attempt_there_are_no_points() -> None:
    wires = Wires()
    wires.query("cache", "PING", "PONG for PING")
    assert points.found(wires.events) == []


# -- touched, queued, trace --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.FIRED, Kind.CRASH, Kind.RESTART, Kind.PAUSE, Kind.RESUME, Kind.ADVANCED])
def test_the_last_deed_is_known_by_what_was_done(kind: Kind) -> None:
    wires = two_attempts()
    assert points.touched(wires.events) == 0
    wires.begin("other", "other")
    done = wires.note(kind)
    wires.ask("other")
    assert points.touched(wires.events) == done.seq
    assert points.found(wires.events, since=done.seq) == [Point("other", Place.CLIENT_REQUEST)]


def test_a_target_that_answers_first_and_hands_over_later_is_queued() -> None:
    assert not points.queued(two_attempts().events)
    wires = Wires()
    wires.begin("first")
    wires.ask("first")
    wires.end("first", status=202)
    wires.hand_over()
    assert points.queued(wires.events)
    assert not points.queued([])


def _traces(*tellers: Callable[[Wires], None]) -> Sequence[object]:
    found = []
    for tell in tellers:
        wires = Wires()
        wires.begin("first")
        tell(wires)
        found.append(points.trace(wires.events))
    return found


def test_plays_that_look_alike_from_outside_have_equal_traces() -> None:
    def reset(wires: Wires) -> None:
        wires.connection = 7
        wires.note(Kind.FIRED, "first", verb="reset")
        wires.hand_over(how="response-lost")
        wires.end("first", status=502)

    def closed(wires: Wires) -> None:
        wires.note(Kind.ARMED, "first")
        wires.note(Kind.FIRED, "first", verb="close")
        wires.hand_over(how="response-lost")
        wires.end("first", status=502)

    one, other = _traces(reset, closed)
    assert one == other


@pytest.mark.parametrize(
    "difference",
    [
        lambda wires: wires.end("first", status=409),
        lambda wires: wires.end("first", "lost"),
        lambda wires: wires.hand_over(how="request-lost"),
        lambda wires: wires.hand_over(how="response-lost"),
        lambda wires: wires.hand_over("other"),
        lambda wires: wires.store("cache", "GET ?"),
        lambda wires: wires.store("main", "GET ?"),
        lambda wires: wires.store("cache", "GET ?", Place.STORE_RESPONSE),
        lambda wires: wires.note(Kind.CRASH, process="target"),
        lambda wires: wires.note(Kind.CRASH, process="target.1"),
        lambda wires: wires.note(Kind.DISCARDED, "first"),
    ],
)
def test_whatever_can_be_seen_tells_two_traces_apart(difference: Callable[[Wires], None]) -> None:
    others = [
        lambda wires: wires.end("first"),
        lambda wires: wires.hand_over(),
        lambda wires: wires.store("cache", "SET ?"),
        lambda wires: None,
    ]
    one, *rest = _traces(difference, *others)
    assert one not in rest


def test_a_point_says_where_it_is() -> None:
    assert str(Point("first", Place.PROVIDER_REQUEST, 2)) == "first: provider.request #2"
    point = Point("again", Place.STORE_RESPONSE, 3, "cache", "(nil) for GET ?", 9)
    assert str(point) == "again: store.response cache '(nil) for GET ?' #3"
    assert point == replace(point, order=1)  # how many other messages there were is no part of it
    assert How.OUTAGE in [deed.how for deed in deeds.at(point)]
