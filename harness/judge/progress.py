"""Rules about going on: a key that is stuck, and what the scenario itself expects."""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.answers import finding, named
from sendtwice.harness.judge.attempt import Attempt
from sendtwice.harness.judge.checks import TURNED_AWAY
from sendtwice.harness.judge.classes import SUCCESS
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.judge.finding import Finding
from sendtwice.harness.judge.keyring import MARGIN, Kin
from sendtwice.harness.judge.permitted import Left, left_by, refusal_policy
from sendtwice.harness.judge.rules import level


def judge_progress(facts: Facts) -> Iterator[Finding]:
    """Retrying the same key must come to an end, once nothing uncertain holds it."""
    for event in facts.events:
        if event.kind is not Kind.FINISHED or event.data.get("definite") or event.operation is None:
            continue
        last = facts.attempt(str(event.data["last"]))
        if last is None or not last.answered or last.classes != {A.IN_PROGRESS}:
            # Unknown, or a status that may mean other things too: that is no proof of a stuck key.
            continue
        mine = [a for a in facts.attempts_for(event.operation) if a.start < last.start]
        if weather.uncertain(facts, {event.operation}, until=last.end):
            yield from _past_its_lease(facts, event, event.operation, last)
            continue
        released = _released(facts, mine, last)
        if not released:
            continue
        yield finding(
            facts.contract,
            "progress",
            f"{event.operation}: every retry for {event.data.get('waited', 0):.1f} s was told to wait, "
            f"though {released[0].name} had failed before anything was sent",
            (*released[0].events, *last.events, event.seq),
            operation=event.operation,
        )


def _holders(facts: Facts, last: Attempt) -> list[int]:
    """Return the starts of those before the last attempt that may have left something under its key."""
    return [r.start for r in facts.rivals(last) if r.start < last.start and left_by(facts, r) is not Left.NOTHING]


def _released(facts: Facts, mine: list[Attempt], last: Attempt) -> list[Attempt]:
    """Return the attempts whose failure freed the key, and after which nobody took it."""
    holders = _holders(facts, last)
    return [
        a
        for a in mine
        if (policy := refusal_policy(facts, a)) is not None
        and policy.says("released")
        and not any(start > a.start for start in holders)
    ]


def _past_its_lease(facts: Facts, event: Event, operation: str, last: Attempt) -> Iterator[Finding]:
    """A claim whose owner was lost before it had handed anything over lapses when its lease does.

    A process that was lost between its note "handing over" and the first byte of that leaves an unknown outcome,
    which some contracts call in progress for good.
    """
    lost, lease = facts.storms.last(last.start), facts.lease
    if lost is None or lease is None or facts.elsewhere or weather.handed_over(facts, facts.group_of(operation)):
        return
    waited = event.at - lost[1]
    if facts.contract.lease.lasts.judged and not facts.clock_in_doubt:
        # A lease of which only the target file speaks may go by a clock that nobody moves.
        waited += sum(float(a.data["seconds"]) for a in facts.advances if lost[0] < a.seq < event.seq)
    if waited <= lease + min(MARGIN, lease / 10):
        return
    kept = facts.contract.outcomes.unknown
    weight = level(facts.contract, "progress")
    yield finding(
        facts.contract,
        "progress",
        f"{operation}: {waited:.1f} s after its owner was lost, with nothing handed over, every retry is told to wait, "
        f"though the lease is {lease:g} s",
        (lost[0], *last.events, event.seq),
        operation=operation,
        weight=max(weight, Level.SHOULD, key=list(Level).index) if not kept.judged or kept.permits("kept") else weight,
    )


