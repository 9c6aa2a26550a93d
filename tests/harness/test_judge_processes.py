"""When a target sleeps, is told to end, or loses an instance: what it may do then, and what it still must not."""

from typing import Any

import pytest

from sendtwice.fake_provider.contracts import Claim, Level
from sendtwice.fake_provider.contracts.groups import Lease
from tests.harness.histories import CONTRACTS, STRICT, History, contract_named


@pytest.fixture(params=CONTRACTS)
def h(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


@pytest.fixture(params=STRICT)
def strict(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


@pytest.fixture(params=["rasket", "pylota", "universal"])
def queue(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


def leased(name: str, lasts: float, then: Any = "execute", late: Any = "commits") -> History:
    lease = Lease(lasts=Claim(value=lasts), then=Claim(value=then), late_original=Claim(value=late))
    return History(contract_named(name).model_copy(update={"lease": lease}))


def after_unknown(h: History) -> Level:
    """How a second mail weighs when the outcome of the first was unknown to the target."""
    return Level.MUST if h.contract.second_after_unknown.says("forbidden") else Level.OBSERVE


# === Asleep =========================================================================================================


def slept_through_the_answer(h: History) -> History:
    """The provider answers while the target sleeps; its caller's patience ends."""
    h.send("first")
    made = h.hand_over("first")
    h.pause()
    h.tell(h.commit(made))
    h.ends("first", "timed-out")
    h.resume()
    return h


@pytest.mark.parametrize("later", ["replayed", "in_progress", "unknown", "failed"])
def test_who_sleeps_while_the_provider_answers_may_know_or_not(h: History, later: str) -> None:
    slept_through_the_answer(h)
    for n in range(2):
        h.send(f"first~{n}", like="first")
        h.answer(f"first~{n}", later)
    h.finish("first", "first~1", definite=later == "replayed")
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == set()
    assert h.judgement.voids == ()


def test_who_slept_while_the_provider_answered_does_not_send_again(h: History) -> None:
    slept_through_the_answer(h)
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    assert "at-most-once-after-unknown" in h.rules(after_unknown(h))
    assert "at-most-once" not in h.rules()


@pytest.mark.parametrize("told", ["failed", "unknown"])
def test_who_wakes_up_too_late_may_say_so(h: History, told: str) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.pause()
    h.tell(h.commit(made))
    h.resume()
    h.answer("first", told)
    h.send("retry", like="first")
    h.answer("retry", "unknown")
    h.finish("first", "retry", definite=False)
    assert h.accusations == []


def test_who_woke_up_and_answered_knows_of_the_mail(h: History) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.pause()
    h.tell(h.commit(made))
    h.resume()
    h.answer("first")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


def test_a_sleep_before_anything_was_asked_is_no_excuse(strict: History) -> None:
    h = strict
    h.pause()
    h.resume()
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.send("retry", like="first")
    h.answer("retry", "failed")
    assert h.rules()


def test_a_sleep_that_the_first_survived_excuses_no_forgotten_repeat(strict: History) -> None:
    h = strict
    h.send("first")
    h.pause()
    h.resume()
    h.deliver("first")
    h.answer("first")
    h.send("retry", like="first")
    h.answer("retry", "failed")
    assert h.rules()


def test_a_repeat_that_is_slept_through_may_fail(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.send("retry", like="first")
    h.pause()
    h.wait(5)
    h.resume()
    h.answer("retry", "failed")
    h.send("retry~1", like="first")
    h.answer("retry~1", "replayed")
    assert h.accusations == []


@pytest.mark.parametrize("outcome", ["timed-out", "broken"])
def test_a_caller_that_gets_no_answer_from_one_asleep_voids_no_pass(h: History, outcome: str) -> None:
    h.send("first")
    h.pause()
    h.ends("first", outcome)
    h.resume()
    h.deliver("first")
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert h.judgement.voids == ()
    assert h.accusations == []


# --- the lease, and the owner who wakes as a zombie -----------------------------------------------------------------


def overslept(h: History, *, sends: bool, told: str = "in_progress", number: str = "m2") -> History:
    """The owner of the claim sleeps before it hands over; another instance takes over; then it wakes."""
    h.send("first")
    h.store_works("SET NX")
    h.pause("target.1")
    h.wait(6)
    h.send("retry", like="first")
    h.store_works("SET NX", wire=2)
    h.deliver("first")
    h.answer("retry")
    h.resume("target.1")
    if sends:
        h.deliver("first")
    h.answer("first", told, number=number)
    return h


@pytest.mark.parametrize("told", ["in_progress", "failed", "unknown", "replayed"])
def test_an_owner_who_overslept_its_lease_and_sends_nothing_is_right(h: History, told: str) -> None:
    assert overslept(h, sends=False, told=told, number="m1").accusations == []


def test_an_owner_who_overslept_its_lease_and_sends_all_the_same_sends_twice(h: History) -> None:
    assert "at-most-once" in overslept(h, sends=True, told="accepted").rules()


@pytest.mark.parametrize(
    ("then", "late", "weight"),
    [
        ("execute", "commits", Level.HOLE),
        ("execute", "fenced", Level.MUST),
        ("resume", "commits", Level.MUST),
        ("unknown", "commits", Level.MUST),
    ],
)
def test_the_contract_says_what_an_overslept_lease_permits(then: str, late: str, weight: Level) -> None:
    h = overslept(leased("postfleet", 5.0, then, late), sends=True, told="accepted")
    assert "at-most-once" in h.rules(weight)


def test_within_its_lease_a_sleeping_owner_keeps_its_claim() -> None:
    h = overslept(leased("postfleet", 60.0), sends=True, told="accepted")
    assert "at-most-once" in h.rules()


def test_other_content_may_take_over_a_claim_that_has_lapsed() -> None:
    for name in ("postfleet", "novu"):
        h = leased(name, 5.0)
        h.send("first")
        made = h.hand_over("first")
        h.pause("target.1")
        h.wait(6)
        h.send("changed", op="changed", key="key-first")
        h.deliver("changed")
        h.answer("changed", number="m2")
        h.resume("target.1")
        h.tell(h.commit(made))
        h.answer("first")
        assert h.accusations == []


def test_other_content_takes_over_no_claim_that_is_resumed_or_asked_after() -> None:
    h = leased("postfleet", 5.0, "unknown")
    h.send("first")
    made = h.hand_over("first")
    h.pause("target.1")
    h.wait(6)
    h.send("changed", op="changed", key="key-first")
    h.deliver("changed")
    h.answer("changed", number="m2")
    h.resume("target.1")
    h.tell(h.commit(made))
    h.ends("first", "lost")
    assert "conflict" in h.rules()


def test_a_mail_that_was_held_while_its_owner_slept_was_of_unknown_outcome_to_the_other(h: History) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.pause("target.1")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    h.tell(h.commit(made))
    h.resume("target.1")
    h.ends("first", "timed-out")
    assert "at-most-once-after-unknown" in h.rules(after_unknown(h))
    assert "at-most-once" not in h.rules()


def test_two_that_race_while_all_are_awake_have_no_such_excuse(h: History) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    h.tell(h.commit(made))
    h.answer("first", number="m2")
    assert "at-most-once" in h.rules()


# --- a queue --------------------------------------------------------------------------------------------------------


def test_a_queue_put_to_sleep_at_once_may_lose_its_claim_on_the_mail(queue: History) -> None:
    h = queue
    h.send("first")
    h.answer("first")
    h.pause()
    h.resume()
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert h.accusations == []
    assert "no-lost-send" in h.rules(Level.SHOULD)


def test_a_queue_that_had_long_been_idle_lost_the_mail(queue: History) -> None:
    h = queue
    h.send("first")
    h.answer("first")
    h.wait(1)
    h.pause()
    h.resume()
    assert "no-lost-send" in h.rules()


def test_a_queue_put_to_sleep_at_a_message_to_its_store_was_not_idle(queue: History) -> None:
    h = queue
    h.send("first")
    h.answer("first")
    h.wait(1)
    h.store_fails("hold")
    h.pause()
    h.resume()
    assert h.accusations == []


# === Told to end ====================================================================================================


def stopped(h: History) -> History:
    """It ends while the provider has the whole message; the mail is taken all the same."""
    h.send("first")
    made = h.hand_over("first")
    h.stop(broken=["first"])
    h.restart()
    h.tell(h.commit(made), sent=False)
    return h


@pytest.mark.parametrize("later", ["replayed", "in_progress", "unknown", "failed"])
def test_who_ends_while_its_mail_is_on_the_way_may_not_know(h: History, later: str) -> None:
    stopped(h)
    h.send("retry", like="first")
    h.answer("retry", later)
    h.finish("first", "retry", definite=later == "replayed")
    assert h.accusations == []
    assert h.judgement.voids == ()


def test_who_ended_while_its_mail_was_on_the_way_does_not_send_again(h: History) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.stop(broken=["first"])
    h.restart()
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    h.tell(h.commit(made), sent=False)
    assert "at-most-once-after-unknown" in h.rules(after_unknown(h))
    assert "at-most-once" not in h.rules()


def test_an_answer_that_came_when_it_had_ended_was_heard_by_nobody(h: History) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.stop()
    h.tell(h.commit(made))
    h.ends("first", "broken")
    h.restart()
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    assert "at-most-once-after-unknown" in h.rules(after_unknown(h))


def gracefully(h: History) -> History:
    """It ends what it is doing first."""
    h.send("first")
    made = h.hand_over("first")
    h.stop()
    h.tell(h.commit(made))
    h.answer("first")
    h.restart()
    return h


def test_who_ends_what_it_is_doing_first_knows_of_it_afterwards(h: History) -> None:
    gracefully(h)
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    assert h.accusations == []


def test_who_ended_what_it_was_doing_has_no_excuse(h: History) -> None:
    gracefully(h)
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


@pytest.mark.parametrize(
    "name", ["postfleet", "rasket", "resend"]
)  # not a queue, whose answer shows nothing of its mail
def test_who_ended_what_it_was_doing_forgets_nothing(name: str) -> None:
    h = gracefully(History.under(name))
    h.send("retry", like="first")
    h.answer("retry", "failed")
    assert h.rules()


@pytest.mark.parametrize("kind", ["failed", "unknown"])
def test_whoever_comes_while_it_ends_may_be_sent_away(h: History, kind: str) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.stop()
    h.send("retry", like="first")
    h.answer("retry", kind)
    h.send("long", key="k" * 300, problem="too long")
    h.answer("long", kind)
    h.send("late")
    h.ends("late", "unreachable", never_arrived=True)
    h.restart()
    h.send("retry~1", like="first")
    h.answer("retry~1", "replayed")
    assert h.accusations == []
    assert h.judgement.voids == ()


def test_a_queue_told_to_end_at_once_may_just_have_begun_to_hand_over(queue: History) -> None:
    h = queue
    h.send("first")
    h.answer("first")
    h.stop()
    h.restart()
    assert h.accusations == []
    assert "no-lost-send" in h.rules(Level.SHOULD)


def test_a_queue_told_to_end_keeps_what_it_has_promised(queue: History) -> None:
    h = queue
    h.send("first")
    h.answer("first")
    h.wait(1)
    h.stop()
    h.restart()
    assert "no-lost-send" in h.rules()


# === One of several =================================================================================================


@pytest.mark.parametrize("later", ["in_progress", "unknown", "failed", "accepted"])
def test_what_one_instance_had_claimed_when_it_died_the_others_need_not_know(h: History, later: str) -> None:
    h.send("first")
    h.store_works("SET NX")
    h.crash(broken=["first"], process="target.1")
    h.send("retry", like="first")
    if later == "accepted":
        h.deliver("first")
    h.answer("retry", later)
    h.finish("first", "retry", definite=later == "accepted")
    h.restart("target.1")
    assert h.accusations == []


def test_what_one_instance_sent_when_it_died_the_others_do_not_send_again(h: History) -> None:
    h.send("first")
    made = h.commit(h.hand_over("first"))
    h.crash(broken=["first"], process="target.1")
    h.tell(made, sent=False)
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    assert "at-most-once-after-unknown" in h.rules(after_unknown(h))


def test_the_death_of_one_instance_excuses_no_other_that_knew(h: History) -> None:
    h.crash(process="target.1")
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert "at-most-once" in h.rules()


def test_the_death_of_one_instance_excuses_no_other_that_forgets(strict: History) -> None:
    h = strict
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.wait(1)
    h.crash(process="target.1")
    h.restart("target.1")
    h.send("retry", like="first")
    h.answer("retry", "failed")
    assert h.rules()


@pytest.mark.parametrize("befalls", ["crash", "pause"])
def test_while_its_store_is_dead_or_asleep_a_target_may_fail(h: History, befalls: str) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    getattr(h, befalls)(process="redis")
    h.send("retry", like="first")
    h.answer("retry", "failed")
    (h.restart if befalls == "crash" else h.resume)("redis")
    h.send("retry~1", like="first")
    h.answer("retry~1", "failed")  # by a connection that it had from before
    h.send("retry~2", like="first")
    h.answer("retry~2", "replayed")
    assert h.accusations == []


def test_while_its_store_is_dead_a_target_sends_nothing_again(h: History) -> None:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.crash(process="redis")
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", number="m2")
    assert h.rules() & {"at-most-once", "at-most-once-after-unknown"} or not h.contract.second_after_unknown.judged


def test_the_store_that_died_with_the_process_is_no_new_excuse() -> None:
    h = History.under("postfleet")
    h.send("first")
    h.deliver("first")
    h.answer("first")
    h.crash()
    h.restart()
    h.send("retry", like="first")
    h.answer("retry", "failed")
    assert h.rules() == {"replay-fidelity"}
