"""Going on: keys that are stuck, what a scenario expects, and what keeps a pass from proving anything."""

import pytest

from sendtwice.fake_provider.contracts import Claim, Level
from sendtwice.fake_provider.contracts.groups import Lease
from sendtwice.harness.history import Kind
from tests.harness.histories import CONTRACTS, History, contract_named

#: Contracts that free a key after a failure that certainly sent nothing.
RELEASING = tuple(name for name in CONTRACTS if contract_named(name).outcomes.provider_busy.says("released"))


@pytest.fixture(params=CONTRACTS)
def h(request: pytest.FixtureRequest) -> History:
    return History.under(request.param)


# --- progress -----------------------------------------------------------------------------------------------


def stuck_after(h: History, status: int) -> History:
    h.send("first")
    h.provider_says("first", status)
    h.answer("first", "failed")
    for n in range(3):
        h.send(f"first~{n}", like="first")
        h.answer(f"first~{n}", "in_progress")
    h.finish("first", "first~2", definite=False, waited=1.2)
    return h


@pytest.mark.parametrize("name", RELEASING)
@pytest.mark.parametrize("status", [429, 503])
def test_a_key_that_waits_for_ever_after_a_certain_failure_is_stuck(name: str, status: int) -> None:
    h = stuck_after(History.under(name), status)
    assert "progress" in h.rules(h.contract.levels.get("progress", Level.MUST))


@pytest.mark.parametrize("name", sorted(set(CONTRACTS) - set(RELEASING)))
def test_where_nobody_says_that_the_key_is_freed_waiting_is_not_judged(name: str) -> None:
    h = stuck_after(History.under(name), 503)
    assert h.accusations == []
    assert "progress" not in h.rules(Level.SHOULD)


@pytest.mark.parametrize("name", RELEASING)
@pytest.mark.parametrize("status", [400, 500])
def test_a_key_that_was_freed_once_may_be_taken_by_a_refusal_for_good(name: str, status: int) -> None:
    h = History.under(name)
    h.send("first")
    h.provider_says("first", 503)
    h.answer("first", "failed")
    h.send("again", like="first")
    h.provider_says("first", status)
    told = "refused" if status == 400 else "failed"
    h.answer("again", told)
    h.send("first~1", like="first")
    h.answer("first~1", told)
    h.finish("first", "first~1", definite=True)
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == set()


def test_a_key_that_waits_a_little_after_a_failure_and_then_goes_on_is_right(h: History) -> None:
    h.send("first")
    h.provider_says("first", 503)
    h.answer("first", "failed")
    h.send("first~1", like="first")
    h.answer("first~1", "in_progress")
    h.send("first~2", like="first")
    h.deliver("first")
    h.answer("first~2")
    h.finish("first", "first~2", definite=True)
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == set()


def test_waiting_after_an_unknown_outcome_is_no_standstill(h: History) -> None:
    h.send("first")
    h.provider_silent("first")
    h.answer("first", "unknown")
    h.send("first~1", like="first")
    h.answer("first~1", "in_progress")
    h.finish("first", "first~1", definite=False, waited=9999)
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == set()


def test_waiting_within_the_declared_lease_is_no_standstill() -> None:
    h = History.under("pylota")
    lease: Claim[float] = Claim(value=60.0)
    h.contract = h.contract.model_copy(update={"lease": Lease(lasts=lease)})
    h.send("first")
    h.crash(broken=["first"])
    h.restart()
    h.send("first~1", like="first")
    h.answer("first~1", "in_progress")
    h.finish("first", "first~1", definite=False, waited=59)
    assert h.accusations == []


# --- expected -----------------------------------------------------------------------------------------------


def once(h: History) -> History:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    return h


@pytest.mark.parametrize(("low", "high"), [(1, 1), (0, 1), (1, 3)])
def test_a_number_of_mails_within_its_range_is_right(h: History, low: int, high: int) -> None:
    once(h).expect(deliveries=[[["first"], [low, high]]])
    assert h.judgement.findings == ()


