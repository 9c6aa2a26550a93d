"""Contracts that permit what most forbid: what they permit is a hole or nothing, and what they forbid stays a must."""

from typing import Any

import pytest

from sendtwice.fake_provider.contracts import Claim, Level
from sendtwice.fake_provider.contracts.groups import Batch
from tests.harness.histories import History, contract_named


def said(name: str = "rasket", **claims: Any) -> History:
    """A history under a contract that says this and otherwise what it says."""
    return History(contract_named(name).model_copy(update={k: Claim[Any](value=v) for k, v in claims.items()}))


def outcomes(name: str = "rasket", **claims: Any) -> History:
    contract = contract_named(name)
    changed = contract.outcomes.model_copy(update={k: Claim[Any](value=v) for k, v in claims.items()})
    return History(contract.model_copy(update={"outcomes": changed}))


def sent(h: History, attempt: str, number: str, **more: Any) -> None:
    h.send(attempt, **more)
    h.deliver(more.get("op") or more.get("like") or attempt)
    h.answer(attempt, number=number)


# --- a repeat runs again ------------------------------------------------------------------------------------------


def test_where_a_repeat_runs_again_its_second_mail_is_the_contracts_hole() -> None:
    h = said(duplicates="execute")
    sent(h, "first", "m1")
    sent(h, "again", "m2", like="first")
    assert h.accusations == []
    assert "at-most-once" in h.rules(Level.HOLE)


def test_where_a_repeat_runs_again_two_that_meet_have_two_ids() -> None:
    h = said(duplicates="execute")
    h.send("one")
    h.send("two", like="one")
    for attempt, number in (("one", "m1"), ("two", "m2")):
        h.deliver("one")
        h.answer(attempt, number=number)
    assert h.accusations == []


def test_where_other_content_runs_its_repeats_have_ids_of_their_own() -> None:
    h = said(mismatch="execute")
    sent(h, "first", "m1")
    sent(h, "changed", "m2", op="changed", key="key-first")
    sent(h, "changed-again", "m3", like="changed")
    assert h.accusations == []
    assert "at-most-once" in h.rules(Level.HOLE)


def test_where_other_content_runs_the_same_content_is_still_sent_once() -> None:
    h = said(mismatch="execute")
    sent(h, "first", "m1")
    sent(h, "again", "m2", like="first")
    assert "at-most-once" in h.rules()


def test_another_path_is_another_request_and_its_id_no_replays() -> None:
    h = said(mismatch="execute")
    sent(h, "first", "m1")
    sent(h, "elsewhere", "m2", like="first", path="/emails/batch")
    assert "replay-fidelity" not in h.rules()


def test_a_resumed_operation_may_answer_as_a_first_or_as_a_replay() -> None:
    for answer in ("accepted", "replayed"):
        h = said(duplicates="resume")
        sent(h, "first", "m1")
        h.send("again", like="first")
        h.answer("again", answer)
        assert h.accusations == []


def test_the_replay_of_a_request_that_counts_as_the_same_loses_no_mail() -> None:
    """What differs does not count under this contract, so nothing more is due; the mail is another operation's."""
    h = said()
    sent(h, "first", "m1", content="what counts")
    h.send("changed", op="changed", key="key-first", content="what counts")
    h.answer("changed", "replayed", number="m1")
    assert h.accusations == []


# --- a key that a refusal spoiled ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"invalid": True}, {"partly_invalid": True}, {"too_many": True}])
@pytest.mark.parametrize("repaired", [True, False])
def test_a_key_that_an_invalid_request_spoiled_is_refused_from_then_on(how: dict[str, Any], repaired: bool) -> None:
    h = outcomes(invalid="poisoned")
    h.send("first", **how)
    h.answer("first", "refused")
    if repaired:
        h.send("again", op="repaired", key="key-first")
    else:
        h.send("again", like="first", **how)
    h.answer("again", "key_invalid")
    assert h.accusations == []


def test_a_key_that_nothing_spoiled_is_not_invalid() -> None:
    h = outcomes(invalid="released")
    h.send("first", invalid=True)
    h.answer("first", "refused")
    h.send("again", op="repaired", key="key-first")
    h.answer("again", "key_invalid")
    assert h.accusations != []


# --- a batch that is told mail by mail ----------------------------------------------------------------------------


def in_part(entries: list[dict[str, Any]]) -> History:
    contract = contract_named("rasket")
    batch = Batch.model_validate({"partial": "accept-rest"})
    h = History(contract.model_copy(update={"batch": batch, "delivery": Claim[Any](value="inline")}))
    h.send("first", to=["a@sendtwice.test", "b@sendtwice.test"], batch=True)
    h.deliver("first", to=["a@sendtwice.test"])
    h.reply("first", 200, {"data": entries})
    return h


def test_a_mail_of_a_batch_that_is_told_as_refused_is_not_lost() -> None:
    assert in_part([{"id": "m1"}, {"status": "refused"}]).accusations == []


def test_a_mail_of_a_batch_that_is_told_as_taken_is_lost_when_it_never_comes() -> None:
    assert in_part([{"id": "m1"}, {"id": "m2"}]).rules() == {"no-lost-send"}
