"""Callers and time: they wait as they are told, try so often and no more, and do not wait for ever."""

import time
from email.utils import formatdate

import pytest

from sendtwice.fake_provider.contracts import AnswerClass, Claim
from sendtwice.harness.history import Kind
from tests.harness.callings import MORNING, Calling


def told_to_wait(asked: str | None, waited: float, kind: str | int = 503, contract: str = "rasket") -> Calling:
    h = Calling.of(contract)
    first = h.tries()
    headers = {} if asked is None else {"retry-after": asked}
    h.answers(first, kind, headers=headers)
    h.answers(h.tries(after=waited))
    h.delivers()
    h.says("sent")
    return h


# --- Retry-After ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [503, 429, "rate_limited", "failed"])
@pytest.mark.parametrize("asked", ["2", "2.0", " 2 "])
def test_who_comes_back_too_early_is_found(kind: str | int, asked: str) -> None:
    assert told_to_wait(asked, 0.5, kind).found == {"retry-after": "should"}
    assert told_to_wait(asked, 2, kind).found == {}


def test_a_fraction_is_kept_with_a_margin_for_clocks() -> None:
    assert told_to_wait("1.2", 1.0).found == {"retry-after": "should"}
    assert told_to_wait("1.2", 1.1).found == {}
    assert told_to_wait("0.04", 0.0).found == {}


@pytest.mark.parametrize(("waited", "right"), [(0.2, False), (2.5, True), (4.1, True)])
def test_a_date_is_kept_to_the_second(waited: float, right: bool) -> None:
    # Answered at about 0.1 s of the morning.
    h = told_to_wait(formatdate(MORNING + 3, usegmt=True), waited)
    assert h.found == ({} if right else {"retry-after": "should"})


@pytest.mark.parametrize("asked", ["soon", "", "-1", "nan", "inf", "Mon, 99 Foo 2026 00:00:00 GMT", "3600"])
def test_what_says_nothing_or_asks_for_too_much_is_not_held_against_anybody(asked: str) -> None:
    assert told_to_wait(asked, 0.1).found == {}


def test_where_the_contract_documents_it_it_must_be_kept() -> None:
    h = told_to_wait("2", 0.5, "rate_limited")
    hints = h.contract.hints.model_copy(update={"retry_after": Claim(value=[AnswerClass.RATE_LIMITED])})
    h.contract = h.contract.model_copy(update={"hints": hints})
    assert h.found == {"retry-after": "must"}


def test_who_is_asked_again_or_is_another_worker_was_not_told_to_wait() -> None:
    h = Calling.of()
    h.answers(h.tries(), 503, headers={"retry-after": "5"})
    h.says("unknown")
    h.ask("again")
    h.answers(h.tries())
    h.delivers()
    h.says("sent", "again")
    assert h.found == {}
    h = Calling.of()
    h.ask("second")
    h.answers(h.tries(), 503, headers={"retry-after": "5"})
    h.answers(h.tries())
    h.delivers()
    h.says("sent")
    h.says("sent", "second")
    assert h.found == {}


def test_attempts_at_one_time_may_be_those_of_two_workers_unless_it_goes_on() -> None:
    for times, found in ((1, {}), (2, {"retry-after": "should"})):
        h = Calling.of()
        for _ in range(times + 1):
            h.answers(h.tries(after=0.02), 503, headers={"retry-after": "5"})
        h.says("unknown")
        assert h.found == found, times


def test_who_tries_again_when_it_is_done_is_another_worker() -> None:
    h = Calling.of()
    h.answers(h.tries(), 503, headers={"retry-after": "5"})
    h.answers(h.tries(after=0.3))
    h.delivers()
    h.answers(h.tries(after=5), "replayed")
    h.says("sent")
    assert h.found == {}


def test_who_does_not_come_back_has_kept_it() -> None:
    h = Calling.of()
    h.answers(h.tries(), 503, headers={"retry-after": "5"})
    h.says("unknown")
    assert h.found == {}


# --- hints about trying again ---------------------------------------------------------------------------------


def hinted(said: str, *, again: int, header: str = "stripe-should-retry", told: str = "unknown") -> Calling:
    h = Calling.of("stripe-v1")
    h.answers(h.tries(), 500, headers={header: said})
    for _ in range(again):
        h.answers(h.tries(after=1), 500)
    h.says(told)
    return h


@pytest.mark.parametrize("header", ["stripe-should-retry", "x-should-retry"])
def test_a_hint_is_believed_both_ways(header: str) -> None:
    assert hinted("false", again=2, header=header).found == {"should-retry": "should"}
    assert hinted("true", again=0, header=header).found == {"should-retry": "should"}
    assert hinted("false", again=0, header=header).found == {}
    assert hinted("true", again=1, header=header).found == {}


def test_a_second_attempt_against_a_hint_may_be_another_workers_first() -> None:
    assert hinted("false", again=1).found == {}


def test_who_does_not_retry_at_all_says_so_in_the_target_file() -> None:
    h = hinted("true", again=0)
    h.max_attempts = 1
    assert h.found == {}


# --- in progress ----------------------------------------------------------------------------------------------


def busy_with_the_first(pauses: list[float], told: str = "unknown", *, delivered: bool = True) -> Calling:
    h = Calling.of()
    h.loses(h.tries())
    if delivered:
        h.delivers()
    for pause in pauses:
        h.answers(h.tries(after=pause), "in_progress")
    h.says(told)
    return h


