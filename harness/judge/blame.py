"""Which rule an answer breaks that its attempt may not get, and why it may not. Asked only once one is found."""

from __future__ import annotations

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.harness.judge.attempt import Attempt
from sendtwice.harness.judge.checks import TURNED_AWAY, first_check
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.judge.keyring import Kin
from sendtwice.harness.judge.permitted import Left, left_by


def blame(facts: Facts, attempt: Attempt) -> tuple[str, str]:
    """Return the rule, and the reason in words."""
    check = first_check(facts, attempt)
    if check is not None:
        return check.rule, check.why
    rivals = facts.rivals(attempt)
    same = [r for r in rivals if facts.kin(r, attempt) is not Kin.OTHER]
    other = [r for r in rivals if facts.kin(r, attempt) is not Kin.SAME]
    gone = facts.forgotten(attempt)
    if gone and all(left_by(facts, r) is Left.NOTHING for r in rivals):
        return "expiry", f"{gone[-1].name} used this key so long ago that it is forgotten"
    for rival in rivals if A.ACCEPTED in attempt.classes else ():
        only_time = rival.before(attempt) and facts.advanced(rival.end or 0, attempt.start)
        if only_time and rival.succeeded and facts.shares_key(rival, attempt):
            return "expiry", f"{rival.name} used this key, and only time has passed since"
    return _rule(facts, attempt, same, other)


def _alike(a: str | None, b: str | None) -> bool:
    """Whether two different keys are easily taken for one: equal but for case, blanks, or their ends."""
    if a is None or b is None or a == b:
        return False
    return a.strip().casefold() == b.strip().casefold() or (len(a) > 32 and a[:32] == b[:32])


def _rule(facts: Facts, attempt: Attempt, same: list[Attempt], other: list[Attempt]) -> tuple[str, str]:
    holders = [r for r in same if left_by(facts, r) is not Left.NOTHING]
    strangers = [r for r in other if left_by(facts, r) is not Left.NOTHING or r.overlaps(attempt)]
    if attempt.classes and attempt.classes <= {A.CONFLICT} and holders and not strangers:
        return "no-false-conflict", f"{holders[0].name} was the same request under the same key"
    if attempt.classes and attempt.classes <= {A.FAILED, A.UNKNOWN}:
        running = next((r for r in (*same, *other) if r.overlaps(attempt)), None)
        if running is not None:
            return "in-progress", f"{running.name} was in flight under this key"
    refused = any(
        r.invalid or (r.answered and r.classes & ({A.REFUSED, A.FAILED} | TURNED_AWAY) and not r.succeeded)
        for r in (*same, *other)
    )
    if refused and not any(r.succeeded for r in same):
        return "refusal-policy", "an earlier attempt under this key was refused"
    sure = [r for r in other if facts.shares_key(r, attempt) and left_by(facts, r) is not Left.NOTHING]
    if sure and not any(r.succeeded and r.before(attempt) for r in same):
        return "conflict", f"{sure[0].name} used this key for other content"
    if attempt.classes and attempt.classes <= {A.CONFLICT} and holders:
        return "no-false-conflict", f"{holders[0].name} was the same request under the same key"
    done = next((r for r in same if r.succeeded and r.before(attempt)), None)
    if done is not None:
        return "replay-fidelity", f"{done.name} had been answered under this key"
    if any(r.overlaps(attempt) for r in same):
        return (
            "in-progress",
            f"{next(r.name for r in same if r.overlaps(attempt))} was in flight under this key",
        )
    if holders:
        return "replay-fidelity", f"{holders[0].name} had been answered under this key"
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
        for a in facts.keyring.of(attempt)
        if a is not attempt and a.key == attempt.key and a.start < attempt.start and not facts.shares_key(a, attempt)
    ]
    if elsewhere and not any(facts.shares_key(r, attempt) for r in (*holders, *strangers)):
        return "isolation", f"{elsewhere[0].name} used this key in another scope"
    return "status-as-declared", "it was the first under its key"
