"""Several things wrong with one request: which is told, and what nobody may be told."""

from collections.abc import Sequence

import pytest

from sendtwice.fake_provider.contracts import Claim, Level
from tests.harness.histories import History, contract_named

ALL = ["auth", "rate_limit", "key", "validation", "in_progress", "mismatch", "replay"]


def ordered(order: Sequence[str] | None, name: str = "resend") -> History:
    """A history under a contract that looks at its checks in this order, or does not say in which."""
    claim: Claim[list[str]] = Claim(value=list(order)) if order is not None else Claim.model_validate("unknown")
    return History(contract_named(name).model_copy(update={"order": claim}))


def used(h: History) -> History:
    h.send("first")
    h.deliver("first")
    h.answer("first")
    return h


@pytest.mark.parametrize(
    ("order", "answer", "good"),
    [
        (ALL, "unauthorized", True),
        (ALL, "replayed", False),
        (["replay", "mismatch", "auth"], "replayed", True),
        (["replay", "mismatch", "auth"], "unauthorized", False),
        (None, "unauthorized", True),
    ],
)
def test_a_wrong_credential_and_a_used_key(order: list[str] | None, answer: str, good: bool) -> None:
    h = used(ordered(order, "rasket"))
    h.send("stranger", like="first", sender="unauthorized")
    h.answer("stranger", answer)
    assert (h.rules() == set()) is good, h.accusations


@pytest.mark.parametrize(
    ("order", "answer", "good"),
    [
        (ALL, "key_invalid", True),
        (ALL, "refused", False),
        (["validation", "key"], "refused", True),
        (["validation", "key"], "key_invalid", False),
        (None, "refused", True),
        (None, "key_invalid", True),
    ],
)
def test_a_bad_key_and_an_invalid_body(order: list[str] | None, answer: str, good: bool) -> None:
    h = ordered(order)
    h.send("first", invalid=True, problem="too long")
    h.answer("first", answer)
    assert ("check-order" not in h.rules()) is good, h.accusations


@pytest.mark.parametrize(
    ("order", "answer", "good"),
    [
        (ALL, "refused", True),
        (ALL, "conflict", False),
        (["mismatch", "validation"], "conflict", True),
        (["mismatch", "validation"], "refused", False),
        (None, "refused", True),
        (None, "conflict", True),
    ],
)
def test_an_invalid_body_under_a_used_key(order: list[str] | None, answer: str, good: bool) -> None:
    h = used(ordered(order))
    h.send("broken", key="key-first", op="broken", invalid=True)
    h.answer("broken", answer)
    assert ("check-order" not in h.rules()) is good, h.accusations


@pytest.mark.parametrize(
    ("order", "answer", "good"),
    [
        (ALL, "in_progress", True),
        (ALL, "conflict", False),
        (["mismatch", "in_progress"], "conflict", True),
        (["mismatch", "in_progress"], "in_progress", False),
        (None, "conflict", True),
        (None, "in_progress", True),
    ],
)
def test_other_content_while_the_first_is_surely_in_flight(order: list[str] | None, answer: str, good: bool) -> None:
    h = ordered(order)
    h.send("first")
    made = h.hand_over("first")
    h.send("other", op="other", key="key-first")
    h.answer("other", answer)
    h.tell(h.commit(made))
    h.answer("first")
    assert (h.rules() == set()) is good, h.accusations


@pytest.mark.parametrize("ended", ["busy", "taken", "cut off", "killed"])
@pytest.mark.parametrize("answer", ["accepted", "conflict", "in_progress"])
def test_when_the_provider_has_spoken_the_first_may_be_over_though_its_caller_waits(ended: str, answer: str) -> None:
    h = ordered(["mismatch", "in_progress"] if answer != "conflict" else ["in_progress", "mismatch"])
    h.contract = h.contract.model_copy(
        update={"outcomes": h.contract.outcomes.model_copy(update={"provider_busy": Claim[str](value="released")})}
    )
    h.send("first")
    match ended:
        case "busy":
            h.provider_says("first", 503)
        case "taken":
            h.deliver("first")
        case "cut off":
            h.provider_silent("first")
        case "killed":
            h.hand_over("first")
            h.crash(process="target.1")
    h.send("other", op="other", key="key-first")
    if answer == "accepted":
        h.deliver("other")
    h.answer("other", answer, number="m2")
    h.answer("first", "failed" if ended == "busy" else "unknown")
    assert "check-order" not in h.rules(), h.accusations


