"""Never twice, never lost, nothing under a bad or a taken key: clear breaches, and the nearest sound histories."""

import pytest

from sendtwice.fake_provider.contracts import Claim, Level
from sendtwice.harness.history import Kind
from tests.harness.histories import CONTRACTS, STRICT, HandOver, History


@pytest.fixture(params=CONTRACTS)
def h(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


@pytest.fixture(params=STRICT)
def strict(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


def forbids_second(h: History) -> bool:
    return h.contract.second_after_unknown.says("forbidden")


# --- at most once -------------------------------------------------------------------------------------------


def test_a_retry_after_a_lost_answer_that_sends_again_is_a_second_mail(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.ends("first", "lost")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


def test_a_retry_after_a_lost_answer_that_replays_is_right(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.ends("first", "lost")
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert h.accusations == []


def test_a_retry_after_a_lost_answer_may_be_told_to_wait_first(h: History) -> None:
    h.send("first")
    made = h.commit(h.hand_over("first"))
    h.ends("first", "lost")
    h.send("retry", like="first")
    h.answer("retry", "in_progress")
    h.tell(made)
    h.send("retry~1", like="first")
    h.answer("retry~1", "replayed")
    assert h.accusations == []


def test_two_at_once_that_both_send_are_one_mail_too_many(h: History) -> None:
    h.send("a")
    h.send("b", like="a")
    one, two = h.hand_over("a"), h.hand_over("a")
    h.tell(h.commit(one))
    h.tell(h.commit(two))
    h.answer("a")
    h.answer("b", number="m2")
    assert "at-most-once" in h.rules()


@pytest.mark.parametrize("other", ["replayed", "in_progress"])
def test_two_at_once_of_which_one_sends_are_right_whichever_is_answered_first(h: History, other: str) -> None:
    h.send("a")
    h.send("b", like="a")
    made = h.hand_over("a")
    if other == "in_progress":
        h.answer("b", other)
    h.tell(h.commit(made))
    if other == "replayed":
        h.answer("b", other)
    h.answer("a")
    assert h.accusations == []


def test_the_count_is_one_too_many_though_nobody_was_ever_answered(h: History) -> None:
    h.send("a")
    h.deliver("a")
    h.ends("a", "lost")
    h.send("b", like="a")
    h.deliver("a")
    h.ends("b", "timed-out")
    assert "at-most-once" in h.rules()


def test_a_late_second_delivery_counts_after_the_scenario_has_settled(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.settle()
    assert h.accusations == []
    h.deliver("first")
    assert h.rules() == {"at-most-once"}


def test_two_mails_are_named_with_every_commit_as_evidence(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.deliver("first")
    (found,) = (f for f in h.judgement.findings if f.rule == "at-most-once")
    deliveries = {e.seq for e in h.events if e.kind == "delivery"}
    assert deliveries <= set(found.events)
    assert found.operation == "first"
    assert found.remedy


def test_the_same_content_under_two_keys_may_be_two_mails_and_not_three(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.send("second", op="second", key="k2", group="first")
    h.deliver("second")
    h.answer("second", number="m2")
    assert h.accusations == []
    h.deliver("second")
    assert h.rules() == {"at-most-once"}


def test_the_same_key_of_another_mailbox_is_another_mail_where_the_scope_says_so() -> None:
    for name in ("postfleet", "pylota", "universal", "resend"):
        h = History.under(name)
        h.send("first")
        h.deliver("first")
        h.answer("first")
        h.send("neighbour", op="neighbour", key="key-first", sender="other-mailbox")
        h.deliver("neighbour")
        h.answer("neighbour", number="m2")
        assert h.accusations == []


def test_each_call_without_a_key_is_a_new_mail(h: History) -> None:
    h.send("first", key=None)
    h.deliver("first")
    h.answer("first")
    h.send("second", op="second", key=None, group="first")
    h.deliver("second")
    h.answer("second", number="m2")
    assert h.rules() <= {"status-as-declared", "key-syntax"}
    h.deliver("second")
    assert "at-most-once" in h.rules()


def test_one_call_per_recipient_is_one_mail(h: History) -> None:
    h.send("first", to=["a@sendtwice.test", "b@sendtwice.test"])
    h.deliver("first", to=["a@sendtwice.test"])
    h.deliver("first", to=["b@sendtwice.test"])
    h.answer("first")
    assert h.accusations == []


def test_one_recipient_of_two_who_gets_it_again_is_enough(h: History) -> None:
    h.send("first", to=["a@sendtwice.test", "b@sendtwice.test"])
    h.deliver("first")
    h.answer("first")
    h.send("retry", like="first")
    h.deliver("first", to=["b@sendtwice.test"])
    h.answer("retry", "replayed")
    assert h.rules() == {"at-most-once"}


def test_a_provider_that_deduplicates_may_be_handed_the_mail_again(h: History) -> None:
    h.send("first")
    made = h.commit(h.hand_over("first"))
    h.crash(broken=["first"])
    h.tell(made, sent=False)
    h.restart()
    h.send("retry", like="first")
    again = h.hand_over("first")
    h.tell(again)
    h.answer("retry", "replayed")
    assert h.accusations == []


# --- after an unknown outcome -------------------------------------------------------------------------------


def test_a_mail_sent_again_after_a_silent_provider_breaks_the_rule_for_unknown_outcomes(h: History) -> None:
    h.send("first")
    h.provider_silent("first")
    h.deliver("first")
    h.answer("first")
    expected = Level.MUST if forbids_second(h) else Level.OBSERVE
    assert "at-most-once-after-unknown" in h.rules(expected)
    assert "at-most-once" not in h.rules()


def test_a_mail_sent_again_after_an_answer_that_lay_unread_breaks_the_rule_for_unknown_outcomes(h: History) -> None:
    h.send("first")
    made = h.commit(h.hand_over("first"))
    h.tell(made)
    h.note(Kind.UNREAD, connection=made.connection)  # its patience was over
    h.deliver("first")
    h.answer("first")
    expected = Level.MUST if forbids_second(h) else Level.OBSERVE
    assert "at-most-once-after-unknown" in h.rules(expected)


def test_a_mail_that_comes_late_after_it_was_given_up_was_of_unknown_outcome(h: History) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.answer("first", "unknown")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    h.tell(h.commit(made), sent=False)
    expected = Level.MUST if forbids_second(h) else Level.OBSERVE
    assert "at-most-once-after-unknown" in h.rules(expected)


def test_a_contract_that_permits_a_second_mail_after_unknown_has_a_hole_and_its_target_no_fault() -> None:
    h = History.under("rasket")
    permitted = Claim[str](value="permitted")
    h.contract = h.contract.model_copy(update={"second_after_unknown": permitted})
    h.send("first")
    h.provider_silent("first")
    h.deliver("first")
    h.answer("first")
    assert h.accusations == []
    assert "at-most-once-after-unknown" in h.rules(Level.HOLE)


@pytest.mark.parametrize("verb", ["reset", "close"])
@pytest.mark.parametrize("later", ["unknown", "in_progress"])
def test_an_outcome_that_stays_unknown_for_ever_is_right(h: History, verb: str, later: str) -> None:
    h.send("first")
    h.provider_silent("first", verb=verb)
    h.answer("first", "unknown")
    for n in range(3):
        h.send(f"retry{n}", like="first")
        h.answer(f"retry{n}", later)
    h.finish("first", "retry2", definite=False)
    assert h.accusations == []


def test_an_unknown_outcome_that_is_reconciled_later_is_replayed(h: History) -> None:
    h.send("first")
    h.provider_silent("first")
    h.answer("first", "unknown")
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert h.accusations == []


def test_a_mail_whose_message_was_lost_may_be_handed_over_again(h: History) -> None:
    h.send("first")
    h.provider_deaf("first")
    h.deliver("first")
    h.answer("first")
    assert h.accusations == []


def test_killed_while_its_mail_was_being_taken_a_target_that_sends_again_sent_twice(h: History) -> None:
    h.send("first")
    made = h.commit(h.hand_over("first"))
    h.fired("provider.response", "hold", op="first")
    h.crash(broken=["first"])
    h.tell(made, sent=False)
    h.restart()
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    expected = Level.MUST if forbids_second(h) else Level.OBSERVE
    assert "at-most-once-after-unknown" in h.rules(expected)


@pytest.mark.parametrize("then", ["unknown", "in_progress", "failed"])
def test_killed_while_its_mail_was_being_taken_a_target_may_say_that_it_does_not_know(h: History, then: str) -> None:
    h.send("first")
    made = h.commit(h.hand_over("first"))
    h.crash(broken=["first"])
    h.tell(made, sent=False)
    h.restart()
    h.send("retry", like="first")
    h.answer("retry", then)
    h.finish("first", "retry", definite=False)
    assert h.accusations == []


def test_killed_between_its_mark_and_the_hand_over_a_target_may_send_late_or_never_know(h: History) -> None:
    h.send("first")
    h.crash(broken=["first"])
    h.restart()
    h.send("retry", like="first")
    h.answer("retry", "in_progress")
    h.send("retry2", like="first")
    h.answer("retry2", "unknown")
    assert h.accusations == []
    h.deliver("first")
    h.send("retry3", like="first")
    h.answer("retry3", "replayed")
    assert h.accusations == []


def test_killed_before_the_provider_took_it_the_mail_may_be_sent_after_the_restart(h: History) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.fired("provider.request", "hold", op="first")
    h.crash(made, broken=["first"])
    h.restart()
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    assert h.accusations == []


def test_a_target_that_knew_and_answered_has_no_excuse_in_a_later_crash(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.crash()
    h.restart()
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


# --- nothing is lost ----------------------------------------------------------------------------------------


def test_a_claimed_success_without_a_mail_is_lost(h: History) -> None:
    h.send("first")
    h.answer("first")
    assert h.rules() == {"no-lost-send"}


def test_a_queued_mail_that_comes_late_is_not_lost(h: History) -> None:
    h.send("first")
    h.answer("first")
    h.settle()
    h.deliver("first")
    assert h.accusations == []


def test_a_refusal_without_a_mail_is_no_loss(h: History) -> None:
    h.send("first")
    h.provider_says("first", 422)
    h.answer("first", "refused")
    h.send("retry", like="first")
    h.answer("retry", "refused")
    h.expect(deliveries=[[["first"], [0, 0]]])
    assert h.accusations == []


def test_a_mail_that_came_although_it_was_called_refused_is_no_accusation_of_the_target(h: History) -> None:
    h.send("first")
    h.provider_lies("first", 422)
    h.answer("first", "refused")
    h.send("retry", like="first")
    h.answer("retry", "refused")
    assert h.accusations == []


def test_a_target_that_heard_the_refusal_and_then_claims_success_lost_the_mail(h: History) -> None:
    h.send("first")
    h.provider_says("first", 422)
    h.answer("first")
    # Only a target that is known to hand over first can have heard it: a queue may simply be fast.
    assert ("no-lost-send" in h.rules()) is h.contract.delivery.says("inline")


def test_a_queue_whose_mail_the_provider_refuses_for_good_later_has_lost_nothing() -> None:
    for name in ("universal", "rasket", "pylota", "resend", "ietf-07"):
        h = History.under(name)
        h.send("first")
        h.answer("first")
        h.provider_says("first", 422)
        h.send("retry", like="first")
        h.answer("retry", "replayed")
        assert h.accusations == []


def test_a_queue_that_gives_up_on_a_busy_provider_lost_the_mail(h: History) -> None:
    h.send("first")
    h.answer("first")
    h.provider_says("first", 503)
    assert "no-lost-send" in h.rules()


def test_a_queue_that_tries_a_busy_provider_again_lost_nothing(h: History) -> None:
    h.send("first")
    h.answer("first")
    h.provider_says("first", 503)
    h.provider_says("first", 429)
    h.deliver("first")
    assert h.accusations == []


def test_a_queue_killed_with_the_mail_in_memory_lost_it(h: History) -> None:
    h.send("first")
    h.answer("first")
    h.wait(1)
    h.crash()
    h.restart()
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert "no-lost-send" in h.rules()


def test_killed_in_the_instant_after_its_answer_a_queue_may_just_have_begun_to_hand_over() -> None:
    """It notes "handing over" before the first byte leaves, and nobody may repeat what was noted so."""
    for name in ("rasket", "pylota", "universal"):
        h = History.under(name)
        h.send("first")
        h.answer("first")
        h.crash()
        h.restart()
        h.send("retry", like="first")
        h.answer("retry", "replayed")
        assert h.accusations == []


def test_a_queue_killed_while_handing_over_may_leave_the_mail_unknown(h: History) -> None:
    h.send("first")
    h.answer("first")
    made = h.hand_over("first")
    h.crash(made)
    h.restart()
    assert h.accusations == []
    assert "no-lost-send" in h.rules(Level.OBSERVE)


@pytest.mark.parametrize(("waited", "lost"), [(0, False), (1, True)])
def test_an_answer_to_a_repeat_does_not_show_that_a_queue_had_read_its_providers(waited: float, lost: bool) -> None:
    for name in ("rasket", "pylota", "universal"):
        h = History.under(name)
        h.send("first")
        h.answer("first")
        h.send("repeat", like="first")
        h.provider_says("first", 503)
        h.answer("repeat", "replayed")
        h.wait(waited)
        h.crash()
        h.restart()
        assert ("no-lost-send" in h.rules()) is lost


def test_one_of_two_recipients_who_gets_nothing_was_lost(h: History) -> None:
    h.send("first", to=["a@sendtwice.test", "b@sendtwice.test"])
    h.deliver("first", to=["a@sendtwice.test"])
    h.answer("first")
    assert h.rules() == {"no-lost-send"}


def test_a_target_that_takes_equal_content_for_one_mail_lost_the_second(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.send("second", op="second", key="k2", group="first")
    h.answer("second", number="m2")
    assert "no-lost-send" in h.rules()


def test_a_second_of_equal_content_that_was_refused_is_not_lost(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.send("second", op="second", key="k2", group="first")
    h.provider_says("second", 422)
    h.answer("second", "refused")
    assert h.accusations == []


def test_a_mail_that_awaits_approval_is_not_lost() -> None:
    for name in ("universal", "postfleet"):
        h = History.under(name, approval=True)
        h.send("first")
        h.answer("first", "pending")
        h.send("again", like="first")
        h.answer("again", "pending")
        assert h.accusations == []


def test_the_replay_of_other_content_claims_nothing_for_the_new_one() -> None:
    h = History.under("universal")
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.send("changed", op="changed", key="key-first")
    h.answer("changed", "replayed")
    assert h.accusations == []


# --- other content under a used key -------------------------------------------------------------------------


def test_two_contents_under_one_key_that_are_both_delivered_break_the_conflict_rule(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.send("changed", op="changed", key="key-first")
    h.deliver("changed")
    h.answer("changed", number="m2")
    soft = h.contract.levels.get("conflict", Level.MUST)
    assert "conflict" in h.rules(soft)


def test_two_contents_at_once_that_are_both_delivered_break_it_as_well(strict: History) -> None:
    h = strict
    h.send("first")
    h.send("changed", op="changed", key="key-first")
    one, two = h.hand_over("changed"), h.hand_over("first")
    h.tell(h.commit(one))
    h.tell(h.commit(two))
    h.ends("first", "timed-out")
    h.ends("changed", "timed-out")
    assert h.rules() == {"conflict"}


@pytest.mark.parametrize("winner", ["first", "changed"])
def test_of_two_contents_at_once_either_may_win(h: History, winner: str) -> None:
    loser = {"first": "changed", "changed": "first"}[winner]
    h.send("first")
    h.send("changed", op="changed", key="key-first")
    made = h.hand_over(winner)
    h.answer(loser, "conflict")
    h.tell(h.commit(made))
    h.answer(winner)
    assert h.accusations == []


def test_a_key_freed_by_a_certain_failure_may_carry_other_content(h: History) -> None:
    if not h.contract.outcomes.provider_busy.permits("released"):
        h = History.under("universal")  # this contract keeps the key with the message
    h.send("first")
    h.provider_says("first", 503)
    h.answer("first", "failed")
    h.send("changed", op="changed", key="key-first")
    h.deliver("changed")
    h.answer("changed")
    assert h.accusations == []


def test_a_request_that_never_arrived_leaves_its_key_free(h: History) -> None:
    h.send("first")
    h.ends("first", never_arrived=True)
    h.send("changed", op="changed", key="key-first")
    h.deliver("changed")
    h.answer("changed")
    h.send("again", like="changed")
    h.answer("again", "replayed")
    assert h.accusations == []


# --- bad keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rasket", "resend"])
def test_a_key_refused_as_too_long_and_sent_all_the_same_is_found(name: str) -> None:
    h = History.under(name)
    h.send("first", key="k" * 257, problem="too long")
    h.deliver("first")
    h.answer("first", "key_invalid")
    assert h.rules() == {"key-syntax"}


@pytest.mark.parametrize("name", ["rasket", "resend"])
def test_a_key_dropped_as_too_long_in_silence_is_found(name: str) -> None:
    h = History.under(name)
    h.send("first", key="k" * 257, problem="too long")
    h.deliver("first")
    h.answer("first")
    assert h.rules() == {"key-syntax"}


@pytest.mark.parametrize("name", ["rasket", "resend"])
def test_a_key_refused_as_too_long_before_any_effect_is_right_each_time(name: str) -> None:
    h = History.under(name)
    for attempt in ("first", "again"):
        h.send(attempt, op="first", key="k" * 257, problem="too long")
        h.answer(attempt, "key_invalid")
    assert h.accusations == []


@pytest.mark.parametrize("kind", ["key_invalid", "accepted"])
def test_what_becomes_of_a_key_of_which_nobody_speaks_is_not_judged(h: History, kind: str) -> None:
    for attempt in ("first", "again"):
        h.send(attempt, op="first", key="k\u00e9y", problem="undeclared")
        if kind == "accepted" and attempt == "first":
            h.deliver("first")
        h.answer(attempt, kind)
    assert h.accusations == []


def test_a_send_without_its_required_key_is_refused_and_never_delivered() -> None:
    h = History.under("pylota")
    h.send("first", key=None, problem="absent")
    h.answer("first", "key_missing")
    assert h.accusations == []
    h.deliver("first")
    assert h.rules() == {"key-syntax"}


def test_a_send_without_its_required_key_that_is_accepted_breaks_the_contract() -> None:
    h = History.under("pylota")
    h.send("first", key=None, problem="absent")
    h.deliver("first")
    h.answer("first")
    assert h.rules() == {"key-syntax"}


# --- other roles --------------------------------------------------------------------------------------------


def test_a_client_whose_key_changes_with_each_attempt_sends_twice() -> None:
    h = History.under("rasket", role="client")
    h.send("first#1", op="first", key="k1")
    h.deliver("first")
    h.ends("first#1", "lost")
    h.send("first#2", op="first", key="k2")
    h.deliver("first")
    h.answer("first#2", number="m2")
    h.told("first", "sent")
    assert h.rules() == {"at-most-once"}


def test_a_client_that_keeps_its_key_through_a_lost_answer_is_right() -> None:
    h = History.under("rasket", role="client")
    h.send("first#1", op="first", key="k1")
    h.deliver("first")
    h.ends("first#1", "lost")
    h.send("first#2", op="first", key="k1")
    h.answer("first#2", "replayed")
    h.told("first", "sent")
    assert h.accusations == []


def test_a_client_that_calls_an_undelivered_mail_sent_lost_it() -> None:
    h = History.under("rasket", role="client")
    h.send("first#1", op="first", key="k1")
    h.answer("first#1", "failed")
    h.told("first", "sent")
    assert h.rules() == {"no-lost-send"}


def test_a_client_that_calls_an_undelivered_mail_unknown_or_unsent_lost_nothing() -> None:
    for told in ("unknown", "not_sent"):
        h = History.under("rasket", role="client")
        h.send("first#1", op="first", key="k1")
        h.answer("first#1", "failed")
        h.told("first", told)
        assert h.accusations == []


def test_a_client_that_meets_a_conflict_and_takes_another_key_is_found() -> None:
    h = History.under("rasket", role="client")
    h.send("first#1", op="first", key="k1")
    h.fired("client.request", "answer", "conflict", op="first")
    h.answer("first#1", "conflict")
    h.send("first#2", op="first", key="k2")
    h.deliver("first")
    h.answer("first#2")
    h.told("first", "sent")
    assert h.rules() == {"conflict"}


@pytest.mark.parametrize("kind", ["conflict", "in_progress"])
def test_a_client_that_goes_on_with_its_key_or_stops_is_right(kind: str) -> None:
    h = History.under("rasket", role="client")
    h.send("first#1", op="first", key="k1")
    h.fired("client.request", "answer", kind, op="first")
    h.answer("first#1", kind)
    if kind == "in_progress":
        h.send("first#2", op="first", key="k1")
        h.deliver("first")
        h.answer("first#2")
    h.told("first", "sent" if kind == "in_progress" else "not_sent")
    assert h.accusations == []


def test_a_client_takes_a_new_key_for_a_new_operation_after_a_conflict() -> None:
    h = History.under("rasket", role="client")
    h.send("first#1", op="first", key="k1")
    h.fired("client.request", "answer", "conflict", op="first")
    h.answer("first#1", "conflict")
    h.told("first", "not_sent")
    h.send("second#1", op="second", key="k2")
    h.deliver("second")
    h.answer("second#1")
    h.told("second", "sent")
    assert h.accusations == []


def test_a_consumer_that_answers_one_event_twice_with_a_mail_each_is_found() -> None:
    h = History.under("universal", role="consumer")
    for attempt in ("first", "again"):
        h.send(attempt, op="first")
        h.deliver("first")
        h.reply(attempt, 200, {})
    assert h.rules() == {"at-most-once"}


def test_a_consumer_that_acknowledges_and_does_nothing_lost_the_event() -> None:
    h = History.under("universal", role="consumer")
    h.send("first")
    h.reply("first", 200, {})
    assert h.rules() == {"no-lost-send"}


def test_a_consumer_may_refuse_an_event_and_do_it_on_redelivery() -> None:
    h = History.under("universal", role="consumer")
    h.send("first")
    h.reply("first", 500, {})
    h.send("again", like="first")
    h.deliver("first")
    h.reply("again", 204, {})
    h.send("third", like="first")
    h.reply("third", 200, {})
    assert h.accusations == []


def test_an_sdk_that_sends_again_by_itself_is_named() -> None:
    h = History.under("rasket")
    h.send("first")
    for number in range(2):
        h.note(Kind.PROVIDER_REQUEST, op="first", connection=90 + number, call="c1", resend=number, recipients=[])
        made = HandOver("first", ("first@sendtwice.test",), 90 + number)
        h.commit(made)
        h.tell(made, sent=number > 0)
    h.answer("first")
    message = next(f.message for f in h.judgement.findings if f.rule == "at-most-once-after-unknown")
    assert "2 attempts of one call: the provider's SDK in the target sent again by itself" in message
