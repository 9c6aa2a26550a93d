"""Rules about effects that must not be: a second mail, a mail for content that was refused, or under a bad key."""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.answers import finding, named
from sendtwice.harness.judge.classes import SUCCESS
from sendtwice.harness.judge.facts import Attempt, Commit, Facts, Kin
from sendtwice.harness.judge.finding import Finding
from sendtwice.harness.judge.permitted import Left, left_by
from sendtwice.harness.judge.rules import level

#: Answers that say: nothing was done, and nothing will be.
_NO_EFFECT = frozenset({A.REFUSED, A.UNAUTHORIZED, A.RATE_LIMITED, A.EXPIRED})
#: Answers of a request that surely sent nothing by itself.
_NOT_SENT = _NO_EFFECT | {A.CONFLICT, A.KEY_MISSING, A.KEY_INVALID, A.DUPLICATE, A.IN_PROGRESS}

_SAYS_TOO_LITTLE = "; a claim had lapsed by time, of which the contract says too little"


def judge_effects(facts: Facts) -> Iterator[Finding]:
    """Hold every group's commits against what its attempts may cause."""
    for group in facts.groups:
        if group not in facts.blurred:
            yield from _never_twice(facts, group)
    if facts.role != "client":  # what becomes of a key there is the harness's own doing
        yield from _other_content(facts)
        yield from _bad_keys(facts)


def allowed(facts: Facts, group: str, person: str) -> int:
    """Return how many mails a person may get from a group: one for each key, one for each arrival without a key."""
    meant = [op for op in facts.groups[group] if person in op.recipients] or facts.groups[group]
    names = {op.name for op in meant}
    denied = sum(c.denied and person in _people(facts, group, c) for c in facts.commits.get(group, ()))
    if facts.role == "consumer":
        # An operation of which only events came that are not to be believed is for nobody.
        asked = [facts.attempts_for(op.name) for op in meant]
        return sum(not attempts or any(a.vouched for a in attempts) for attempts in asked) + denied
    if facts.role != "api":
        return len(meant) + denied
    keyed: list[Attempt] = []
    unkeyed = 0
    for attempt in facts.attempts_of(group):
        if attempt.operation not in names:
            continue
        if attempt.key is None or attempt.key_problem is not None:
            unkeyed += 2 if attempt.doubled else 1
        elif not any(facts.shares_key(attempt, known) for known in keyed):
            keyed.append(attempt)
    return max(len(meant), len(keyed) + unkeyed) + denied


def _people(facts: Facts, group: str, commit: Commit) -> set[str]:
    return {facts.person(group, address) for address in commit.recipients}


