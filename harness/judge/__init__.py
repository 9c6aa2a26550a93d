"""The judge: contract + history -> findings.

Pure: no clock, no I/O, and no knowledge of how the history came about. A finding is never taken back by a fault
that did not fire or by requests that did not overlap; those void a pass only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sendtwice.fake_provider.contracts import AnswerClass, Contract, Level
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.answers import (
    judge_answers,
    judge_hints,
    judge_pairs,
    judge_replays,
    judge_strangers,
)
from sendtwice.harness.judge.callers import judge_callers
from sendtwice.harness.judge.checks import TURNED_AWAY, TURNED_AWAY_SENDERS
from sendtwice.harness.judge.classes import SUCCESS
from sendtwice.harness.judge.consumers import judge_consumers, unshown
from sendtwice.harness.judge.decided import judge_approval, judge_reconciled
from sendtwice.harness.judge.effects import judge_effects, judge_refused
from sendtwice.harness.judge.facts import Attempt, Facts
from sendtwice.harness.judge.finding import Finding, Judgement
from sendtwice.harness.judge.first import judge_first
from sendtwice.harness.judge.lost import judge_losses
from sendtwice.harness.judge.progress import judge_expectations, judge_progress, judge_release
from sendtwice.harness.judge.rules import RULES, Rule

__all__ = ["RULES", "Finding", "Judgement", "Rule", "judge"]

_WEIGHT = {Level.MUST: 0, Level.SHOULD: 1, Level.HOLE: 2, Level.OBSERVE: 3}


def judge(
    contract: Contract,
    events: Sequence[Event],
    *,
    role: str = "api",
    approval: bool = False,
    lease: float | None = None,
    max_attempts: int | None = None,
    attempt_timeout: float | None = None,
) -> Judgement:
    """Hold one scenario's history against a contract.

    The last three are what the target file says: after how many seconds a claim lapses, how often a caller tries, and
    how many seconds it waits for an answer.
    """
    facts = Facts(contract, events, role, approval, lease, max_attempts, attempt_timeout)
    findings = [*judge_effects(facts), *judge_losses(facts)]
    if role == "api":
        findings += judge_replays(facts)
        findings += judge_pairs(facts)
        findings += judge_answers(facts)
        findings += judge_strangers(facts)
        findings += judge_hints(facts)
        findings += judge_refused(facts)
        findings += judge_approval(facts)
        findings += judge_reconciled(facts)
        findings += judge_progress(facts)
        findings += judge_release(facts)
    if role == "client":
        findings += judge_callers(facts)
    if role == "consumer":
        findings += judge_consumers(facts)
    if role == "api":
        accused = {found.operation for found in findings}
        findings += [f for f in judge_first(facts) if f.operation not in accused]
    findings = _plainest(facts, findings)
    weights: dict[str | None, int] = {}
    for found in findings:
        weights[found.operation] = min(_WEIGHT[found.level], weights.get(found.operation, 9))
    # An expectation that only repeats what a rule has said, at no less a level, adds nothing.
    findings += [
        f for f in judge_expectations(facts) if f.operation is None or weights.get(f.operation, 9) > _WEIGHT[f.level]
    ]
    if facts.count_in_doubt:
        findings = [found for found in findings if found.rule not in _RESTS_ON_COUNT]
    if facts.clock_in_doubt:
        findings = [found for found in findings if found.rule not in _RESTS_ON_TIME]
    findings = _once(findings, role)
    findings.sort(key=lambda f: (_WEIGHT[f.level], f.events))
    return Judgement(tuple(findings), tuple(_voids(facts)), tuple(_absent(facts)), _observed(facts))


def _once(findings: list[Finding], role: str) -> list[Finding]:
    """One finding for each rule and operation: the first, with the events of all and the number of the others."""
    groups: dict[tuple[str, Level, str | None], list[Finding]] = {}
    for found in findings:
        groups.setdefault((found.rule, found.level, found.operation), []).append(found)
    kept = []
    for first, *others in groups.values():
        messages = {found.message for found in others} - {first.message}
        more = f" (and {len(messages)} more like it)" if messages else ""
        events = tuple(sorted({seq for found in (first, *others) for seq in found.events}))
        kept.append(replace(first, message=first.message + more, events=events, remedy=_remedy(first, role)))
    return kept


#: What else is broken when a key is forgotten too early, or never; when a caller's attempts have made two mails; or
#: when it calls sent what is not: one story, told once.
_FOLLOWS = {
    "expiry": {"replay-fidelity", "no-lost-send", "conflict", "at-most-once", "status-as-declared"},
    "at-most-once": {"one-key", "unkeyed-retry"},
    "told": {"no-lost-send"},
}

#: What cannot be said of a target whose clock may have stood still: that time has passed, and what was to come of that.
_RESTS_ON_TIME = frozenset({"expiry", "expected"})

#: What may rest on a mail that is not there, where nobody could count.
_RESTS_ON_COUNT = frozenset(
    {
        "expected",
        "isolation",
        "no-lost-send",
        "progress",
        "reconciliation",
        "refusal-policy",
        "told",
        "wait-for-first",
    }
)


def _plainest(facts: Facts, findings: list[Finding]) -> list[Finding]:
    """Leave out what only follows from another finding about the same content."""

    def group(found: Finding) -> str | None:
        return None if found.operation is None else facts.group_of(found.operation)

    follows = {
        (group(found), rule)
        for found in findings
        if found.rule != "told" or found.level is Level.MUST  # the milder ones are about something else
        for rule in _FOLLOWS.get(found.rule, ())
    }
    return [found for found in findings if (group(found), found.rule) not in follows]


def _remedy(found: Finding, role: str) -> str:
    return RULES[found.rule].remedy_for(role)


def _voids(facts: Facts) -> list[str]:
    """Return why a pass would prove nothing, in the words of a report."""
    found: list[str] = []
    for event in facts.events:
        if event.kind is Kind.UNFIRED:
            found.append(f"the fault '{event.data['fault']}' never fired")
        elif event.kind is Kind.VOID:
            found.append(str(event.data["reason"]))
        elif event.kind is Kind.OVERLAP and not event.data["overlapped"] and not event.data.get("answered_first"):
            found.append(f"{', '.join(event.data['attempts'])} were meant to overlap and did not")
        elif event.kind is Kind.DELIVERY and event.data.get("ambiguous") and event.data.get("counted"):
            found.append("what target.effects counts by does not tell two operations apart: add {subject} or {text}")
        elif event.kind is Kind.DELIVERY and event.data.get("ambiguous"):
            found.append("the target's mail shows too little of its content to tell two operations apart")
    if facts.role == "consumer":
        found += unshown(facts)
    if facts.role == "api":
        for attempt in facts.attempts:
            found += _nothing_shown(facts, attempt)
    return list(dict.fromkeys(found))


def _absent(facts: Facts) -> list[str]:
    """Return what kept the window from existing at all on this target."""
    found = [f"the target has no {a.path} ({a.status})" for a in facts.attempts if facts.absent_path(a)]
    for event in facts.events:
        if event.kind is Kind.OVERLAP and event.data.get("answered_first"):
            first, second = event.data["attempts"]
            found.append(f"{first} was answered before {second} could meet it in flight: {_why_alone(facts, first)}")
    return found


def _why_alone(facts: Facts, name: str) -> str:
    """Say why nobody met an attempt: it was answered without its mail, or without what was held of it."""
    attempt = facts.attempt(name)
    group = facts.group_of(attempt.operation) if attempt is not None else ""
    handed = [e.seq for e in facts.about(group) if e.kind is Kind.PROVIDER_REQUEST]
    if attempt is not None and any(attempt.start < seq < (attempt.end or 0) for seq in handed):
        return "the target does not wait so long"
    return "the target answers before it hands the mail over (send.burst plays the race)"


def _nothing_shown(facts: Facts, attempt: Attempt) -> list[str]:
    """A plain first send that fails in fair weather leaves nothing to judge."""
    operations = {attempt.operation, *(r.operation for r in facts.rivals(attempt))}
    if weather.trouble(facts, operations, until=attempt.end):
        return []
    if attempt.outcome in ("timed-out", "broken", "garbage", "unreachable"):
        how = {
            "timed-out": "got no answer in time",
            "broken": "was cut off by the target",
            "garbage": "got no HTTP answer",
        }
        return [f"{attempt.name} {how.get(attempt.outcome, 'could not connect')}"]
    if facts.absent_path(attempt) or facts.broken_off(attempt):
        return []
    if attempt.key is None and not facts.contract.key.presence.judged and AnswerClass.KEY_MISSING in attempt.classes:
        return []  # it wants a key, which the contract leaves open; that nothing was sent is judged by the ledger
    if attempt.sender in TURNED_AWAY_SENDERS:
        return []  # that is what it was sent for
    alone = attempt not in facts.crowded
    if attempt.classes & TURNED_AWAY and not attempt.classes & SUCCESS and alone:
        return [f"{attempt.name} was turned away ({attempt.status}): that shows nothing of the key"]
    if attempt.classes == {AnswerClass.PENDING} and not facts.approval:
        return [f"{attempt.name} was called a draft, and the target declares no 'approval' (target.capabilities)"]
    odd = attempt.invalid or attempt.partly_invalid or attempt.too_many or attempt.key_problem
    plain = not odd and not attempt.doubled and not facts.rivals(attempt) and not facts.forgotten(attempt)
    if plain and attempt.answered and not attempt.classes & (SUCCESS | {AnswerClass.PENDING}):
        return [f"{attempt.name}, a plain first send, was answered {attempt.status}: nothing of the window was shown"]
    if attempt.invalid and attempt.answered and attempt.classes & SUCCESS:
        return [f"{attempt.name} was meant to be refused, and the target took it"]
    return []


def _observed(facts: Facts) -> dict[str, str]:
    """Return habits that the contract leaves open, as seen."""
    seen: dict[str, str] = {}
    if any(event.kind is Kind.RESTART and event.data.get("willingly") is False for event in facts.events):
        seen["stop"] = "does not end when it is told to"
    for attempt in facts.attempts:
        if not attempt.answered or facts.role != "api":
            continue
        rivals = [r for r in facts.rivals(attempt) if r.start < attempt.start and r.succeeded]
        if not rivals:
            continue
        first = rivals[0]
        kind = "repeat" if facts.same_request(first, attempt) else "other_content"
        if first.overlaps(attempt):
            if kind == "other_content":
                continue
            kind = "in_progress"
        if attempt.succeeded:
            again = first.id is not None and attempt.id not in (None, first.id)
            success = "waits, then replays" if kind == "in_progress" else "answers with success"
            seen[kind] = "runs again" if again else success
        else:
            seen[kind] = f"answers {attempt.status}"
    return seen
