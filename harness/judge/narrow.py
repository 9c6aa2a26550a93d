"""Which of the classes that an answer may belong to are left, once its key's history is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sendtwice.fake_provider.contracts import AnswerClass

if TYPE_CHECKING:
    from sendtwice.harness.judge.attempt import Attempt
    from sendtwice.harness.judge.facts import Facts


def narrow(facts: Facts, attempts: Iterable[Attempt]) -> None:
    """The same id as an earlier success of this key is a replay; a first answer to a key is none."""
    for attempt in attempts:
        if not {AnswerClass.ACCEPTED, AnswerClass.REPLAYED} <= attempt.classes:
            continue
        if any(a.id is not None and a.id == attempt.id for a in facts.keyring.forgotten(attempt)):
            attempt.classes.discard(AnswerClass.ACCEPTED)
            continue
        earlier = [a for a in facts.keyring.of(attempt) if a is not attempt and facts.may_share_key(a, attempt)]
        if attempt.doubled:
            continue
        if any(
            # An id that is made of the key is the same for every tenant.
            a.id is not None and a.id == attempt.id and a.before(attempt) and a.tenant == attempt.tenant
            for a in earlier
        ):
            attempt.classes.discard(AnswerClass.ACCEPTED)
        elif not any(a.start < (attempt.end or 0) for a in earlier) or _has_its_own_id(facts, attempt, earlier):
            attempt.classes.discard(AnswerClass.REPLAYED)


def _has_its_own_id(facts: Facts, attempt: Attempt, earlier: Sequence[Attempt]) -> bool:
    """Whether an answer names another id than the first one did, where a replay would name the same."""
    if not facts.contract.replay.id.says("same") or attempt.id is None:
        return False
    if facts.leases_lapse and any(facts.both_first(a, b) for a in earlier for b in earlier):
        return False  # which of them is replayed, nobody knows
    return any(
        a.succeeded and a.id not in (None, attempt.id) and a.before(attempt) and facts.shares_key(a, attempt)
        for a in earlier
    )
