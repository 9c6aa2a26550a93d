"""Which answers an attempt may get.

The theory: a key has a record. Every earlier attempt under it (a *rival*) may have left none, may still be running,
or may have left its outcome. From what the history shows of each rival follows the set of classes that a target
which keeps the contract could answer with. The set is generous wherever the history or the contract leaves a
choice; a finding needs an answer outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Claim
from sendtwice.fake_provider.contracts.model import Storage
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.facts import Attempt, Facts, Kin

#: What a send may be answered with when it is the first under its key. A server may always fail.
FRESH = frozenset({A.ACCEPTED, A.PENDING, A.FAILED, A.UNKNOWN})
#: What is fair when the provider or the process failed.
TROUBLED = frozenset({A.FAILED, A.UNKNOWN, A.REFUSED, A.IN_PROGRESS})
#: A limiter and a guard at the door stand before the keys (CONTRACTS R17, R18): they say nothing of one.
TURNED_AWAY = frozenset({A.RATE_LIMITED, A.UNAUTHORIZED})
#: Outcomes that a key may keep; a conflict or "in progress" is never one.
_OUTCOMES = frozenset({A.REFUSED, A.FAILED, A.UNKNOWN})
#: Answers that leave nothing of their own under a key.
_EMPTY = TURNED_AWAY | {A.CONFLICT, A.IN_PROGRESS, A.KEY_MISSING, A.KEY_INVALID}

#: A server that is asked too much at once may say so: 503 (RFC 9110 section 15.6.4).
_SHED = 503


class Left(Enum):
    """What a rival left under the key."""

    NOTHING = auto()
    MAYBE = auto()
    SURELY = auto()


@dataclass(frozen=True, slots=True)
class Permission:
    """The permitted classes, the rule that an answer outside of them breaks, and why they are what they are."""

    classes: frozenset[A]
    rule: str
    why: str


def left_by(facts: Facts, rival: Attempt) -> Left:
    """Return whether a rival left a record under its key."""
    if rival.never_arrived or rival.key_problem:
        return Left.NOTHING
    if not rival.answered:
        return Left.MAYBE
    if rival.classes and rival.classes <= {A.ACCEPTED, A.REPLAYED, A.PENDING, A.DUPLICATE}:
        return Left.SURELY
    if rival.classes and rival.classes <= _EMPTY:
        return Left.NOTHING
    if A.REFUSED in rival.classes or A.FAILED in rival.classes:
        policy = refusal_policy(facts, rival)
        if policy is not None and policy.says("released"):
            return Left.NOTHING
        if policy is not None and policy.says("stored"):
            return Left.SURELY
    return Left.MAYBE


def refusal_policy(facts: Facts, rival: Attempt) -> Claim[Storage] | None:
    """Return the contract's claim on what a refusal of this kind leaves, or None when its kind is not certain."""
    outcomes = facts.contract.outcomes
    if rival.invalid:
        return outcomes.invalid
    if rival.end is None or weather.uncertain(facts, {rival.operation}, until=rival.end):
        return None
    statuses = weather.provider_answers(facts, rival.operation, until=rival.end)
    if statuses and statuses <= {429, 503}:
        return outcomes.provider_busy
    if statuses and all(400 <= status < 500 and status != 429 for status in statuses):
        return outcomes.provider_refused
    return None


