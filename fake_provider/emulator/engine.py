"""The engine: decides what a request gets.

Deciding is synchronous: from the look at a key to the claim there is no await, and the store's transaction
makes it one step on disk too.  What has been claimed goes to the :mod:`courier`, which sees it through,
whether or not its caller still waits.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts.model import AnswerClass, Contract
from sendtwice.fake_provider.emulator.answers import Told, render, with_status
from sendtwice.fake_provider.emulator.courier import Courier, Job
from sendtwice.fake_provider.emulator.requests import Asked, Refusal, read
from sendtwice.fake_provider.emulator.store import Claim, Entry, Store
from sendtwice.fake_provider.emulator.upstream import Upstream
from sendtwice.fake_provider.faults import Fault
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Request, Response


@dataclass(slots=True)
class Exchange:
    """One request that the emulator has understood and not yet acted on."""

    emulator: Emulator
    asked: Asked
    operation: str | None
    key: str | None
    faults: tuple[Fault, ...] = ()
    attempt: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    async def perform(self) -> Response:
        """Commit the effect and return the answer, whether or not anyone still waits for it."""
        return await self.emulator.perform(self.asked)

    def answer(self, what: str | float) -> Response:
        """Return an answer of another kind (a status or an answer class), with nothing committed."""
        return self.emulator.answer(self.asked, what)


class Emulator:
    """A send API that keeps a contract."""

    def __init__(
        self,
        contract: Contract,
        *,
        upstream: Upstream,
        store: Store | None = None,
        clock: Clock | None = None,
        identify: Callable[[Mail], str | None] | None = None,
        asked_faults: Callable[[Asked], tuple[Fault, ...] | Refusal] | None = None,
        any_path: bool = False,
        retries_for: float = 30.0,
        waits_for: float = 10.0,
    ) -> None:
        """Keep ``contract`` in front of ``upstream``.

        ``identify`` names the operation of a mail; ``asked_faults`` reads faults from a request itself, or
        refuses one that asks for what nobody knows; a busy provider is tried again for ``retries_for``
        seconds; a repeat waits ``waits_for`` seconds for the first.
        """
        self.contract, self.upstream = contract, upstream
        self.store = store or Store()
        self.clock = clock or Clock()
        self._identify = identify or (lambda _: None)
        self._asked_faults = asked_faults or (lambda _: ())
        self._any_path, self._waits_for = any_path, waits_for
        self._courier = Courier(contract, upstream, self.store, self.clock, retries_for=retries_for)

    async def start(self) -> None:
        """Take up what an earlier process left; requests may come in at once."""
        self._courier.start()

    async def stop(self) -> None:
        """Let hand-overs that have begun come to their end; what waits stays queued on disk."""
        await self._courier.stop()
        await self.upstream.stop()
        self.store.close()

    async def settled(self) -> None:
        """Wait until no message is on its way."""
        await self._courier.settled()

    def begin(self, request: Request) -> Exchange:
        """Understand a message, changing nothing."""
        asked = read(self.contract, request, any_path=self._any_path)
        operation = next((found for mail in asked.mails if (found := self._identify(mail))), None)
        notes = {"mail": asked.mail, "route": asked.route}
        faults = self._asked_faults(asked)
        if isinstance(faults, Refusal):
            asked, faults = replace(asked, refusal=faults), ()
        return Exchange(self, asked, operation, asked.key, faults, notes=notes)

    def answer(self, asked: Asked, what: str | float) -> Told:
        """Return an answer that a fault asks for."""
        # A repeat is told of the same draft as before, although nothing was stored.
        seed = f"{asked.scope}\n{asked.key}" if asked.key is not None else str(uuid.uuid4())
        numbers = range(max(len(asked.mails), 1))
        ids = tuple(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}\n{number}")) for number in numbers)
        if isinstance(what, str) and not what.isdecimal():
            return render(self.contract, AnswerClass(what), ids=ids, batch=asked.batch)
        return with_status(self.contract, int(what), ids)

    async def perform(self, asked: Asked) -> Told:
        """Do what a request asks, once."""
        until = asyncio.get_running_loop().time() + self._waits_for
        try:
            while True:
                step = self._decide(asked)
                if isinstance(step, Told):
                    return step
                if isinstance(step, Job):
                    return await asyncio.shield(self._courier.send(step))
                left = until - asyncio.get_running_loop().time()
                if left <= 0:
                    return self._in_progress()
                await asyncio.wait({step}, timeout=left)
        except sqlite3.Error as error:
            # Before the claim is written nothing has happened, so to refuse is safe (and to send unguarded
            # is not).
            return render(self.contract, AnswerClass.FAILED, message=f"The store failed: {error}.")

    # --- Deciding ------------------------------------------------------------------------------------------

    def _decide(self, asked: Asked) -> Told | Job | asyncio.Task[Any]:
        """Return the answer, a send that has been claimed, or the first request that a repeat waits for."""
        if asked.refusal is not None:
            return self._refused(asked, asked.refusal)
        if not asked.claims or self.contract.duplicates.played("replay") == "execute":
            return self._accept(asked, None)
        return self._accept(asked, self._claimed(asked))

    def _accept(self, asked: Asked, claimed: Entry | Job | None) -> Told | Job | asyncio.Task[Any]:
        if isinstance(claimed, Entry):
            return self._repeat(asked, claimed)
        job = claimed or Job(None, self.store.add(asked.mails, now=self.clock.now()), asked.batch)
        if not self._queued or self.upstream.immediate:
            # A ledger of our own is written before the answer: what was accepted can be counted at once.
            return job
        self._courier.queue(job)
        return render(self.contract, AnswerClass.ACCEPTED, ids=job.ids, batch=asked.batch)

    def _claimed(self, asked: Asked, *, refusal: str | None = None) -> Entry | Job:
        now = self.clock.now()
        limit = self.contract.retention.at_most.played(self.contract.retention.at_least.played(math.inf))
        answer = AnswerClass.ACCEPTED if self._queued else None
        claimed = self.store.claim(
            Claim(asked.scope, asked.key or "", asked.fingerprint, asked.batch),
            asked.mails if refusal is None else (),
            now=now,
            forget_before=now - limit if math.isfinite(limit) else None,
            answer=answer if refusal is None else AnswerClass.REFUSED,
            note=refusal,
        )
        return claimed if isinstance(claimed, Entry) else Job(*claimed, asked.batch)

    @property
    def _queued(self) -> bool:
        return self.contract.delivery.played("inline") == "queued"

    def _refused(self, asked: Asked, refusal: Refusal) -> Told:
        stores = self.contract.outcomes.invalid.played("released") == "stored"
        if stores and asked.claims and refusal.kind is AnswerClass.REFUSED and refusal.status is None:
            claimed = self._claimed(asked, refusal=refusal.message)
            if isinstance(claimed, Entry):
                again = self._repeat(asked, claimed)
                return again if isinstance(again, Told) else self._in_progress()
        return render(self.contract, refusal.kind, message=refusal.message, status=refusal.status, ours=refusal.ours)

    def _repeat(self, asked: Asked, entry: Entry) -> Told | Job | asyncio.Task[Any]:
        """Decide what a key that is taken already means."""
        contract = self.contract
        running = self._courier.running(entry.number) if entry.answer is None else None
        order = contract.order.played([])
        running_first = running is not None and _before(order, "in_progress", "mismatch")
        if entry.fingerprint != asked.fingerprint and not running_first:
            match contract.mismatch.played("refuse"):
                case "refuse":
                    return render(contract, AnswerClass.CONFLICT)
                case "execute":
                    return self._accept(asked, None)
        if entry.answer is not None:
            return self._replayed(entry, entry.answer)
        match contract.concurrent.played("refuse"):
            case "wait" if running is not None:
                return running
            case "execute" if running is not None:
                return self._accept(asked, None)
        return self._in_progress()

    def _replayed(self, entry: Entry, answer: AnswerClass) -> Told:
        if self.contract.retention.start.played("first-receipt") == "last-use":
            self.store.touch(entry.number, self.clock.now())
        ids = tuple(message.id for message in self.store.messages(entry.number))
        if self.contract.replay.id.played("same") == "new":
            ids = tuple(str(uuid.uuid4()) for _ in ids)
        match self.contract.duplicates.played("replay"):
            case "refuse" | "redirect":
                return render(self.contract, AnswerClass.DUPLICATE)
            case "accept":
                return render(self.contract, answer, ids=ids, batch=entry.batch, message=entry.note)
        return render(self.contract, answer, ids=ids, batch=entry.batch, replay=True, message=entry.note)

    def _in_progress(self) -> Told:
        """Tell a repeat that its first request has no definite outcome yet, in the contract's own words."""
        known = self.contract.answers
        told = AnswerClass.IN_PROGRESS
        if told not in known and AnswerClass.UNKNOWN in known:
            told = AnswerClass.UNKNOWN
        return render(self.contract, told)


def _before(order: Sequence[str], first: str, second: str) -> bool:
    """Whether a declared order of checks puts one before the other."""
    names = [name.replace("-", "_") for name in order]
    return first in names and second in names and names.index(first) < names.index(second)
