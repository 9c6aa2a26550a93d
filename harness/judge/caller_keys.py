"""Rules about the keys of a caller: one for all attempts of an operation, none missing, none that cannot work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Level
from sendtwice.fake_provider.contracts.model import CHARSETS
from sendtwice.fake_provider.faults import Verb
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.caller_asks import Calls
from sendtwice.harness.judge.caller_knows import Knows, aged, answer_in_words, knows, same_key, unresolved
from sendtwice.harness.judge.facts import Attempt, Facts
from sendtwice.harness.judge.finding import Finding

#: What a missing value becomes when it is made a text.
_NO_VALUE = frozenset({"null", "none", "undefined", "nil", "nan", "[object object]", "(null)", "<nil>"})
#: The same in the middle of a key. Words that may be a name ("none") are not looked for there.
_HOLE_IN_KEY = re.compile(r"(?:^|[-_:/.|])(?:undefined|\[object object\])(?:$|[-_:/.|])", re.IGNORECASE)


def one_key(calls: Calls, operation: str, *, told_already: set[Attempt]) -> Iterator[Finding]:
    """All attempts of one operation carry one key, as long as the mail of an earlier one may be out (C1 C4 C5 C25)."""
    facts = calls.facts
    tries = [a for a in calls.tries(operation) if keyed(facts, a) and not _blank(a)]
    for attempt in tries:
        if any(other is attempt or same_key(facts, other, attempt) for other in told_already):
            continue
        others = [a for a in tries if a.start < attempt.start and not same_key(facts, a, attempt)]
        others = [a for a in unresolved(facts, others, attempt.start) if not aged(facts, a, attempt)]
        if not others:
            continue
        last = others[-1]
        yield finding(
            facts.contract,
            "one-key",
            f"{last.name} {answer_in_words(facts, last, attempt.start)}, and {attempt.name} tried the same operation "
            f"under another key{_when(calls, last, attempt)}",
            (*last.events, *attempt.events),
            operation=operation,
            weight=Level.SHOULD if all(_only_repeats(facts, a, attempt) for a in others) else Level.MUST,
        )
        return


def _when(calls: Calls, first: Attempt, later: Attempt) -> str:
    """Say what lay between two attempts, for that is where the key was lost."""
    facts = calls.facts
    if any(e.kind is Kind.CRASH and first.start < e.seq < later.start for e in facts.events):
        return ", after a restart: the key was not stored before the first attempt"
    if not calls.one_ask(first, later):
        return ", when it was asked for again: the key was not stored with the operation"
    if first.end is None or first.end > later.start:
        return ""
    return ": a key for each attempt is no key"


def _only_repeats(facts: Facts, attempt: Attempt, later: Attempt) -> bool:
    """Whether the contract says that the old key gives nothing but the same failure again."""
    stored = facts.contract.outcomes.server_error
    return attempt.before(later) and (attempt.status or 0) >= 500 and (stored.says("stored") or stored.says("poisoned"))


def unkeyed_retry(calls: Calls, operation: str) -> Iterator[Finding]:
    """What may be out already is not tried again without a key (C3)."""
    facts = calls.facts
    tries = calls.tries(operation)
    for attempt in tries:
        bare = not keyed(facts, attempt)
        # A key that only the second one has guards nothing.
        before = [a for a in tries if a.start < attempt.start and (bare or not keyed(facts, a))]
        open_ = unresolved(facts, before, attempt.start)
        if not open_:
            continue
        last = open_[-1]
        if keyed(facts, last) or not bare:
            which = f"{attempt.name} tried again without a key" if bare else f"{attempt.name} tried again with a key"
            note = "" if bare else ", which the first one did not have"
        else:
            which, note = f"{attempt.name} tried again, neither with a key", ""
        if facts.contract.key.presence.says("none"):
            note = ", under a contract that takes none"
            which = f"{attempt.name} tried again"
        yield finding(
            facts.contract,
            "unkeyed-retry",
            f"{last.name} {answer_in_words(facts, last, attempt.start)}, and {which}{note}",
            (*last.events, *attempt.events),
            operation=operation,
            weight=Level.MUST,
        )
        return


def keyed(facts: Facts, attempt: Attempt) -> bool:
    """Whether an attempt has a key that its route looks at."""
    return attempt.key is not None and facts.contract.takes_key(attempt.route) != "ignored"


def _blank(attempt: Attempt) -> bool:
    return not (attempt.key or "").strip()


def usable_keys(calls: Calls) -> Iterator[Finding]:
    """A key names one operation: it is not empty, not a missing value made a text, and not shared (C17 C22)."""
    facts = calls.facts
    for attempt in facts.attempts:
        if attempt.key is None or not keyed(facts, attempt):
            continue
        wrong = _unusable(facts, attempt.key)
        weight = Level.MUST
        if wrong is None:
            wrong, weight = _unwise(facts, attempt), Level.SHOULD
        if wrong is not None:
            yield finding(
                facts.contract,
                "usable-key",
                f"the key of {attempt.name} {wrong}",
                attempt.events,
                operation=attempt.operation,
                weight=weight,
            )
    yield from _shared(calls)
    yield from _taken_elsewhere(calls)


def _unusable(facts: Facts, key: str) -> str | None:
    """Return what is wrong with a key by itself."""
    if not key.strip():
        return "is empty" if not key else "is blank"
    if key.strip().strip("\"'").lower() in _NO_VALUE:
        return f"is {key.strip()!r}: a missing value that was made a text, which every such mail shares"
    claims = facts.contract.key
    size = len(key.encode()) if claims.unit.value == "bytes" else len(key)
    if claims.max.judged and size > (claims.max.value or 0):
        return f"has {size} {claims.unit.value or 'characters'}, and the contract takes {claims.max.value} at most"
    if claims.min.judged and size < (claims.min.value or 0):
        return f"has {size} {claims.unit.value or 'characters'}, and the contract wants {claims.min.value} at least"
    charset = CHARSETS.get(claims.charset.value or "") if claims.charset.judged else None
    if charset is not None and not charset.fullmatch(key):
        return f"has characters that the contract does not take ({claims.charset.value})"
    return None


def _unwise(facts: Facts, attempt: Attempt) -> str | None:
    key = attempt.key or ""
    if _HOLE_IN_KEY.search(key):
        return "has a missing value in it that was made a text (undefined)"
    known = facts.operations.get(attempt.operation)
    plain = {key.casefold(), unquote(key).casefold()}
    if known is not None and any(r.casefold() in text for r in known.recipients for text in plain if "@" in r):
        return "has the recipient's address in it: keys end up in logs"
    return None


def _shared(calls: Calls) -> Iterator[Finding]:
    """Return a finding for each operation whose key another one, with other content, had first.

    Operations that the target was asked for by one id are one to it, whatever words it was given.
    """
    facts = calls.facts
    first: dict[str, list[Attempt]] = {}
    told: set[str] = set()
    for attempt in facts.attempts:
        if attempt.key is None or not keyed(facts, attempt) or not facts.sends(attempt):
            continue
        group = facts.group_of(attempt.operation)
        owner = next(
            (
                a
                for a in first.get(attempt.key, ())
                if facts.group_of(a.operation) != group
                and not calls.known_as(a.operation) & calls.known_as(attempt.operation)
                and a.content != attempt.content
                and facts.shares_key(a, attempt)
                and not aged(facts, a, attempt)
                and not _gave_it_back(facts, a, attempt)
            ),
            None,
        )
        known = first.setdefault(attempt.key, [])
        if not any(a.operation == attempt.operation and a.content == attempt.content for a in known):
            known.append(attempt)
        if owner is None or attempt.operation in told:
            continue
        told.add(attempt.operation)
        yield finding(
            facts.contract,
            "usable-key",
            f"{attempt.name} has the key of {owner.name}, which is of another operation",
            (*owner.events, *attempt.events),
            operation=attempt.operation,
            weight=Level.MUST,
        )


def _taken_elsewhere(calls: Calls) -> Iterator[Finding]:
    """Return a finding for an attempt whose key the API knows from something that no attempt of this history asked for.

    Recipients and words are fresh for each operation, so it was another operation of the same run that had this key.
    """
    facts = calls.facts
    for attempt in facts.attempts:
        if attempt.key is None or not attempt.answered or not attempt.classes:
            continue
        if not attempt.classes <= {A.CONFLICT, A.DUPLICATE} or _played(facts, attempt):
            continue
        if any(a.start < attempt.start and same_key(facts, a, attempt) for a in facts.attempts):
            continue
        yield finding(
            facts.contract,
            "usable-key",
            f"{attempt.name} was told that its key was used before, and nothing else here has it: it is the key of "
            "another operation, with other content",
            attempt.events,
            operation=attempt.operation,
            weight=Level.MUST,
        )
        return


def _played(facts: Facts, attempt: Attempt) -> bool:
    """Whether an answer was put in the place of the API's own."""
    return any(
        e.kind is Kind.FIRED
        and e.data.get("verb") in (Verb.ANSWER, Verb.GARBLE)
        and attempt.start < e.seq < (attempt.end or e.seq)
        for e in facts.events
    )


def _gave_it_back(facts: Facts, owner: Attempt, later: Attempt) -> bool:
    """Whether the first one was told, before the other began, that nothing was done under its key."""
    return owner.before(later) and knows(facts, owner, at=later.start) is Knows.NOTHING
