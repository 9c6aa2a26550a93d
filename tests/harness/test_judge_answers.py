"""Answers: replays, markers, conflicts, waiting, scopes, refusals: breaches, and what is no breach."""

import pytest

from sendtwice.fake_provider.contracts import Claim, Level
from tests.harness.histories import CONTRACTS, STRICT, History


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


# --- replay-fidelity ----------------------------------------------------------------------------------------


def test_every_repeat_may_be_the_first_answer_again(h: History) -> None:
    sent_once(h)
    for n in range(3):
        h.send(f"again{n}", like="first")
        h.answer(f"again{n}", "replayed")
    assert h.accusations == []


def test_a_repeat_with_a_new_id_is_no_replay(strict: History) -> None:
    h = sent_once(strict)
    h.send("again", like="first")
    h.answer("again", "replayed", number="m2")
    assert h.rules() == {"replay-fidelity"}


def test_a_repeat_without_any_id_is_no_replay(strict: History) -> None:
    h = sent_once(strict)
    h.send("again", like="first")
    h.answer("again", "replayed", number=None)
    assert h.rules() == {"replay-fidelity"}


@pytest.mark.parametrize("name", ["rasket", "pylota"])
def test_a_repeat_without_the_declared_marker_is_no_replay(name: str) -> None:
    h = sent_once(History.under(name))
    h.send("again", like="first")
    h.answer("again", "replayed", unmarked=True)
    assert h.rules() == {"replay-fidelity"}


@pytest.mark.parametrize("name", ["rasket", "pylota"])
def test_a_first_answer_that_is_marked_as_a_replay_is_found(name: str) -> None:
    h = History.under(name)
    h.send("first")
    h.deliver("first")
    h.answer("first", "replayed")
    assert h.rules() == {"replay-fidelity"}


@pytest.mark.parametrize("name", ["rasket", "pylota"])
def test_after_a_lost_answer_either_marked_or_not_is_right(name: str) -> None:
    for unmarked in (True, False):
        h = History.under(name)
        h.send("first")
        h.deliver("first")
        h.ends("first", "lost")
        h.send("again", like="first")
        h.answer("again", "replayed", unmarked=unmarked)
        assert h.accusations == []


@pytest.mark.parametrize("kind", ["refused", "failed", "in_progress", "conflict", "unknown"])
def test_a_repeat_of_a_finished_send_gets_nothing_but_its_answer(strict: History, kind: str) -> None:
    h = sent_once(strict)
    h.send("again", like="first")
    h.answer("again", kind)
    assert h.rules() & {"replay-fidelity", "no-false-conflict"}


def test_a_success_that_is_executed_anew_is_found_where_first_and_repeat_look_different() -> None:
    h = sent_once(History.under("postfleet"))
    h.send("again", like="first")
    h.answer("again", "accepted")
    assert h.rules() == {"replay-fidelity"}


def test_where_the_contract_says_nothing_of_repeats_they_may_be_refused() -> None:
    h = sent_once(History.under("universal"))
    h.send("again", like="first")
    h.answer("again", "duplicate")
    assert h.accusations == []


# --- conflict, and none -------------------------------------------------------------------------------------


def test_other_content_under_a_used_key_is_a_conflict(h: History) -> None:
    sent_once(h)
    h.send("changed", op="changed", key="key-first")
    h.answer("changed", "conflict")
    h.send("again", like="first")
    h.answer("again", "replayed")
    assert h.accusations == []


@pytest.mark.parametrize("kind", ["accepted", "replayed", "failed", "key_invalid"])
def test_other_content_under_a_used_key_that_gets_another_answer_is_found(strict: History, kind: str) -> None:
    h = sent_once(strict)
    h.send("changed", op="changed", key="key-first")
    h.answer("changed", kind)
    assert "conflict" in h.rules()


def test_other_content_while_the_first_is_running_may_wait_or_be_told_at_once(h: History) -> None:
    for kind in ("conflict", "in_progress"):
        h.events.clear()
        h._groups.clear()
        h.send("first")
        made = h.hand_over("first")
        h.send("changed", op="changed", key="key-first")
        h.answer("changed", kind)
        h.tell(h.commit(made))
        h.answer("first")
        assert h.accusations == []