def test_more_mails_than_expected_are_found(h: History) -> None:
    once(h).expect(deliveries=[[["first"], [0, 0]]])
    assert h.rules() == {"expected"}


def test_fewer_mails_than_expected_are_a_shortcoming_when_none_was_claimed_and_lost(h: History) -> None:
    once(h).expect(deliveries=[[["first"], [2, 3]]])
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == {"expected"}


def test_an_expectation_weighs_what_its_scenario_says() -> None:
    h = once(History.under("rasket"))
    h.expect(deliveries=[[["first"], [0, 0]]], level=Level.SHOULD)
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == {"expected"}


def test_a_group_of_equal_content_is_counted_as_a_whole(h: History) -> None:
    once(h)
    h.send("second", op="second", key="k2", group="first")
    h.deliver("second")
    h.answer("second", number="m2")
    h.expect(deliveries=[[["first", "second"], [2, 2]]])
    assert h.accusations == []
    h.expect(deliveries=[[["first", "second"], [1, 1]]])
    assert h.rules() == {"expected"}


def test_a_check_in_the_middle_does_not_see_what_comes_later(h: History) -> None:
    h.send("first")
    h.expect(deliveries=[[["first"], [0, 0]]], final=False)
    h.deliver("first")
    h.answer("first")
    h.expect(deliveries=[[["first"], [1, 1]]])
    assert h.accusations == []


def test_a_check_in_the_middle_is_not_saved_by_what_comes_later(h: History) -> None:
    h.send("first")
    h.expect(deliveries=[[["first"], [1, 1]]], final=False)
    h.deliver("first")
    h.answer("first")
    assert h.rules(Level.SHOULD) == {"expected"}


def test_an_answer_is_held_against_the_classes_that_are_expected() -> None:
    h = once(History.under("postfleet"))
    h.send("again", like="first")
    h.answer("again", "replayed")
    h.expect(answers=[[["first"], ["accepted"]], [["again"], ["replayed", "in_progress"]]])
    assert h.accusations == []
    h.expect(answers=[[["again"], ["accepted"]]])
    assert h.rules() == {"expected"}


def test_an_answer_that_may_be_what_is_expected_is_not_held_against_anyone() -> None:
    h = History.under("universal")
    h.send("first")
    h.deliver("first")
    h.ends("first", "lost")
    h.send("retry", like="first")
    h.answer("retry", "replayed")
    for kind in ("accepted", "replayed"):
        h.expect(answers=[[["retry"], [kind]]])
    assert h.accusations == []


@pytest.mark.parametrize(("kinds", "right"), [(("accepted", "in_progress"), True), (("in_progress",) * 2, False)])
def test_answers_of_a_group_are_counted(kinds: tuple[str, str], right: bool) -> None:
    h = History.under("postfleet")
    h.send("a")
    h.send("b", like="a")
    h.deliver("a")
    for name, kind in zip("ab", kinds, strict=True):
        h.answer(name, kind)
    h.expect(answers=[[["a", "b"], {"accepted": 1, "rest": ["replayed", "in_progress"]}]])
    assert ("expected" in h.rules()) is not right


def test_what_a_client_says_is_held_against_what_is_expected() -> None:
    h = History.under("rasket", role="client")
    h.send("first#1", op="first", key="k1")
    h.fired("client.request", "answer", "conflict", op="first")
    h.answer("first#1", "conflict")
    h.told("first", "unknown")
    h.expect(told=[["first", ["not_sent", "unknown"]]])
    assert h.accusations == []
    h.expect(told=[["first", ["not_sent"]]])
    assert h.rules() == {"expected"}


def test_an_expectation_that_repeats_a_broken_rule_adds_nothing(h: History) -> None:
    once(h)
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry", "replayed")
    h.expect(deliveries=[[["first"], [1, 1]]])
    assert h.rules() == {"at-most-once"}


# --- a pass that would prove nothing ------------------------------------------------------------------------


