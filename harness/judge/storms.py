"""What befell the target as a whole: it was killed, stopped or put to sleep, or its stores were out of reach.

Nobody knows which operation a message to a store is for, nor which process holds a connection, so a storm is
everybody's excuse. What it excuses differs. A store fault that cuts something off leaves a target that does not know
what its store knows: it may refuse, and a claim may stand that nobody owns. A store message that is only held is over
when it is let go: it excuses those who were answered meanwhile, because they gave up, and nobody else. A process that
slept finds every patience of its own at an end when it wakes. One that was told to end may end at once, as if it had
been killed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sendtwice.fake_provider.faults import Verb
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge.attempt import Attempt

_FOR_EVER = float("inf")
#: Seconds in which a target surely reads what was written to it, or does what it was only waiting to do.
INSTANT = 0.25
#: Fault verbs that only move a message in time.
PATIENT = frozenset({Verb.HOLD.value, Verb.DELAY.value})
_STORED = frozenset({Kind.STORE_REQUEST, Kind.STORE_RESPONSE})
_ENDS = {Kind.CRASH: Kind.RESTART, Kind.STOP: Kind.RESTART, Kind.PAUSE: Kind.RESUME}
#: The process that answers requests, and everything where none is called so; its replicas have numbers.
_TARGET = "target"


@dataclass(slots=True)
class Spell:
    """A stretch of bad weather, from the event that began it to the one that ended it."""

    kind: Kind
    process: str
    start: int
    at: float
    end: float = _FOR_EVER

    def covers(self, seq: int) -> bool:
        """Whether an event lies inside."""
        return self.start < seq < self.end

    def meets(self, start: int, end: int | None) -> bool:
        """Whether a stretch of events overlaps this one."""
        return start < self.end and (end is None or self.start < end)


def of_store(event: Event) -> bool:
    """Whether an event is a fault on the wire between the target and one of its stores."""
    return event.kind is Kind.FIRED and str(event.data["place"]).startswith("store.")


class Storms:
    """The storms of one history, read once."""

    def __init__(self, events: Sequence[Event]) -> None:
        """Read all of it."""
        #: Killed, stopped, asleep.
        self.spells: list[Spell] = []
        #: The faults on the wires to the stores.
        self.store_faults: list[Event] = []
        self._cuts: list[int] = []
        self._holds: list[Spell] = []
        self._ended: dict[int, float] = {}
        self._let_go: dict[int, float] = {}
        self._gave: dict[Attempt, bool] = {}
        held: dict[int | None, Spell] = {}
        wire: int | None = None
        for event in events:
            if event.kind in _STORED:
                wire = event.connection
                self._release(held.pop(wire, None), event)
            elif event.kind is Kind.ENDED:
                self._ended[event.seq] = event.at
            elif event.kind in _ENDS:
                process = str(event.data.get("process", _TARGET))
                self.spells.append(Spell(event.kind, process, event.seq, event.at))
                if process.partition(".")[0] != _TARGET:  # a store of its own, perhaps
                    self._cuts.append(event.seq)
            elif event.kind in (Kind.RESTART, Kind.RESUME):
                self._over(event)
                if event.kind is Kind.RESTART:  # who held those connections is gone
                    for spell in held.values():
                        self._release(spell, event)
                    held.clear()
            elif of_store(event):
                self.store_faults.append(event)
                if event.data["verb"] not in PATIENT:
                    self._cuts.append(event.seq)
                    continue
                # It is met as the message is noted, so the last one noted is the one that is held. Of a connection
                # that is held before it is made nobody sees when it goes on.
                on = None if event.data.get("stage") else event.connection if event.connection is not None else wire
                spell = Spell(Kind.FIRED, "", event.seq, event.at)
                self._holds.append(spell)
                self._release(held.pop(on, None), event)
                held[on] = spell

    def _over(self, event: Event) -> None:
        name = str(event.data.get("process", _TARGET))
        for spell in self.spells:
            ends = _ENDS[spell.kind] is event.kind and spell.end == _FOR_EVER
            if ends and (spell.process == name or spell.process.startswith(f"{name}.")):
                spell.end = event.seq

    def _release(self, spell: Spell | None, event: Event) -> None:
        if spell is not None:
            spell.end = event.seq
            self._let_go[spell.start] = event.at

    # -- the stores ----------------------------------------------------------------------------------------------

    def cut(self, since: int, until: int | None) -> bool:
        """Whether something cut the target off from a store between two events, or may have."""
        first = bisect_right(self._cuts, since)
        last = len(self._cuts) if until is None else bisect_left(self._cuts, until)
        return first < last

    def gave_up(self, attempt: Attempt) -> bool:
        """Whether an attempt was answered without waiting for a message to a store that was held.

        Its own may have been held, when it was there before; one that came later and was told of a success had no need
        of what was held.
        """
        known = self._gave.get(attempt)
        if known is None:
            known = attempt.answered and any(self._gave_up(attempt, spell) for spell in self._holds)
            self._gave[attempt] = known
        return known

    def _gave_up(self, attempt: Attempt, spell: Spell) -> bool:
        if attempt.end is None or attempt.end < spell.start:
            return False
        if attempt.end < spell.end:
            return attempt.start < spell.start or not attempt.succeeded
        # What came while it was held may wait for what it holds: its patience may end in the moment of the release.
        waited = spell.start < attempt.start < spell.end and not attempt.succeeded
        return waited and self._ended[attempt.end] - self._let_go[spell.start] < INSTANT

    def out_of_store(self, attempt: Attempt) -> bool:
        """Whether a store failed while an attempt ran."""
        return self.cut(attempt.start, attempt.end) or self.gave_up(attempt)

    # -- the processes -------------------------------------------------------------------------------------------

    def during(self, attempt: Attempt, *kinds: Kind) -> bool:
        """Whether such a spell overlaps an attempt."""
        return any(spell.kind in kinds and spell.meets(attempt.start, attempt.end) for spell in self.spells)

    def between(self, since: float, until: float, *kinds: Kind) -> bool:
        """Whether such a spell began between two events."""
        return any(spell.kind in kinds and since < spell.start < until for spell in self.spells)

    def unwell(self, attempt: Attempt) -> bool:
        """Whether the target may have been unable to do even the first thing for an attempt.

        A connection to a store that was cut off earlier may be found broken only when it is used again.
        """
        return self.cut(0, attempt.end) or self.gave_up(attempt) or self.during(attempt, Kind.STOP, Kind.PAUSE)

    def last(self, until: int) -> tuple[int, float] | None:
        """Return the number and the time of the last that befell the target before an event."""
        found = [(event.seq, event.at) for event in self.store_faults if event.seq < until]
        found += [(spell.start, spell.at) for spell in self.spells if spell.start < until]
        return max(found, default=None)

    def asleep(self, seq: int, at: float) -> bool:
        """Whether a process may not have read what was written to it: it slept, or was put to sleep at once."""
        return any(
            spell.kind is Kind.PAUSE and (spell.covers(seq) or (seq < spell.start and spell.at - at < INSTANT))
            for spell in self.spells
        )

    def dead(self, seq: int) -> bool:
        """Whether a process had been killed, or told to end, and had not been started again."""
        return any(spell.kind is not Kind.PAUSE and spell.covers(seq) for spell in self.spells)

    def ends_after(self, seq: int) -> Iterator[int]:
        """Yield when, after an event, a process was killed or told to end."""
        return (spell.start for spell in self.spells if spell.kind is not Kind.PAUSE and spell.start > seq)