def judge_release(facts: Facts) -> Iterator[Finding]:
    """After a failure that surely sent nothing, and with a provider that is well again, a retry sends the mail."""
    for event in facts.events:
        if event.kind is not Kind.FINISHED or event.operation is None:
            continue
        last = facts.attempt(str(event.data["last"]))
        if (
            last is None
            or not last.answered
            or last.classes & (SUCCESS | TURNED_AWAY | {A.PENDING})
            or last.classes == {A.IN_PROGRESS}
        ):
            continue
        if facts.count(facts.group_of(event.operation)) or weather.uncertain(facts, {event.operation}, until=last.end):
            continue
        mine = [a for a in facts.attempts_for(event.operation) if a.start < last.start]
        arrived = [a for a in mine if not a.never_arrived]
        # What never arrived frees nothing that another one may have taken.
        lost = [] if _holders(facts, last) else [a for a in mine if a.never_arrived]
        freed = sorted({*lost, *_released(facts, arrived, last)}, key=lambda a: a.start)
        if (
            facts.absent_path(last)
            or last.invalid
            or last.partly_invalid
            or last.too_many
            or last.key_problem
            or last.dry_run
        ):
            continue  # the same mistake is refused again
        if last.classes == {A.CONFLICT} and any(
            facts.kin(r, last) is Kin.OTHER and left_by(facts, r) is not Left.NOTHING for r in facts.rivals(last)
        ):
            continue  # other content has the key
        if not freed or any(
            e.kind is Kind.FIRED and str(e.data["place"]).startswith("provider.") and e.seq > last.start
            for e in facts.about(facts.group_of(event.operation))
        ):
            continue
        why = "never arrived whole" if freed[0].never_arrived else "had failed before anything was sent"
        waits = not freed[0].never_arrived and A.IN_PROGRESS in last.classes
        rule = "progress" if waits else "refusal-policy"
        weight = level(facts.contract, rule)
        yield finding(
            facts.contract,
            rule,
            f"{event.operation}: no retry for {event.data.get('waited', 0):.1f} s led to a delivery, "
            f"the last was answered {last.status}, though {freed[0].name} {why}",
            (*freed[0].events, *last.events, event.seq),
            operation=event.operation,
            # The status may also mean that something goes on; only a contract with exact answers proves more.
            weight=Level.SHOULD if weight is Level.MUST and len(last.classes) > 1 else weight,
        )


def judge_expectations(facts: Facts) -> Iterator[Finding]:
    """What the scenario states beyond the contract."""
    for event in facts.events:
        if event.kind is not Kind.EXPECTED:
            continue
        yield from _deliveries(facts, event)
        yield from _answers(facts, event)
        yield from _told(facts, event)


def _weight(event: Event) -> Level:
    return Level(event.data.get("level", Level.MUST))


def _deliveries(facts: Facts, event: Event) -> Iterator[Finding]:
    final = bool(event.data.get("final"))
    for names, bounds in event.data.get("deliveries", ()):
        low, high = bounds
        groups = {facts.group_of(name) for name in names}
        seen = facts if final else Facts(facts.contract, [e for e in facts.events if e.seq < event.seq], facts.role)
        least = sum(seen.count(group, min) for group in groups)
        most = sum(seen.count(group, max) for group in groups)
        if low <= least and most <= high:
            continue
        # Too few with no success claimed is a shortcoming; what was claimed and lost has a rule of its own.
        weight = _weight(event) if most > high else max(_weight(event), Level.SHOULD, key=list(Level).index)
        count = most if most > high else least
        wanted = str(low) if low == high else f"{low} to {high}"
        commits = [c.seq for group in groups for c in seen.commits.get(group, ())]
        attempts = [seq for group in groups for a in facts.attempts_of(group) for seq in a.events]
        yield finding(
            facts.contract,
            "expected",
            f"{', '.join(names)}: {count} delivered where the scenario expects {wanted}",
            tuple(sorted({*commits, *attempts})),
            operation=names[0],
            weight=weight,
        )


def _answers(facts: Facts, event: Event) -> Iterator[Finding]:
    for names, wanted in event.data.get("answers", ()):
        attempts = [a for name in names if (a := facts.attempt(name)) is not None and a.answered]
        events = tuple(seq for a in attempts for seq in a.events)
        if isinstance(wanted, list):
            classes = {A(c) for c in wanted}
            wrong = [a for a in attempts if not a.classes & classes]
            if wrong:
                seen = f"{wrong[0].status} ({named(wrong[0].classes)})"
                text = f"{wrong[0].name} was answered {seen}; expected {named(classes)}"
                yield finding(facts.contract, "expected", text, events, weight=_weight(event))
            continue
        rest = {A(c) for c in wanted["rest"]}
        for name, number in wanted.items():
            if name == "rest":
                continue
            could = [a for a in attempts if A(name) in a.classes]
            must = [a for a in could if not a.classes & rest]
            if len(could) < number or len(must) > number:
                text = f"{', '.join(names)}: {len(could)} of {len(attempts)} answered {name}; expected {number}"
                yield finding(facts.contract, "expected", text, events, weight=_weight(event))


def _told(facts: Facts, event: Event) -> Iterator[Finding]:
    for operation, wanted in event.data.get("told", ()):
        told = [e for e in facts.events if e.kind is Kind.TOLD and e.operation == operation]
        if told and told[-1].data["told"] not in wanted:
            yield finding(
                facts.contract,
                "expected",
                f"{operation}: the target says {told[-1].data['told']}; expected {' or '.join(wanted)}",
                (told[-1].seq,),
                operation=operation,
                weight=_weight(event),
            )