def test_the_same_request_is_never_a_conflict(strict: History) -> None:
    h = sent_once(strict)
    h.send("again", like="first")
    h.answer("again", "conflict")
    assert h.rules() == {"no-false-conflict"}


def test_the_same_request_in_flight_is_never_a_conflict(strict: History) -> None:
    h = strict
    h.send("first")
    made = h.hand_over("first")
    h.send("again", like="first")
    h.answer("again", "conflict")
    h.tell(h.commit(made))
    h.answer("first")
    assert h.rules() == {"no-false-conflict"}


def test_the_first_under_its_key_is_never_a_conflict(strict: History) -> None:
    h = strict
    h.send("first")
    h.answer("first", "conflict")
    assert h.rules() == {"status-as-declared"}


def test_the_same_content_on_another_path_is_what_the_fingerprint_says() -> None:
    for kind, right, wrong in (("conflict", ("rasket", "pylota"), "resend"), ("replayed", ("resend",), "rasket")):
        for name in (*right, wrong):
            h = sent_once(History.under(name))
            h.send("elsewhere", like="first", path="/elsewhere")
            h.answer("elsewhere", kind)
            assert bool(h.accusations) == (name == wrong)


# --- in progress --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 422, 400])
def test_a_lost_race_is_no_error(strict: History, status: int) -> None:
    h = strict
    h.send("first")
    made = h.hand_over("first")
    h.send("second", like="first")
    h.reply("second", status, {})
    h.tell(h.commit(made))
    h.answer("first")
    assert h.rules() & {"in-progress", "status-as-declared"}


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_asked_too_much_at_once_may_say_so(h: History, status: int) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.send("second", like="first")
    h.reply("second", status, {})
    h.tell(h.commit(made))
    h.answer("first")
    assert h.accusations == []


@pytest.mark.parametrize("kind", ["in_progress", "replayed"])
def test_a_lost_race_waits_or_is_told_so_in_any_order_of_answers(h: History, kind: str) -> None:
    h.send("first")
    for n in range(3):
        h.send(f"copy{n}", like="first")
    made = h.hand_over("first")
    h.answer("copy2", kind)
    h.tell(h.commit(made))
    h.answer("copy0", kind)
    h.answer("first")
    h.answer("copy1", kind)
    assert h.accusations == []


def test_after_a_hang_up_the_retry_may_wait_and_then_replay(h: History) -> None:
    h.send("first")
    made = h.commit(h.hand_over("first"))
    h.fired("provider.response", "hold", op="first")
    h.ends("first", "hung-up")
    h.send("retry", like="first")
    h.send("other", like="first")
    h.answer("other", "in_progress")
    h.tell(made)
    h.answer("retry", "replayed")
    assert h.accusations == []


def test_a_target_may_give_up_on_a_provider_that_holds_its_mail(h: History) -> None:
    h.send("first")
    made = h.hand_over("first")
    h.fired("provider.request", "hold", op="first")
    h.answer("first", "unknown")
    h.send("retry", like="first")
    h.answer("retry", "unknown")
    h.commit(made)
    h.tell(made, sent=False)
    h.send("retry2", like="first")
    h.answer("retry2", "in_progress")
    assert h.accusations == []


# --- scopes -------------------------------------------------------------------------------------------------


def test_the_answer_of_another_tenant_is_seen_by_nobody(h: History) -> None:
    sent_once(h)
    h.send("stranger", op="stranger", key="key-first", sender="other-tenant")
    h.answer("stranger", "replayed")
    assert "isolation" in h.rules()


@pytest.mark.parametrize("name", STRICT[:3])
def test_a_key_that_another_tenant_used_is_no_conflict(name: str) -> None:
    h = sent_once(History.under(name))
    h.send("stranger", op="stranger", key="key-first", sender="other-tenant")
    h.answer("stranger", "conflict")
    assert h.rules() == {"isolation"}