def permission(facts: Facts, attempt: Attempt) -> Permission:
    """Return what this attempt may be answered with."""
    problem = _bad_key(facts, attempt)
    if problem is not None:
        return replace(problem, classes=problem.classes | TURNED_AWAY)
    if attempt.invalid:
        return _INVALID
    rivals = facts.rivals(attempt)
    same = [r for r in rivals if facts.kin(r, attempt) is not Kin.OTHER]
    other = [r for r in rivals if facts.kin(r, attempt) is not Kin.SAME]
    finished = [r for r in same if r.succeeded and r.before(attempt)]
    done = max((r.end or 0 for r in finished), default=0)
    # What happened inside the interval of a success may have come after it.
    since = max((r.start for r in finished), default=0)
    operations = {attempt.operation, *(r.operation for r in rivals)}
    troubled = weather.trouble(facts, operations, until=attempt.end, since=since)
    classes = set(TURNED_AWAY | (TROUBLED if troubled else frozenset()))
    # Of two that overlap either may be the first: what both were told is compared pair by pair.
    taken = [
        r for r in rivals if r.before(attempt) and facts.shares_key(r, attempt) and left_by(facts, r) is Left.SURELY
    ]
    if not taken or _may_run_again(facts, attempt, taken):
        classes |= _fresh(facts, attempt, rivals, troubled=troubled)
    won = any(r.succeeded for r in same)
    for rival in same:
        if rival.succeeded or rival.end is None or rival.end > done:  # a success ends what came before it
            # A key has one outcome: where one of those in flight succeeded, the failure of another is not it.
            kept = rival.before(attempt) or not won
            classes |= _after_same(facts, rival, attempt) - (frozenset() if kept else _OUTCOMES & rival.classes)
    for rival in other:
        classes |= _after_other(facts, rival, attempt)
    if facts.broken_off(attempt):
        # The target may not have noticed yet that it will never be whole.
        classes |= {A.IN_PROGRESS}
    if attempt.doubled:
        classes |= {A.REPLAYED, A.IN_PROGRESS, A.DUPLICATE}
    if attempt.status == _SHED and any(a is not attempt and a.overlaps(attempt) for a in facts.attempts):
        classes |= attempt.classes
    rule, why = _rule(facts, attempt, same, other)
    return Permission(frozenset(classes), rule, why)


def _fresh(facts: Facts, attempt: Attempt, rivals: list[Attempt], *, troubled: bool) -> frozenset[A]:
    """Return what a request that runs as a new one may be told."""
    if not rivals and not facts.broken_off(attempt):
        return FRESH | {A.REFUSED}  # that it shows nothing then is another matter
    # A server error is a fair first answer, never a fair answer to a lost race or to a repeat of what was sent.
    met = any(
        facts.shares_key(r, attempt)
        and left_by(facts, r) is not Left.NOTHING
        and (r.succeeded or weather.handed_over(facts, facts.group_of(r.operation)))
        for r in rivals
    )
    return FRESH if troubled or not met else FRESH - {A.FAILED, A.UNKNOWN}


def _may_run_again(facts: Facts, attempt: Attempt, taken: list[Attempt]) -> bool:
    """Whether the contract lets a request under a taken key run as a new one."""
    contract = facts.contract
    if any(facts.same_request(r, attempt) for r in taken):
        # Running again and still delivering once is judged by the ledger; the answer alone proves nothing unless
        # the contract promises to replay or to refuse.
        return contract.duplicates.permits("execute")
    return contract.mismatch.permits("execute")


def _after_same(facts: Facts, rival: Attempt, attempt: Attempt) -> set[A]:
    contract = facts.contract
    left = left_by(facts, rival)
    if left is Left.NOTHING:
        # It may not have let go yet.
        return {A.IN_PROGRESS} if rival.answered and not rival.invalid else set()
    found: set[A] = set()
    if contract.duplicates.permits("replay") or contract.duplicates.permits("replay_current"):
        found |= {A.REPLAYED, A.PENDING}
        policy = refusal_policy(facts, rival)
        if rival.answered and not rival.succeeded and (policy is None or policy.permits("stored")):
            found |= rival.classes & _OUTCOMES
    if contract.duplicates.permits("refuse") or contract.duplicates.permits("redirect"):
        found |= {A.DUPLICATE}
    if not rival.before(attempt) or not rival.succeeded or contract.delivery.value != "inline":
        # Still running; or queued, unknown or failed, which a target may well call "in progress".
        running = not rival.before(attempt) or not rival.succeeded
        if running and (
            contract.concurrent.permits("refuse") or weather.trouble(facts, {rival.operation}, until=attempt.end)
        ):
            found |= {A.IN_PROGRESS}
    if contract.concurrent.permits("execute") and not rival.before(attempt):
        found |= FRESH
    return found


def _after_other(facts: Facts, rival: Attempt, attempt: Attempt) -> set[A]:
    contract = facts.contract
    if left_by(facts, rival) is Left.NOTHING:
        return {A.IN_PROGRESS} if rival.answered and not rival.invalid else set()
    found: set[A] = set()
    if contract.mismatch.permits("refuse"):
        found |= {A.CONFLICT}
    if contract.mismatch.permits("replay"):
        found |= {A.REPLAYED}
    if contract.mismatch.permits("execute"):
        found |= FRESH
    if not rival.before(attempt) or not rival.succeeded:
        found |= {A.IN_PROGRESS}
    if rival.invalid or not rival.succeeded:
        found |= {A.REFUSED} if refusal_policy(facts, rival) is None or _may_be_stored(facts, rival) else set()
    return found


