"""The commits of a history: mails that the provider took, and whether the target could know it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge.attempt import Attempt


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
    events: Sequence[Event], attempts: Sequence[Attempt], group_of: Callable[[str], str]
) -> dict[str, list[Commit]]:
    """Return the commits of each group, in order, each with the event that told the target of it."""
    by_number: dict[int, Commit] = {}
    answers: dict[int, Event] = {}
    crashes: list[Event] = []
    unread: dict[int | None, int] = {}
    for event in events:
        match event.kind:
            case Kind.DELIVERY if event.operation is not None:
                number = int(event.data["commit"])
                made = by_number.setdefault(
                    number, Commit(number, event.seq, group_of(event.operation), [], event.data.get("connection"))
                )
                made.recipients.append(str(event.data["recipient"]))
            case Kind.PROVIDER_RESPONSE | Kind.CLIENT_RESPONSE if event.data.get("commit") in by_number:
                answers.setdefault(int(event.data["commit"]), event)
            case Kind.CRASH | Kind.RESTART:
                crashes.append(event)
            case Kind.UNREAD:
                unread[event.connection] = event.seq
    spoken: dict[str, list[Attempt]] = defaultdict(list)
    if crashes:
        for attempt in attempts:
            spoken[group_of(attempt.operation)].append(attempt)
    found: dict[str, list[Commit]] = defaultdict(list)
    for commit in by_number.values():
        answer = answers.get(commit.number)
        if answer is not None:
            _told(commit, answer, crashes, unread, spoken.get(commit.operation, ()))
        found[commit.operation].append(commit)
    return dict(found)


def _told(
    commit: Commit,
    answer: Event,
    crashes: Sequence[Event],
    unread: dict[int | None, int],
    attempts: Sequence[Attempt],
) -> None:
    """Note the event by which the target surely knew of a commit, or that it was told otherwise."""
    if not answer.data.get("sent"):
        # An answer that was lost still is the provider's own; one that was replaced says what the provider did not.
        status = int(answer.data.get("status") or 0)
        commit.denied = status == 503 or (400 <= status < 500 and status != 408)
        return
    dead = False
    for event in crashes:
        if event.seq > answer.seq:
            break
        dead = event.kind is Kind.CRASH
    # An RST after the answer means that it lay unread when the target closed the connection.
    if dead or unread.get(commit.connection, 0) > answer.seq:
        return
    # A process that is killed may never have read what was written to it shortly before.
    crash = next((e.seq for e in crashes if e.kind is Kind.CRASH and e.seq > answer.seq), None)
    if crash is None:
        commit.answered_at = answer.seq
        return
    spoke = any(
        a.succeeded and a.end is not None and answer.seq < a.end < crash and a.start < answer.seq for a in attempts
    )
    commit.answered_at = answer.seq if spoke else None
