"""Rules about effects: never twice, never lost, and nothing sent under a key that is bad or taken."""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.classes import SUCCESS
from sendtwice.harness.judge.facts import Attempt, Commit, Facts, Operation
from sendtwice.harness.judge.finding import Finding
from sendtwice.harness.judge.permitted import Left, left_by
from sendtwice.harness.judge.rules import level


def judge_effects(facts: Facts) -> Iterator[Finding]:
    """Hold every group's commits against what its attempts may cause."""
    for group in facts.groups:
        yield from _never_twice(facts, group)
        yield from _never_lost(facts, group)
    yield from _other_content(facts)
    yield from _bad_keys(facts)


def _attempts(facts: Facts, group: str) -> list[Attempt]:
    return [a for a in facts.attempts if facts.group_of(a.operation) == group]


def allowed(facts: Facts, group: str) -> int:
    """Return how many deliveries the attempts of a group may cause: one for each key, one for each unkeyed attempt."""
    operations = facts.groups[group]
    if facts.role != "api":
        return len(operations)
    keyed: list[Attempt] = []
    unkeyed = 0
    for attempt in _attempts(facts, group):
        if attempt.key is None or attempt.key_problem is not None:
            unkeyed += 1
        elif not any(facts.shares_key(attempt, known) for known in keyed):
            keyed.append(attempt)
    return max(len(operations), len(keyed) + unkeyed)


def _never_twice(facts: Facts, group: str) -> Iterator[Finding]:
    limit = allowed(facts, group)
    count = facts.count(group)
    if count <= limit:
        return
    commits = facts.commits[group]
    excess = _excess(facts, group, limit)
    # A caller whose API did not answer is simply a caller that retries: its keys are there for that.
    unknown = [c for c in commits if c.seq < excess.seq and c.answered_at is None and facts.role != "client"]
    rule = "at-most-once-after-unknown" if unknown else "at-most-once"
    weight = level(facts.contract, rule)
    note = ""
    if unknown:
        claim = facts.contract.second_after_unknown
        if claim.judged and claim.value == "permitted":
            weight, note = Level.HOLE, "; the contract permits a second mail here"
        elif not claim.judged:
            weight, note = Level.OBSERVE, "; the contract does not say whether it may"
    names = ", ".join(op.name for op in facts.groups[group])
    permitted = f"{_times(limit)} {'is' if limit == 1 else 'are'} allowed"
    keys = sorted({a.key for a in _attempts(facts, group) if a.key})
    under = f" under {len(keys)} keys" if len(keys) > limit else ""
    events = [seq for c in commits for seq in (c.seq,)]
    events += [seq for a in _attempts(facts, group) for seq in a.events]
    yield finding(
        facts.contract,
        rule,
        f"{names}: {count} mails were delivered where {permitted}{under}{note}",
        tuple(sorted(set(events))),
        operation=facts.groups[group][0].name,
        weight=weight,
    )


def _excess(facts: Facts, group: str, limit: int) -> Commit:
    """Return the commit by which some recipient got more than the limit."""
    counts: dict[str, int] = {}
    for commit in facts.commits[group]:
        for recipient in commit.recipients:
            counts[recipient] = counts.get(recipient, 0) + 1
            if counts[recipient] > limit:
                return commit
    raise AssertionError("called for a group within its limit")


def _times(n: int) -> str:
    return {1: "one", 2: "two"}.get(n, str(n))


def undelivered(facts: Facts, group: str) -> list[Operation]:
    """Return the operations of a group that were answered as successes, when fewer mails than that were delivered."""
    claimed = [op for op in facts.groups[group] if _claims(facts, op.name)]
    if facts.count(group, min) >= len(claimed) or _refused_later(facts, group, claimed):
        return []
    if any(a.key is None for a in _attempts(facts, group)) and not facts.contract.key.presence.says("optional"):
        return []  # what becomes of equal mails without a key is nowhere promised
    return claimed


def _never_lost(facts: Facts, group: str) -> Iterator[Finding]:
    claimed = undelivered(facts, group)
    if not claimed:
        return
    count = facts.count(group, min)
    doubt = weather.doubt(facts, group)
    first = min((a.end or 0 for op in claimed for a in _claims(facts, op.name)), default=0)
    weight = None
    if facts.role != "client" and ((doubt is not None and first < doubt) or _says_unknown(facts, group)):
        # It was taken into a queue, and whether its hand-over succeeded cannot be known: not lost, but unknown.
        weight = Level.OBSERVE
    names = ", ".join(op.name for op in claimed)
    claims = [a for op in claimed for a in _claims(facts, op.name)]
    told = [e.seq for e in facts.events if e.kind is Kind.TOLD and e.operation in {op.name for op in claimed}]
    what = (
        f"{names}: {len(claimed)} sends were answered as successes, {_times(count) if count else 'none'} was delivered"
        if len(claimed) > 1
        else f"{names}: answered as a success and never delivered"
    )
    yield finding(
        facts.contract,
        "no-lost-send",
        what,
        tuple(sorted({seq for a in claims for seq in a.events} | set(told))),
        operation=claimed[0].name,
        weight=weight,
    )


