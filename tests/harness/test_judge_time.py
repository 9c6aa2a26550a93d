"""Time: how long a key is remembered, and a claim in flight, as the judge sees it."""

from typing import Any

import pytest

from sendtwice.fake_provider.contracts import Claim, Contract, Level
from sendtwice.fake_provider.contracts.groups import Lease, Retention
from sendtwice.harness.history import Kind
from tests.harness.histories import History, contract_named

HOUR = 3600.0


def keeping(name: str = "resend", **retention: Any) -> History:
    """A history under a contract with this retention and no other."""
    contract = contract_named(name)
    return History(contract.model_copy(update={"retention": Retention.model_validate(retention)}))


def after(h: History, seconds: float, *, sends_again: bool, answer: str) -> History:
    """A send, some time, and the same request again."""
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.settle()
    h.advance(seconds)
    h.send("again", like="first")
    if sends_again:
        h.deliver("first")
    h.answer("again", answer, number="m2" if sends_again else "m1")
    return h


RANGE: dict[str, Any] = {"at_least": 24 * HOUR, "at_most": 25 * HOUR}


def test_before_the_floor_a_key_is_remembered() -> None:
    assert after(keeping(**RANGE), 23 * HOUR, sends_again=False, answer="replayed").accusations == []
    assert after(keeping(**RANGE), 23 * HOUR, sends_again=True, answer="accepted").rules() >= {"expiry"}


def test_between_floor_and_ceiling_either_is_right() -> None:
    for sends_again, answer in ((False, "replayed"), (True, "accepted")):
        h = after(keeping(**RANGE), 24.5 * HOUR, sends_again=sends_again, answer=answer)
        assert h.accusations == []


def test_after_the_ceiling_it_is_a_new_send() -> None:
    assert after(keeping(**RANGE), 26 * HOUR, sends_again=True, answer="accepted").accusations == []
    assert "expiry" in after(keeping(**RANGE), 26 * HOUR, sends_again=False, answer="replayed").rules()


def test_where_nobody_says_how_long_a_key_is_kept_time_excuses_everything() -> None:
    for sends_again, answer in ((False, "replayed"), (True, "accepted")):
        assert after(keeping(), 9000 * HOUR, sends_again=sends_again, answer=answer).accusations == []


def test_only_a_floor_that_has_not_passed_is_held_against_a_target() -> None:
    floor: dict[str, Any] = {"at_least": HOUR}
    for sends_again, answer in ((False, "replayed"), (True, "accepted")):
        assert after(keeping(**floor), 2 * HOUR, sends_again=sends_again, answer=answer).accusations == []
    assert "expiry" in after(keeping(**floor), HOUR / 2, sends_again=True, answer="accepted").rules()


def test_a_key_that_is_used_again_may_start_anew() -> None:
    """Whether the time runs from the last use is not said, so nobody is forgotten for certain."""
    h = keeping(**RANGE)
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.advance(23 * HOUR)
    h.send("again", like="first")
    h.answer("again", "replayed")
    h.advance(23 * HOUR)
    h.send("late", like="first")
    h.answer("late", "replayed")
    assert h.accusations == []


def test_from_the_first_receipt_it_does_not_start_anew() -> None:
    h = keeping(**RANGE, **{"from": "first-receipt"})
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.advance(23 * HOUR)
    h.send("again", like="first")
    h.answer("again", "replayed")
    h.settle()
    h.advance(23 * HOUR)
    h.send("late", like="first")
    h.answer("late", "replayed")
    assert "expiry" in h.rules()


def test_a_key_whose_first_request_still_runs_is_never_forgotten_for_certain() -> None:
    h = keeping(**RANGE)
    h.send("first")
    made = h.hand_over("first")
    h.advance(30 * HOUR)
    h.send("again", like="first")
    h.answer("again", "in_progress")
    h.tell(h.commit(made))
    h.answer("first")
    assert h.accusations == []


def test_where_a_late_request_is_refused_it_sends_nothing() -> None:
    refusing: dict[str, Any] = {**RANGE, "then": "refuse"}
    good = after(keeping("acs-email", **refusing), 26 * HOUR, sends_again=False, answer="expired")
    assert good.accusations == []
    bad = after(keeping("acs-email", **refusing), 26 * HOUR, sends_again=True, answer="accepted")
    assert "expiry" in bad.rules()


def test_other_content_after_the_end_is_no_conflict() -> None:
    h = keeping(**RANGE)
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.advance(26 * HOUR)
    h.send("other", op="other", key="key-first")
    h.deliver("other")
    h.answer("other", number="m2")
    assert h.accusations == []


# --- the lease ------------------------------------------------------------------------------------------------


def lapsing(contract: Contract, **lease: Any) -> History:
    return History(contract.model_copy(update={"lease": Lease.model_validate(lease)}))


def slow_first(h: History, seconds: float) -> History:
    """The first is held at the provider; after some time a repeat sends, and then the first goes through as well."""
    h.send("first")
    made = h.hand_over("first")
    h.advance(seconds)
    h.send("again", like="first")
    h.deliver("first")
    h.answer("again", number="m2")
    h.tell(h.commit(made))
    h.answer("first", number="m1")
    return h


def test_two_mails_after_a_lease_are_the_contracts_own_hole() -> None:
    h = slow_first(lapsing(contract_named("novu"), lasts=300, then="execute", late_original="commits"), 301)
    assert "at-most-once" not in h.rules()
    assert "at-most-once" in h.rules(Level.HOLE)