def test_who_hammers_at_the_first_one_is_found() -> None:
    assert busy_with_the_first([0.1, 0, 0, 0]).found == {"wait-for-first": "should"}


@pytest.mark.parametrize("pauses", [[0.1], [0.1, 0, 0], [0.1, 0.1, 0.2, 0.4], [0.1, 0, 0.1, 0, 0.1, 0]])
def test_who_waits_between_is_right(pauses: list[float]) -> None:
    assert busy_with_the_first(pauses).found == {}


def test_in_progress_is_not_a_failure() -> None:
    assert busy_with_the_first([0.1], "not_sent").found == {"told": "must"}
    h = Calling.of()
    h.answers(h.tries(), "in_progress")
    h.says("not_sent")
    assert h.found == {"wait-for-first": "should"}


def test_in_progress_is_not_sent_either() -> None:
    h = Calling.of()
    h.answers(h.tries(), "in_progress")
    h.says("sent")
    assert h.found == {"no-lost-send": "must"}


# --- bounds ---------------------------------------------------------------------------------------------------


def many(number: int, *, declared: int | None = None) -> Calling:
    h = Calling.of()
    for _ in range(number):
        h.answers(h.tries(), 503)
    h.says("unknown")
    h.max_attempts = declared
    return h


def test_more_attempts_than_are_declared_are_found() -> None:
    assert many(4, declared=3).found == {"bounded-retries": "must"}
    assert many(3, declared=3).found == {}


def test_attempts_without_an_end_are_found_where_none_is_declared() -> None:
    assert many(51).found == {"bounded-retries": "should"}
    assert many(50).found == {}


def test_a_flood_of_attempts_is_judged_in_a_moment() -> None:
    h = Calling.of()
    for number in range(3000):
        h.answers(h.tries(key=f"k{number}"), "rate_limited")
    h.says("not_sent")
    began = time.process_time()
    assert h.found == {"bounded-retries": "should", "retry-after": "should"}
    assert time.process_time() - began < 10


def test_each_time_that_it_is_asked_has_its_own_attempts() -> None:
    for number, found in ((3, {}), (4, {"bounded-retries": "must"})):
        h = many(number)
        h.ask("again")
        for _ in range(3):
            h.answers(h.tries(), 503)
        h.says("unknown", "again")
        h.max_attempts = 3
        assert h.found == found


def test_a_redirect_and_a_kept_connection_that_had_ended_are_no_attempts_of_their_own() -> None:
    h = Calling.of()
    h.answers(h.tries(connection=1), 503)
    h.tries(connection=1)  # closed as it arrived
    h.answers(h.tries(), 307, headers={"location": "/v2"})
    h.answers(h.tries(path="/v2"))
    h.delivers()
    h.says("sent")
    h.max_attempts = 2
    assert h.found == {}


# --- patience with an answer ----------------------------------------------------------------------------------


def waited(seconds: float, *, timeout: float | None = 2.0, told: bool = True) -> Calling:
    h = Calling.of()
    h.attempt_timeout = timeout
    first = h.tries()
    h.fired("client.request", "hold", "silent", op="first", attempt=first)
    h.wait(seconds)
    if told:
        h.answers(first)
        h.delivers()
        h.says("sent")
    else:
        h.note(Kind.VOID, reason="the client did not end within 60 s", waited=60)
        h.delivers()
        h.loses(first)
    return h


@pytest.mark.parametrize("told", [True, False])
def test_who_waits_for_ever_is_found(told: bool) -> None:
    assert waited(10, told=told).found == {"gives-up": "should"}
    assert waited(3.5, told=told).found == {}
    assert waited(10, timeout=None, told=told).found == {}


def test_who_has_tried_again_or_given_up_waits_no_more() -> None:
    h = Calling.of()
    h.attempt_timeout = 2
    first = h.tries()
    h.answers(h.tries(after=2), "in_progress")
    h.wait(60)
    h.answers(first)
    h.delivers()
    assert "gives-up" not in h.found
    h = Calling.of()
    h.attempt_timeout = 2
    first = h.tries()
    h.says("unknown")
    h.wait(60)
    h.answers(first)
    h.delivers()
    assert h.found == {}


@pytest.mark.parametrize("kind", [Kind.CRASH, Kind.PAUSE, Kind.STOP])
def test_who_was_killed_stopped_or_put_to_sleep_waits_for_nothing(kind: Kind) -> None:
    h = Calling.of()
    h.attempt_timeout = 2
    first = h.tries()
    h.note(kind, process="target")
    h.wait(60)
    h.answers(first)
    h.delivers()
    assert h.found == {}


def test_an_answer_that_comes_a_few_bytes_at_a_time_has_begun() -> None:
    h = Calling.of()
    h.attempt_timeout = 2
    first = h.tries()
    h.fired("client.response", "drip", 10, op="first", attempt=first)
    h.wait(10)
    h.answers(first)
    h.delivers()
    h.says("sent")
    assert h.found == {}


def test_a_request_that_was_reset_is_not_waited_for() -> None:
    h = Calling.of()
    h.attempt_timeout = 2
    first = h.tries()
    h.fired("client.request", "reset", op="first", attempt=first)
    h.wait(60)
    h.note(Kind.VOID, reason="the client did not end within 60 s")
    assert h.found == {}
