"""Rules about callers (role client): what the target's own attempts show on the wire, and what it says of them.

The rules stand in modules by their matter: keys, what is sent again, patience, and the caller's word. Here are those
about answers that end an operation, and the list.
"""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.caller_asks import Calls
from sendtwice.harness.judge.caller_keys import one_key, unkeyed_retry, usable_keys
from sendtwice.harness.judge.caller_knows import same_key
from sendtwice.harness.judge.caller_patience import (
    bounded_retries,
    gives_up,
    retry_after,
    should_retry,
    wait_for_first,
)
from sendtwice.harness.judge.caller_requests import redirects, same_request, same_sender
from sendtwice.harness.judge.caller_told import told
from sendtwice.harness.judge.facts import Attempt, Facts
from sendtwice.harness.judge.finding import Finding

_RULES = (
    unkeyed_retry,
    same_request,
    same_sender,
    redirects,
    retry_after,
    should_retry,
    wait_for_first,
    bounded_retries,
    gives_up,
    told,
)


def judge_callers(facts: Facts) -> Iterator[Finding]:
    """Hold the attempts of every operation, and what was said of it, against what a caller must do."""
    calls = Calls(facts)
    for operation in facts.operations:
        if len(facts.groups[facts.group_of(operation)]) > 1:
            continue  # which of several equal mails an attempt was made for, its content does not say
        ended: set[Attempt] = set()  # attempts of which it was told that they follow an answer that ends all
        for attempt in calls.tries(operation):
            for found, later in (*_conflict(calls, attempt), *_draft(calls, attempt)):
                ended.add(later)
                yield found
        yield from one_key(calls, operation, told_already=ended)
        for rule in _RULES:
            yield from rule(calls, operation)
    yield from usable_keys(calls)


def _conflict(calls: Calls, attempt: Attempt) -> Iterator[tuple[Finding, Attempt]]:
    """A conflict is final: another key is a second mail in the making, and the same request the same conflict."""
    facts = calls.facts
    if not _told_of_conflict(facts, attempt):
        return
    later = [a for a in calls.tries(attempt.operation) if attempt.before(a)]
    again = next((a for a in later if not same_key(facts, a, attempt)), None)
    if again is not None:
        message = (
            f"{attempt.name} was told that its key belongs to other content, and {again.name} tried "
            f"the same operation under another key"
        )
        yield _found(facts, "conflict", message, attempt, again, Level.MUST), again
        return
    again = next((a for a in calls.repeats(attempt) if a.content == attempt.content), None)
    if again is not None and attempt.classes == {A.CONFLICT}:
        message = (
            f"{attempt.name} was told that its key belongs to other content, and {again.name} asked the same "
            f"once more: the answer will not change"
        )
        yield _found(facts, "conflict", message, attempt, again, Level.SHOULD), again


def _draft(calls: Calls, attempt: Attempt) -> Iterator[tuple[Finding, Attempt]]:
    """A draft waits for a person: under another key there will be two, and asking again does not hasten it."""
    facts = calls.facts
    if not attempt.answered or attempt.classes != {A.PENDING}:
        return
    later = [a for a in calls.tries(attempt.operation) if attempt.before(a)]
    again = next((a for a in later if not same_key(facts, a, attempt)), None)
    if again is not None and not facts.decisions(attempt.operation, until=again.start):
        message = f"{attempt.name} was answered with a draft, and {again.name} made another one, under another key"
        yield _found(facts, "draft-retried", message, attempt, again, Level.MUST), again
        return
    again = next(iter(calls.repeats(attempt)), None)
    if again is not None:
        message = f"{attempt.name} was answered with a draft, and {again.name} sent the operation again"
        yield _found(facts, "draft-retried", message, attempt, again, Level.SHOULD), again


def _found(facts: Facts, rule: str, message: str, first: Attempt, later: Attempt, weight: Level) -> Finding:
    # How much it weighs is no matter of the API's contract: what a server should do is, what a caller must is not.
    return finding(
        facts.contract, rule, message, (*first.events, *later.events), operation=first.operation, weight=weight
    )


def _told_of_conflict(facts: Facts, attempt: Attempt) -> bool:
    """Whether an attempt was answered with a conflict: by its looks, or because that answer was played."""
    if not attempt.answered or A.CONFLICT not in attempt.classes:
        return False
    played = any(
        e.kind is Kind.FIRED
        and e.operation == attempt.operation
        and e.data.get("argument") == A.CONFLICT
        and attempt.start < e.seq < (attempt.end or e.seq)
        for e in facts.about(facts.group_of(attempt.operation))
    )
    return played or attempt.classes == {A.CONFLICT}
