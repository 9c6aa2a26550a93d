"""Callers and their keys: one for all attempts, none missing, none that cannot work."""

import pytest

from sendtwice.harness.history import Kind
from tests.harness.callings import BODY, Calling, first_then, lost_then

OPEN = ["lost", "held", 500, 502, 504, 408, "in_progress"]
CLEAR = ["refused", "rate_limited", "key_invalid", "unauthorized", 404]


# --- one key --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", OPEN)
def test_another_key_while_the_first_attempt_is_open_is_found(how: str | int) -> None:
    assert first_then(how, key="k2").found == {"one-key": "must"}


@pytest.mark.parametrize("how", [*OPEN, *CLEAR])
def test_the_same_key_again_is_right(how: str | int) -> None:
    assert first_then(how).found == {}


@pytest.mark.parametrize("how", CLEAR)
def test_another_key_after_nothing_was_done_is_right(how: str | int) -> None:
    assert first_then(how, key="k2").found == {}


def test_another_key_after_a_body_that_is_no_answer_is_found() -> None:
    h = Calling.of()
    h.answers(h.tries(), 200, garbled=True, body="<html>")
    h.answers(h.tries(key="k2"))
    h.delivers()
    h.says("sent")
    assert h.found == {"one-key": "must"}


def test_two_mails_are_told_as_one_story_with_the_number_of_keys() -> None:
    h = Calling.of()
    h.loses(h.tries())
    h.delivers()
    h.answers(h.tries(key="k2"))
    h.delivers()
    h.says("sent")
    assert h.found == {"at-most-once": "must"}
    found = h.finding("at-most-once")
    assert "two attempts carried two keys" in found.message
    assert "before the retry loop" in found.remedy


def test_a_key_that_did_not_outlive_its_process_is_found() -> None:
    h = Calling.of()
    h.tries()
    h.note(Kind.CRASH, process="target")
    h.note(Kind.RESTART, process="target", willingly=True)
    h.ask("again")
    h.answers(h.tries(key="k2"))
    h.delivers()
    h.says("sent", "again")
    assert h.found == {"one-key": "must"}
    assert "after a restart" in h.finding("one-key").message


def test_a_new_key_when_the_operation_is_asked_for_again_is_found() -> None:
    h = Calling.of()
    h.loses(h.tries())
    h.says("unknown")
    h.ask("again")
    h.answers(h.tries(key="k2"))
    h.delivers()
    h.says("sent", "again")
    assert h.found == {"one-key": "must"}
    assert "asked for again" in h.finding("one-key").message


def test_two_workers_with_a_key_each_are_found_and_with_one_key_are_right() -> None:
    for other, found in (("k2", {"one-key": "must"}), ("k1", {})):
        h = Calling.of()
        h.ask("second")
        first = h.tries()
        second = h.tries(key=other)
        h.delivers()
        h.answers(first)
        h.answers(second, "in_progress")
        h.says("sent")
        h.says("unknown", "second")
        assert h.found == found


def test_a_new_key_is_right_when_the_old_one_was_refused_in_the_end() -> None:
    h = Calling.of()
    h.loses(h.tries())
    h.answers(h.tries(), "refused")
    h.answers(h.tries(key="k2", body={**BODY, "subject": "mended"}))
    h.delivers()
    h.says("sent")
    assert h.found == {}


def test_a_limit_that_is_told_at_the_door_says_nothing_of_the_lost_attempt_before() -> None:
    h = Calling.of()
    h.loses(h.tries())
    h.answers(h.tries(), "rate_limited")
    h.answers(h.tries(key="k2", after=2))
    h.delivers()
    h.says("sent")
    assert h.found == {"one-key": "must"}


def test_a_new_key_when_the_old_one_may_be_forgotten_is_right() -> None:
    for seconds, found in ((90_000, {}), (3600, {"one-key": "must"})):
        h = Calling.of()
        h.loses(h.tries())
        h.advance(seconds)
        h.answers(h.tries(key="k2"))
        h.delivers()
        h.says("sent")
        assert h.found == found, seconds