def _may_be_stored(facts: Facts, rival: Attempt) -> bool:
    policy = refusal_policy(facts, rival)
    return policy is None or bool(policy.permits("stored"))


def _bad_key(facts: Facts, attempt: Attempt) -> Permission | None:
    key = facts.contract.key
    match attempt.key_problem:
        case "absent":
            if key.presence.says("required"):
                wanted = frozenset({A.KEY_MISSING})
                return Permission(wanted, "key-syntax", "the contract requires a key and there was none")
            return None
        case None if attempt.key is None and not key.presence.judged:
            return Permission(frozenset(A), "key-syntax", "the contract does not say whether a key is required")
        case None:
            return None
        case "empty":
            if key.empty.permits("absent") or not key.empty.judged:
                return Permission(frozenset(A), "key-syntax", "the contract leaves empty keys open")
            allowed = {A.KEY_INVALID} | ({A.KEY_MISSING} if key.presence.says("required") else set())
            return Permission(frozenset(allowed), "key-syntax", "an empty key is invalid under the contract")
        case "undeclared":
            return Permission(frozenset(A), "key-syntax", "the contract does not say whether such a key is good")
        case problem:
            if not key.invalid.says("refuse"):
                # The page says what a key may be, not what becomes of another.
                return Permission(frozenset(A), "key-syntax", f"what a key that is {problem} leads to is not declared")
            return Permission(frozenset({A.KEY_INVALID}), "key-syntax", f"a key that is {problem} is invalid")


#: A request that no API should take: whatever it is told but a crash of the server's own is fair.
_INVALID = Permission(frozenset(A) - {A.FAILED}, "refusal-policy", "the request is not valid")


def _alike(a: str | None, b: str | None) -> bool:
    """Whether two different keys are easily taken for one: equal but for case, blanks, or their ends."""
    if a is None or b is None or a == b:
        return False
    return a.strip().casefold() == b.strip().casefold() or (len(a) > 32 and a[:32] == b[:32])


def _rule(facts: Facts, attempt: Attempt, same: list[Attempt], other: list[Attempt]) -> tuple[str, str]:
    if attempt.classes and attempt.classes <= {A.CONFLICT} and same and not other:
        return "no-false-conflict", f"{same[0].name} was the same request under the same key"
    if attempt.classes and attempt.classes <= {A.FAILED, A.UNKNOWN}:
        running = next((r for r in (*same, *other) if r.overlaps(attempt)), None)
        if running is not None:
            return "in-progress", f"{running.name} was in flight under this key"
    refused = any(
        r.invalid or (r.answered and r.classes & {A.REFUSED, A.FAILED} and not r.succeeded) for r in (*same, *other)
    )
    if refused and not any(r.succeeded for r in same):
        return "refusal-policy", "an earlier attempt under this key was refused"
    sure = [r for r in other if facts.shares_key(r, attempt) and left_by(facts, r) is not Left.NOTHING]
    if sure and not any(r.succeeded and r.before(attempt) for r in same):
        return "conflict", f"{sure[0].name} used this key for other content"
    if attempt.classes and attempt.classes <= {A.CONFLICT} and same:
        return "no-false-conflict", f"{same[0].name} was the same request under the same key"
    done = next((r for r in same if r.succeeded and r.before(attempt)), None)
    if done is not None:
        return "replay-fidelity", f"{done.name} had been answered under this key"
    if any(r.overlaps(attempt) for r in same):
        return (
            "in-progress",
            f"{next(r.name for r in same if r.overlaps(attempt))} was in flight under this key",
        )
    if same:
        return "replay-fidelity", f"{same[0].name} had been answered under this key"
    partial = facts.broken_off(attempt)
    if partial and not other:
        return (
            "refusal-policy",
            f"{partial[0].name} broke off before it had arrived whole, and nothing else used this key",
        )
    alike = [a for a in facts.attempts if a is not attempt and a.start < attempt.start and _alike(a.key, attempt.key)]
    if alike and not other:
        return "key-syntax", f"no one used this key; {alike[0].name} used one much like it"
    elsewhere = [
        a
        for a in facts.attempts
        if a is not attempt
        and a.key == attempt.key is not None
        and a.start < attempt.start
        and not facts.shares_key(a, attempt)
    ]
    if elsewhere and not any(facts.shares_key(r, attempt) for r in (*same, *other)):
        return "isolation", f"{elsewhere[0].name} used this key in another scope"
    return "status-as-declared", "it was the first under its key"