@pytest.mark.parametrize("name", ["universal", "resend", "ietf-07"])
def test_where_no_scope_is_declared_a_collision_is_not_judged(name: str) -> None:
    for sender in ("other-mailbox", "other-tenant"):
        h = sent_once(History.under(name))
        h.send("neighbour", op="neighbour", key="key-first", sender=sender)
        h.answer("neighbour", "conflict")
        assert h.accusations == []


@pytest.mark.parametrize("name", ["postfleet", "pylota"])
def test_mailboxes_with_keys_of_their_own_never_meet(name: str) -> None:
    h = sent_once(History.under(name))
    h.send("neighbour", op="neighbour", key="key-first", sender="other-mailbox")
    h.answer("neighbour", "conflict")
    assert h.rules() == {"isolation"}


def test_mailboxes_that_share_their_keys_meet() -> None:
    h = sent_once(History.under("rasket"))
    h.send("neighbour", op="neighbour", key="key-first", sender="other-mailbox")
    h.answer("neighbour", "conflict")
    assert h.accusations == []


def test_another_tenant_that_is_served_by_itself_is_no_finding(h: History) -> None:
    sent_once(h)
    h.send("stranger", op="stranger", key="key-first", sender="other-tenant")
    h.deliver("stranger")
    h.answer("stranger", number="m2")
    h.send("again", like="first")
    h.answer("again", "replayed")
    assert h.accusations == []


# --- refusals -----------------------------------------------------------------------------------------------


def broken_then_fixed(h: History, kind: str) -> History:
    h.send("broken", invalid=True)
    h.answer("broken", "refused")
    h.send("fixed", op="fixed", key="key-broken")
    if kind == "accepted":
        h.deliver("fixed")
    h.answer("fixed", kind)
    return h


def test_a_repaired_request_is_sent_under_its_old_key(h: History) -> None:
    assert broken_then_fixed(h, "accepted").accusations == []


@pytest.mark.parametrize("kind", ["conflict", "refused"])
def test_where_a_refusal_frees_the_key_the_old_refusal_must_not_come_back(kind: str) -> None:
    assert broken_then_fixed(History.under("rasket"), kind).rules() == {"refusal-policy"}


@pytest.mark.parametrize("name", ["universal", "postfleet", "pylota", "resend", "ietf-07"])
def test_where_nobody_says_what_a_refusal_leaves_both_ways_are_right(name: str) -> None:
    for kind in ("conflict", "refused"):
        assert broken_then_fixed(History.under(name), kind).accusations == []


def test_a_refusal_that_the_contract_stores_comes_back() -> None:
    h = History.under("postfleet")
    h.send("first")
    h.provider_says("first", 422)
    h.answer("first", "refused")
    h.send("again", like="first")
    h.answer("again", "refused")
    assert h.accusations == []


def test_a_stored_certain_failure_is_fair_after_the_provider_failed(h: History) -> None:
    h.send("first")
    h.provider_says("first", 503)
    h.answer("first", "failed")
    for n in range(2):
        h.send(f"again{n}", like="first")
        h.answer(f"again{n}", "failed")
    assert h.accusations == []


@pytest.mark.parametrize("kind", ["refused", "key_invalid", "conflict", "rate_limited", "accepted"])
def test_an_invalid_request_may_be_answered_in_any_way(strict: History, kind: str) -> None:
    h = strict
    h.send("broken", invalid=True)
    h.answer("broken", kind)
    assert h.accusations == []


def test_an_invalid_request_that_makes_the_server_fail_is_found() -> None:
    h = History.under("postfleet")
    h.send("broken", invalid=True)
    h.answer("broken", "failed")
    assert h.rules() == {"refusal-policy"}


# --- statuses -----------------------------------------------------------------------------------------------


def test_an_answer_that_the_contract_nowhere_declares_is_found(strict: History) -> None:
    h = strict
    h.send("first")
    h.deliver("first")
    h.reply("first", 299, {"id": "m1"})
    assert h.rules() == {"status-as-declared"}