def test_a_key_in_other_letters_is_another_one_only_where_letters_count() -> None:
    assert first_then("lost", key="K1", contract="universal").found == {"one-key": "must"}
    assert first_then("lost", key="K1", contract="ietf-07").found == {}


def test_a_busy_provider_that_the_contract_speaks_of_excuses_a_new_key() -> None:
    assert first_then(503, key="k2", contract="pylota").found == {}
    assert first_then(503, key="k2", contract="rasket").found == {"one-key": "must"}


def test_a_new_key_where_the_old_one_only_repeats_a_server_error_is_unwise() -> None:
    assert first_then(500, key="k2", contract="stripe-v1").found == {"one-key": "should"}


def test_what_several_readings_of_an_answer_excuse_is_not_held_against_a_caller() -> None:
    assert first_then(422, key="k2", contract="universal").found == {}
    assert first_then(409, key="k2", contract="universal").found == {}


def test_a_second_mail_after_the_key_was_forgotten_is_a_second_mail() -> None:
    h = Calling.of()
    h.loses(h.tries())
    h.delivers()
    h.says("unknown")
    h.advance(200_000)
    h.ask("again")
    h.answers(h.tries())
    h.delivers()
    h.says("sent", "again")
    assert h.found == {"at-most-once": "must"}
    assert "the key had been forgotten" in h.finding("at-most-once").message


def test_a_second_mail_after_an_answer_that_denied_the_first_is_nobodys_fault() -> None:
    h = Calling.of()
    first = h.tries()
    h.answers(first, "refused", commit=h.delivers(), replaced=True)
    h.answers(h.tries(key="k2"))
    h.delivers()
    h.says("sent")
    assert h.found == {}


@pytest.mark.parametrize("status", [503, 500, 502])
def test_a_server_error_in_place_of_the_answer_denies_nothing(status: int) -> None:
    h = Calling.of()
    first = h.tries()
    h.answers(first, status, commit=h.delivers(), replaced=True)
    h.answers(h.tries(key="k2"))
    h.delivers()
    h.says("sent")
    assert h.found == {"at-most-once": "must"}


# --- no key ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", OPEN)
def test_a_retry_without_a_key_is_found(how: str | int) -> None:
    h = Calling.of()
    first = h.tries(key=None)
    if how == "lost":
        h.loses(first)
    elif how != "held":
        h.answers(first, how)
    h.answers(h.tries(key=None))
    h.delivers()
    h.says("sent")
    assert h.found == {"unkeyed-retry": "must"}


def test_a_retry_that_drops_the_key_is_found_and_so_is_one_that_only_then_has_one() -> None:
    assert first_then("lost", key=None).found == {"unkeyed-retry": "must"}
    h = Calling.of()
    h.loses(h.tries(key=None))
    h.answers(h.tries())
    h.delivers()
    h.says("sent")
    assert h.found == {"unkeyed-retry": "must"}


def test_a_retry_under_a_contract_without_keys_is_found() -> None:
    found = first_then("lost", contract="postmark")
    assert found.found == {"unkeyed-retry": "must"}
    assert "takes none" in found.finding("unkeyed-retry").message


@pytest.mark.parametrize("how", CLEAR)
def test_a_retry_without_a_key_after_nothing_was_done_is_right(how: str | int) -> None:
    h = Calling.of()
    h.answers(h.tries(key=None), how)
    h.answers(h.tries(key=None, after=2))
    h.delivers()
    h.says("sent")
    assert h.found == {}


def test_one_attempt_without_a_key_is_right() -> None:
    h = Calling.of("postmark")
    h.loses(h.tries(key=None))
    h.delivers()
    h.says("unknown")
    assert h.found == {}


