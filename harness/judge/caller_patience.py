"""Rules about a caller's patience: that it waits as it is told, tries so often and no more, and does not wait for ever.

Times are the harness's own. An answer's time is taken before its first byte is written, and a request's when it has
arrived whole, so that a slow machine makes a pause look longer than it was, and never shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Level
from sendtwice.fake_provider.faults import Verb
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.caller_asks import Calls
from sendtwice.harness.judge.caller_knows import Knows, knows, redirected
from sendtwice.harness.judge.facts import Attempt, Facts
from sendtwice.harness.judge.finding import Finding

#: What is asked for beyond this may be cut short: nobody wants to be told to wait for a day.
_LONGEST = 60.0
#: Two attempts that begin within this time may be those of two workers, unless it goes on: so often in a row.
_TOGETHER, _NO_CHANCE = 0.15, 2
#: A pause below this, so often in a row, is none.
_AT_ONCE, _IN_A_ROW = 0.03, 3
#: What keeps an answer back, and nothing else.
_WAITS = frozenset({Verb.HOLD, Verb.DELAY})
#: More attempts than this are without a bound, where none is declared.
_MANY = 50


def retry_after(calls: Calls, operation: str) -> Iterator[Finding]:
    """The next attempt begins when the time is over that an answer asked for (C11 C13)."""
    facts = calls.facts
    if not calls.in_turn(operation):
        return
    early = 0
    for attempt in calls.tries(operation):
        wanted = _asked_for(calls, attempt)
        following = calls.next_after(attempt)
        if wanted is None or following is None or knows(facts, attempt) is Knows.DONE or redirected(attempt):
            early = 0
            continue
        seconds, least = wanted
        waited = calls.pause(attempt, following)
        if waited >= least or seconds > _LONGEST:
            early = 0
            continue
        early += 1
        if early < _NO_CHANCE and calls.at(following.start) - calls.at(attempt.start) < _TOGETHER:
            continue
        hint = facts.contract.hints.retry_after
        documented = hint.judged and bool(attempt.classes) and attempt.classes <= set(hint.value or ())
        yield finding(
            facts.contract,
            "retry-after",
            f"{attempt.name} was answered {attempt.status} with Retry-After: {attempt.headers['retry-after']}, "
            f"and {following.name} began {waited:.2f} s later",
            (*attempt.events, *following.events),
            operation=operation,
            weight=Level.MUST if documented else Level.SHOULD,
        )


def _asked_for(calls: Calls, attempt: Attempt) -> tuple[float, float] | None:
    """Return how long an answer asks its caller to wait, and the least that counts as having waited.

    A date is counted from the time of day at which it was answered; it is exact to a second.
    """
    text = attempt.headers.get("retry-after", "").strip() if attempt.answered else ""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - calls.time_of_day[attempt.end or 0]
        except (KeyError, TypeError, ValueError):
            return None
        return (seconds, seconds - 1.05)
    return (seconds, 0.9 * seconds - 0.05) if math.isfinite(seconds) else None


def should_retry(calls: Calls, operation: str) -> Iterator[Finding]:
    """What an answer says of trying again is believed, both ways (C12)."""
    facts = calls.facts
    tries = calls.tries(operation)
    if not calls.in_turn(operation):
        return
    for attempt in tries:
        said = _hint(facts, attempt)
        following = calls.repeats(attempt)
        if said == "false" and following:
            what, events = f"and {following[0].name} tried again", (*attempt.events, *following[0].events)
        elif said == "true" and len(tries) == 1 and facts.max_attempts != 1 and _gave_up(calls, attempt):
            what, events = "and nothing was tried again", attempt.events
        else:
            continue
        yield finding(
            facts.contract,
            "should-retry",
            f"{attempt.name} was answered {attempt.status} with the hint that a retry is "
            f"{'of no use' if said == 'false' else 'safe and useful'}, {what}",
            events,
            operation=operation,
            weight=Level.SHOULD,
        )


def _hint(facts: Facts, attempt: Attempt) -> str | None:
    """Return what the header about trying again says, if there is one."""
    if not attempt.answered:
        return None
    own = str(facts.contract.hints.should_retry.value or "").lower()
    for name, value in attempt.headers.items():
        if name == own or name.endswith("-should-retry"):
            return value.strip().lower()
    return None


def _gave_up(calls: Calls, attempt: Attempt) -> bool:
    asks = calls.asks(attempt.operation)
    return (
        (attempt.status or 0) >= 400
        and bool(asks)
        and all(ask.told not in (None, "sent") and not ask.killed for ask in asks)
    )


def wait_for_first(calls: Calls, operation: str) -> Iterator[Finding]:
    """Who is told that the first one runs waits for it, and asks again under the same key (C7 C9 C13)."""
    facts = calls.facts
    if not calls.in_turn(operation):
        return
    row: list[Attempt] = []
    for attempt in calls.tries(operation):
        if not (attempt.answered and attempt.classes == {A.IN_PROGRESS}):
            row = []
            continue
        following = calls.next_after(attempt)
        if following is None or calls.pause(attempt, following) >= _AT_ONCE:
            row = []
            continue
        row.append(attempt)
        if len(row) == _IN_A_ROW:
            yield finding(
                facts.contract,
                "wait-for-first",
                f"{row[0].name} was told that the first one is in progress, and the operation was tried again at once, "
                f"{len(row)} times in a row without a pause",
                tuple(seq for a in row for seq in a.events),
                operation=operation,
                weight=Level.SHOULD,
            )
            return
    yield from _reported_early(calls, operation)


def _reported_early(calls: Calls, operation: str) -> Iterator[Finding]:
    """Return a finding where "in progress" was reported as "not sent"; that it was delivered then is told elsewhere."""
    facts = calls.facts
    if facts.count(facts.group_of(operation)):
        return
    for ask in calls.asks(operation):
        mine = [a for a in calls.all_tries(operation) if ask.holds(a.start)]
        last = mine[-1] if mine else None
        if ask.told == "not_sent" and last is not None and last.answered and last.classes == {A.IN_PROGRESS}:
            yield finding(
                facts.contract,
                "wait-for-first",
                f"{last.name} was told that the first one is in progress, and the target says that nothing was sent",
                (*last.events, *ask.events),
                operation=operation,
                weight=Level.SHOULD,
            )
            return


def bounded_retries(calls: Calls, operation: str) -> Iterator[Finding]:
    """The number of attempts has a bound, over all layers that retry (C16 C23)."""
    facts = calls.facts
    # A kept connection that ends without an answer may make the HTTP stack send again, by itself.
    below = calls.on_kept_connections
    tries = [a for a in calls.all_tries(operation) if not redirected(a) and (a.answered or a.name not in below)]
    asked = max(1, len(calls.asks(operation)))
    declared = facts.max_attempts
    limit = asked * (declared if declared is not None else _MANY)
    if len(tries) <= limit:
        return
    times = "" if asked == 1 else f" each of the {asked} times it was asked"
    which = f"declares {declared} at most" if declared is not None else "declares no bound"
    yield finding(
        facts.contract,
        "bounded-retries",
        f"{operation}: {len(tries)} attempts were made, where the target file {which}{times if declared else ''}",
        tuple(a.start for a in tries[: limit + 1]),
        operation=operation,
        weight=Level.MUST if declared is not None else Level.SHOULD,
    )


def gives_up(calls: Calls, operation: str) -> Iterator[Finding]:
    """An attempt that is not answered is given up after the time that the target file declares (C18)."""
    facts = calls.facts
    timeout = facts.attempt_timeout
    if timeout is None:
        return
    for attempt in calls.tries(operation):
        until = _still_waiting(calls, attempt)
        if until is None or until - calls.at(attempt.start) <= 1.5 * timeout + 1:
            continue
        yield finding(
            facts.contract,
            "gives-up",
            f"{attempt.name} was waited for {until - calls.at(attempt.start):.1f} s, where the target file declares a "
            f"timeout of {timeout:g} s",
            attempt.events,
            operation=operation,
            weight=Level.SHOULD,
        )
        return


def _still_waiting(calls: Calls, attempt: Attempt) -> float | None:
    """Return the time at which a caller surely still waited for an answer; None when nobody can say.

    Who has tried again, or has said what became of the operation, may have given up long before.
    """
    facts = calls.facts
    # One that was killed because it did not come to an end had waited until then.
    killed = (e.seq for e in facts.events if e.kind is Kind.VOID and e.data.get("waited") and e.seq > attempt.start)
    end = min(attempt.end or facts.last_seq, next(killed, facts.last_seq))
    if attempt.end == end and not attempt.answered:
        return None
    for event in facts.events:
        if not attempt.start < event.seq < end:
            continue
        if event.kind in (Kind.CRASH, Kind.PAUSE, Kind.STOP, Kind.DISCARDED):
            return None
        again = event.kind is Kind.ATTEMPT and event.operation == attempt.operation
        if again or (event.kind is Kind.TOLD and event.operation == attempt.operation):
            return None
        hit = event.kind is Kind.FIRED and event.operation == attempt.operation
        if hit and (event.data.get("verb") == Verb.DRIP or (attempt.end is None and event.data["verb"] not in _WAITS)):
            return None  # an answer had begun, or the attempt ended without a word in the history
    return calls.at(end)
