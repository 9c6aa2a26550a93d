"""The weather: what the provider and the process did to a target. Failing in bad weather is fair."""

from __future__ import annotations

from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.faults import Verb
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.facts import Facts

#: Answers of a provider that do not say whether it took the mail. 503 says that it did not (RFC 9110, 15.6.4).
_AMBIGUOUS = frozenset({408, 425, 500, 502, 504})
#: Faults that end a connection before the provider's answer.
_CUT_OFF = frozenset({Verb.RESET.value, Verb.CLOSE.value, Verb.LOSE.value, Verb.CUT.value})
#: Fault verbs that only move a message in time.
_PATIENT = {Verb.HOLD.value, Verb.DELAY.value}


def provider_answers(facts: Facts, operation: str, *, until: int) -> set[int]:
    """Return the statuses with which the provider was made to refuse a group's messages before ``until``."""
    return {
        int(e.data["argument"])
        for e in facts.about(facts.group_of(operation))
        if e.kind is Kind.FIRED
        and e.seq < until
        and e.data["place"] == "provider.request"
        and e.data["verb"] == Verb.ANSWER
        and isinstance(e.data.get("argument"), int | float)
        and e.operation is not None
        and facts.group_of(e.operation) == facts.group_of(operation)
    }


def given_up(facts: Facts, groups: set[str], *, until: int | None, since: int = 0) -> bool:
    """Whether the target answered before the provider did: it gave up on a hand-over that was held.

    An attempt that still runs, and will end well, accounts for one pending hand-over; one more belongs to an attempt
    that is over, or that gave up as well. (Which of two in flight gave up first, nobody can know.)
    """
    end = until if until is not None else facts.last_seq
    for group in groups:
        pending = facts.wires.pending(group, since=since, until=end)
        if not pending:
            continue
        running = [
            a
            for a in facts.attempts_of(group)
            if a.start < end
            and a.answered
            and a.end is not None
            and a.end > end
            and not a.classes <= {AnswerClass.FAILED, AnswerClass.UNKNOWN}
        ]
        if pending > len(running):
            return True
    return False


def doubt(facts: Facts, group: str, *, in_flight: bool = True) -> int | None:
    """Return the event from which on a hand-over's outcome was unknown to the target, or None.

    It had sent a message whose answer never reached it: dropped by the provider, or the process was killed. One that
    is still ``in_flight`` at the end of the history counts unless it is still waited for.
    """
    pending: dict[int | None, int] = {}
    unread: set[int | None] = set()
    for event in facts.about(group):
        mine = event.operation is not None and facts.group_of(event.operation) == group
        if mine and (event.kind is Kind.PROVIDER_REQUEST or event.data.get("outcome") == "answered"):
            # What was answered before is read by now: the target has gone on.
            for connection in unread:
                pending.pop(connection, None)
            unread.clear()
        if mine and event.kind is Kind.PROVIDER_REQUEST:
            pending[event.connection] = event.seq
        elif mine and event.kind is Kind.PROVIDER_RESPONSE:
            if not event.data.get("sent") or int(event.data.get("status") or 0) in _AMBIGUOUS:
                return event.seq
            unread.add(event.connection)
        elif event.kind is Kind.FIRED and event.data["place"] == "provider.request" and event.data["verb"] in _CUT_OFF:
            if mine or event.operation is None:
                return event.seq
        elif event.kind is Kind.CRASH and pending:
            return event.seq
        elif event.kind is Kind.DISCARDED and event.operation is None and not facts.commits.get(group):
            # Something was on its way when the process was killed; it may have been this one's.
            return event.seq
    if not in_flight:
        return None
    waiting = [seq for connection, seq in pending.items() if connection not in unread]
    return max(waiting, default=None)


def trouble(facts: Facts, operations: set[str], *, until: int | None, since: int = 0) -> bool:
    """Whether the provider or the process failed these operations: then failing is fair.

    Only what happened after ``since`` counts: a success that was answered ends all earlier trouble, and a later crash
    excuses nothing but a hand-over that was still in doubt.
    """
    groups = {facts.group_of(operation) for operation in operations}
    if given_up(facts, groups, until=until, since=since):
        return True
    if facts.wires.calm(groups):
        return False
    for event in facts.about(*groups):
        if event.seq <= since:
            continue
        if until is not None and event.seq > until:
            break
        if event.kind is Kind.CRASH and (not since or any(doubt(facts, group) is not None for group in groups)):
            return True
        mine = event.operation is not None and facts.group_of(event.operation) in groups
        if event.kind is Kind.DISCARDED and mine:
            return True
        if event.kind is Kind.PROVIDER_RESPONSE and mine and not event.data.get("sent"):
            return True
        if (
            event.kind is Kind.FIRED
            and (mine or event.operation is None)
            and str(event.data["place"]).startswith("provider.")
            and event.data["verb"] not in _PATIENT
        ):
            return True
    return False


def uncertain(facts: Facts, operations: set[str], *, until: int | None) -> bool:
    """Whether an outcome of these operations may be unknown to the target (not merely refused)."""
    groups = {facts.group_of(operation) for operation in operations}
    if given_up(facts, groups, until=until):
        return True
    if facts.wires.calm(groups):
        return False
    for event in facts.about(*groups):
        if until is not None and event.seq > until:
            break
        mine = event.operation is not None and facts.group_of(event.operation) in groups
        if event.kind is Kind.CRASH:
            return True
        if event.kind is Kind.PROVIDER_RESPONSE and mine and not event.data.get("sent"):
            return True
        fired = event.kind is Kind.FIRED and mine and str(event.data["place"]).startswith("provider.")
        if fired and event.data["verb"] in (Verb.RESET, Verb.CLOSE, Verb.LOSE, Verb.CUT):
            return True
    return False


def handed_over(facts: Facts, group: str) -> bool:
    """Whether a hand-over of a group may have begun."""
    return any(
        (
            event.kind is Kind.PROVIDER_REQUEST
            and event.operation is not None
            and facts.group_of(event.operation) == group
        )
        or (event.kind is Kind.DISCARDED and event.operation is None)
        for event in facts.about(group)
    )
