"""Which answers an attempt may get.

The theory: a key has a record. Every earlier attempt under it (a *rival*) may have left none, may still be running,
or may have left its outcome. From what the history shows of each rival follows the set of classes that a target
which keeps the contract could answer with. The set is generous wherever the history or the contract leaves a
choice; a finding needs an answer outside of it.
"""

from __future__ import annotations

from enum import Enum, auto

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Claim
from sendtwice.fake_provider.contracts.model import Storage
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.attempt import Attempt
from sendtwice.harness.judge.checks import TURNED_AWAY, TURNED_AWAY_SENDERS, first_check
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.judge.keyring import Kin, Memory

#: What a send may be answered with when it is the first under its key. A server may always fail.
FRESH = frozenset({A.ACCEPTED, A.PENDING, A.FAILED, A.UNKNOWN})
#: What is fair when the provider or the process failed.
TROUBLED = frozenset({A.FAILED, A.UNKNOWN, A.REFUSED, A.IN_PROGRESS})
#: What one is told who meets a target that cannot even look at its request.
_AILING = frozenset({A.FAILED, A.UNKNOWN})
#: What a request may be told that finds the record which it made itself, and of which it did not hear.
_ITS_OWN = frozenset({A.REPLAYED, A.DUPLICATE, A.IN_PROGRESS})
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


def left_by(facts: Facts, rival: Attempt) -> Left:
    """Return whether a rival left a record under its key."""
    if rival.never_arrived or rival.key_problem not in (None, "undeclared"):
        return Left.NOTHING
    if not rival.answered or rival.key_problem:
        return Left.MAYBE
    if facts.storms.out_of_store(rival):
        return Left.MAYBE  # a claim whose answer was lost, or an outcome that could not be written
    if rival.classes and rival.classes <= {A.ACCEPTED, A.REPLAYED, A.PENDING, A.DUPLICATE}:
        return Left.SURELY
    if rival.classes and rival.classes <= _EMPTY:
        stored = [p for c, p in _at_the_door(facts) if rival.classes == {c} and p.judged and p.value != "released"]
        # Of one that the wire doubled, the other copy may have left what this answer does not tell.
        return Left.MAYBE if stored or rival.doubled else Left.NOTHING
    if A.REFUSED in rival.classes or A.FAILED in rival.classes:
        policy = refusal_policy(facts, rival)
        if policy is not None and policy.says("released"):
            return Left.NOTHING
        if policy is not None and (policy.says("stored") or policy.says("poisoned")):
            return Left.SURELY
    return Left.MAYBE


def _at_the_door(facts: Facts) -> tuple[tuple[A, Claim[Storage]], ...]:
    outcomes = facts.contract.outcomes
    return ((A.UNAUTHORIZED, outcomes.unauthorized), (A.RATE_LIMITED, outcomes.rate_limited))


def refusal_policy(facts: Facts, rival: Attempt) -> Claim[Storage] | None:
    """Return the contract's claim on what a refusal of this kind leaves, or None when its kind is not certain."""
    outcomes = facts.contract.outcomes
    if rival.invalid or rival.too_many or (rival.partly_invalid and rival.classes <= {A.REFUSED}):
        return outcomes.invalid
    if rival.end is None or weather.uncertain(facts, {rival.operation}, until=rival.end):
        return None
    statuses = weather.provider_answers(facts, rival.operation, until=rival.end)
    if statuses and statuses <= {429, 503}:
        return outcomes.provider_busy
    if statuses and all(400 <= status < 500 and status != 429 for status in statuses):
        return outcomes.provider_refused
    return None


