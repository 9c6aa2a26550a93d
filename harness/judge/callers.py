"""Rules about callers (role client): what the target's own attempts show on the wire."""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.facts import Attempt, Facts
from sendtwice.harness.judge.finding import Finding


def judge_callers(facts: Facts) -> Iterator[Finding]:
    """A conflict is final: the same operation under another key is a second mail in the making."""
    for attempt in facts.attempts:
        if not _told_of_conflict(facts, attempt):
            continue
        again = next(
            (
                a
                for a in facts.attempts
                if a.operation == attempt.operation and a.start > attempt.start and a.key != attempt.key
            ),
            None,
        )
        if again is not None:
            yield finding(
                facts.contract,
                "conflict",
                f"{attempt.name} was told that its key belongs to other content, and {again.name} tried "
                f"the same operation under another key",
                (*attempt.events, *again.events),
                operation=attempt.operation,
                weight=Level.MUST,  # what a server should do is the contract's; that a caller must stop is not
            )


def _told_of_conflict(facts: Facts, attempt: Attempt) -> bool:
    """Whether an attempt was answered with a conflict: by its looks, or because that answer was played."""
    played = any(
        e.kind is Kind.FIRED
        and e.operation == attempt.operation
        and e.data.get("argument") == A.CONFLICT
        and attempt.start < e.seq < (attempt.end or e.seq)
        for e in facts.about(facts.group_of(attempt.operation))
    )
    return attempt.answered and (attempt.classes == {A.CONFLICT} or (played and A.CONFLICT in attempt.classes))
