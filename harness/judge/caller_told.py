"""The rule about a caller's word: what it says became of an operation, against what was delivered (C19 C20).

========  ============================================  =====================================================
told      delivered                                     not delivered
========  ============================================  =====================================================
sent      right; lucky without a whole success answer   lost (``no-lost-send``); a draft that is called sent
not_sent  a false failure, unless every answer said so  right, but for a draft that waits
unknown   right; odd after a definite success           right
========  ============================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.caller_asks import Ask, Calls
from sendtwice.harness.judge.caller_knows import Knows, answer_in_words, knows, unresolved
from sendtwice.harness.judge.classes import SUCCESS
from sendtwice.harness.judge.facts import Attempt, Facts
from sendtwice.harness.judge.finding import Finding


def told(calls: Calls, operation: str) -> Iterator[Finding]:
    """Hold each word of a caller against the ledger, and against the answers that it had."""
    facts = calls.facts
    asks = [ask for ask in calls.asks(operation) if ask.told is not None]
    group = facts.group_of(operation)
    if group in facts.blurred:
        return
    delivered = facts.count(group) > 0
    alone = calls.in_turn(operation)
    for ask in asks:
        mine = [a for a in calls.all_tries(operation) if ask.holds(a.start)]
        match ask.told:
            case "not_sent" if delivered and (alone or all(a.told == "not_sent" for a in calls.asks(operation))):
                yield from _false_failure(facts, ask, mine)
            case "not_sent" if not delivered and alone:
                yield from _forgotten_draft(facts, ask, mine)
            case "sent":
                yield from _sent(calls, ask, delivered=delivered)
            case "unknown" if delivered and alone:
                yield from _knew(facts, ask, mine)
            case "undeclared" if not _stopped(facts, ask):
                yield _say(
                    facts, ask, "the target ended with a status that its file does not declare", (), Level.SHOULD
                )


def _stopped(facts: Facts, ask: Ask) -> bool:
    """Whether it was told to end meanwhile: then its last status is that of a signal."""
    return any(e.kind in (Kind.STOP, Kind.CRASH) and ask.holds(e.seq) for e in facts.events)


def _false_failure(facts: Facts, ask: Ask, mine: list[Attempt]) -> Iterator[Finding]:
    """It said that nothing was sent, and the mail is out: was there an answer by which it could have known better?"""
    open_ = unresolved(facts, mine, ask.end)
    if not open_:
        return
    waiting = all(a.classes == {A.PENDING} for a in open_)
    last = open_[-1]
    yield _say(
        facts,
        ask,
        f"{last.name} {answer_in_words(facts, last, ask.end)}, the target says that nothing was sent, and the mail was "
        "delivered",
        last.events,
        Level.SHOULD if waiting else Level.MUST,
    )


def _forgotten_draft(facts: Facts, ask: Ask, mine: list[Attempt]) -> Iterator[Finding]:
    """A draft waits for a person, and may leave whenever it is approved: that is not "not sent"."""
    open_ = unresolved(facts, mine, ask.end)
    if open_ and all(a.classes == {A.PENDING} for a in open_):
        said = f"{open_[-1].name} was answered {open_[-1].status} (pending), and the target says that nothing was sent"
        yield _say(facts, ask, f"{said}: the draft may be approved yet", open_[-1].events, Level.SHOULD)


def _sent(calls: Calls, ask: Ask, *, delivered: bool) -> Iterator[Finding]:
    facts = calls.facts
    before = [a for a in calls.all_tries(ask.operation) if a.start < ask.end]
    if not before and not delivered and not _done_in_other_words(calls, ask):
        yield finding(
            facts.contract,
            "no-lost-send",
            f"{ask.operation}: the target says that it is sent, and no attempt of it was seen",
            ask.events,
            operation=ask.operation,
        )
    answers = [a for a in before if a.answered and a.end is not None and a.end < ask.end]
    if any(a.classes & SUCCESS for a in answers) or facts.decisions(ask.operation, until=ask.end):
        return
    drafts = [a for a in answers if a.classes == {A.PENDING}]
    if drafts:
        said = f"{drafts[-1].name} was answered {drafts[-1].status} (pending), and the target says that it is sent"
        yield _say(facts, ask, said, drafts[-1].events, Level.MUST)
        return
    # An API that refuses repeats says by that that there was a first one; and who has looked it up knows as well.
    if not delivered or not before or any(a.classes & {A.DUPLICATE} for a in answers) or _looked_up(facts, ask):
        return
    last = before[-1]
    yield _say(
        facts,
        ask,
        f"{last.name} {answer_in_words(facts, last, ask.end)}, and the target says that it is sent: that it was "
        "delivered all the same is luck",
        last.events,
        Level.SHOULD,
    )


def _done_in_other_words(calls: Calls, ask: Ask) -> bool:
    """Whether the mail of another operation is out that the target knows by the same id: to it they are one task."""
    facts, ids = calls.facts, calls.known_as(ask.operation)
    return any(
        ids & calls.known_as(other) and facts.count(facts.group_of(other)) > 0
        for other in facts.operations
        if other != ask.operation
    )


def _looked_up(facts: Facts, ask: Ask) -> bool:
    """Whether a request that belongs to no operation was made, or an event came: it may have told what became of it."""
    return any(
        e.seq < ask.end and (e.kind is Kind.REPORTED or (e.kind is Kind.CLIENT_REQUEST and e.operation is None))
        for e in facts.events
    )


def _knew(facts: Facts, ask: Ask, mine: list[Attempt]) -> Iterator[Finding]:
    last = mine[-1] if mine else None
    if last is None or knows(facts, last, at=ask.end) is not Knows.DONE or _late(facts, last):
        return
    yield _say(
        facts,
        ask,
        f"{last.name} was answered {last.status} (success), and the target says that it does not know",
        last.events,
        Level.SHOULD,
    )


def _late(facts: Facts, attempt: Attempt) -> bool:
    """Whether an answer was kept back on its way, so that its caller may have gone by then."""
    return any(
        e.kind is Kind.FIRED
        and attempt.start < e.seq < (attempt.end or 0)
        and e.operation == attempt.operation
        and e.data.get("verb") not in ("answer", "twice")
        for e in facts.events
    )


def _say(facts: Facts, ask: Ask, message: str, events: tuple[int, ...], weight: Level) -> Finding:
    return finding(
        facts.contract, "told", message, tuple(sorted({*events, *ask.events})), operation=ask.operation, weight=weight
    )
