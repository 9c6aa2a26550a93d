"""Rules about callers (role client): what the target's own attempts show on the wire."""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.judge.finding import Finding


def judge_callers(facts: Facts) -> Iterator[Finding]:
    """A conflict is final: the same operation under another key is a second mail in the making."""
    for attempt in facts.attempts:
        if attempt.classes != {A.CONFLICT}:
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
            )