def permission(facts: Facts, attempt: Attempt) -> frozenset[A]:
    """Return what this attempt may be answered with."""
    ailing = _AILING if facts.storms.unwell(attempt) else frozenset[A]()
    check = first_check(facts, attempt)
    if check is not None:
        return check.classes | ailing
    rivals = facts.rivals(attempt)
    if not rivals and facts.forgotten(attempt) and facts.contract.retention.then.says("refuse"):
        return TURNED_AWAY | {A.EXPIRED} | ailing
    same = [r for r in rivals if facts.kin(r, attempt) is not Kin.OTHER]
    other = [r for r in rivals if facts.kin(r, attempt) is not Kin.SAME]
    finished = [r for r in same if r.succeeded and r.before(attempt)]
    done = max((r.end or 0 for r in finished), default=0)
    # What happened inside the interval of a success may have come after it.
    since = max((r.start for r in finished), default=0)
    operations = {attempt.operation, *(r.operation for r in rivals)}
    troubled = weather.trouble(facts, operations, until=attempt.end, since=since, attempt=attempt)
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
    classes |= _after_a_while(facts, attempt, rivals)
    if facts.broken_off(attempt):
        # The target may not have noticed yet that it will never be whole.
        classes |= {A.IN_PROGRESS}
    if attempt.doubled or facts.storms.out_of_store(attempt):
        classes |= _ITS_OWN
    if attempt.partly_invalid and not (facts.contract.batch and facts.contract.batch.partial.says("accept-rest")):
        classes |= {A.REFUSED}
    if attempt.status == _SHED and attempt in facts.crowded:
        classes |= attempt.classes
    if attempt.sender not in TURNED_AWAY_SENDERS:
        # A good credential below its limit is not answered with what another one left under the key.
        left = [c for c, policy in _at_the_door(facts) if policy.says("released")]
        classes -= {c for c in left for r in rivals if r.sender in TURNED_AWAY_SENDERS and c in r.classes}
    return frozenset(classes)


def _after_a_while(facts: Facts, attempt: Attempt, rivals: list[Attempt]) -> set[A]:
    """Return what time alone makes possible: a key past its retention, a claim past its lease."""
    contract, found = facts.contract, set[A]()
    gone = facts.forgotten(attempt)
    maybe = [r for r in rivals if facts.keyring.memory(r, attempt) is Memory.MAYBE]
    if (gone or maybe) and not contract.retention.then.says("execute"):
        found |= {A.EXPIRED}
    for rival in rivals:
        lease = contract.lease
        if not facts.lapsed(rival, attempt) and not facts.lapsed(attempt, rival):
            continue
        if not lease.then.judged or lease.then.permits("execute") or lease.then.permits("resume"):
            found |= FRESH
        if not lease.then.judged or lease.then.permits("refuse"):
            found |= {A.REFUSED, A.CONFLICT, A.KEY_INVALID}
        if not lease.then.judged or lease.then.permits("unknown"):
            found |= {A.UNKNOWN}
    return found


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
    if facts.unguarded(attempt):
        return True
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
    found |= _since_decided(facts, rival, attempt)
    if contract.duplicates.permits("accept") or contract.duplicates.permits("resume"):
        found |= {A.ACCEPTED, A.REPLAYED, A.PENDING}
    found |= _poisoned(facts, rival)
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


def _since_decided(facts: Facts, rival: Attempt, attempt: Attempt) -> set[A]:
    """Return what a repeat may be told once a person or an event has decided what became of the first."""
    decided = facts.decisions(rival.operation, until=attempt.end)
    if not decided:
        return set()
    return {A.ACCEPTED, A.REPLAYED, A.IN_PROGRESS, A.REFUSED, A.FAILED, *rival.classes}


def _after_other(facts: Facts, rival: Attempt, attempt: Attempt) -> set[A]:
    contract = facts.contract
    # One that was freed in the end had the key while it ran.
    had_it = not rival.before(attempt) and rival.classes & {A.FAILED, A.REFUSED}
    if left_by(facts, rival) is Left.NOTHING and not had_it:
        return {A.IN_PROGRESS} if rival.answered and not rival.invalid else set()
    found: set[A] = set()
    if contract.mismatch.permits("refuse"):
        found |= {A.CONFLICT}
    if contract.mismatch.permits("replay"):
        found |= {A.REPLAYED}
    if contract.mismatch.permits("execute"):
        found |= FRESH
    found |= _poisoned(facts, rival)
    if not rival.before(attempt) or not rival.succeeded:
        found |= {A.IN_PROGRESS}
    if rival.invalid or not rival.succeeded:
        found |= {A.REFUSED} if refusal_policy(facts, rival) is None or _may_be_stored(facts, rival) else set()
    return found


def _poisoned(facts: Facts, rival: Attempt) -> set[A]:
    """Return what a key that was spoiled by its first outcome is answered with."""
    policy = refusal_policy(facts, rival)
    return {A.KEY_INVALID, A.CONFLICT, A.REFUSED} if policy is not None and policy.value == "poisoned" else set()


def _may_be_stored(facts: Facts, rival: Attempt) -> bool:
    policy = refusal_policy(facts, rival)
    return policy is None or bool(policy.permits("stored"))