def test_a_fault_that_never_fired_voids_a_pass_and_accuses_nobody(h: History) -> None:
    once(h).note(Kind.UNFIRED, fault="client.response: lose")
    assert h.judgement.voids == ("the fault 'client.response: lose' never fired",)
    assert h.judgement.findings == ()


def test_a_void_takes_no_finding_back(h: History) -> None:
    once(h).deliver("first")
    before = h.judgement.findings
    h.note(Kind.UNFIRED, fault="client.response: lose")
    h.note(Kind.OVERLAP, attempts=["a", "b"], overlapped=False)
    h.note(Kind.VOID, reason="because")
    assert h.judgement.findings == before != ()
    assert len(h.judgement.voids) == 3


def test_requests_that_did_not_overlap_void_a_pass(h: History) -> None:
    once(h).note(Kind.OVERLAP, attempts=["a", "b"], overlapped=False)
    assert h.judgement.voids == ("a, b were meant to overlap and did not",)


def test_requests_that_overlapped_void_nothing(h: History) -> None:
    once(h).note(Kind.OVERLAP, attempts=["a", "b"], overlapped=True)
    assert h.judgement.voids == ()


def test_a_target_that_answers_before_it_hands_over_lacks_the_window(h: History) -> None:
    once(h).note(Kind.OVERLAP, attempts=["first", "second"], overlapped=False, answered_first=True)
    assert h.judgement.voids == ()
    assert "first was answered before second could meet it" in h.judgement.absent[0]


def test_a_target_that_gives_up_before_anybody_can_meet_it_lacks_the_window_too(h: History) -> None:
    h.send("first")
    h.hand_over("first")
    h.answer("first", "unknown")
    h.note(Kind.OVERLAP, attempts=["first", "second"], overlapped=False, answered_first=True)
    assert h.judgement.absent == (
        "first was answered before second could meet it in flight: the target does not wait so long",
    )


@pytest.mark.parametrize("outcome", ["timed-out", "broken", "garbage", "unreachable"])
def test_an_answer_that_never_came_in_fair_weather_voids_a_pass(h: History, outcome: str) -> None:
    h.send("first")
    h.deliver("first")
    h.ends("first", outcome)
    assert len(h.judgement.voids) == 1
    assert h.accusations == []


def test_an_answer_that_never_came_from_a_killed_target_voids_nothing(h: History) -> None:
    h.send("first")
    h.crash(broken=["first"])
    h.restart()
    h.send("retry", like="first")
    h.deliver("first")
    h.answer("retry")
    assert h.judgement.voids == ()


@pytest.mark.parametrize("kind", ["refused", "failed"])
def test_a_plain_first_send_that_fails_shows_nothing(h: History, kind: str) -> None:
    h.send("first")
    h.answer("first", kind)
    assert len(h.judgement.voids) == 1


def test_a_bad_request_that_was_taken_shows_nothing(h: History) -> None:
    h.send("first", invalid=True)
    h.answer("first")
    assert h.judgement.voids == ("first was meant to be refused, and the target took it",)


def test_a_mail_that_shows_too_little_of_its_content_voids_a_pass(h: History) -> None:
    h.send("first")
    h.deliver("first", ambiguous=True)
    h.answer("first")
    assert len(h.judgement.voids) == 1
    assert h.accusations == []


# --- habits -------------------------------------------------------------------------------------------------


def test_what_a_contract_leaves_open_is_reported_as_seen() -> None:
    h = once(History.under("universal"))
    h.send("again", like="first")
    h.answer("again", "duplicate")
    h.send("changed", op="changed", key="key-first")
    h.reply("changed", 422, {})
    assert h.judgement.observed == {"repeat": "answers 409", "other_content": "answers 422"}


@pytest.mark.parametrize("willingly", [True, False])
def test_a_target_that_does_not_end_when_it_is_told_to_is_observed_and_accused_of_nothing(willingly: bool) -> None:
    h = once(History.under("universal"))
    h.stop()
    h.note(Kind.RESTART, process="target", willingly=willingly)
    assert h.accusations == []
    assert h.judgement.observed == ({} if willingly else {"stop": "does not end when it is told to"})
