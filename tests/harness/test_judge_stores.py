"""When a target's store fails it: what a sound target may do then, and what it still must not."""

from typing import Any

import pytest

from sendtwice.fake_provider.contracts import Claim, Level
from sendtwice.fake_provider.contracts.groups import Lease
from sendtwice.harness.history import Kind
from tests.harness.histories import CONTRACTS, STRICT, History, contract_named

PLACES = ("store.request", "store.response")
#: What ends a connection to the store.
CUTS = ("reset", "close", "lose", "cut")


@pytest.fixture(params=CONTRACTS)
def h(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


@pytest.fixture(params=STRICT)
def strict(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


def said(name: str, **claims: Any) -> History:
    """A history under a contract that says this and otherwise what it says."""
    return History(contract_named(name).model_copy(update={k: Claim[Any](value=v) for k, v in claims.items()}))


def leased(name: str, lasts: float, then: Any = "execute", late: Any = "commits") -> History:
    lease = Lease(lasts=Claim(value=lasts), then=Claim(value=then), late_original=Claim(value=late))
    return History(contract_named(name).model_copy(update={"lease": lease}))


def fails_at_claim(h: History, verb: str = "reset", place: str = "store.request", told: str = "failed") -> History:
    h.send("first")
    h.store_fails(verb, place)
    h.answer("first", told)
    return h


def fails_at_result(h: History, told: str = "failed") -> History:
    h.send("first")
    h.store_works("SET NX")
    h.deliver("first")
    h.store_fails()
    h.answer("first", told)
    return h


# --- at the claim ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("verb", CUTS)
def test_without_its_store_a_target_refuses_before_any_effect(h: History, verb: str, place: str) -> None:
    fails_at_claim(h, verb, place)
    h.send("retry", like="first")
    h.store_works()
    h.deliver("first")
    h.answer("retry")
    h.send("again", like="first")
    h.answer("again", "replayed")
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == set()


def test_a_failure_by_the_store_voids_no_pass(h: History) -> None:
    fails_at_claim(h)
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    assert h.judgement.voids == ()


def test_a_failure_without_a_fault_still_shows_nothing(h: History) -> None:
    h.send("first")
    h.store_works()
    h.answer("first", "failed")
    assert len(h.judgement.voids) == 1


@pytest.mark.parametrize("told", ["in_progress", "unknown", "failed"])
def test_a_claim_of_which_its_owner_never_heard_may_hold_the_key(h: History, told: str) -> None:
    fails_at_claim(h, place="store.response")
    for n in range(3):
        h.send(f"first~{n}", like="first")
        h.answer(f"first~{n}", told)
    h.finish("first", "first~2", definite=False)
    assert h.accusations == []


def test_who_finds_its_own_claim_may_call_it_in_progress_and_have_left_it(strict: History) -> None:
    h = fails_at_claim(strict, place="store.response", told="in_progress")
    h.send("changed", op="changed", key="key-first")
    h.answer("changed", "conflict")
    assert h.accusations == []


def test_who_finds_its_own_record_may_replay_it(h: History) -> None:
    """A driver that says its transaction again finds what the first one wrote."""
    h.send("first")
    h.store_fails("reset", "store.response")
    h.store_works(wire=2)
    h.deliver("first")
    h.answer("first", "replayed")
    assert h.accusations == []


def test_a_first_answer_that_is_marked_as_a_replay_is_odd_in_fair_weather() -> None:
    h = History.under("rasket")
    h.send("first")
    h.store_works()
    h.deliver("first")
    h.answer("first", "replayed")
    assert h.rules() == {"replay-fidelity"}


def test_the_claim_that_failed_leaves_no_second_mail_open(h: History) -> None:
    """It sent without a claim, told its caller that it had failed, and sent again."""
    h.send("first")
    h.store_fails()
    h.deliver("first")
    h.answer("first", "failed")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    # Where a failure of the server's own frees the key, whatever had been done, the contract has a hole (R20).
    freed = h.contract.outcomes.server_error.says("released")
    assert "at-most-once" in h.rules(Level.HOLE if freed else Level.MUST)


def test_a_target_that_sends_unguarded_and_claims_success_sends_twice(h: History) -> None:
    h.send("first")
    h.store_fails()
    h.deliver("first")
    h.answer("first")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


def test_a_contract_that_fails_open_has_a_hole_and_its_target_no_fault() -> None:
    h = said("postfleet", store_failure="open")
    h.send("first")
    h.store_fails()
    h.deliver("first")
    h.answer("first")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert h.accusations == []
    assert "at-most-once" in h.rules(Level.HOLE)


def test_a_contract_that_fails_open_excuses_nothing_while_the_store_is_well() -> None:
    h = said("postfleet", store_failure="open")
    h.send("first")
    h.store_works()
    h.deliver("first")
    h.answer("first")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


@pytest.mark.parametrize("told", ["accepted", "replayed"])
def test_a_claim_that_nobody_owns_is_no_mail(h: History, told: str) -> None:
    """Found by the retry, and taken for a send that was made."""
    fails_at_claim(h, place="store.response")
    h.send("retry", like="first")
    h.answer("retry", told)
    assert "no-lost-send" in h.rules()


def test_a_store_that_fails_each_retry_is_no_standstill(h: History) -> None:
    h.send("first")
    h.store_fails()
    h.answer("first", "failed")
    for n in range(3):
        h.send(f"first~{n}", like="first")
        h.store_fails()
        h.answer(f"first~{n}", "failed")
    h.finish("first", "first~2", definite=False)
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == set()


def test_the_connection_is_refused_and_nothing_else_is_wrong(h: History) -> None:
    h.send("first")
    h.note(Kind.FIRED, fault="store.request (db connect): reset", place="store.request", verb="reset", stage="connect")
    h.answer("first", "failed")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    assert h.accusations == []
    assert h.judgement.voids == ()


# --- at the result --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", ["failed", "unknown", "accepted"])
@pytest.mark.parametrize("later", ["in_progress", "unknown", "failed", "replayed"])
def test_with_the_mail_out_and_no_record_of_it_any_honest_answer_is_right(h: History, told: str, later: str) -> None:
    fails_at_result(h, told)
    for n in range(2):
        h.send(f"first~{n}", like="first")
        h.answer(f"first~{n}", later)
    h.finish("first", "first~1", definite=later == "replayed")
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == set()


def test_the_retry_after_a_result_that_was_not_written_sends_no_second_mail(h: History) -> None:
    fails_at_result(h)
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    freed = h.contract.outcomes.server_error.says("released")
    assert "at-most-once" in h.rules(Level.HOLE if freed else Level.MUST)
    assert "at-most-once-after-unknown" not in h.rules()


def test_nobody_may_send_again_what_was_told_as_sent(h: History) -> None:
    fails_at_result(h, "accepted")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


@pytest.mark.parametrize("name", ["universal", "postfleet"])
def test_a_failure_that_frees_no_key_excuses_no_second_mail(name: str) -> None:
    h = fails_at_result(History.under(name))
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


def test_a_claim_whose_result_was_never_written_lapses_where_the_contract_says_so() -> None:
    h = fails_at_result(leased("pylota", 5.0))
    h.wait(6)
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert h.accusations == []
    assert "at-most-once" in h.rules(Level.HOLE)


@pytest.mark.parametrize(("waited", "then"), [(1.0, "execute"), (6.0, "resume")])
def test_a_claim_that_has_not_lapsed_or_is_resumed_lets_nobody_send_again(waited: float, then: str) -> None:
    h = fails_at_result(leased("pylota", 5.0, then))
    h.wait(waited)
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


@pytest.mark.parametrize("name", ["rasket", "resend"])  # whose refusals look like nothing else
def test_what_is_refused_for_good_is_not_out(name: str) -> None:
    h = fails_at_result(History.under(name), "refused")
    assert "no-effect" in h.rules()


def test_another_id_after_a_record_that_was_lost_is_nobodys_fault(h: History) -> None:
    """The provider deduplicates: the mail is handed over again, and is no second one."""
    fails_at_result(h, "accepted")
    h.send("retry", like="first")
    h.tell(h.hand_over("first"))
    h.answer("retry", "accepted", number="m2")
    assert h.accusations == []


def test_another_id_with_its_store_in_order_is_no_replay(strict: History) -> None:
    h = strict
    h.send("first")
    h.store_works()
    h.deliver("first")
    h.answer("first")
    h.send("retry", like="first")
    h.store_works()
    h.answer("retry", "replayed", number="m2")
    assert "replay-fidelity" in h.rules()


# --- when a repeat is looked up -------------------------------------------------------------------------------------


def sent(h: History, number: str = "m1") -> History:
    h.send("first")
    h.store_works()
    h.deliver("first")
    h.answer("first", number=number)
    return h


@pytest.mark.parametrize("place", PLACES)
def test_a_repeat_that_cannot_be_looked_up_may_fail(h: History, place: str) -> None:
    sent(h)
    h.send("retry", like="first")
    h.store_fails("reset", place)
    h.answer("retry", "failed")
    h.send("retry~1", like="first")
    h.store_works(wire=2)
    h.answer("retry~1", "replayed")
    assert h.accusations == []


def test_a_repeat_that_cannot_be_looked_up_is_not_sent(h: History) -> None:
    sent(h)
    h.send("retry", like="first")
    h.store_fails()
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


def test_a_repeat_in_fair_weather_after_a_storm_that_was_over_is_replayed(strict: History) -> None:
    h = fails_at_claim(strict)
    h.send("retry", like="first")
    h.store_works()
    h.deliver("first")
    h.answer("retry")
    h.send("again", like="first")
    h.store_works()
    h.answer("again", "failed")
    assert h.rules()


@pytest.mark.parametrize("kind", ["failed", "unknown"])
def test_a_bad_request_may_fail_as_well_when_nothing_can_be_looked_up(h: History, kind: str) -> None:
    h.send("long", key="k" * 300, problem="too long")
    h.store_fails()
    h.answer("long", kind)
    h.send("wrong", invalid=True)
    h.store_fails()
    h.answer("wrong", "failed")
    assert h.accusations == []


def test_a_bad_key_that_a_storm_let_through_is_still_a_bad_key() -> None:
    h = History.under("rasket")
    h.send("long", key="k" * 300, problem="too long")
    h.store_fails()
    h.deliver("long")
    h.answer("long", "accepted")
    assert h.rules() == {"key-syntax"}


# --- other content, other tenants -----------------------------------------------------------------------------------


def test_other_content_may_have_the_key_that_a_failed_claim_left_free(h: History) -> None:
    fails_at_claim(h)
    h.send("changed", op="changed", key="key-first")
    h.deliver("changed")
    h.answer("changed", number="m2")
    assert h.accusations == []


def test_other_content_may_find_the_claim_that_nobody_owns(strict: History) -> None:
    h = fails_at_claim(strict, place="store.response")
    h.send("changed", op="changed", key="key-first")
    h.answer("changed", "conflict")
    assert h.accusations == []


def test_other_content_is_not_sent_under_a_key_that_was_told_as_sent(h: History) -> None:
    fails_at_result(h, "accepted")
    h.send("changed", op="changed", key="key-first")
    h.deliver("changed")
    h.answer("changed", number="m2")
    assert "conflict" in h.rules(h.contract.levels.get("conflict", Level.MUST))


def test_no_storm_shows_a_tenant_the_answer_of_another(h: History) -> None:
    sent(h)
    h.send("stranger", key="key-first", sender="other-tenant")
    h.store_fails()
    h.answer("stranger", "replayed")
    assert "isolation" in h.rules()


# --- stuck ----------------------------------------------------------------------------------------------------------


def stuck(h: History, waited: float, unknown: str = "stored") -> History:
    outcomes = h.contract.outcomes.model_copy(update={"unknown": Claim[str](value=unknown)})
    h.contract = h.contract.model_copy(update={"outcomes": outcomes})
    fails_at_claim(h, place="store.response")
    h.wait(waited)
    h.send("first~1", like="first")
    h.answer("first~1", "in_progress")
    h.finish("first", "first~1", definite=False, waited=waited)
    return h


@pytest.mark.parametrize(("waited", "found"), [(1.0, False), (6.0, True)])
def test_a_claim_that_nobody_owns_lapses_with_its_lease(waited: float, found: bool) -> None:
    h = stuck(leased("pylota", 5.0), waited)
    assert ("progress" in h.rules()) is found


def test_where_an_unknown_outcome_is_called_in_progress_a_lost_owner_is_only_a_shortcoming() -> None:
    h = stuck(leased("pylota", 5.0), 6.0, "kept")
    assert h.accusations == []
    assert "progress" in h.rules(Level.SHOULD)


def test_a_lease_counts_from_the_last_storm() -> None:
    h = leased("pylota", 5.0)
    fails_at_claim(h, place="store.response")
    h.wait(6)
    h.send("first~1", like="first")
    h.store_fails("reset", "store.response")
    h.answer("first~1", "failed")
    h.send("first~2", like="first")
    h.answer("first~2", "in_progress")
    h.finish("first", "first~2", definite=False, waited=6.0)
    assert h.accusations == []


# --- a queue --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["rasket", "pylota", "universal"])
def queue(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


def test_a_queue_may_deliver_what_its_caller_was_told_had_failed(queue: History) -> None:
    """The commit was made, and its answer lost."""
    h = fails_at_claim(queue, place="store.response")
    h.deliver("first")
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert h.accusations == []


def test_a_queue_whose_store_fails_its_worker_may_leave_the_mail_unknown(queue: History) -> None:
    """It noted "handing over", and did not hear that it had."""
    h = queue
    h.send("first")
    h.store_works()
    h.answer("first")
    h.store_fails("reset", "store.response")
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert h.accusations == []
    assert "no-lost-send" in h.rules(Level.SHOULD)


def test_a_queue_whose_callers_answer_was_lost_is_excused_as_well(queue: History) -> None:
    h = queue
    h.send("first")
    h.store_works()
    h.ends("first", "lost")
    h.store_fails("reset", "store.response")
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert h.accusations == []


def test_a_queue_that_only_failed_its_caller_has_no_excuse_for_a_lost_mail(queue: History) -> None:
    h = fails_at_claim(queue, place="store.response")
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert "no-lost-send" in h.rules()


def test_who_hands_over_before_it_answers_lost_what_it_claims(strict: History) -> None:
    h = History(strict.contract.model_copy(update={"delivery": Claim[str](value="inline")}))
    h.send("first")
    h.store_fails()
    h.answer("first")
    assert "no-lost-send" in h.rules()


# --- messages that are held -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["hold", "delay"])
@pytest.mark.parametrize("place", PLACES)
def test_who_gives_up_on_its_store_may_fail(h: History, verb: str, place: str) -> None:
    h.send("first")
    h.store_fails(verb, place)
    h.answer("first", "failed")
    h.send("retry", like="first")
    h.answer("retry", "in_progress")
    h.send("retry~1", like="first")
    h.deliver("first")
    h.answer("retry~1")
    assert h.accusations == []
    assert h.judgement.voids == ()


@pytest.mark.parametrize("later", ["in_progress", "unknown", "failed", "replayed"])
def test_who_answers_while_its_result_is_held_may_never_have_written_it(h: History, later: str) -> None:
    h.send("first")
    h.store_works()
    h.deliver("first")
    h.store_fails("hold")
    h.answer("first")
    h.send("retry", like="first")
    h.store_works(wire=2)
    h.answer("retry", later)
    h.finish("first", "retry", definite=later == "replayed")
    assert h.accusations == []


def raced(h: History, loser: str, status: int | None = None) -> History:
    """One is held at its claim while the other is sent; then it is let go."""
    h.send("a")
    h.store_fails("hold")
    h.send("b", like="a")
    h.store_works(wire=2)
    h.deliver("a")
    h.answer("b")
    h.wait(1)
    h.store_says("ERROR unique", wire=1)
    h.answer("a", loser, status=status)
    return h


@pytest.mark.parametrize("loser", ["replayed", "in_progress"])
def test_who_was_held_and_lost_the_race_is_told_so(h: History, loser: str) -> None:
    assert raced(h, loser).accusations == []


def test_who_was_held_and_lost_the_race_does_not_fail(strict: History) -> None:
    assert "in-progress" in raced(strict, "failed", 500).rules()


def test_who_was_held_and_sends_after_the_other_sends_twice(h: History) -> None:
    h.send("a")
    h.store_fails("hold", "store.response")
    h.send("b", like="a")
    h.store_works(wire=2)
    h.deliver("a")
    h.answer("b")
    h.store_works(wire=1)
    h.deliver("a")
    h.answer("a", number="m2")
    assert "at-most-once" in h.rules()


@pytest.mark.parametrize("kind", ["failed", "in_progress"])
def test_who_waits_for_what_is_held_may_give_up_in_the_moment_of_the_release(h: History, kind: str) -> None:
    h.send("a")
    h.store_fails("hold")
    h.send("b", like="a")
    h.store_says(wire=1)
    h.answer("b", kind)
    h.deliver("a")
    h.answer("a")
    assert h.accusations == []


def test_a_message_that_was_only_held_excuses_nothing_later(strict: History) -> None:
    h = strict
    h.send("first")
    h.store_fails("hold")
    h.wait(1)
    h.store_says(wire=1)
    h.deliver("first")
    h.answer("first")
    h.send("retry", like="first")
    h.store_works()
    h.answer("retry", "failed")
    assert h.rules()


def test_of_those_that_met_while_a_message_was_held_one_is_still_the_first(strict: History) -> None:
    h = strict
    h.send("a")
    h.store_fails("hold")
    h.send("b", like="a")
    h.answer("b", "in_progress")
    h.store_says(wire=1)
    h.wait(1)
    h.send("c", like="a")
    h.answer("c", "in_progress")
    h.answer("a", "conflict")
    assert h.rules()


# --- store messages that no fault met -------------------------------------------------------------------------------


def test_messages_to_a_store_change_nothing(h: History) -> None:
    h.send("first")
    h.store_works()
    made = h.hand_over("first")
    h.asks_store("POLL", wire=2)
    h.tell(h.commit(made))
    h.store_works()
    h.store_says(wire=2)
    h.answer("first")
    h.send("retry", like="first")
    h.store_works()
    h.answer("retry", "replayed")
    before = h.judgement
    h.events = [e for e in h.events if not e.kind.startswith("store.")]
    assert h.judgement == before
    assert before.findings == ()
