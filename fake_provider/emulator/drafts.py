"""Drafts, and sends that wait for a person: launched or rejected, once.

A message that is ``pending`` leaves that state in one transaction, which also says what its key answers from then on.
So of two approvals at once one finds no draft any more, and a process that dies after that transaction has a message
that is queued, like any other. The mails of a batch under one key are one draft, by whichever of their ids.
"""

from __future__ import annotations

from sendtwice.fake_provider.contracts.model import SEND, AnswerClass
from sendtwice.fake_provider.emulator.answers import Told, render
from sendtwice.fake_provider.emulator.asked import Asked
from sendtwice.fake_provider.emulator.courier import Courier, Job
from sendtwice.fake_provider.emulator.endings import APPROVED
from sendtwice.fake_provider.emulator.lookups import Lookups
from sendtwice.fake_provider.emulator.records import Message, State


class Drafts:
    """Launches and rejects the drafts of one store."""

    def __init__(self, courier: Courier, lookups: Lookups) -> None:
        """Hand what is launched to ``courier``."""
        self._courier, self._lookups = courier, lookups
        self._contract, self._store, self._clock = courier.contract, courier.store, courier.clock
        self._queued = self._contract.delivery.played("inline") == "queued"

    def launch(self, asked: Asked) -> Told | Job:
        """Send a draft, once."""
        message = self._lookups.found(asked)
        if message is None:
            return self._lookups.nothing(asked)
        answer = AnswerClass.ACCEPTED if self._queued else None
        if not self._decided(message, State.QUEUED, answer, AnswerClass.ACCEPTED, code=APPROVED):
            return self._no_draft(asked, message)
        launched = [self._store.message(m.id) or m for m in self._whole(message)]
        told = render(
            self._contract,
            AnswerClass.ACCEPTED,
            route=asked.route or SEND,
            ids=[message.id],
            recipients=[message.mail.recipients],
        )
        job = Job(message.entry, launched, len(launched) > 1, asked.route or SEND, told)
        if self._queued and not self._courier.upstream.immediate:
            self._courier.queue(job)
            return told
        return job

    def reject(self, asked: Asked) -> Told:
        """Give a draft up; its key answers with the refusal from now on."""
        message = self._lookups.found(asked)
        if message is None:
            return self._lookups.nothing(asked)
        refused = AnswerClass.REFUSED
        moved = self._decided(message, State.REJECTED, refused, refused, message="A person has rejected this mail.")
        return self._lookups.shown(asked, message.id) if moved else self._no_draft(asked, message)

    def _whole(self, message: Message) -> list[Message]:
        """Return the messages that are decided about together: those of one request, as far as a key holds them."""
        return [message] if message.entry is None else self._store.messages(message.entry)

    def _decided(
        self,
        draft: Message,
        after: State,
        answer: AnswerClass | None,
        look: AnswerClass,
        *,
        code: str | None = None,
        message: str | None = None,
    ) -> bool:
        """Move a draft on, once; repeats of the request that made it get ``answer`` from now on, and its ``look``."""
        messages = self._whole(draft)
        entry = None if draft.entry is None else self._store.entry(draft.entry)
        settle = None
        if entry is not None:
            told = render(
                self._contract,
                look,
                route=entry.route,
                ids=[m.id for m in messages],
                recipients=[m.mail.recipients for m in messages],
                batch=entry.batch,
                message=message,
                code=None if message is None else "rejected",
            )
            settle = (answer, told.stored())
        telling = self._courier.telling
        return self._store.move(
            messages,
            State.PENDING,
            after,
            now=self._clock.now(),
            code=code,
            settle=settle,
            event=lambda m: telling.event(m, after),
        )

    def _no_draft(self, asked: Asked, message: Message) -> Told:
        now = self._store.message(message.id) or message
        word = self._courier.telling.word(now.state)
        return self._lookups.refused(asked, f"This is no draft any more: it is {word}.")