def test_two_mails_without_a_key_are_one_story() -> None:
    h = Calling.of()
    h.loses(h.tries(key=None))
    h.delivers()
    h.answers(h.tries(key=None))
    h.delivers()
    h.says("sent")
    assert h.found == {"at-most-once": "must"}
    assert "no keys" in h.finding("at-most-once").message


# --- a key that can work --------------------------------------------------------------------------------------


def one(key: str, contract: str = "rasket") -> Calling:
    h = Calling.of(contract)
    h.answers(h.tries(key=key))
    h.delivers()
    h.says("sent")
    return h


@pytest.mark.parametrize("key", ["", " ", "null", "None", "undefined", "[object Object]", "NaN", '"null"', "k" * 257])
def test_a_key_that_cannot_work_is_found(key: str) -> None:
    assert one(key).found == {"usable-key": "must"}


@pytest.mark.parametrize("key", ["k", "k" * 256, "order-1042", "none-of-your-business", "nan-ramirez-7"])
def test_a_key_that_names_something_is_right(key: str) -> None:
    assert one(key).found == {}


@pytest.mark.parametrize("key", ["mail-first@sendtwice.test", "mail-First%40Sendtwice.test", "order-undefined-mail"])
def test_a_key_with_an_address_or_a_hole_in_it_is_unwise(key: str) -> None:
    assert one(key).found == {"usable-key": "should"}


def test_characters_that_the_contract_does_not_take_are_found() -> None:
    assert one("bestellung-ü", "pylota").found == {"usable-key": "must"}
    assert one("bestellung-ü", "rasket").found == {}


def two_operations(**second: object) -> Calling:
    h = Calling.of()
    h.answers(h.tries())
    h.delivers()
    h.says("sent")
    h.ask("second", "second", known_as=str(second.pop("known_as", "id-second")))
    h.answers(h.tries("second", body={**BODY, "to": ["second@sendtwice.test"]}, key=str(second.get("key", "k1"))))
    return h


def test_a_key_that_two_operations_share_is_found() -> None:
    h = two_operations()
    h.says("sent", "second", "second")
    assert h.found == {"usable-key": "must"}


def test_two_operations_with_a_key_each_are_right() -> None:
    h = two_operations(key="k2")
    h.delivers("second")
    h.says("sent", "second", "second")
    assert h.found == {}


def test_a_task_that_is_asked_for_in_other_words_keeps_its_key() -> None:
    h = two_operations(known_as="id-first")
    assert "usable-key" not in h.found


def test_a_key_is_free_when_the_first_operation_was_refused() -> None:
    h = Calling.of()
    h.answers(h.tries(), "refused")
    h.says("not_sent")
    h.ask("second", "second")
    h.answers(h.tries("second", body={**BODY, "to": ["second@sendtwice.test"]}))
    h.delivers("second")
    h.says("sent", "second", "second")
    assert h.found == {}


def test_equal_content_that_goes_out_in_two_operations_has_two_keys() -> None:
    h = lost_then()
    assert h.found == {}
    h.operation("second", group="first")
    h.ask("second", "second")
    h.answers(h.tries("second", key="k2"))
    h.delivers("second")
    h.says("sent", "second", "second")
    assert h.found == {}


def test_a_key_that_another_operation_of_the_run_had_is_told_by_the_api() -> None:
    h = Calling.of()
    h.answers(h.tries(key="shop"), "conflict", played=False)
    h.says("unknown")
    assert h.found == {"usable-key": "must"}


def test_a_conflict_that_was_played_or_is_about_an_earlier_attempt_says_nothing_of_the_key() -> None:
    h = Calling.of()
    h.answers(h.tries(key="k1"), "conflict", played=True)
    h.says("unknown")
    assert h.found == {}
    h = Calling.of()
    h.loses(h.tries(key="k1"))
    h.answers(h.tries(key="k1", body={"text": "other"}), "conflict")
    h.says("unknown")
    assert "usable-key" not in h.found