@pytest.mark.parametrize(
    "lease", [{"lasts": 300, "then": "execute", "late_original": "fenced"}, {"lasts": 300, "then": "refuse"}]
)
def test_a_contract_that_fences_or_refuses_permits_one_mail(lease: dict[str, Any]) -> None:
    assert "at-most-once" in slow_first(lapsing(contract_named("novu"), **lease), 301).rules()


def test_after_a_lapsed_lease_the_record_may_be_of_one_whose_answer_was_lost() -> None:
    """It is the one that is replayed from then on, under an id that nobody has seen before."""
    h = lapsing(contract_named("svix"), lasts=5, then="execute", late_original="commits")
    h.send("first")
    made = h.hand_over("first")
    h.send("lost", like="first")
    h.advance(6)
    h.deliver("first")
    h.ends("lost")
    h.tell(h.commit(made))
    h.answer("first", number="m1")
    for name in ("again", "once-more"):
        h.send(name, like="first")
    for name in ("again", "once-more"):
        h.answer(name, "replayed", number="m2")
    assert h.accusations == []


def test_before_the_lease_is_over_a_claim_holds() -> None:
    h = slow_first(lapsing(contract_named("novu"), lasts=300, then="execute", late_original="commits"), 100)
    assert "at-most-once" in h.rules()


def test_a_lease_of_which_nothing_is_said_is_only_observed() -> None:
    h = slow_first(lapsing(contract_named("resend")), 10_000)
    assert "at-most-once" not in h.rules()
    assert "at-most-once" in h.rules(Level.OBSERVE)


def test_without_a_moved_clock_no_time_passes() -> None:
    unknown: Claim[float] = Claim.model_validate("unknown")
    h = History(contract_named("resend").model_copy(update={"lease": Lease(lasts=unknown)}))
    h.send("first")
    made = h.hand_over("first")
    h.send("again", like="first")
    h.deliver("first")
    h.answer("again", number="m2")
    h.tell(h.commit(made))
    h.answer("first", number="m1")
    assert "at-most-once" in h.rules()


def test_the_other_copy_of_a_doubled_request_may_still_run_when_its_lease_is_over() -> None:
    h = History.under("svix")
    h.send("first")
    h.fired("client.request", "twice", op="first", attempt="first")
    h.provider_deaf("first")
    h.answer("first", "unknown")
    h.advance(6)
    h.send("first~1", like="first")
    h.deliver("first")
    h.deliver("first")
    h.answer("first~1", number="m2")
    assert h.accusations == []
    assert "at-most-once" in h.rules(Level.HOLE)


def test_each_scope_remembers_a_key_for_itself() -> None:
    h = keeping("rasket", at_least=24 * HOUR, at_most=24 * HOUR, **{"from": "completion"})
    for name, sender in (("neighbour", "other-tenant"), ("first", "main")):
        h.send(name, op=name, key="k", sender=sender)
        h.answer(name, number=name)
        if name == "neighbour":
            h.deliver(name)
            h.wait(1)
            h.advance(HOUR)
    h.provider_deaf("first", verb="close")  # which it hears of when an hour has passed
    h.advance(23 * HOUR + 30)
    h.send("neighbour~1", like="neighbour")
    h.deliver("neighbour")
    h.answer("neighbour~1", number="n2")
    h.send("first~1", like="first")
    h.answer("first~1", "replayed", number="first")
    assert h.accusations == []


# --- a clock that may have stood still ------------------------------------------------------------------------------


def stood_still(h: History) -> History:
    h.note(Kind.VOID, reason="its clock did not move", clock=True)
    return h


def test_who_never_saw_the_time_pass_forgot_nothing() -> None:
    h = after(keeping(**RANGE), 26 * HOUR, sends_again=False, answer="replayed")
    h.expect(answers=[[["again"], ["accepted"]]], deliveries=[[["first"], [2, 2]]])
    assert {"expiry", "expected"} <= h.rules()
    assert stood_still(h).accusations == []
    assert h.rules(Level.SHOULD) == set()
    assert h.judgement.voids == ("its clock did not move",)


def test_who_never_saw_the_time_pass_kept_its_lease() -> None:
    contract = contract_named("resend")
    lease: Claim[float] = Claim(value=60.0)
    outcomes = contract.outcomes.model_copy(update={"unknown": Claim[Any](value="stored")})
    h = History(contract.model_copy(update={"lease": Lease(lasts=lease), "outcomes": outcomes}))
    h.send("first")
    h.crash(broken=["first"])
    h.restart()
    h.advance(90)
    h.send("first~1", like="first")
    h.answer("first~1", "in_progress")
    h.finish("first", "first~1", definite=False)
    assert h.rules() == {"progress"}
    assert stood_still(h).accusations == []


def test_a_second_mail_is_one_too_many_whatever_the_clock_did() -> None:
    h = History.under("resend")
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.send("again", like="first")
    h.deliver("first")
    h.answer("again", number="m2")
    h.advance(26 * HOUR)
    assert "at-most-once" in stood_still(h).rules()


@pytest.mark.parametrize("really", [True, False])
def test_a_lease_of_which_only_the_target_file_speaks_may_go_by_a_clock_that_nobody_moves(really: bool) -> None:
    contract = contract_named("resend")
    outcomes = contract.outcomes.model_copy(update={"unknown": Claim[Any](value="stored")})
    h = History(contract.model_copy(update={"outcomes": outcomes}), lease=60.0)
    h.send("first")
    h.crash(broken=["first"])
    h.restart()
    if really:
        h.wait(90)
    else:
        h.advance(90)
    h.send("first~1", like="first")
    h.answer("first~1", "in_progress")
    h.finish("first", "first~1", definite=False)
    assert ("progress" in h.rules()) is really