def test_a_repeat_with_a_status_that_nobody_declares_is_found_as_such(strict: History) -> None:
    h = sent_once(strict)
    h.send("changed", op="changed", key="key-first")
    h.reply("changed", 418, {"code": "teapot"})
    assert h.rules() == {"status-as-declared"}


def test_a_first_send_may_fail_or_be_limited_in_fair_weather(h: History) -> None:
    for n, kind in enumerate(("failed", "unknown", "rate_limited")):
        h.send(f"a{n}", key=f"k{n}")
        h.answer(f"a{n}", kind)
    assert h.accusations == []


def test_an_answer_that_means_success_or_draft_is_a_draft_only_where_there_are_approvals() -> None:
    for approval, rules in ((False, {"no-lost-send"}), (True, set())):
        h = History.under("universal", approval=approval)
        h.send("first")
        h.answer("first", "pending")
        assert h.rules() == rules


def test_a_path_that_the_target_does_not_have_is_absent_and_no_fault() -> None:
    for name in ("rasket", "pylota", "resend"):
        h = sent_once(History.under(name))
        h.send("elsewhere", op="elsewhere", key="k2", path="/elsewhere")
        h.reply("elsewhere", 404, {})
        assert h.accusations == []
        assert h.judgement.absent == ("the target has no /elsewhere (404)",)


# --- keys much alike ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [("k-abc", "K-ABC"), ("k" * 40 + "a", "k" * 40 + "b")])
def test_two_keys_that_a_target_takes_for_one_are_found(strict: History, pair: tuple[str, str]) -> None:
    h = strict
    exact: Claim[str] = Claim(value="sensitive")
    h.contract = h.contract.model_copy(update={"key": h.contract.key.model_copy(update={"case": exact})})
    h.send("one", key=pair[0])
    h.deliver("one")
    h.answer("one")
    h.send("two", key=pair[1])
    h.answer("two", "conflict")
    assert h.rules() == {"key-syntax"}


def test_two_keys_much_alike_that_are_kept_apart_are_right(h: History) -> None:
    for n, key in enumerate(("k-abc", "K-ABC", "k" * 40 + "a", "k" * 40 + "b")):
        h.send(f"a{n}", key=key)
        h.deliver(f"a{n}")
        h.answer(f"a{n}", number=f"m{n}")
    assert h.accusations == []


@pytest.mark.parametrize("kind", ["key_invalid", "accepted"])
def test_an_empty_key_is_judged_only_where_it_is_declared(kind: str) -> None:
    found = set()
    for name in CONTRACTS:
        h = History.under(name)
        h.send("first", key="", problem="empty")
        if kind == "accepted":
            h.deliver("first")
        h.answer("first", kind)
        if h.accusations:
            found.add(name)
    assert found == (set() if kind == "key_invalid" else {"postfleet", "rasket", "resend"})


# --- levels, wording, evidence ------------------------------------------------------------------------------


def test_a_contract_of_recommendations_accuses_nobody_of_breaking_one() -> None:
    h = sent_once(History.under("ietf-07"))
    h.send("again", like="first")
    h.answer("again", "replayed", number="m2")
    assert h.rules() == set()
    assert h.rules(Level.SHOULD) == {"replay-fidelity"}


def test_what_a_contract_tolerates_beside_its_promise_is_no_finding() -> None:
    h = sent_once(History.under("postfleet"))
    lax: Claim[str] = Claim(value="replay", also=["execute"])
    h.contract = h.contract.model_copy(update={"duplicates": lax})
    h.send("again", like="first")
    h.answer("again", "accepted", number="m1")
    assert h.accusations == []


def test_a_finding_names_the_attempts_and_what_was_permitted(strict: History) -> None:
    h = sent_once(strict)
    h.send("again", like="first")
    h.answer("again", "conflict")
    (found,) = (f for f in h.judgement.findings if f.level is Level.MUST)
    assert found.message.startswith("again was answered ")
    assert "replayed" in found.message
    numbers = {e.seq: e for e in h.events}
    assert {numbers[seq].attempt for seq in found.events} == {"first", "again"}
