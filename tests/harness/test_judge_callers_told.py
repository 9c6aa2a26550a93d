"""What callers say of an operation, against what was delivered; and answers that end one."""

import pytest

from sendtwice.harness.history import Kind
from tests.harness.callings import Calling, first_then

WORDS = ("sent", "not_sent", "unknown")


def one(how: str | int, told: str, *, delivered: bool, contract: str = "rasket", approval: bool = False) -> Calling:
    """One attempt that ends in a way, and what is said of it."""
    h = Calling.of(contract, approval=approval)
    first = h.tries()
    commit = h.delivers() if delivered else None
    if how == "lost":
        h.loses(first)
    elif how == "garbled":
        h.answers(first, 200, garbled=True, body="<html>", commit=commit)
    else:
        h.answers(first, how, commit=commit, replaced=how not in ("accepted", "replayed"))
    h.says(told)
    return h


# --- the table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["lost", "garbled", 500, 502, 504, 503, "accepted", "in_progress", 408])
def test_not_sent_is_false_where_the_mail_is_out_and_no_answer_said_otherwise(how: str | int) -> None:
    assert one(how, "not_sent", delivered=True).found == {"told": "must"}
    assert "told" not in one(how, "not_sent", delivered=False).found


@pytest.mark.parametrize("how", ["refused", "rate_limited", "unauthorized", "conflict", "key_invalid", 404])
def test_who_was_told_that_nothing_was_done_may_say_so(how: str | int) -> None:
    assert one(how, "not_sent", delivered=True).found == {}


@pytest.mark.parametrize("how", ["lost", "garbled", 502, "in_progress"])
def test_sent_without_a_whole_answer_is_luck_or_a_lost_mail(how: str | int) -> None:
    assert one(how, "sent", delivered=True).found == {"told": "should"}
    assert one(how, "sent", delivered=False).found == {"no-lost-send": "must"}


@pytest.mark.parametrize("how", ["lost", "garbled", 502, 503, "in_progress", "refused", "conflict"])
@pytest.mark.parametrize("delivered", [True, False])
def test_unknown_is_right_while_there_was_no_definite_success(how: str | int, delivered: bool) -> None:
    assert one(how, "unknown", delivered=delivered).found == {}


def test_unknown_after_a_definite_success_is_odd() -> None:
    assert one("accepted", "unknown", delivered=True).found == {"told": "should"}


def test_a_success_that_came_when_its_caller_may_have_gone_is_not_held_against_it() -> None:
    h = Calling.of()
    first = h.tries()
    h.delivers()
    h.fired("client.response", "delay", 5, op="first", attempt=first)
    h.answers(first)
    h.says("unknown")
    assert h.found == {}


def test_who_was_told_of_success_has_lost_nothing() -> None:
    assert one("accepted", "sent", delivered=False).found == {}
    assert one("accepted", "sent", delivered=True).found == {}


def test_a_status_that_nobody_declares_says_nothing() -> None:
    assert one("accepted", "undeclared", delivered=True).found == {"told": "should"}


def test_a_draft_is_not_sent() -> None:
    found = {told: one("pending", told, delivered=False, contract="postfleet", approval=True).found for told in WORDS}
    # It may be approved yet, so it is not unsent either.
    assert found == {"sent": {"told": "must"}, "not_sent": {"told": "should"}, "unknown": {}}


def test_a_lost_mail_is_not_hidden_by_a_word_that_is_only_odd() -> None:
    h = one("lost", "sent", delivered=False)
    h.ask("again")
    h.says("undeclared", "again")
    assert h.found == {"no-lost-send": "must", "told": "should"}


def test_a_draft_that_a_person_approved_is_sent() -> None:
    h = Calling.of("postfleet", approval=True)
    h.answers(h.tries(), "pending")
    h.call("first", "approve")
    h.delivers()
    h.says("sent")
    assert h.found == {}


# --- what a caller can know -----------------------------------------------------------------------------------


def test_an_early_attempt_that_is_open_outweighs_a_later_refusal_at_the_door() -> None:
    for kind, found in (("rate_limited", {"told": "must"}), ("refused", {})):
        h = Calling.of()
        h.loses(h.tries())
        h.delivers()
        h.answers(h.tries(), kind)
        h.says("not_sent")
        assert h.found == found, kind


def test_a_process_knows_nothing_of_the_attempts_of_a_dead_one() -> None:
    h = Calling.of()
    h.tries()
    h.delivers()
    h.note(Kind.CRASH, process="target")
    h.note(Kind.RESTART, process="target", willingly=True)
    h.ask("again")
    h.answers(h.tries(), "refused")
    h.says("not_sent", "again")
    assert h.found == {}


