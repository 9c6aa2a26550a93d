"""Some order of events must explain what the attempts under one key were told.

Rules about single answers and pairs leave one thing open: each of several attempts that meet may be told "another one
has this key", and nobody had it. So for each key whose attempts all ended well in fair weather there must be one that
can have been the first: none that was answered before it began presupposes another.
"""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.answers import finding, named
from sendtwice.harness.judge.attempt import Attempt
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.judge.finding import Finding

#: What can be told to one that has the key, or that does nothing with it.
_ALONE = frozenset({A.ACCEPTED, A.PENDING, A.FAILED, A.UNKNOWN, A.REFUSED, A.UNAUTHORIZED, A.RATE_LIMITED})


def judge_first(facts: Facts) -> Iterator[Finding]:
    """Under every key, some attempt can have been the first."""
    seen: set[Attempt] = set()
    for attempt in facts.attempts:
        if attempt in seen or attempt.key is None:
            continue
        chain = [a for a in facts.keyring.of(attempt) if a is attempt or facts.may_share_key(a, attempt)]
        seen.update(chain)
        if len(chain) < 2 or not _clear(facts, chain):
            continue
        if any(_explains(first, chain) for first in chain):
            continue
        told = ", ".join(f"{a.name} {named(a.classes)}" for a in chain[:4]) + (", ..." if len(chain) > 4 else "")
        yield finding(
            facts.contract,
            "one-order",
            f"no order of these {len(chain)} attempts explains what they were told: {told}",
            tuple(sorted({seq for a in chain for seq in a.events})),
            operation=attempt.operation,
        )


def _clear(facts: Facts, chain: list[Attempt]) -> bool:
    """Whether all of it was seen: every attempt answered, nothing failed, no time passed, one key for certain."""
    return (
        all(a.answered and a.classes and not a.key_problem and not a.doubled and not a.invalid for a in chain)
        and all(facts.shares_key(chain[0], a) for a in chain[1:])
        and not facts.advances
        and not weather.trouble(facts, {a.operation for a in chain}, until=None)
    )


def _explains(first: Attempt, chain: list[Attempt]) -> bool:
    """Whether everything fits if ``first`` was the one that had the key: nothing before it presupposes another.

    What a later one was told of it (a conflict, a replay) is held against its content by rules of its own.
    """
    if not first.classes & _ALONE:
        return False
    return all(other is first or other.classes & _ALONE or not other.before(first) for other in chain)