def _says_unknown(facts: Facts, group: str) -> bool:
    """Whether a target that was killed no longer claims success, but says that it does not know."""
    crash = max((e.seq for e in facts.events if e.kind is Kind.CRASH), default=None)
    last = [a for a in _attempts(facts, group) if a.answered and crash is not None and a.start > crash]
    return bool(last) and bool(last[-1].classes & {A.UNKNOWN, A.IN_PROGRESS}) and not last[-1].classes & SUCCESS


def _refused_later(facts: Facts, group: str, claimed: list[Operation]) -> bool:
    """Whether the provider refused for good a mail that had been taken into a queue: nobody can deliver it then.

    A target that answers inline knew of the refusal, and must not claim success.
    """
    if facts.contract.delivery.says("inline"):
        return False
    refused = [
        e.seq
        for e in facts.events
        if e.kind is Kind.PROVIDER_RESPONSE
        and e.operation is not None
        and facts.group_of(e.operation) == group
        and 400 <= int(e.data.get("status", 0)) < 500
        and int(e.data["status"]) not in (408, 409, 429)
    ]
    first = min((a.end or 0 for op in claimed for a in _claims(facts, op.name)), default=0)
    return bool(refused) and first < refused[0]


def _claims(facts: Facts, operation: str) -> list[Attempt]:
    """Return the attempts that were told 'done' for this operation, and may take it as said of their own content."""
    if facts.role == "client":
        sent = [
            e for e in facts.events if e.kind is Kind.TOLD and e.operation == operation and e.data["told"] == "sent"
        ]
        return [a for a in facts.attempts if a.operation == operation] if sent else []
    if facts.role == "consumer":
        return [a for a in facts.attempts if a.operation == operation and a.answered and 200 <= (a.status or 0) < 300]
    mine = [a for a in facts.attempts if a.operation == operation and a.succeeded and not a.invalid]
    # Under a key that other content took first, a "success" is that content's replay: the conflict rule's business.
    return [
        a for a in mine if not any(r.operation != operation and not facts.same_request(r, a) for r in facts.rivals(a))
    ]


def _other_content(facts: Facts) -> Iterator[Finding]:
    """Of several contents under one key only one is delivered, where the contract refuses the others."""
    if not (facts.contract.mismatch.judged and facts.contract.mismatch.value == "refuse"):
        return
    for attempt in facts.attempts:
        group = facts.group_of(attempt.operation)
        if attempt.invalid or facts.count(group) == 0:
            continue
        for first in facts.rivals(attempt):
            if (
                first.start < attempt.start
                and facts.shares_key(first, attempt)
                and not facts.same_request(first, attempt)
                and facts.group_of(first.operation) != group
                and facts.count(facts.group_of(first.operation)) > 0
                and left_by(facts, first) is not Left.NOTHING
                and not (first.answered and first.classes & {A.FAILED, A.REFUSED})
            ):
                commits = facts.commits[facts.group_of(first.operation)] + facts.commits[group]
                yield finding(
                    facts.contract,
                    "conflict",
                    f"{attempt.name} has other content than {first.name} under the same key, and both were delivered",
                    tuple(sorted({*first.events, *attempt.events, *(c.seq for c in commits)})),
                    operation=attempt.operation,
                )
                return


def _bad_keys(facts: Facts) -> Iterator[Finding]:
    """A key that the contract calls invalid is refused before any effect."""
    key = facts.contract.key
    for attempt in facts.attempts:
        bad = attempt.key_problem
        refused = (bad == "absent" and key.presence.says("required")) or (
            bad not in (None, "absent", "undeclared")
            and (key.invalid.says("refuse") and (bad != "empty" or key.empty.says("invalid")))
        )
        alone = all(a is attempt or a.key_problem for a in _attempts(facts, facts.group_of(attempt.operation)))
        commits = facts.commits.get(facts.group_of(attempt.operation), [])
        if refused and alone and commits and not attempt.classes & SUCCESS:
            yield finding(
                facts.contract,
                "key-syntax",
                f"{attempt.name} has a key that is {bad}, was refused for it, and was delivered all the same",
                tuple(sorted({*attempt.events, *(c.seq for c in commits)})),
                operation=attempt.operation,
            )