def test_a_state_that_outlives_the_process_may_know_of_a_success() -> None:
    h = Calling.of()
    h.answers(h.tries())
    h.delivers()
    h.note(Kind.CRASH, process="target")
    h.ask("again")
    h.says("sent", "again")
    assert h.found == {}


def test_of_two_workers_one_may_have_nothing_to_tell() -> None:
    for other, found in (("sent", {}), ("not_sent", {"told": "must"})):
        h = Calling.of()
        h.ask("second")
        first = h.tries()
        h.delivers()
        h.answers(first)
        h.says(other)
        h.says("not_sent", "second")
        assert h.found == found, other


def test_who_looks_it_up_knows() -> None:
    h = Calling.of()
    h.loses(h.tries())
    h.delivers()
    h.note(Kind.CLIENT_REQUEST, path="/emails", key=None)
    h.says("sent")
    assert h.found == {}


def test_an_api_that_refuses_repeats_says_that_there_was_a_first_one() -> None:
    h = Calling.of("emailit")
    if "duplicate" not in h.contract.answers:
        h = Calling.of("loops")
    h.loses(h.tries())
    h.delivers()
    h.answers(h.tries(), "duplicate")
    h.says("sent")
    assert "told" not in h.found


def test_of_equal_mails_nobody_knows_which_one_an_attempt_was_made_for() -> None:
    h = one("lost", "not_sent", delivered=True)
    h.operation("second", group="first")
    h.ask("second", "second")
    h.answers(h.tries(key="k2"))
    h.delivers()
    h.says("sent", "second", "second")
    assert h.found == {}


def test_sent_without_an_attempt_is_lost_unless_the_task_is_done_in_other_words() -> None:
    h = Calling.of()
    h.says("sent")
    assert h.found == {"no-lost-send": "must"}
    for known_as, found in (("id-first", {}), ("id-other", {"no-lost-send": "must"})):
        h = Calling.of()
        h.answers(h.tries())
        h.delivers()
        h.says("sent")
        h.ask("again", "rewritten", known_as=known_as)
        h.says("sent", "again", "rewritten")
        assert h.found == found


def test_two_operations_that_are_called_sent_are_two_mails() -> None:
    for keys, found in ((("k1", "k2"), {}), (("k1", "k1"), {"no-lost-send": "must"})):
        h = Calling.of(ask=False)
        h.operation("first")
        h.operation("second", group="first")
        for key, op in zip(keys, ("first", "second"), strict=True):
            h.ask(op, op)
            name = h.tries(key=key)
            repeat = op == "second" and key == "k1"
            if not repeat:
                h.delivers()
            h.answers(name, "replayed" if repeat else "accepted")
            h.says("sent", op, op)
        assert h.found == found


def test_who_was_told_to_end_has_no_word() -> None:
    h = Calling.of()
    h.tries()
    h.note(Kind.STOP, process="target")
    h.says("undeclared")
    assert h.found == {}


# --- answers that end an operation ----------------------------------------------------------------------------


def test_a_conflict_is_final() -> None:
    assert first_then("conflict", key="k2").found == {"conflict": "must"}
    for times, found in ((2, {}), (3, {"conflict": "should"})):  # two may be those of two workers
        h = Calling.of()
        for _ in range(times):
            h.answers(h.tries(), "conflict")
        h.says("unknown")
        assert h.found == found


def test_a_conflict_that_the_caller_cannot_tell_from_others_is_not_held_against_its_retry() -> None:
    assert first_then("conflict", contract="universal").found == {}


def test_a_conflict_after_which_it_is_asked_for_again_is_answered_again() -> None:
    h = Calling.of()
    for name in ("first", "again"):
        if name == "again":
            h.ask(name)
        h.answers(h.tries(), "conflict")
        h.says("unknown", name)
    assert h.found == {}


def test_a_draft_is_not_sent_again() -> None:
    for key, found in (("k2", {"draft-retried": "must"}), ("k1", {"draft-retried": "should"})):
        h = Calling.of("postfleet", approval=True)
        h.answers(h.tries(), "pending")
        h.answers(h.tries(key=key), "pending")
        h.answers(h.tries(key=key), "pending")
        h.says("unknown")
        assert h.found == found


def test_a_draft_of_a_task_that_is_asked_for_again_is_found_by_its_key() -> None:
    for key, found in (("k2", {"draft-retried": "must"}), ("k1", {})):
        h = Calling.of("postfleet", approval=True)
        h.answers(h.tries(), "pending")
        h.says("unknown")
        h.ask("again")
        h.answers(h.tries(key=key), "pending")
        h.says("unknown", "again")
        assert h.found == found
