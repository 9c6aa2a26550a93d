"""Rules about what a person or the provider decides: drafts that wait for approval, outcomes that become known."""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.attempt import NEEDS_APPROVAL, Attempt
from sendtwice.harness.judge.classes import SUCCESS
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.judge.finding import Finding

#: The calls by which a person decides, by the names that scenarios use.
APPROVE, REJECT, NOT_SENT = "approve", "reject", "resolve-not-sent"
_INDEFINITE = {A.UNKNOWN, A.IN_PROGRESS}


def judge_approval(facts: Facts) -> Iterator[Finding]:
    """A draft leaves only after a person approved it, and never after a rejection."""
    approval = facts.contract.approval
    if approval is None and not facts.approval:
        return
    for name in facts.operations:
        pending = [a for a in facts.attempts_for(name) if a.answered and a.classes == {A.PENDING}]
        yield from _own_key(facts, name)
        group = facts.group_of(name)
        if not pending or any(_sent_by_itself(a) for a in facts.attempts_of(group)):
            continue
        commits = facts.commits.get(group, [])
        # An approval that failed half-way, or whose answer never came, may have been one.
        approved = [e for e in _calls(facts, name, APPROVE) if not 400 <= int(e.data.get("status") or 0) < 500]
        rejected = [e for e in _calls(facts, name, REJECT) if _ok(e)]
        what = None
        if commits and not approved:
            what = "was rejected by a person" if rejected else "was to wait for approval"
        elif commits and rejected and rejected[0].seq < min(approved[0].seq, commits[-1].seq):
            what = "had been rejected before it was approved"
        if what is not None:
            yield finding(
                facts.contract,
                "approval",
                f"{name} {what}, and was delivered all the same",
                tuple(sorted({*pending[0].events, *(e.seq for e in rejected), *(c.seq for c in commits)})),
                operation=name,
            )


def _sent_by_itself(attempt: Attempt) -> bool:
    """Whether an attempt may have sent its mail without a person: it was answered so, or nobody has to approve it."""
    if attempt.answered and attempt.classes & SUCCESS:
        return True
    return attempt.sender != NEEDS_APPROVAL and not (attempt.answered and attempt.classes == {A.PENDING})


def _own_key(facts: Facts, name: str) -> Iterator[Finding]:
    approval = facts.contract.approval
    if approval is None or not approval.own_key.says("refused"):
        return
    for event in _calls(facts, name, APPROVE):
        if event.data.get("by") is not None and _ok(event):
            yield finding(
                facts.contract,
                "approval",
                f"{name}: the credential that asked for the mail also approved it ({event.data['status']})",
                (event.seq,),
                operation=name,
            )


def judge_reconciled(facts: Facts) -> Iterator[Finding]:
    """An unknown outcome becomes known by its own event or by a person, and by nothing else."""
    for name in facts.operations:
        attempts = facts.attempts_for(name)
        doubtful = [a for a in attempts if a.answered and a.classes and a.classes <= _INDEFINITE]
        decisions = facts.decisions(name)
        if doubtful and not decisions:
            yield from _known_by_itself(facts, name, doubtful)
        yield from _still_unknown(facts, name, decisions)
        yield from _sent_after_all(facts, name, attempts)


def _known_by_itself(facts: Facts, name: str, doubtful: list[Attempt]) -> Iterator[Finding]:
    """A success after doubt, with no mail in the ledger, was taken from somebody else's event."""
    group = facts.group_of(name)
    later = [a for a in facts.attempts_for(name) if a.succeeded and doubtful[0].before(a)]
    others = [
        e
        for e in facts.events
        if e.kind is Kind.REPORTED and e.operation is not None and facts.group_of(e.operation) != group
    ]
    if not later or not others or facts.count(group) or group in facts.blurred:
        return
    if not any(e.seq < (later[0].end or 0) for e in others) or not weather.handed_over(facts, group):
        return
    yield finding(
        facts.contract,
        "reconciliation",
        f"{later[0].name} was answered as a success; its mail was never delivered, and the provider's event "
        f"told of {others[0].operation}",
        (*doubtful[0].events, others[0].seq, *later[0].events),
        operation=name,
    )


def _still_unknown(facts: Facts, name: str, decisions: list[Event]) -> Iterator[Finding]:
    """Once it is decided, retrying comes to an end."""
    within = facts.contract.reconciliation.within
    for event in facts.about(facts.group_of(name)):
        if event.kind is not Kind.FINISHED or event.operation != name or event.data.get("definite"):
            continue
        last = facts.attempt(str(event.data["last"]))
        made = [e for e in decisions if e.seq < event.seq and _in_time(facts, name, e)]
        if last is None or not last.answered or not made or not last.classes <= _INDEFINITE or not last.classes:
            continue
        if all(e.kind is Kind.REPORTED for e in made) and not within.judged:
            continue
        if facts.storms.cut(made[0].seq, last.end) or facts.storms.gave_up(last):
            continue  # what had been decided could not be looked up
        yield finding(
            facts.contract,
            "reconciliation",
            f"{name}: what became of it had been told, and every retry for {event.data.get('waited', 0):.1f} s "
            f"was answered {last.status} all the same",
            (made[0].seq, *last.events, event.seq),
            operation=name,
        )


def _sent_after_all(facts: Facts, name: str, attempts: list[Attempt]) -> Iterator[Finding]:
    """What a person called not sent is over: a new send needs a new key (Pylota decision 0004, item 6)."""
    verdict = next((e for e in _calls(facts, name, NOT_SENT) if _ok(e)), None)
    if verdict is None or not any(route.does == "resolve" for route in facts.contract.routes.values()):
        return
    group = facts.group_of(name)
    after = [c for c in facts.commits.get(group, []) if c.seq > verdict.seq]
    first = attempts[0]
    again = [a for a in facts.attempts_of(group) if a.start > verdict.seq]
    if after and again and all(facts.shares_key(first, a) for a in again):
        yield finding(
            facts.contract,
            "reconciliation",
            f"{name} was resolved as not sent, and a retry under the same key sent it",
            (verdict.seq, *again[0].events, after[0].seq),
            operation=name,
        )


def _in_time(facts: Facts, name: str, event: Event) -> bool:
    """Whether an event of the provider came within the time in which it is matched."""
    within = facts.contract.reconciliation.within
    if event.kind is not Kind.REPORTED or not within.judged:
        return True
    first = facts.attempts_for(name)[0]
    moved = sum(float(e.data["seconds"]) for e in facts.advances if first.start < e.seq < event.seq)
    return moved < (within.value or 0)


def _calls(facts: Facts, operation: str, name: str) -> list[Event]:
    return [
        e
        for e in facts.about(facts.group_of(operation))
        if e.kind is Kind.CALL and e.operation == operation and e.data.get("name") == name
    ]


def _ok(event: Event) -> bool:
    return 200 <= int(event.data.get("status") or 0) < 300
