"""Histories that once fooled the judge: sound targets that it accused, and breaches that it did not see."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from sendtwice.fake_provider.contracts import AnswerClass, Claim, Level
from sendtwice.fake_provider.contracts.groups import Lease
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness.history import Kind
from sendtwice.harness.scenario import parse
from tests.harness.histories import CONTRACTS, STRICT, History, contract_named
from tests.harness.test_judge_model import CRASHES, HABITS, ORDERS, Ask, Habits, fitting, plans, play, told


@pytest.fixture(params=CONTRACTS)
def h(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


@pytest.fixture(params=STRICT)
def strict(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


def sent_once(h: History) -> History:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    return h


# === Wrong accusations ======================================================================================

# --- a limit on requests stands before the keys (CONTRACTS R17: limiter before layer) -----------------------


def test_a_repeat_may_be_told_to_come_later(h: History) -> None:
    sent_once(h)
    h.send("again", like="first")
    h.answer("again", "rate_limited")
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == set()


def test_some_of_a_burst_may_be_told_to_come_later(h: History) -> None:
    h.send("a")
    h.send("b", like="a")
    h.answer("b", "rate_limited")
    h.deliver("a")
    h.answer("a")
    assert h.accusations == []


def test_other_content_may_be_told_to_come_later(h: History) -> None:
    sent_once(h)
    h.send("changed", op="changed", key="key-first")
    h.answer("changed", "rate_limited")
    assert h.accusations == []


# --- order inside intervals: of two at once the one that left later may win ---------------------------------


def test_of_two_at_once_the_later_may_be_the_first_and_the_earlier_its_replay() -> None:
    h = History.under("postfleet")
    h.send("a")
    h.send("b", like="a")
    h.deliver("a")
    h.answer("b", "accepted")
    h.answer("a", "replayed")
    assert h.accusations == []


def test_of_two_at_once_the_later_may_win_where_repeats_are_refused() -> None:
    h = History.under("postfleet")
    refuse: Claim[str] = Claim(value="refuse")
    gone = contract_named("universal").answers[AnswerClass.CONFLICT]
    shapes = {**h.contract.answers, AnswerClass.DUPLICATE: gone}
    h.contract = h.contract.model_copy(update={"duplicates": refuse, "answers": shapes})
    h.send("a")
    h.send("b", like="a")
    h.deliver("a")
    h.answer("b", "accepted")
    h.reply("a", 410, {})
    assert h.accusations == []


@pytest.mark.parametrize("name", ["universal", "resend", "ietf-07"])
def test_the_id_of_another_tenant_makes_no_new_mail_of_a_replay(name: str) -> None:
    h = sent_once(History.under(name))
    h.send("a", key="key-first", sender="other-tenant")
    h.deliver("a")
    h.send("b", like="a")
    h.answer("a", number="m2")
    h.answer("b", "replayed", number="m2")
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == set()


@settings(max_examples=200, deadline=None)
@given(plan=plans(), order=ORDERS, habits=HABITS, crash_at=CRASHES)
def test_requests_that_overtake_each_other_at_postfleet_are_right(
    plan: list[Ask], order: list[int], habits: Habits, crash_at: int | None
) -> None:
    contract = contract_named("postfleet")
    history, _ = play(contract, plan, order, fitting(habits, contract), crash_at)
    assert history.accusations == [], told(history)


# --- order inside intervals: a queue's worker may be faster than the answer to the caller -------------------


@pytest.fixture(params=["rasket", "pylota"])
def queue(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


def test_a_queue_may_hear_of_a_refusal_before_its_caller_has_read_the_answer(queue: History) -> None:
    h = queue
    h.send("first")
    h.provider_says("first", 422)
    h.answer("first")
    assert h.accusations == []


def test_a_queue_whose_connection_broke_before_its_caller_has_read_the_answer_lost_nothing(queue: History) -> None:
    h = queue
    h.send("first")
    h.provider_deaf("first")
    h.answer("first")
    assert h.accusations == []


def test_a_queue_killed_while_handing_over_may_have_answered_before_its_caller_reads_it(queue: History) -> None:
    h = queue
    h.send("first")
    made = h.hand_over("first")
    h.crash(made)
    h.answer("first")
    h.restart()
    assert h.accusations == []


def test_a_queue_replays_its_lost_acceptance_after_the_provider_refused(queue: History) -> None:
    h = queue
    h.send("first")
    h.ends("first", "lost")
    h.provider_says("first", 422)
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert h.accusations == []


@pytest.mark.parametrize("name", [n for n in CONTRACTS if n != "postfleet"])
@settings(max_examples=200, deadline=None)
@given(plan=plans(), order=ORDERS, habits=HABITS, crash_at=CRASHES)
def test_a_queue_of_any_speed_is_right(
    name: str, plan: list[Ask], order: list[int], habits: Habits, crash_at: int | None
) -> None:
    habits = replace(habits, queued=True, eager=True)
    history, _ = play(contract_named(name), plan, order, habits, crash_at)
    assert history.accusations == [], told(history)


# --- provider timeouts while the mail is held, with more than one attempt in flight -------------------------


@pytest.mark.parametrize("kind", ["unknown", "failed"])
def test_after_a_hang_up_the_retry_may_be_told_that_the_provider_does_not_answer(h: History, kind: str) -> None:
    h.send("first")
    made = h.commit(h.hand_over("first"))
    h.fired("provider.response", "hold", op="first")
    h.ends("first", "hung-up")
    h.send("retry", like="first")
    h.answer("retry", kind)
    h.tell(made, sent=False)
    assert h.accusations == []


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_both_of_two_at_once_may_be_told_that_the_provider_does_not_answer(h: History, order: tuple[str, str]) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.fired("provider.request", "hold", op="first")
    h.send("second", like="first")
    for name in order:
        h.answer(name, "unknown")
    h.commit(made)
    h.tell(made, sent=False)
    assert h.accusations == []


def test_a_target_may_give_up_on_its_provider_while_other_content_waits(h: History) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.fired("provider.request", "hold", op="first")
    h.send("second", op="other", key="key-first")
    h.answer("first", "unknown")
    h.answer("second", "conflict")
    h.commit(made)
    h.tell(made, sent=False)
    assert h.accusations == []


# --- swallowed content: R decides, and a rule that needs C is inconclusive (DESIGN, Attribution) ------------


def test_two_mails_to_one_person_that_cannot_be_told_apart_void_a_pass_and_accuse_nobody(h: History) -> None:
    h.send("first")
    h.deliver("first", ambiguous=True)
    h.answer("first")
    h.send("second", key="k2", to=["first@sendtwice.test"])
    h.deliver("first", ambiguous=True)
    h.answer("second", number="m2")
    assert h.judgement.voids
    assert h.accusations == []


# --- groups of equal content --------------------------------------------------------------------------------


def test_content_delivered_under_another_key_does_not_count_against_its_refusal_here(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.send("second", key="k2")
    h.deliver("second")
    h.answer("second", number="m2")
    h.send("mixed", op="mixed", key="k2", content="content of first", group="first")
    h.answer("mixed", "conflict")
    assert h.accusations == []


def test_a_replay_for_a_mailbox_that_shares_the_key_claims_no_second_mail() -> None:
    h = sent_once(History.under("rasket"))
    h.send("neighbour", like="first", op="neighbour", sender="other-mailbox", group="first")
    h.answer("neighbour", "replayed")
    assert h.accusations == []


def test_equal_content_for_one_and_for_two_recipients_is_counted_by_recipient(h: History) -> None:
    h.send("one", to=["r@sendtwice.test"])
    h.deliver("one")
    h.answer("one")
    h.send("two", op="two", key="k2", to=["r.1@sendtwice.test", "r.2@sendtwice.test"], group="one")
    h.deliver("two")
    h.answer("two", number="m2")
    assert h.accusations == []


# --- outcomes that are stored -------------------------------------------------------------------------------


def test_a_failure_of_its_own_that_a_target_stores_comes_back() -> None:
    h = History.under("postfleet")
    h.send("first")
    h.answer("first", "failed")
    h.send("again", like="first")
    h.answer("again", "failed")
    assert h.accusations == []


@pytest.mark.parametrize("status", [422, 429, 503])
def test_a_target_whose_provider_lied_about_a_mail_is_not_to_blame_for_the_second(h: History, status: int) -> None:
    h.send("first")
    h.provider_lies("first", status)
    h.answer("first", "refused" if status == 422 else "failed")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    assert "at-most-once" not in h.rules()
    assert "at-most-once-after-unknown" not in h.rules()


# --- a request that a proxy doubled -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["in_progress", "replayed"])
def test_an_attempt_that_arrived_twice_may_be_answered_as_its_own_repeat(h: History, kind: str) -> None:
    h.send("first")
    h.fired("client.request", "twice", op="first", attempt="first")
    h.deliver("first")
    h.answer("first", kind)
    assert h.accusations == []


def test_an_attempt_without_a_key_that_arrived_twice_may_be_two_mails() -> None:
    h = History.under("postfleet")
    h.send("first", key=None)
    h.fired("client.request", "twice", op="first", attempt="first")
    h.deliver("first")
    h.deliver("first")
    h.answer("first")
    assert h.accusations == []


# --- a plain refusal proves nothing -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["refused", "unauthorized"])
def test_a_declared_refusal_of_a_plain_first_send_is_inconclusive(strict: History, kind: str) -> None:
    h = strict
    h.send("first")
    h.answer("first", kind)
    assert h.accusations == []
    assert h.judgement.voids


@pytest.mark.parametrize("kind", ["rate_limited", "unauthorized"])
def test_a_retry_that_is_turned_away_after_a_lost_request_shows_nothing_of_the_key(strict: History, kind: str) -> None:
    h = strict
    h.send("first")
    h.ends("first", never_arrived=True)
    h.send("first~1", like="first")
    h.answer("first~1", kind)
    h.finish("first", "first~1", definite=False)
    assert h.accusations == []


# --- recipients as the target writes them -------------------------------------------------------------------


@pytest.mark.parametrize("written", ["FIRST@sendtwice.test", "first@SENDTWICE.test", "first+tag@sendtwice.test"])
def test_a_recipient_written_in_another_way_is_the_same_person(h: History, written: str) -> None:
    h.send("first")
    h.deliver("first", to=[written])
    h.answer("first")
    assert h.accusations == []


def test_a_mail_to_a_fixed_address_that_is_known_by_its_content_was_delivered(h: History) -> None:
    h.send("first")
    h.deliver("first", to=["desk@fixed.test"])
    h.answer("first")
    h.expect(deliveries=[[["first"], [1, 1]]])
    assert h.accusations == []


# --- what the contract does not say is never judged ---------------------------------------------------------


def test_where_nobody_says_whether_a_key_is_required_a_send_without_one_may_be_refused() -> None:
    h = History.under("ietf-07")
    h.send("first", key=None)
    h.answer("first", "key_missing")
    assert h.rules(Level.SHOULD) == set()


def test_where_a_contract_folds_keys_two_that_differ_in_case_are_one(strict: History) -> None:
    h = strict
    folded: Claim[str] = Claim(value="folded")
    key = h.contract.key.model_copy(update={"case": folded})
    h.contract = h.contract.model_copy(update={"key": key})
    h.send("one", key="k-abc")
    h.deliver("one")
    h.answer("one")
    h.send("two", key="K-ABC")
    h.answer("two", "conflict")
    assert h.accusations == []


def test_tenants_that_each_count_their_mails_from_one_share_nothing(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first", number="1")
    h.send("stranger", key="k2", sender="other-tenant")
    h.deliver("stranger")
    h.answer("stranger", number="1")
    assert h.accusations == []


# === Missed =================================================================================================


def test_an_observation_does_not_take_the_place_of_an_expectation() -> None:
    h = History.under("rasket")
    h.send("first")
    h.provider_silent("first")
    h.answer("first", "unknown")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    h.expect(deliveries=[[["first"], [1, 1]]])
    assert "at-most-once-after-unknown" in h.rules(Level.OBSERVE)
    assert h.rules() == {"expected"}


def test_two_false_conflicts_do_not_excuse_each_other(strict: History) -> None:
    h = strict
    h.send("first")
    h.send("b", like="first")
    h.send("c", like="first")
    h.deliver("first")
    h.answer("b", "conflict")
    h.answer("c", "conflict")
    h.answer("first")
    assert h.rules() == {"no-false-conflict"}


def test_two_ids_for_two_at_once_are_no_replay(strict: History) -> None:
    h = strict
    h.send("a")
    h.send("b", like="a")
    h.deliver("a")
    h.answer("a", "accepted", number="m1")
    h.answer("b", "replayed", number="m2")
    assert "replay-fidelity" in h.rules()


@pytest.mark.parametrize("name", ["universal", "ietf-07"])
def test_a_claimed_success_without_a_key_and_without_a_mail_is_lost(name: str) -> None:
    h = History.under(name)
    h.send("first", key=None)
    h.answer("first")
    assert h.rules() == {"no-lost-send"}


def test_a_swallowed_mail_shows_whose_answer_it_got_whoever_asked_first(h: History) -> None:
    h.send("stranger", key="key-first", sender="other-tenant")
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.answer("stranger", "replayed")
    assert "isolation" in h.rules()


def test_a_swallowed_mail_shows_whose_answer_it_got_though_the_owners_first_answer_was_lost(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.ends("first", "lost")
    h.send("stranger", key="key-first", sender="other-tenant")
    h.answer("stranger", "replayed")
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    (found,) = (f for f in h.judgement.findings if f.rule == "isolation")
    assert found.level is Level.MUST
    assert found.operation == "stranger"


def test_a_mail_is_lost_though_other_content_was_refused_meanwhile(h: History) -> None:
    h.send("first")
    h.send("changed", op="changed", key="key-first")
    h.answer("changed", "conflict")
    h.answer("first")
    assert "no-lost-send" in h.rules()


@pytest.mark.parametrize("name", ["universal", "resend", "ietf-07"])
def test_a_success_with_an_id_of_its_own_claims_a_mail_though_others_used_the_key(name: str) -> None:
    h = sent_once(History.under(name))
    h.send("stranger", key="key-first", sender="other-tenant")
    h.answer("stranger", number="m2")
    assert h.rules() == {"no-lost-send"}


@pytest.mark.parametrize(("unknown", "weight"), [("stored", Level.MUST), ("kept", Level.SHOULD)])
def test_a_key_of_a_dead_process_that_never_began_to_send_is_stuck_after_its_lease(unknown: str, weight: Level) -> None:
    """Where an unknown outcome is told as in progress, it may have been lost just before its first byte."""
    h = History.under("pylota")
    lease: Claim[float] = Claim(value=2.0)
    outcomes = h.contract.outcomes.model_copy(update={"unknown": Claim[str](value=unknown)})
    h.contract = h.contract.model_copy(update={"lease": Lease(lasts=lease), "outcomes": outcomes})
    h.send("first")
    h.crash(broken=["first"])
    h.restart()
    h.wait(4.0)
    h.send("first~1", like="first")
    h.answer("first~1", "in_progress")
    h.finish("first", "first~1", definite=False, waited=4.0)
    assert h.rules(weight) == {"progress"}
    assert h.rules() == ({"progress"} if weight is Level.MUST else set())


@pytest.mark.parametrize("kind", ["in_progress", "failed", "refused"])
def test_a_finished_send_is_replayed_after_a_restart(kind: str) -> None:
    h = sent_once(History.under("rasket"))
    h.settle()
    h.crash()
    h.restart()
    for n in range(3):
        h.send(f"first~{n}", like="first")
        h.answer(f"first~{n}", kind)
    h.finish("first", "first~2", definite=False)
    assert h.rules() == {"replay-fidelity"}


@pytest.mark.parametrize("kind", ["failed", "refused"])
def test_trouble_that_is_over_excuses_nothing_that_comes_after_the_success(strict: History, kind: str) -> None:
    h = strict
    h.send("first")
    h.provider_says("first", 503)
    h.answer("first", "failed")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    h.send("again", like="first")
    h.answer("again", kind)
    assert h.rules() & {"replay-fidelity", "refusal-policy"}


def test_a_queue_that_is_killed_may_not_have_read_the_providers_answer_though_all_was_quiet() -> None:
    h = History.under("rasket")
    h.send("first")
    h.answer("first")
    h.deliver("first")
    h.settle()
    h.crash()
    h.restart()
    h.deliver("first")
    assert h.rules() == set()
    assert h.rules(Level.OBSERVE) == {"at-most-once-after-unknown"}


def test_a_target_without_approvals_that_calls_everything_a_draft_shows_nothing() -> None:
    h = History.under("postfleet")
    h.send("first")
    h.answer("first", "pending")
    assert h.judgement.voids or h.accusations


def test_fields_in_another_order_are_judged_only_where_the_contract_speaks_of_it() -> None:
    # The runner notes of an attempt neither its bytes nor that its fields were reordered, so the judge cannot know.
    h = sent_once(History.under("resend"))
    h.send("again", like="first")
    h.events[-2] = replace(h.events[-2], data={**h.events[-2].data, "reordered": True})
    assert h.events[-2].kind is Kind.ATTEMPT
    h.answer("again", "conflict")
    assert h.accusations == []


# === Scenario files: names that pass the check and mean nothing =============================================


@pytest.mark.parametrize(
    ("lines", "tail"),
    [
        # Held against nothing, this says "b: 0 delivered where the scenario expects 1" of every target.
        (
            ["send: {as: first}", "send: {as: retry, like: first}", "send: {as: third, like: retry}"],
            "{deliveries: {retry: 1}}",
        ),
        (["send: {as: a, op: o}", "send: {as: b, like: a}"], "{deliveries: {a: 1}}"),
        (["send: {as: a}", "check: {deliveries: {b: 1}}"], "{}"),
        (["send: {as: a}", "check: {answers: {b: accepted}}"], "{}"),
        (["send: {as: a}"], "{told: {b: sent}}"),
        # The second of one name takes the place of the first in the history.
        (["send: {as: a}", "send: {as: a, key: other}"], "{}"),
    ],
)
def test_a_scenario_whose_names_mean_nothing_is_refused(lines: list[str], tail: str) -> None:
    text = (
        "id: t.x\ntitle: A test\nrole: api\nsteps:\n" + "".join(f"  - {line}\n" for line in lines) + f"expect: {tail}\n"
    )
    with pytest.raises(BadFileError):
        parse(text)
