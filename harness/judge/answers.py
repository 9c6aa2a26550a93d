"""Rules about answers: is each one among those that its attempt may get, and do repeats resemble the first?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Contract, Level
from sendtwice.harness.judge.blame import blame
from sendtwice.harness.judge.classes import SUCCESS, carries, parsed
from sendtwice.harness.judge.facts import Attempt, Facts, Kin
from sendtwice.harness.judge.finding import Finding
from sendtwice.harness.judge.permitted import permission
from sendtwice.harness.judge.rules import RULES, level


def finding(
    contract: Contract,
    rule: str,
    message: str,
    events: tuple[int, ...],
    *,
    operation: str | None = None,
    weight: Level | None = None,
) -> Finding:
    """Return a finding at the level that the contract gives its rule."""
    return Finding(rule, weight or level(contract, rule), message, RULES[rule].remedy, events, operation)


def named(classes: frozenset[A] | set[A]) -> str:
    """Return classes in words: 'accepted or replayed'."""
    listed = sorted(c.value.replace("_", " ") for c in classes)
    return " or ".join(listed) if listed else "nothing that the contract declares"


def judge_answers(facts: Facts) -> Iterator[Finding]:
    """Each answer must be one that its attempt may get."""
    for attempt in facts.attempts:
        if not attempt.answered or facts.absent_path(attempt):
            continue
        allowed = permission(facts, attempt)
        if attempt.classes & allowed:
            continue
        if not attempt.classes:
            yield finding(
                facts.contract,
                "status-as-declared",
                f"{attempt.name} was answered {attempt.status}, which the contract nowhere declares"
                f"{_of_this_kind(facts.contract, attempt)}",
                _evidence(facts, attempt),
                operation=attempt.operation,
            )
            continue
        rule, why = blame(facts, attempt)
        seen = f"{attempt.status} ({named(attempt.classes)})"
        yield finding(
            facts.contract,
            rule,
            f"{attempt.name} was answered {seen}; permitted: {named(allowed)}, because {why}",
            _evidence(facts, attempt),
            operation=attempt.operation,
        )


def _of_this_kind(contract: Contract, attempt: Attempt) -> str:
    """Say what the contract does declare among answers like this one."""
    hundred = (attempt.status or 0) // 100
    found: dict[str, str] = {}
    for kind, shapes in contract.answers.items():
        for shape in shapes:
            for status in shape.status:
                if isinstance(status, int) and status // 100 == hundred:
                    codes = " or ".join(map(str, shape.code.one_of)) if shape.code is not None else ""
                    found.setdefault(f"{status} {codes}".strip(), kind.value.replace("_", " "))
    listed = ", ".join(f"{look} for {kind}" for look, kind in found.items())
    return f" (it has {listed})" if listed else ""


def _evidence(facts: Facts, attempt: Attempt) -> tuple[int, ...]:
    rivals = [seq for rival in facts.rivals(attempt) for seq in rival.events]
    return tuple(sorted({*rivals, *attempt.events}))


def judge_replays(facts: Facts) -> Iterator[Finding]:
    """A repeat that is answered as a success has the first's id and the declared marker; the first has no marker."""
    contract = facts.contract
    for attempt in facts.attempts:
        if attempt.answered and attempt.classes == {A.PENDING}:
            yield from _one_draft(facts, attempt)
        if not (attempt.answered and attempt.classes & SUCCESS):
            continue
        met = facts.rivals(attempt)
        if facts.runs_again(attempt):
            continue
        if facts.leases_lapse and any(facts.both_first(r, other) for r in met for other in met):
            continue  # it may be a new send, with an id of its own
        done = [
            r
            for r in met
            if r.succeeded and r.before(attempt) and r.operation == attempt.operation
            if facts.shares_key(r, attempt) and facts.same_request(r, attempt)
            if not facts.storms.out_of_store(r)  # its answer may not be on record
        ]
        if done and contract.replay.id.says("same") and any(r.id not in (None, attempt.id) for r in done):
            first = next(r for r in done if r.id not in (None, attempt.id))
            yield finding(
                contract,
                "replay-fidelity",
                f"{attempt.name} names id {attempt.id}, but {first.name} got id {first.id} under the same key",
                (*first.events, *attempt.events),
                operation=attempt.operation,
            )
        yield from _marker(facts, attempt, done)
        # Once it is decided what became of the mail, a replay may show that.
        if done and A.ACCEPTED not in attempt.classes and not facts.decisions(attempt.operation, until=attempt.end):
            yield from _fidelity(facts, done[0], attempt)


