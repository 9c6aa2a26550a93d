"""What a person or the provider decides: drafts that wait, and outcomes that become known."""

import pytest

from sendtwice.fake_provider.contracts import Level
from tests.harness.histories import History


def pending(h: History, attempt: str = "first") -> History:
    h.send(attempt, op="first", key="key-first")
    h.answer(attempt, "pending", number="d1")
    return h


def approval() -> History:
    return History.under("postfleet", approval=True)


def test_a_draft_that_is_approved_once_is_sent_once() -> None:
    h = pending(approval())
    h.call("first", "approve")
    h.deliver("first")
    pending(h, "again")
    assert h.accusations == []


def test_a_draft_does_not_leave_before_it_is_approved() -> None:
    h = pending(approval())
    h.deliver("first")
    assert h.rules() == {"approval"}


def test_a_draft_that_was_rejected_does_not_leave() -> None:
    h = pending(approval())
    h.call("first", "reject")
    h.deliver("first")
    assert h.rules() == {"approval"}


def test_a_draft_that_was_approved_twice_is_sent_once() -> None:
    h = pending(approval())
    h.call("first", "approve")
    h.deliver("first")
    h.call("first", "approve", 409)
    assert h.accusations == []
    h.deliver("first")
    assert "at-most-once" in h.rules()


def test_the_credential_that_asks_does_not_approve() -> None:
    h = pending(approval())
    h.call("first", "approve", 403, by="main")
    assert h.accusations == []
    h.call("first", "approve", 200, by="main")
    assert h.rules() == {"approval"}


@pytest.mark.parametrize("answer", ["pending", "replayed", "accepted"])
def test_a_repeat_after_the_approval_may_show_the_draft_or_the_mail(answer: str) -> None:
    h = pending(approval())
    h.call("first", "approve")
    h.deliver("first")
    h.send("again", like="first")
    h.answer("again", answer, number="d1")
    assert h.accusations == []


def test_a_repeat_after_the_rejection_may_be_told_of_it() -> None:
    h = pending(approval())
    h.call("first", "reject")
    h.send("again", like="first")
    h.answer("again", "refused")
    assert h.accusations == []


# --- unknown outcomes ---------------------------------------------------------------------------------------------


def unknown(h: History, op: str = "first") -> History:
    """The provider took the mail and said nothing; the target says that it does not know."""
    h.send(op)
    h.provider_silent(op)
    h.answer(op, "unknown")
    return h


def test_the_providers_event_ends_an_unknown_outcome() -> None:
    h = unknown(History.under("postfleet"))
    h.report("first")
    h.send("again", like="first")
    h.answer("again", "replayed")
    assert h.accusations == []


def test_an_outcome_that_was_told_and_stays_unknown_is_not_reconciled() -> None:
    h = unknown(History.under("pylota"))
    h.report("first")
    h.send("again", like="first")
    h.answer("again", "in_progress")
    h.finish("first", "again", definite=False)
    assert "reconciliation" in h.rules()


def test_an_event_that_comes_too_late_binds_nobody() -> None:
    h = unknown(History.under("pylota"))
    h.advance(1801)
    h.report("first")
    h.send("again", like="first")
    h.answer("again", "in_progress")
    h.finish("first", "again", definite=False)
    assert "reconciliation" not in h.rules()


def test_the_event_of_another_mail_makes_no_success() -> None:
    h = History.under("postfleet")
    h.send("lost")
    h.provider_deaf("lost")
    h.answer("lost", "unknown", number=None)
    unknown(h, "other")
    h.report("other")
    h.send("lost~1", like="lost")
    h.answer("lost~1", "replayed", number="m7")
    assert "reconciliation" in h.rules()


def test_what_a_person_called_not_sent_needs_a_new_key() -> None:
    h = History.under("pylota")
    h.send("first")
    h.provider_deaf("first")
    h.answer("first")
    h.call("first", "resolve-not-sent")
    h.send("again", like="first")
    h.deliver("first")
    h.answer("again", "replayed")
    assert "reconciliation" in h.rules()


def test_under_a_new_key_it_is_sent() -> None:
    h = History.under("pylota")
    h.send("first")
    h.provider_deaf("first")
    h.answer("first")
    h.call("first", "resolve-not-sent")
    h.send("again", like="first", key="key-second")
    h.deliver("first")
    h.answer("again", number="m2")
    assert h.rules(Level.MUST) == set(), h.accusations


def test_a_repeat_of_a_pending_send_makes_no_second_draft() -> None:
    h = pending(approval())
    h.send("again", like="first")
    h.answer("again", "pending", number="d2")
    assert h.rules() == {"replay-fidelity"}


def test_what_another_credential_sends_by_itself_needs_no_approval() -> None:
    h = approval()
    h.send("first", op="first", key="key-first", sender="needs-approval")
    h.answer("first", "pending", number="d1")
    h.send("second", like="first", key="key-second", sender="other-credential")
    h.ends("second")
    h.deliver("first")
    assert "approval" not in h.rules()
