"""How a send ends: what its messages come to, what its caller is told, and what becomes of its key (D13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts.model import SEND, AnswerClass, Contract, Storage
from sendtwice.fake_provider.emulator.answers import Told, render
from sendtwice.fake_provider.emulator.events import Telling
from sendtwice.fake_provider.emulator.records import OPEN, Entry, Message, State
from sendtwice.fake_provider.emulator.retention import Retention
from sendtwice.fake_provider.emulator.store import Store

#: Why a message is on its way that was a draft.
APPROVED = "approved"

_TOLD = frozenset({State.SENT, State.REFUSED, State.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Job:
    """Messages that one request asked for, and the entry that guards them.

    ``told`` is the answer for its success, which may have been given already.
    """

    entry: int | None
    messages: Sequence[Message]
    batch: bool = False
    route: str = SEND
    told: Told | None = None

    @property
    def launched(self) -> bool:
        """Whether a person has approved it, so that a provider that is busy does not undo it."""
        return any(message.code == APPROVED for message in self.messages)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the messages, in the order of the request."""
        return tuple(message.id for message in self.messages)


class Endings:
    """Ends sends as one contract says."""

    def __init__(self, contract: Contract, store: Store, clock: Clock, telling: Telling) -> None:
        """Note in ``store`` what is known by ``clock``."""
        self.contract, self.store, self.clock = contract, store, clock
        self.retention = Retention(contract)
        self._telling = telling
        crash = contract.outcomes.crash
        self._after_crash: Storage | None = crash.play or crash.value
        lasts = contract.lease.lasts
        self._leased = (lasts.play if lasts.play is not None else lasts.value) is not None

    def mark(self, message: Message, state: State, *, provider: str | None = None, code: str | None = None) -> None:
        """Note how far a message has come, and tell of it where that is a matter for others."""
        event = self._telling.event(message, state, code=code) if state in _TOLD else None
        self.store.mark(message, state, now=self.clock.now(), provider=provider, code=code, event=event)

    def written(self, job: Job, kind: AnswerClass, *, route: str | None = None) -> Told:
        """Write an answer that tells of a job."""
        if kind is AnswerClass.ACCEPTED and job.told is not None:
            return job.told
        recipients = [message.mail.recipients for message in job.messages]
        return render(
            self.contract, kind, route=route or job.route, ids=job.ids, recipients=recipients, batch=job.batch
        )

    def settle(self, entry: Entry, kind: AnswerClass, job: Job, told: Told | None = None) -> None:
        """Store the answer that repeats get, ``told`` or its like; a success is written at the claim already."""
        response = None
        if told is not None and told.kind is kind and entry.route == job.route:
            response = told.stored()
        elif kind is not AnswerClass.ACCEPTED or entry.response is None:
            response = self.written(replace(job, told=None), kind, route=entry.route).stored()
        self.store.settle(entry.number, kind, response, counted=self.retention.at_end(kind, self.clock.now()))

    def conclude(self, job: Job, states: Sequence[State], *, final: bool = False) -> tuple[Told, bool]:
        """Store or release what came of a request; return its answer, and whether the hand-over goes on.

        ``final``: patience is at its end, so nothing may be left open.
        """
        kind, policy = self._verdict(states)
        open_ones = [m for m, state in zip(job.messages, states, strict=True) if state in OPEN]
        queued = [m for m, state in zip(job.messages, states, strict=True) if state is State.QUEUED]
        entry = self._held(job)
        if kind is AnswerClass.FAILED and job.launched and not final:
            return self.written(job, AnswerClass.ACCEPTED), True
        if job.entry is not None and entry is None and kind is AnswerClass.REFUSED:
            return self.written(job, AnswerClass.IN_PROGRESS), False  # the key is another request's now
        if entry is not None and entry.answer is not None:
            if final:
                self._give_up(queued)
            counted = self.retention.at_end(kind, self.clock.now())
            if counted is not None:
                self.store.count_from(entry.number, counted)
            was = entry.answer if entry.answer is AnswerClass.ACCEPTED else kind
            return self.written(job, was), bool(open_ones) and not final
        told = self.written(job, kind)
        if entry is None:
            if kind is AnswerClass.FAILED and not final:
                self.store.release(None, queued)
                return told, False
            if final:
                self._give_up(queued)
            return told, bool(open_ones) and not final
        goes_on = not final and bool(open_ones)
        match kind, policy:
            case (AnswerClass.PENDING, _):
                goes_on = False
            case (AnswerClass.ACCEPTED, _):
                if final:
                    self._give_up(queued)
                self.settle(entry, kind, job, told)
            case (AnswerClass.FAILED, "released") if not job.launched:
                self.store.release(entry.number, job.messages)
                goes_on = False
            case (AnswerClass.FAILED, _) if final or policy != "kept":
                self._give_up(queued)
                self.settle(entry, AnswerClass.KEY_INVALID if policy == "poisoned" else kind, job, told)
                goes_on = False
            case (AnswerClass.FAILED, _):
                pass
            case (_, "released"):
                for message, state in zip(job.messages, states, strict=True):
                    if state is State.HANDING:
                        self.mark(message, State.UNKNOWN)
                self.store.free(entry.number)
                goes_on = goes_on and bool(queued)
            case (_, "kept"):
                if not goes_on:
                    self._give_up(queued)
                    self.store.keep(entry.number)
            case _:
                if final:
                    self._give_up(queued)
                self.settle(entry, AnswerClass.KEY_INVALID if policy == "poisoned" else kind, job, told)
        return told, goes_on

    def after_crash(self, job: Job, *, repeatable: bool) -> list[Message]:
        """Note what a dead process has left, and return the messages that go on."""
        entry = None if job.entry is None else self.store.entry(job.entry)
        policy = self._after_crash if entry is not None and entry.answer is None else None
        ends = policy in ("released", "poisoned")
        left: list[Message] = []
        for message in job.messages:
            if message.state is State.HANDING and (ends or not repeatable):
                self.mark(message, State.UNKNOWN)
            elif message.state in OPEN and not ends:
                left.append(message)
        if entry is None:
            return left
        waiting = [message for message in job.messages if message.state is State.QUEUED]
        unknown = any(message.state is State.UNKNOWN for message in self.store.messages(entry.number))
        if policy == "released":
            self.store.release(None, waiting)
            self.store.free(entry.number)
        elif policy == "poisoned":
            self._give_up(waiting)
            self.settle(entry, AnswerClass.KEY_INVALID, job)
        elif policy == "stored" and unknown:
            self.settle(entry, AnswerClass.UNKNOWN, job)
        elif policy == "kept" and unknown:
            self.store.keep(entry.number)
        elif not left and entry.answer is None and not (unknown and policy is None and self._leased):
            known = self.store.messages(entry.number)
            self.conclude(Job(entry.number, known, job.batch, job.route), [m.state for m in known], final=True)
        return left

    def _verdict(self, states: Sequence[State]) -> tuple[AnswerClass, Storage]:
        outcomes = self.contract.outcomes
        if State.PENDING in states:
            return AnswerClass.PENDING, "stored"
        if State.HANDING in states or State.UNKNOWN in states:
            return AnswerClass.UNKNOWN, outcomes.unknown.played("kept")
        if State.SENT in states:
            return AnswerClass.ACCEPTED, "stored"
        if State.QUEUED in states:
            return AnswerClass.FAILED, outcomes.provider_busy.played("released")
        return AnswerClass.REFUSED, outcomes.provider_refused.played("stored")

    def _held(self, job: Job) -> Entry | None:
        """Return the entry of a job, as long as it is still the job's own."""
        if job.entry is None or not job.messages:
            return None
        message = self.store.message(job.messages[0].id)
        return self.store.entry(job.entry) if message is not None and message.entry == job.entry else None

    def _give_up(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.mark(message, State.REFUSED)
