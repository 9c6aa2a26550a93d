"""What the caller of a send API knows, from the answer to one attempt, about the effect of it (role client).

There are three states: nothing was done, it is done, or it is *open*. No answer, a cut or garbled one, a server
error, "in progress", "pending" and "unknown" are open: the mail may be out, or on its way. What may be read as
"nothing was done" counts as that, because a caller is accused only of what no reading excuses: most contracts call
several things by one status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.classes import SUCCESS

if TYPE_CHECKING:
    from sendtwice.harness.judge.attempt import Attempt
    from sendtwice.harness.judge.commits import Commit
    from sendtwice.harness.judge.facts import Facts

#: Answers after which nothing was done by this attempt. A conflict says it too: another mail has the key.
_NOTHING = frozenset({A.REFUSED, A.UNAUTHORIZED, A.RATE_LIMITED, A.EXPIRED, A.KEY_MISSING, A.KEY_INVALID, A.CONFLICT})
#: Statuses that are given before anybody looks at the key: they say nothing of an earlier attempt under it.
_AT_THE_DOOR = frozenset({401, 429})
_TIMED_OUT, _BUSY = 408, 503


class Knows(Enum):
    """What an attempt's answer tells of its effect."""

    NOTHING = auto()
    OPEN = auto()
    DONE = auto()


def knows(facts: Facts, attempt: Attempt, *, at: int | None = None) -> Knows:
    """Return what its caller knows of an attempt, at an event or in the end."""
    if not attempt.answered or attempt.end is None or (at is not None and attempt.end > at):
        return Knows.OPEN
    status = attempt.status or 0
    if redirected(attempt):
        return Knows.NOTHING
    if not attempt.classes:  # garbled, or nowhere declared: the status is all there is
        return Knows.NOTHING if 400 <= status < 500 and status != _TIMED_OUT else Knows.OPEN
    if attempt.classes & _NOTHING:
        return Knows.NOTHING
    if attempt.classes <= SUCCESS:
        return Knows.DONE
    busy = facts.contract.outcomes.provider_busy
    if status == _BUSY and busy.judged and attempt.classes <= {A.FAILED, A.UNKNOWN, A.IN_PROGRESS}:
        return Knows.NOTHING  # the contract says what a busy provider is answered with, and what becomes of the key
    return Knows.OPEN


def redirected(attempt: Attempt) -> bool:
    """Whether an attempt was sent elsewhere."""
    return attempt.answered and 300 <= (attempt.status or 0) < 400 and "location" in attempt.headers


def same_key(facts: Facts, a: Attempt, b: Attempt) -> bool:
    """Whether two attempts may have one key: by its bytes, or in other letters where the contract may fold them."""
    if a.key is None or b.key is None:
        return False
    return a.key == b.key or (a.folded == b.folded and facts.contract.key.case.permits("folded"))


def unresolved(facts: Facts, attempts: Iterable[Attempt], until: int) -> list[Attempt]:
    """Return the attempts whose effect is open or done, for all that their caller knew at an event.

    A later refusal of the same request under the same key says that the key had stood for nothing.
    """
    found: list[Attempt] = []
    settled: list[Attempt] = []  # the refusals so far, one for each key, going back in time
    for attempt in sorted(attempts, key=lambda a: a.start, reverse=True):
        if attempt.start >= until:
            continue
        state = knows(facts, attempt, at=until)
        ruled_out = any(same_key(facts, attempt, later) for later in settled)
        if state is Knows.DONE or (state is Knows.OPEN and not ruled_out):
            found.append(attempt)
        elif state is Knows.NOTHING and not ruled_out and _refused_for_good(attempt):
            settled.append(attempt)
    return found[::-1]


def _refused_for_good(attempt: Attempt) -> bool:
    return A.REFUSED in attempt.classes and attempt.status not in _AT_THE_DOOR


def aged(facts: Facts, first: Attempt, later: Attempt) -> bool:
    """Whether so much time lies between two attempts that the key of the first may be forgotten."""
    floor = facts.contract.retention.at_least
    if not floor.judged:
        return facts.advanced(first.start, later.start)
    return later.began - first.began >= 0.9 * (floor.value or 0.0)


def note_denials(facts: Facts, commits: Mapping[str, Sequence[Commit]]) -> None:
    """Note for each mail whether the caller was told that it had not been taken, by an answer that was replaced."""
    numbered = {commit.number: commit for found in commits.values() for commit in found}
    for event in facts.events:
        if event.kind is not Kind.CLIENT_RESPONSE or event.data.get("commit") not in numbered:
            continue
        attempt = facts.attempt(event.attempt) if event.attempt is not None else None
        if attempt is not None:
            commit = numbered[event.data["commit"]]
            commit.denied = not event.data.get("sent") and knows(facts, attempt) is Knows.NOTHING


def answer_in_words(facts: Facts, attempt: Attempt, at: int | None = None) -> str:
    """Say what an attempt was answered with, at an event or in the end."""
    if not attempt.answered or attempt.end is None:
        return "got no whole answer"
    if at is not None and attempt.end > at:
        return "was still in flight"
    if attempt.garbled:
        return f"was answered {attempt.status} with a body that is no answer of the API"
    words = {
        frozenset({A.IN_PROGRESS}): " (in progress)",
        frozenset({A.PENDING}): " (pending)",
        frozenset({A.CONFLICT}): " (conflict)",
        frozenset({A.DUPLICATE}): " (duplicate)",
    }.get(frozenset(attempt.classes), " (success)" if knows(facts, attempt) is Knows.DONE else "")
    return f"was answered {attempt.status}{words}"
