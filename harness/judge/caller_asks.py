"""How a caller worked (role client): when it was asked for an operation, what it said of it, and its attempts.

The harness sees wires, not processes. Where attempts of one operation overlap, or it was asked for again before it
had answered, there may be several workers, and nobody can say which of them knew what: rules that rest on one
attempt following another are silent then (:meth:`Calls.in_turn`).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge.attempt import Attempt
from sendtwice.harness.judge.caller_knows import Knows, knows, redirected
from sendtwice.harness.judge.facts import Facts

_NEVER = 1 << 60
#: How many attempts of one operation are looked at closely.
_ENOUGH = 200


@dataclass(slots=True)
class Ask:
    """One time that a target was asked for an operation: from the question to what it said, or to its death."""

    operation: str
    name: str | None
    start: int
    end: int = _NEVER
    id: str | None = None  # by which the target knows the operation
    told: str | None = None
    killed: bool = False

    def holds(self, seq: int) -> bool:
        """Whether an event lies between the question and the word about it."""
        return self.start < seq < self.end

    @property
    def events(self) -> tuple[int, ...]:
        """The event by which it was told."""
        return (self.end,) if self.told is not None else ()


class Calls:
    """The attempts of a caller, and what it was asked for."""

    def __init__(self, facts: Facts) -> None:
        """Read the asks."""
        self.facts = facts
        self._at = {event.seq: event.at for event in facts.events}
        #: When answers were given, in seconds of the epoch, by the numbers of their events.
        self.time_of_day: dict[int, float] = {
            event.seq: float(event.data["time"]) for event in facts.events if event.data.get("time") is not None
        }
        self._asks: dict[str, list[Ask]] = defaultdict(list)
        self._tries: dict[str, list[Attempt]] = {}
        self._alone: dict[str, bool] = {}
        for event in facts.events:
            if event.kind is Kind.ASKED and event.operation is not None:
                self._asks[event.operation].append(
                    Ask(event.operation, event.attempt, event.seq, id=event.data.get("id"))
                )
            elif event.kind is Kind.TOLD and event.operation is not None:
                self._told(event, event.operation)
            elif event.kind is Kind.CRASH:
                for ask in (ask for asks in self._asks.values() for ask in asks if ask.end == _NEVER):
                    ask.killed = True

    def _told(self, event: Event, operation: str) -> None:
        asks = self._asks[operation]
        ask = next((a for a in asks if a.told is None and a.name == event.attempt), None)
        if ask is None:
            ask = next((a for a in asks if a.told is None), None)
        if ask is None:
            ask = Ask(operation, event.attempt, 0)
            asks.append(ask)
        ask.end, ask.told = event.seq, str(event.data["told"])

    def asks(self, operation: str) -> list[Ask]:
        """Return the times that an operation was asked for."""
        return self._asks.get(operation, [])

    def known_as(self, operation: str) -> set[str]:
        """Return the ids by which the target was asked for an operation."""
        return {ask.id for ask in self.asks(operation) if ask.id is not None}

    def tries(self, operation: str) -> list[Attempt]:
        """Return the attempts to send an operation's mail, in the order of their arrival.

        Of very many the first ones are enough for all but their number: most rules compare each with each.
        """
        return self.all_tries(operation)[:_ENOUGH]

    def all_tries(self, operation: str) -> list[Attempt]:
        """Return every attempt to send an operation's mail."""
        found = self._tries.get(operation)
        if found is None:
            attempts = self.facts.attempts_for(operation)
            found = self._tries[operation] = [a for a in attempts if self.facts.sends(a) and not a.dry_run]
        return found

    def at(self, seq: int | None) -> float:
        """Return when an event was, in seconds; infinity for none."""
        return float("inf") if seq is None else self._at.get(seq, float("inf"))

    def pause(self, a: Attempt, b: Attempt) -> float:
        """Return the seconds between the answer to one attempt and the beginning of another."""
        return self.at(b.start) - self.at(a.end)

    def in_turn(self, operation: str) -> bool:
        """Whether all that is seen of an operation may be one worker's doing: one attempt after another."""
        if operation not in self._alone:
            self._alone[operation] = self._in_turn(operation)
        return self._alone[operation]

    def _in_turn(self, operation: str) -> bool:
        asks = sorted(self.asks(operation), key=lambda ask: ask.start)
        if any(b.start < a.end and not a.killed for a, b in itertools.pairwise(asks)):
            return False
        tries = self.tries(operation)
        if any(a.end is not None and a.start < b.start < a.end for a in tries for b in tries):
            return False
        # Nobody tries again what he knows to be done.
        return not any(
            a.before(b) and self.one_ask(a, b) for a in tries if knows(self.facts, a) is Knows.DONE for b in tries
        )

    def one_ask(self, a: Attempt, b: Attempt) -> bool:
        """Whether nobody asked for the operation again, and nothing was killed, between two of its attempts."""
        between = (e for e in self._turns if a.start < e.seq < b.start)
        return not any(e.kind is Kind.CRASH or e.operation == a.operation for e in between)

    @cached_property
    def on_kept_connections(self) -> set[str]:
        """The attempts on a connection that had carried a request before."""
        found: set[str] = set()
        seen: set[int] = set()
        for event in self.facts.events:
            if event.kind is Kind.CLIENT_REQUEST and event.connection is not None:
                if event.connection in seen and event.attempt is not None:
                    found.add(event.attempt)
                seen.add(event.connection)
        return found

    @cached_property
    def _turns(self) -> list[Event]:
        return [e for e in self.facts.events if e.kind in (Kind.ASKED, Kind.CRASH)]

    def repeats(self, attempt: Attempt) -> list[Attempt]:
        """Return the attempts that the same run made after an answer, when they are more than a second worker's one."""
        later = [b for b in self.tries(attempt.operation) if attempt.before(b) and self.one_ask(attempt, b)]
        return later if len(later) > 1 and self.in_turn(attempt.operation) else []

    def next_after(self, attempt: Attempt) -> Attempt | None:
        """Return what the same run of a caller tried next, after it had the answer to an attempt."""
        if not attempt.answered or attempt.end is None:
            return None
        later = (b for b in self.tries(attempt.operation) if attempt.before(b))
        following = next(later, None)
        return following if following is not None and self.one_ask(attempt, following) else None

    def follows(self, attempt: Attempt, other: Attempt) -> bool:
        """Whether an attempt goes where the answer to another one had sent it."""
        return redirected(other) and other.before(attempt) and attempt.path == _path(other.headers["location"])


def _path(location: str) -> str:
    _, scheme, rest = location.partition("://")
    where = "/" + rest.partition("/")[2] if scheme else location
    return where.partition("?")[0].partition("#")[0]
