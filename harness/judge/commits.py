"""The commits of a history: mails that the provider took, and whether the target could know it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge.attempt import Attempt
from sendtwice.harness.judge.storms import Storms

#: What a caller is told by one that does not know what its provider did.
_DOUBT = frozenset({AnswerClass.FAILED, AnswerClass.UNKNOWN})


@dataclass(slots=True)
class Commit:
    """One mail that the provider committed, with whether its answer reached the target."""

    number: int
    seq: int
    operation: str  # the group that it belongs to
    recipients: list[str]
    connection: int | None
    answered_at: int | None = None
    denied: bool = False  # the target was told that it was not taken


def read_commits(
    events: Sequence[Event],
    attempts: Sequence[Attempt],
    group_of: Callable[[str], str],
    storms: Storms,
    *,
    inline: bool = False,
) -> dict[str, list[Commit]]:
    """Return the commits of each group, in order, each with the event that told the target of it.

    ``inline``: the contract says that who is answered with a success waited for the provider.
    """
    by_number: dict[int, Commit] = {}
    answers: dict[int, Event] = {}
    counts: dict[int, Event] = {}
    unread: dict[int | None, int] = {}
    for event in events:
        match event.kind:
            case Kind.DELIVERY if event.operation is not None:
                number = int(event.data["commit"])
                made = by_number.setdefault(
                    number, Commit(number, event.seq, group_of(event.operation), [], event.connection)
                )
                made.recipients.append(str(event.data["recipient"]))
                if event.data.get("counted"):
                    counts[number] = event
            case Kind.PROVIDER_RESPONSE | Kind.CLIENT_RESPONSE if event.data.get("commit") in by_number:
                answers.setdefault(int(event.data["commit"]), event)
            case Kind.UNREAD:
                unread[event.connection] = event.seq
    spoken: dict[str, list[Attempt]] = defaultdict(list)
    if storms.spells or counts:
        for attempt in attempts:
            spoken[group_of(attempt.operation)].append(attempt)
    found: dict[str, list[Commit]] = defaultdict(list)
    for commit in by_number.values():
        answer = answers.get(commit.number)
        if commit.number in counts:
            _counted(commit, counts[commit.number], storms, spoken.get(commit.operation, ()), inline=inline)
        elif answer is not None:
            _told(commit, answer, storms, unread, spoken.get(commit.operation, ()))
        found[commit.operation].append(commit)
    return dict(found)


def _told(
    commit: Commit,
    answer: Event,
    storms: Storms,
    unread: dict[int | None, int],
    attempts: Sequence[Attempt],
) -> None:
    """Note the event by which the target surely knew of a commit, or that it was told otherwise."""
    if not answer.data.get("sent"):
        # An answer that was lost still is the provider's own; one that was replaced says what the provider did not.
        status = int(answer.data.get("status") or 0)
        commit.denied = status == 503 or (400 <= status < 500 and status != 408)
        return
    # An RST after the answer means that it lay unread when the target closed the connection.
    if unread.get(commit.connection, 0) > answer.seq:
        return
    # A process that is killed may never have read what was written to it shortly before; of one that sleeps the
    # patience may end first when it wakes.
    ended = next(storms.ends_after(answer.seq), None)
    if ended is None and not storms.dead(answer.seq) and not storms.asleep(answer.seq, answer.at):
        commit.answered_at = answer.seq
        return
    until = float("inf") if ended is None else ended
    mine = [a for a in attempts if a.succeeded and a.tells is None and a.end is not None]
    spoke = any(a.start < answer.seq < (a.end or 0) < until for a in mine)
    commit.answered_at = answer.seq if spoke else None


def _counted(commit: Commit, count: Event, storms: Storms, attempts: Sequence[Attempt], *, inline: bool) -> None:
    """Note that the target surely knew of a commit that was only counted: nobody saw what its provider told it.

    It came about after the count before (``since``). A process that was killed or slept meanwhile may not know of it,
    nor one that told a caller of a failure: then its provider may have failed it.
    """
    since = int(count.data["since"])
    if any(spell.start < count.seq and spell.end > since for spell in storms.spells):
        return
    if any(a.answered and a.classes & _DOUBT and not a.succeeded and _met(a, since, count.seq) for a in attempts):
        return
    ended = next(storms.ends_after(count.seq), None)
    if ended is None and not storms.asleep(count.seq, count.at):
        commit.answered_at = count.seq
        return
    until = float("inf") if ended is None else ended
    claims = [a for a in attempts if a.succeeded and a.tells is None]
    waited = [a for a in claims if a.start < count.seq and (a.end or until) < until]
    if any(count.seq < (a.end or 0) or (inline and since < (a.end or 0)) for a in waited):
        commit.answered_at = count.seq


def _met(attempt: Attempt, since: int, until: int) -> bool:
    return attempt.start < until and (attempt.end is None or attempt.end > since)
