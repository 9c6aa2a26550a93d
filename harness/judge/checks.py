"""What is wrong with a request by itself, and which of several checks comes first.

A request may have a wrong credential, a bad key and an invalid body at once. Where the contract declares the order of
its checks (D7), the first of them answers; otherwise any of them may.
"""

from __future__ import annotations

from dataclasses import dataclass

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.harness.judge.attempt import Attempt
from sendtwice.harness.judge.classes import SUCCESS
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.judge.keyring import Kin

#: A limiter and a guard at the door stand before the keys (CONTRACTS R17, R18): they say nothing of one.
TURNED_AWAY = frozenset({A.RATE_LIMITED, A.UNAUTHORIZED})
#: Senders whose credential is wrong, or who are over a limit.
TURNED_AWAY_SENDERS = frozenset({"unauthorized", "rate-limited", "over-quota"})
_EVERYTHING = frozenset(A)


@dataclass(frozen=True, slots=True)
class Check:
    """A check that a request does not pass: what it may then be answered with, and the rule that says so."""

    name: str
    classes: frozenset[A]
    rule: str
    why: str
    exactly: frozenset[A] | None = None  # where the contract says that this check comes first


def first_check(facts: Facts, attempt: Attempt) -> Check | None:
    """Return the check that answers this attempt, or None when it passes all that concern it alone."""
    failed = [
        check for check in (_door(facts, attempt), _key(facts, attempt), _body(facts, attempt)) if check is not None
    ]
    order = facts.contract.order
    listed: list[str] = list(order.value or []) if order.judged else []
    state = _state(facts, attempt)
    if not failed:
        # Two states of one key: the contract may say which of them is told.
        return state if state is not None and state.rule == "check-order" and listed else None
    several = [*failed, *([state] if state is not None else [])]
    if len(several) > 1 and all(check.name in listed for check in several):
        first = min(several, key=lambda check: listed.index(check.name))
        names = [check.name.replace("_", " ") for check in sorted(several, key=lambda check: listed.index(check.name))]
        why = f"the contract looks at its {', then its '.join(names)}"
        mine = {check.name for check in failed}
        spared = {c for c, name in ((A.UNAUTHORIZED, "auth"), (A.RATE_LIMITED, "rate_limit")) if name in mine}
        told = first.exactly or first.classes
        return Check(first.name, told | (TURNED_AWAY - spared), "check-order", why)
    if any(check.classes == _EVERYTHING for check in failed):
        return Check(failed[0].name, _EVERYTHING, failed[0].rule, failed[0].why)
    classes = frozenset().union(*(check.classes for check in several)) | TURNED_AWAY
    if failed[0].name in ("auth", "rate_limit") and len(several) > 1 and not listed:
        # Nobody says what comes first; but who is turned away is never told of a success.
        classes |= {A.CONFLICT, A.IN_PROGRESS}
    return Check(failed[0].name, classes, failed[0].rule, failed[0].why)


def _door(facts: Facts, attempt: Attempt) -> Check | None:
    served = facts.count(facts.group_of(attempt.operation)) > 0 or attempt.classes <= SUCCESS
    if attempt.sender == "unauthorized":
        own = _EVERYTHING if served and not _used(facts, attempt) else frozenset({A.UNAUTHORIZED})
        return Check("auth", own, "isolation", "its credential is not good")
    if attempt.sender in ("rate-limited", "over-quota"):
        own = _EVERYTHING if served and not _used(facts, attempt) else frozenset({A.RATE_LIMITED})
        return Check("rate_limit", own, "status-as-declared", "its sender is over the limit")
    return None


def _used(facts: Facts, attempt: Attempt) -> bool:
    """Whether its key has been used before, so that a success may be somebody else's answer."""
    return any(a is not attempt and a.start < attempt.start and a.key == attempt.key for a in facts.keyring.of(attempt))