def _never_twice(facts: Facts, group: str) -> Iterator[Finding]:
    over = {
        person: (count, limit)
        for person, count in facts.served(group).items()
        # What nobody may get at all has a rule of its own (unverified).
        if count > (limit := allowed(facts, group, person)) > 0
    }
    if not over:
        return
    person, (count, limit) = max(over.items(), key=lambda item: item[1][0])
    commits = facts.commits[group]
    excess = _excess(facts, group, person, limit)
    # A caller whose API did not answer is simply a caller that retries: its keys are there for that.
    unknown = [c for c in commits if c.seq < excess.seq and c.answered_at is None and not c.denied]
    unknown = unknown or ([excess] if _late(facts, group, excess) else [])
    rule = "at-most-once-after-unknown" if unknown and facts.role != "client" else "at-most-once"
    weight, note = level(facts.contract, rule), ""
    claim = facts.contract.second_after_unknown
    if rule == "at-most-once-after-unknown" and claim.judged and claim.value == "permitted":
        weight, note = Level.HOLE, "; the contract permits a second mail here"
    elif rule == "at-most-once-after-unknown" and not claim.judged:
        weight, note = Level.OBSERVE, "; the contract does not say whether it may"
    attempts = facts.attempts_of(group)
    keys = {a.key for a in attempts if a.key}
    if facts.role == "client" and len(keys) != 1:
        pass  # what the contract says of a key that is used twice excuses nobody who used two, or none
    elif facts.role == "client" and (late := _past_retention(facts, attempts, excess)):
        note = late
    elif rule == "at-most-once" and (early := _forgotten_early(facts, attempts, excess)):
        rule, weight, note = "expiry", level(facts.contract, "expiry"), early
    elif weight not in (Level.HOLE, Level.OBSERVE) and (lapsed := _lease_lapsed(facts, attempts, excess)) is not None:
        weight, note = lapsed
    elif rule == "at-most-once" and any(facts.unguarded(a) for a in attempts):
        weight, note = Level.HOLE, "; the contract sends without its guard when the store fails"
    elif rule == "at-most-once" and any(facts.runs_again(a) for a in attempts):
        weight, note = Level.HOLE, "; the contract runs a request under a used key again"
    elif rule == "at-most-once" and (freed := _freed_by_failing(facts, attempts, excess)) is not None:
        weight, note = Level.HOLE, freed
    under = f" under {len(keys)} keys" if len(keys) > limit else ""
    if facts.role == "client":
        under = f": {_counted(len(attempts), 'attempt')} carried {_counted(len(keys), 'key')}"
    note += _by_the_sdk(facts, group)
    permitted = f"{_times(limit)} {'is' if limit == 1 else 'are'} allowed"
    names = ", ".join(op.name for op in facts.groups[group])
    yield finding(
        facts.contract,
        rule,
        f"{names}: {count} mails were delivered where {permitted}{under}{note}",
        tuple(sorted({c.seq for c in commits} | {seq for a in attempts for seq in a.events})),
        operation=facts.groups[group][0].name,
        weight=weight,
    )


def _late(facts: Facts, group: str, excess: Commit) -> bool:
    """Whether the last mail is the first one: its hand-over was begun, given up as unknown, and taken all the same.

    Whoever was killed, stopped or asleep meanwhile has given it up as well.
    """
    begun = _begun(facts, group, excess)
    others = [c for c in facts.commits[group] if begun < c.seq < excess.seq]
    given_up = [
        a.end or 0
        for a in facts.attempts_of(group)
        if a.answered and a.classes <= {A.UNKNOWN, A.FAILED} and a.start < begun and not _turned_away(facts, group, a)
    ]
    return any(
        any(begun < end < c.seq for end in given_up)
        or facts.storms.between(begun, _begun(facts, group, c), *weather.STORMS)
        for c in others
    )


def _turned_away(facts: Facts, group: str, attempt: Attempt) -> bool:
    """Whether the provider turned a mail away while an attempt ran: then it failed for that."""
    return any(
        e.kind is Kind.PROVIDER_RESPONSE
        and e.operation is not None
        and attempt.start < e.seq < (attempt.end or 0)
        and not 200 <= int(e.data.get("status") or 0) < 300
        for e in facts.about(group)
    )


def _begun(facts: Facts, group: str, commit: Commit) -> int:
    """Return the event by which the hand-over of a commit began."""
    return next(
        (
            e.seq
            for e in facts.about(group)
            if e.kind is Kind.PROVIDER_REQUEST and e.connection == commit.connection and e.seq < commit.seq
        ),
        commit.seq,
    )


def _past_retention(facts: Facts, attempts: list[Attempt], excess: Commit) -> str | None:
    """Say of a caller's second mail under one key that the API was free to have forgotten that key (C14)."""
    keyed = [a for a in attempts if a.key is not None and a.start < excess.seq]
    moved = [e for e in facts.advances if keyed and keyed[0].start < e.seq < excess.seq]
    if not moved:
        return None
    hours = sum(float(e.data["seconds"]) for e in moved) / 3600
    return f", and the key had been forgotten: {hours:g} h lay between them"


def _counted(number: int, what: str) -> str:
    return f"{_times(number) if number else 'no'} {what}{'s' * (number != 1)}"