@pytest.mark.parametrize("answer", ["conflict", "in_progress"])
def test_one_that_was_freed_in_the_end_had_the_key_as_long_as_it_ran(answer: str) -> None:
    h = ordered(["mismatch", "in_progress"] if answer == "conflict" else None)
    h.contract = h.contract.model_copy(
        update={"outcomes": h.contract.outcomes.model_copy(update={"provider_busy": Claim[str](value="released")})}
    )
    h.send("first")
    h.send("other", op="other", key="key-first")
    h.answer("other", answer)
    h.provider_says("first", 503)
    h.answer("first", "failed")
    assert h.accusations == []


def test_one_that_was_freed_before_has_the_key_no_longer() -> None:
    h = ordered(None)
    h.contract = h.contract.model_copy(
        update={"outcomes": h.contract.outcomes.model_copy(update={"provider_busy": Claim[str](value="released")})}
    )
    h.send("first")
    h.provider_says("first", 503)
    h.answer("first", "failed")
    h.send("other", op="other", key="key-first")
    h.answer("other", "conflict")
    assert "refusal-policy" in h.rules()


def test_a_credential_that_is_good_after_all_shows_nothing() -> None:
    """Who calls a credential wrong that the target takes has a mistake in the target file, not in the target."""
    h = ordered(None)
    h.send("first", sender="unauthorized")
    h.deliver("first")
    h.answer("first")
    assert h.accusations == []


def test_after_a_wrong_credential_the_right_one_sends() -> None:
    h = ordered(None)
    h.send("stranger", sender="unauthorized", op="first", key="key-first")
    h.answer("stranger", "unauthorized")
    h.send("first", like="stranger", sender="main")
    h.deliver("first")
    h.answer("first")
    assert h.accusations == []


# --- what is refused has no effect, and says what the contract says ---------------------------------------------


def test_what_was_refused_is_not_delivered() -> None:
    h = History.under("rasket")
    h.send("first")
    h.deliver("first")
    h.answer("first", "refused")
    assert "no-effect" in h.rules()


def test_what_the_provider_refused_and_took_all_the_same_is_not_the_targets_fault() -> None:
    h = History.under("rasket")
    h.send("first")
    h.provider_lies("first", 422)
    h.answer("first", "refused")
    assert "no-effect" not in h.rules()


def test_a_dry_run_sends_nothing_and_promises_nothing() -> None:
    h = History.under("pylota")
    h.send("trial", dry_run=True)
    h.answer("trial")
    assert h.accusations == []
    h.deliver("trial")
    assert h.rules() == {"no-effect"}


def test_a_dry_run_leaves_its_key_free() -> None:
    h = History.under("pylota")
    h.send("trial", dry_run=True, op="first", key="key-first")
    h.answer("trial", number="dry")
    h.send("first", key="key-first")
    h.deliver("first")
    h.answer("first")
    assert h.accusations == []


def test_a_declared_retry_after_is_there() -> None:
    h = History.under("novu")
    h.send("first")
    made = h.hand_over("first")
    h.send("again", like="first")
    h.answer("again", "in_progress", unmarked=True)
    h.tell(h.commit(made))
    h.answer("first")
    assert "hints" in h.rules()


def test_a_hint_of_which_the_contract_says_nothing_is_not_missed() -> None:
    h = History.under("resend")
    h.send("first")
    made = h.hand_over("first")
    h.send("again", like="first")
    h.answer("again", "in_progress", unmarked=True)
    h.tell(h.commit(made))
    h.answer("first")
    assert h.rules(Level.MUST) == set()


# --- some order explains everything ------------------------------------------------------------------------------


def test_of_those_that_meet_one_is_the_first() -> None:
    h = History.under("postfleet")
    for name in ("a", "b", "c"):
        h.send(name, op="first", key="key-first")
    for name in ("a", "b", "c"):
        h.answer(name, "in_progress")
    assert h.rules() == {"one-order"}


def test_the_first_may_have_failed_and_the_others_waited_for_it() -> None:
    h = History.under("postfleet")
    for name in ("a", "b", "c"):
        h.send(name, op="first", key="key-first")
    h.answer("b", "in_progress")
    h.answer("c", "in_progress")
    h.answer("a", "failed")
    assert "one-order" not in h.rules()


def test_in_bad_weather_nobody_need_be_the_first() -> None:
    h = History.under("postfleet")
    h.send("a", op="first", key="key-first")
    h.provider_says("first", 503)
    h.answer("a", "in_progress")
    h.send("b", like="a")
    h.answer("b", "in_progress")
    assert "one-order" not in h.rules()
