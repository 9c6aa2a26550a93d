"""Rules about consumers (role consumer): whom they believe, and what they acknowledge.

An event is believed for its signature alone. So a mail that was sent when nothing but unbelievable events had come is
the work of one of them; once a true event of the same message has come as well, nobody can tell any more.

A refusal is no fault by itself: an event comes again. But a true event that is refused in fair weather whenever it
comes is lost in the end, and the provider may stop to send events at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sendtwice.fake_provider.contracts import Level
from sendtwice.fake_provider.signatures import Flaw
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.attempt import Attempt
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.judge.finding import Finding

#: What is wrong with a signature, in the words of a finding.
_WRONG = {
    Flaw.BAD: "has a signature that is none",
    Flaw.STALE: "was signed a day before it came",
    Flaw.ABSENT: "has no signature",
    Flaw.OTHER_SECRET: "was signed with another secret",
    Flaw.TAMPERED: "was changed after it was signed",
}
#: Refusals that ask the provider to come again: it took too long, something goes on, it was too early, or too often.
_COME_AGAIN = frozenset({408, 409, 425, 429})


def judge_consumers(facts: Facts) -> Iterator[Finding]:
    """Hold what was done and answered against what was to be believed."""
    for group in facts.groups:
        if group not in facts.blurred:
            yield from _unverified(facts, group)
    yield from _refused_for_good(facts)


def unshown(facts: Facts) -> Iterator[str]:
    """Return why a pass would prove nothing: a true event that was taken by nobody, in fair weather."""
    for event in facts.events:
        if event.kind is not Kind.FINISHED or event.data.get("definite") or event.operation is None:
            continue
        group = facts.group_of(event.operation)
        if facts.commits.get(group) or weather.uncertain(facts, {event.operation}, until=None):
            continue
        last = facts.attempt(str(event.data.get("last")))
        if last is not None and last.vouched:
            how = f"was answered {last.status}" if last.answered else "got no answer"
            yield (
                f"{event.operation}'s event was not acknowledged, and nothing was sent for it: the last delivery of it "
                f"{how} (target.consumer.schedule says how often it comes)"
            )


def _unverified(facts: Facts, group: str) -> Iterator[Finding]:
    attempts = facts.attempts_of(group)
    forged = [a for a in attempts if a.signature is not None and not a.never_arrived]
    if not forged:
        return
    true = min((a.start for a in attempts if a.vouched and not a.never_arrived), default=facts.last_seq + 1)
    commits = [c for c in facts.commits.get(group, ()) if c.seq < true]
    if commits:
        cause = next((a for a in reversed(forged) if a.start < commits[0].seq), forged[0])
        yield finding(
            facts.contract,
            "unverified",
            f"{cause.name} {_WRONG[Flaw(str(cause.signature))]}, and a mail was sent for it",
            _events([cause], *(c.seq for c in commits)),
            operation=cause.operation,
        )
        return
    for attempt in forged:
        if _acknowledged(attempt):
            yield finding(
                facts.contract,
                "unverified",
                f"{attempt.name} {_WRONG[Flaw(str(attempt.signature))]}, and was acknowledged with {attempt.status}",
                attempt.events,
                operation=attempt.operation,
                weight=Level.SHOULD,
            )


def _refused_for_good(facts: Facts) -> Iterator[Finding]:
    for event in facts.events:
        if event.kind is not Kind.FINISHED or event.data.get("definite") or event.operation is None:
            continue
        last = facts.attempt(str(event.data.get("last")))
        told = [a for a in facts.attempts_for(event.operation) if a.vouched and a.answered]
        if last is None or last not in told or any(_acknowledged(a) for a in told):
            continue
        refused = [a for a in told if 400 <= (a.status or 0) < 500 and a.status not in _COME_AGAIN]
        if last not in refused or len(refused) < len(told):
            continue
        operations = {event.operation}
        if weather.uncertain(facts, operations, until=None) or _provider_refused(facts, event.operation, refused):
            continue
        yield finding(
            facts.contract,
            "progress",
            f"{event.operation}: its event was refused each time, {len(refused)} in all, the last with {last.status}; "
            "the provider gives up",
            _events(refused, event.seq),
            operation=event.operation,
            weight=Level.SHOULD,
        )


def _provider_refused(facts: Facts, operation: str, attempts: Sequence[Attempt]) -> bool:
    """Whether the mail provider failed, so that refusing was fair."""
    return any(
        weather.provider_failed(facts, {facts.group_of(operation)}, until=attempt.end, since=attempt.start)
        for attempt in attempts
    )


def _acknowledged(attempt: Attempt) -> bool:
    return attempt.answered and 200 <= (attempt.status or 0) < 300


def _events(attempts: Sequence[Attempt], *more: int) -> tuple[int, ...]:
    return tuple(sorted({*(seq for attempt in attempts for seq in attempt.events), *more}))