def _by_the_sdk(facts: Facts, group: str) -> str:
    """Say where an SDK sent again by itself, so that the fault lands on the right party."""
    handed = [e.data for e in facts.about(group) if e.kind is Kind.PROVIDER_REQUEST]
    if not any("call" in data or "resend" in data for data in handed):
        return ""
    calls = {data["call"] for data in handed if "call" in data} or {
        n for n, data in enumerate(handed) if not data.get("resend")
    }
    if len(calls) >= len(handed):
        return ""
    return (
        f"; the provider saw {len(handed)} attempts of {_times(len(calls))} call{'s' * (len(calls) != 1)}: "
        "the provider's SDK in the target sent again by itself"
    )


def _forgotten_early(facts: Facts, attempts: list[Attempt], excess: Commit) -> str | None:
    """Return what a second mail says of the retention, when only the clock stands between it and the first."""
    keyed = [a for a in attempts if a.key is not None and a.start < excess.seq]
    if not keyed or not keyed[0].succeeded or not all(facts.shares_key(keyed[0], a) for a in keyed):
        return None
    moved = [e for e in facts.advances if (keyed[0].end or 0) < e.seq < excess.seq]
    if not moved:
        return None
    hours = sum(float(e.data["seconds"]) + float(e.data.get("waited", 0)) for e in moved) / 3600
    floor = (facts.contract.retention.at_least.value or 0) / 3600
    return f": after {hours:g} h the key was forgotten, which the contract keeps for {floor:g} h at least"


def _lease_lapsed(facts: Facts, attempts: list[Attempt], excess: Commit) -> tuple[Level, str] | None:
    """Return how a second mail weighs when the first one was still in flight after its lease (D12)."""
    lease = facts.contract.lease
    if lease.lasts.judged and lease.then.judged and not lease.then.permits("execute"):
        return None
    frees = f"; the contract frees a claim after {lease.lasts.value or 0:g} s, done or not"
    for first in attempts:
        for second in attempts:
            if second.start > excess.seq:
                continue
            if _never_written(facts, first, second):
                return (Level.HOLE, frees) if lease.then.judged else (Level.OBSERVE, _SAYS_TOO_LITTLE)
            if not facts.lapsed(first, second):
                continue
            if not lease.lasts.judged or not lease.then.judged or not lease.late_original.judged:
                return Level.OBSERVE, _SAYS_TOO_LITTLE
            if lease.late_original.permits("commits"):
                return Level.HOLE, frees
    return None


def _never_written(facts: Facts, first: Attempt, second: Attempt) -> bool:
    """Whether a store failed one attempt, so that its claim may have stood alone, and lapsed before another ended."""
    leased = facts.contract.lease.lasts.judged and first.start < second.start
    if not leased or not facts.storms.out_of_store(first):
        return False
    return facts.outlasts(first, second)


def _freed_by_failing(facts: Facts, attempts: list[Attempt], excess: Commit) -> str | None:
    """Return what permits a second mail when a store failed the first, its caller was told so, and the key was freed.

    A contract that frees the key after every failure of the server's own frees it after this one too (R20).
    """
    outcomes, unknown = facts.contract.outcomes, facts.contract.second_after_unknown
    if not (outcomes.server_error.says("released") or unknown.says("permitted")):
        return None
    for failed in attempts:
        told = failed.answered and failed.classes and failed.classes <= {A.FAILED, A.UNKNOWN}
        again = any(failed.before(other) and other.start < excess.seq for other in attempts)
        if told and again and facts.storms.out_of_store(failed):
            return "; the contract frees the key after a failure, whatever had been done"
    return None


def judge_refused(facts: Facts) -> Iterator[Finding]:
    """What was refused for good, turned away, or only tried, sends nothing."""
    for group in facts.groups:
        commits = facts.commits.get(group, [])
        attempts = facts.attempts_of(group)
        if facts.role != "api" or not commits or group in facts.blurred or not attempts:
            continue
        what = None
        if all(a.dry_run for a in attempts):
            what = "was only tried (a dry run)"
        elif all(a.answered and a.classes and a.classes <= _NO_EFFECT for a in attempts):
            if weather.provider_failed(facts, {group}, until=None):
                continue
            what = f"was answered {attempts[0].status} ({named(attempts[0].classes)})"
        if what is not None and not any(a.key_problem for a in attempts):
            yield finding(
                facts.contract,
                "no-effect",
                f"{attempts[0].name} {what}, and was delivered all the same",
                tuple(sorted({*(seq for a in attempts for seq in a.events), *(c.seq for c in commits)})),
                operation=attempts[0].operation,
            )