def _one_draft(facts: Facts, attempt: Attempt) -> Iterator[Finding]:
    """A repeat of a send that waits for approval names the same draft: another would be approved as well."""
    if not facts.contract.replay.id.says("same"):
        return
    for first in facts.rivals(attempt):
        drafts = first.before(attempt) and first.classes == {A.PENDING} and facts.shares_key(first, attempt)
        drafts = drafts and not facts.storms.out_of_store(first)
        if drafts and facts.same_request(first, attempt) and None not in (first.id, attempt.id):
            if first.id != attempt.id:
                yield finding(
                    facts.contract,
                    "replay-fidelity",
                    f"{attempt.name} names the draft {attempt.id}, but {first.name} got {first.id} under the same key",
                    (*first.events, *attempt.events),
                    operation=attempt.operation,
                )
            return


def _fidelity(facts: Facts, first: Attempt, attempt: Attempt) -> Iterator[Finding]:
    """A replay has the first answer's status and body, and names its key, where the contract says so (D8)."""
    replay = facts.contract.replay
    wrong = None
    if replay.status.says("same") and attempt.status != first.status:
        wrong = f"is answered {attempt.status}, and {first.name} was answered {first.status}"
    elif replay.body.says("identical") and _plain(facts, attempt) != _plain(facts, first):
        wrong = f"has another body than {first.name}"
    elif replay.key_echo.judged and not attempt.headers.get(str(replay.key_echo.value).lower()):
        wrong = f"does not name its key in the header {replay.key_echo.value}"
    if wrong is not None:
        yield finding(
            facts.contract,
            "replay-fidelity",
            f"{attempt.name} {wrong}, under the same key",
            (*first.events, *attempt.events),
            operation=attempt.operation,
        )


def _plain(facts: Facts, attempt: Attempt) -> Any:
    """Return the body of an answer without the fields that mark a replay."""
    data = parsed(attempt.body)
    for marker in facts.contract.replay.marker.value or ():
        if marker.at is not None and isinstance(data, dict) and marker.at.count("/") == 1:
            data = {name: value for name, value in data.items() if name != marker.at[1:]}
    return attempt.body if data is None else data


def judge_hints(facts: Facts) -> Iterator[Finding]:
    """An answer says about trying again what the contract says that it does (D16)."""
    hints = facts.contract.hints
    if not hints.retry_after.judged and not hints.documentation.judged:
        return
    for attempt in facts.attempts:
        classes = attempt.classes & permission(facts, attempt) if attempt.answered else set()
        if not classes:
            continue
        for claim, what, there in (
            (hints.retry_after, "Retry-After", "retry-after" in attempt.headers),
            (hints.documentation, "a Link or problem+json", _documented(attempt)),
        ):
            if claim.judged and classes <= set(claim.value or ()) and not there:
                yield finding(
                    facts.contract,
                    "hints",
                    f"{attempt.name} was answered {attempt.status} ({named(classes)}) without {what}",
                    attempt.events,
                    operation=attempt.operation,
                )


def _documented(attempt: Attempt) -> bool:
    return "link" in attempt.headers or "problem+json" in attempt.headers.get("content-type", "")


