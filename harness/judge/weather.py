"""The weather: what the provider, the process and the stores did to a target. Failing in bad weather is fair."""

from __future__ import annotations

from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.faults import Verb
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge.attempt import Attempt
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.judge.storms import INSTANT, PATIENT

#: Answers of a provider that do not say whether it took the mail. 503 says that it did not (RFC 9110, 15.6.4).
_AMBIGUOUS = frozenset({408, 425, 500, 502, 504})
#: Faults that end a connection before the provider's answer.
_CUT_OFF = frozenset({Verb.RESET.value, Verb.CLOSE.value, Verb.LOSE.value, Verb.CUT.value})
#: What a caller is told by one that its provider has failed.
_FAILURES = frozenset({AnswerClass.FAILED, AnswerClass.UNKNOWN})
#: What happens to a process as a whole.
STORMS = (Kind.CRASH, Kind.STOP, Kind.PAUSE)


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

    It had sent a message whose answer never reached it: dropped by the provider, or the process was killed; or the
    process was stopped or slept meanwhile, and nothing shows that it learned of the answer. One that is still
    ``in_flight`` at the end of the history counts unless it is still waited for.
    """
    pending: dict[int | None, int] = {}
    unread: dict[int | None, Event] = {}
    missed: dict[int | None, int] = {}
    queued = facts.contract.delivery.says("queued")
    for event in facts.about(group):
        mine = event.operation is not None and facts.group_of(event.operation) == group
        if mine and (event.kind is Kind.PROVIDER_REQUEST or event.data.get("outcome") == "answered"):
            queued = queued or (not pending and _claims(facts, event))
            # What was answered before is read by now: the target has gone on. An answer to a caller shows nothing of
            # the worker of a queue.
            for connection, answer in list(unread.items()):
                if connection in missed:
                    read = not queued and _claims(facts, event, answer.seq)
                else:
                    read = event.kind is Kind.PROVIDER_REQUEST or not queued
                if read:
                    del unread[connection]
                    pending.pop(connection, None)
                    missed.pop(connection, None)
        if mine and event.kind is Kind.PROVIDER_REQUEST:
            pending[event.connection] = event.seq
        elif mine and event.kind is Kind.PROVIDER_RESPONSE:
            if not event.data.get("sent") or int(event.data.get("status") or 0) in _AMBIGUOUS:
                return event.seq
            unread[event.connection] = event
        elif event.kind is Kind.FIRED and event.data["place"] == "provider.request" and event.data["verb"] in _CUT_OFF:
            if mine or event.operation is None:
                return event.seq
        elif event.kind is Kind.CRASH and any(_open(facts, event, unread.get(connection)) for connection in pending):
            return event.seq
        elif event.kind in (Kind.STOP, Kind.PAUSE):
            missed |= {c: event.seq for c in pending if c not in missed and _open(facts, event, unread.get(c))}
        elif event.kind is Kind.DISCARDED and event.operation is None and not facts.commits.get(group):
            # Something was on its way when the process was killed; it may have been this one's.
            return event.seq
    if missed:
        return min(missed.values())
    if not in_flight:
        return None
    waiting = [seq for connection, seq in pending.items() if connection not in unread]
    return max(waiting, default=None)


def _claims(facts: Facts, event: Event, answered: int | None = None) -> bool:
    """Whether an event is a claim of success: of one that waited for the provider's answer, when that is given."""
    attempt = facts.attempt(event.attempt) if event.attempt is not None else None
    return attempt is not None and attempt.succeeded and (answered is None or attempt.start < answered)


def _open(facts: Facts, storm: Event, answer: Event | None) -> bool:
    """Whether a process that met a storm may not have taken in the provider's answer: there was none, or just now.

    A store that failed may have kept it from noting what it had read.
    """
    return answer is None or storm.at - answer.at < INSTANT or bool(facts.storms.store_faults)


def trouble(
    facts: Facts, operations: set[str], *, until: int | None, since: int = 0, attempt: Attempt | None = None
) -> bool:
    """Whether the provider, the process or a store failed these operations: then failing is fair.

    Only what happened after ``since`` counts: a success that was answered ends all earlier trouble, and what befalls
    the process later excuses nothing but a hand-over that was still in doubt, and the ``attempt`` that met it.
    """
    groups = {facts.group_of(operation) for operation in operations}
    if provider_failed(facts, groups, until=until, since=since):
        return True
    if _out_of_store(facts, groups, since=since, until=until):
        return True
    storms = facts.storms
    if attempt is not None and storms.during(attempt, *STORMS):
        return True
    befell = storms.between(since, float("inf") if until is None else until, *STORMS)
    return befell and (not since or any(doubt(facts, group) is not None for group in groups))


def provider_failed(facts: Facts, groups: set[str], *, until: int | None, since: int = 0) -> bool:
    """Whether the provider failed these groups, or kept the target waiting until it gave up."""
    if given_up(facts, groups, until=until, since=since) or _unseen(facts, groups, until=until, since=since):
        return True
    if facts.wires.calm(groups):
        return False
    for event in facts.about(*groups):
        if event.seq <= since:
            continue
        if until is not None and event.seq > until:
            break
        mine = event.operation is not None and facts.group_of(event.operation) in groups
        if event.kind is Kind.DISCARDED and mine:
            return True
        if event.kind is Kind.PROVIDER_RESPONSE and mine and not event.data.get("sent"):
            return True
        if (
            event.kind is Kind.FIRED
            and (mine or event.operation is None)
            and str(event.data["place"]).startswith("provider.")
            and event.data["verb"] not in PATIENT
        ):
            return True
    return False


def _unseen(facts: Facts, groups: set[str], *, until: int | None, since: int = 0) -> bool:
    """Whether a provider of the target's own, which nobody watches, may have failed these groups.

    A caller was told of a failure, and no success before it shows that the provider had taken the mail.
    """
    if not facts.elsewhere:
        return False
    for group in groups:
        attempts = facts.attempts_of(group)
        for failed in attempts:
            end = failed.end or 0
            told = failed.answered and failed.classes & _FAILURES and not failed.succeeded
            if not told or end <= since or (until is not None and end > until):
                continue
            if not any(other.succeeded and other.before(failed) for other in attempts):
                return True
    return False


def _out_of_store(facts: Facts, groups: set[str], *, since: int, until: int | None) -> bool:
    """Whether a store failed the target after ``since``, or one of these groups gave up on a message that was held."""
    return facts.storms.cut(since, until) or any(
        since < end and (until is None or end <= until) for group in groups for end in facts.gave_up.get(group, ())
    )


def uncertain(facts: Facts, operations: set[str], *, until: int | None) -> bool:
    """Whether an outcome of these operations may be unknown to the target (not merely refused)."""
    groups = {facts.group_of(operation) for operation in operations}
    if _unseen(facts, groups, until=until):
        return True
    if given_up(facts, groups, until=until) or _out_of_store(facts, groups, since=0, until=until):
        return True
    if facts.storms.between(0, float("inf") if until is None else until, *STORMS):
        return True
    if facts.wires.calm(groups):
        return False
    for event in facts.about(*groups):
        if until is not None and event.seq > until:
            break
        mine = event.operation is not None and facts.group_of(event.operation) in groups
        if event.kind is Kind.PROVIDER_RESPONSE and mine and not event.data.get("sent"):
            return True
        fired = event.kind is Kind.FIRED and mine and str(event.data["place"]).startswith("provider.")
        if fired and event.data["verb"] in _CUT_OFF:
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
