"""How long a key is remembered (D14), and how long its claim in flight lasts (D12)."""

from __future__ import annotations

import math

from sendtwice.fake_provider.contracts.model import AnswerClass, Contract
from sendtwice.fake_provider.emulator.asked import Asked
from sendtwice.fake_provider.emulator.records import Entry


class Retention:
    """Tells by the time whether a key is forgotten."""

    def __init__(self, contract: Contract) -> None:
        """Keep what ``contract`` plays."""
        rules, scheduled = contract.retention, contract.scheduled
        self._start = rules.start.played("first-receipt")
        self._floor = rules.at_least.played(math.inf)
        self._exact = rules.at_most.played(self._floor)
        self._sweep = rules.sweep.played(0)
        self._keeps = scheduled.keeps.played(self._exact) if scheduled is not None else self._exact
        self._lasts = contract.lease.lasts.played(math.inf)
        #: Whether a request under a forgotten key is refused, so that the key must be remembered as forgotten.
        self.refuses = rules.then.played("execute") == "refuse"
        #: Whether every repeat starts the time anew.
        self.renews = self._start == "last-use"

    def counted(self, asked: Asked, now: float) -> float:
        """Return from when a key counts that is claimed now."""
        if self._start == "first-sent" and asked.first_sent is not None:
            return asked.first_sent
        return now

    def until(self, asked: Asked, now: float) -> float | None:
        """Return when a key is forgotten at a time of its own: chosen by the caller, or after a scheduled send."""
        if asked.until is not None:
            return asked.until
        if self._start == "scheduled-time" and asked.due is not None and asked.due > now:
            return asked.due + self._keeps if math.isfinite(self._keeps) else None
        return None

    def at_end(self, answer: AnswerClass, now: float) -> float | None:
        """Return from when a key counts whose outcome is known now; None where that changes nothing."""
        succeeded = self._start == "first-success" and answer is AnswerClass.ACCEPTED
        return now if succeeded or self._start == "completion" else None

    def forgotten(self, entry: Entry, now: float) -> bool:
        """Whether the time of a key is over; whether its first request still runs is another question."""
        if entry.until is not None:
            return now >= entry.until
        open_ended = entry.answer in (None, AnswerClass.PENDING)
        if open_ended and self._start in ("completion", "first-success"):
            return False
        if self._sweep > 0 and math.isfinite(self._floor):
            # Taken out by a job that ran last at a multiple of its period.
            return math.floor(now / self._sweep) * self._sweep - entry.counted >= self._floor
        return now - entry.counted >= self._exact

    def lapsed(self, entry: Entry, now: float) -> bool:
        """Whether a claim in flight has outlived its lease."""
        return not entry.kept and now - entry.claimed >= self._lasts