def _excess(facts: Facts, group: str, person: str, limit: int) -> Commit:
    """Return the commit by which a person got more than the limit."""
    mine = [c for c in facts.commits[group] if person in _people(facts, group, c)]
    return mine[limit]


def _times(n: int) -> str:
    return {1: "one", 2: "two"}.get(n, str(n))


def _other_content(facts: Facts) -> Iterator[Finding]:
    """Of several contents under one key only one is delivered, where the contract refuses the others."""
    if not (facts.contract.mismatch.judged and facts.contract.mismatch.value == "refuse"):
        return
    for attempt in facts.attempts:
        if attempt.invalid or not _sent_by(facts, attempt):
            continue
        for first in facts.rivals(attempt):
            if (
                first.start < attempt.start
                and facts.shares_key(first, attempt)
                and facts.kin(first, attempt) is Kin.OTHER
                and facts.group_of(first.operation) != facts.group_of(attempt.operation)
                and _sent_by(facts, first)
                and left_by(facts, first) is not Left.NOTHING
                and not any(facts.unguarded(one) for one in (first, attempt))
                and not (first.answered and first.classes & {A.FAILED, A.REFUSED})
            ):
                groups = {facts.group_of(first.operation), facts.group_of(attempt.operation)}
                commits = sorted((c for group in groups for c in facts.commits[group]), key=lambda c: c.seq)
                only_time = first.succeeded and facts.advanced(first.end or 0, attempt.start)
                weight, note = _lease_lapsed(facts, [first, attempt], commits[-1]) or (None, "")
                yield finding(
                    facts.contract,
                    "expiry" if only_time else "conflict",
                    f"{attempt.name} has other content than {first.name} under the same key, and both were delivered"
                    + (" when some time had passed" if only_time else "")
                    + note,
                    tuple(sorted({*first.events, *attempt.events, *(c.seq for c in commits)})),
                    operation=attempt.operation,
                    weight=weight,
                )
                return


def _sent_by(facts: Facts, attempt: Attempt) -> bool:
    """Whether an attempt's key must have caused a mail: more were delivered than its content's other keys explain."""
    group = facts.group_of(attempt.operation)
    if group in facts.blurred:
        return False
    others: list[Attempt] = []
    unkeyed = 0
    for other in facts.attempts_of(group):
        if other.never_arrived or (other.classes and other.classes <= _NOT_SENT) or facts.shares_key(other, attempt):
            continue
        if other.key is None:
            unkeyed += 2 if other.doubled else 1
        elif not any(facts.shares_key(other, known) for known in others):
            others.append(other)
    # What the target was told had not been taken, and sent again, is a second mail of nobody's fault.
    denied = sum(commit.denied for commit in facts.commits.get(group, ()))
    return facts.count(group) - denied > len(others) + unkeyed


def _bad_keys(facts: Facts) -> Iterator[Finding]:
    """A key that the contract calls invalid is refused before any effect."""
    key = facts.contract.key
    for attempt in facts.attempts:
        bad = attempt.key_problem
        refused = (bad == "absent" and key.presence.says("required")) or (
            bad not in (None, "absent", "undeclared")
            and (key.invalid.says("refuse") and (bad != "empty" or key.empty.says("invalid")))
        )
        alone = all(a is attempt or a.key_problem for a in facts.attempts_of(facts.group_of(attempt.operation)))
        commits = facts.commits.get(facts.group_of(attempt.operation), [])
        if refused and alone and commits and not attempt.classes & SUCCESS:
            yield finding(
                facts.contract,
                "key-syntax",
                f"{attempt.name} has a key that is {bad}, was refused for it, and was delivered all the same",
                tuple(sorted({*attempt.events, *(c.seq for c in commits)})),
                operation=attempt.operation,
            )