def _body(facts: Facts, attempt: Attempt) -> Check | None:
    """A request that no API should take: whatever it is told but a crash of the server's own is fair."""
    if attempt.too_many:
        spoiled = facts.contract.outcomes.invalid.value == "poisoned" and _used(facts, attempt)
        refused = TURNED_AWAY | {A.REFUSED} | ({A.KEY_INVALID, A.CONFLICT} if spoiled else set())
        return Check("validation", refused, "status-as-declared", "it has more mails than a batch may")
    if not attempt.invalid:
        return None
    why = "the request is not valid"
    return Check("validation", _EVERYTHING - {A.FAILED}, "refusal-policy", why, frozenset({A.REFUSED}))


def _state(facts: Facts, attempt: Attempt) -> Check | None:
    """Return what the state of its key alone would lead to, where that is certain and the contract has an order."""
    order = facts.contract.order
    if not order.judged or attempt.key is None or attempt.key_problem or attempt.end is None:
        return None
    rivals = [r for r in facts.rivals(attempt) if facts.shares_key(r, attempt)]
    flying = [r for r in rivals if facts.surely_in_flight(r, attempt) and not facts.lapsed(r, attempt)]
    done = [r for r in rivals if r.succeeded and r.before(attempt)]
    if len(rivals) != 1:
        return None
    rival, contract = rivals[0], facts.contract
    other = facts.kin(rival, attempt) is Kin.OTHER
    listed: list[str] = list(order.value or [])
    if flying and other and contract.concurrent.says("refuse") and contract.mismatch.says("refuse"):
        if "in_progress" in listed and "mismatch" in listed:
            first = min(("in_progress", "mismatch"), key=listed.index)
            told = frozenset({A.IN_PROGRESS if first == "in_progress" else A.CONFLICT})
            why = f"{rival.name} was in flight with other content, and the contract looks at {first} first"
            return Check(first, told | TURNED_AWAY, "check-order", why.replace("_", " "))
        return None
    if flying and not other:
        told = frozenset({A.IN_PROGRESS, A.REPLAYED, A.ACCEPTED})
        return Check("in_progress", told, "in-progress", f"{rival.name} was in flight under this key")
    if done and other and contract.mismatch.says("refuse"):
        return Check("mismatch", frozenset({A.CONFLICT}), "conflict", f"{rival.name} used this key for other content")
    if done and not other and contract.duplicates.permits("replay"):
        return Check("replay", frozenset({A.REPLAYED}), "replay-fidelity", f"{rival.name} had been answered")
    return None


def _key(facts: Facts, attempt: Attempt) -> Check | None:
    key = facts.contract.key
    match attempt.key_problem:
        case "absent":
            if facts.contract.takes_key(attempt.route) == "required":
                wanted = frozenset({A.KEY_MISSING})
                return Check("key", wanted, "key-syntax", "the contract requires a key and there was none")
            return None
        case None if attempt.key is None and not key.presence.judged:
            return Check("key", _EVERYTHING, "key-syntax", "the contract does not say whether a key is required")
        case None:
            return None
        case "empty":
            if key.empty.permits("absent") or not key.empty.judged or key.invalid.says("ignore"):
                return Check("key", _EVERYTHING, "key-syntax", "the contract leaves empty keys open")
            allowed = {A.KEY_INVALID} | ({A.KEY_MISSING} if key.presence.says("required") else set())
            return Check("key", frozenset(allowed), "key-syntax", "an empty key is invalid under the contract")
        case "stale":
            if not facts.contract.key.first_sent or not facts.contract.retention.then.says("refuse"):
                return Check("key", _EVERYTHING, "expiry", "what a stale time leads to is not declared")
            return Check("key", frozenset({A.EXPIRED}), "expiry", "the time that it asserts is long past")
        case "malformed":
            return Check("key", frozenset({A.KEY_INVALID, A.EXPIRED, A.REFUSED}), "key-syntax", "its time is no date")
        case "undeclared":
            return Check("key", _EVERYTHING, "key-syntax", "the contract does not say whether such a key is good")
        case problem:
            if not key.invalid.says("refuse"):
                # The page says what a key may be, not what becomes of another.
                return Check("key", _EVERYTHING, "key-syntax", f"what a key that is {problem} leads to is not declared")
            return Check("key", frozenset({A.KEY_INVALID}), "key-syntax", f"a key that is {problem} is invalid")