def _marker(facts: Facts, attempt: Attempt, done: list[Attempt]) -> Iterator[Finding]:
    marker = facts.contract.replay.marker
    if not marker.judged:
        return
    missing = [m for m in marker.value or () if not carries(m, attempt.headers, attempt.body)]
    resumed = facts.contract.duplicates.value == "resume"  # which answers with the result that it comes to
    if done and missing and not resumed and (done[0].id is None or done[0].id == attempt.id):
        yield finding(
            facts.contract,
            "replay-fidelity",
            f"{attempt.name} replays {done[0].name} without its marker ({_shown(missing[0])})",
            (*done[0].events, *attempt.events),
            operation=attempt.operation,
        )
    elif (
        not attempt.doubled
        and not facts.storms.out_of_store(attempt)  # it may have found its own record
        and not any(m.otherwise is not None for m in marker.value or ())
        and not any(a.start < (attempt.end or 0) for a in facts.keyring.of(attempt) if a is not attempt)
        and len(missing) < len(marker.value or ())
    ):
        yield finding(
            facts.contract,
            "replay-fidelity",
            f"{attempt.name} was the first under its key, yet its answer is marked as a replay",
            attempt.events,
            operation=attempt.operation,
        )


def _shown(marker: object) -> str:
    header, at = getattr(marker, "header", None), getattr(marker, "at", None)
    return f"header {header}" if header else f"field {at}"


def judge_pairs(facts: Facts) -> Iterator[Finding]:
    """Of two that met under one key in flight, either may be the first; but not both in every respect."""
    contract = facts.contract
    for a in facts.attempts:
        for b in facts.keyring.of(a):
            if b.start <= a.start or not (a.succeeded and b.succeeded and facts.shares_key(a, b)):
                continue
            events = tuple(sorted({*a.events, *b.events}))
            kin = facts.kin(a, b)
            if facts.both_first(a, b) or (kin is Kin.SAME and facts.runs_again(b)):
                continue
            if kin is Kin.OTHER and not (contract.mismatch.permits("replay") or contract.mismatch.permits("execute")):
                message = f"{a.name} and {b.name} have different content under one key, and both were told of success"
                yield finding(contract, "conflict", message, events, operation=b.operation)
            elif not a.overlaps(b) or facts.storms.out_of_store(a) or facts.storms.out_of_store(b):
                continue  # a repeat of the same request: it is compared as a replay
            elif kin is Kin.SAME and contract.replay.id.says("same") and a.id and b.id and a.id != b.id:
                message = f"{a.name} and {b.name} met under one key and got two ids, {a.id} and {b.id}"
                yield finding(contract, "replay-fidelity", message, events, operation=b.operation)
            elif kin is Kin.SAME and a.classes == b.classes == {A.ACCEPTED} and contract.concurrent.judged:
                if contract.concurrent.permits("execute"):
                    continue
                message = f"{a.name} and {b.name} met under one key, and each was answered as the first"
                yield finding(contract, "in-progress", message, events, operation=b.operation)


def judge_strangers(facts: Facts) -> Iterator[Finding]:
    """Nobody sees the answer of another tenant; nor, where scopes are declared, of another mailbox."""
    scope = facts.contract.scope
    for attempt in facts.attempts:
        # A mail of its own shows that it was served: then an equal id is a number that each tenant counts for itself.
        if attempt.id is None or facts.count(facts.group_of(attempt.operation)) > 0:
            continue
        for owner in facts.by_id[attempt.id]:
            if owner.operation == attempt.operation:
                continue
            declared = scope.value or () if scope.judged else ()
            apart = owner.tenant != attempt.tenant or any(
                owner.scope.get(part) != attempt.scope.get(part) for part in declared
            )
            if apart and facts.count(facts.group_of(owner.operation)) > 0:
                yield finding(
                    facts.contract,
                    "isolation",
                    f"{attempt.name} (sender {attempt.sender}) was answered with id {attempt.id}, "
                    f"which belongs to {owner.name} (sender {owner.sender})",
                    tuple(sorted({*owner.events, *attempt.events})),
                    operation=attempt.operation,
                )
                break
