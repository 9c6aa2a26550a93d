"""The engine: what comes in, what is done about it, what goes out.

A request is read (:mod:`requests`), then answered by whoever the route is for: :mod:`repeats` decides about sends and
drafts, :mod:`drafts` launches and rejects, :mod:`lookups` tells and learns what became of a message. Deciding is
synchronous: from the look at a key to the claim there is no await, and the store's transaction makes it one step on
disk too. What has been claimed goes to the :mod:`courier`, which sees it through, whether or not its caller waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import sqlite3
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts.model import SEND, AnswerClass, Contract
from sendtwice.fake_provider.dialects import resends
from sendtwice.fake_provider.emulator.answers import POSITIVE, Told, refused, render, with_status
from sendtwice.fake_provider.emulator.asked import Asked, Refusal
from sendtwice.fake_provider.emulator.callers import Caller
from sendtwice.fake_provider.emulator.courier import Courier, Job
from sendtwice.fake_provider.emulator.drafts import Drafts
from sendtwice.fake_provider.emulator.events import Telling
from sendtwice.fake_provider.emulator.lookups import Lookups
from sendtwice.fake_provider.emulator.repeats import Repeats, Step
from sendtwice.fake_provider.emulator.replays import Replays
from sendtwice.fake_provider.emulator.requests import Reader
from sendtwice.fake_provider.emulator.store import Store
from sendtwice.fake_provider.emulator.upstream import Kind, Upstream
from sendtwice.fake_provider.faults import Fault
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Request, Response

#: Called with the type and the data of what has happened, once it is on disk.
Emit = Callable[[str, dict[str, Any]], None]

#: Checks that are made of a whole batch, also where each of its mails has a key of its own.
_OF_ALL = ("edge", "auth", "rate_limit", "validation")


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
        answer = await self.emulator.perform(self.asked)
        self.emulator.answered(self.operation, answer)
        return answer

    def answer(self, what: str | float) -> Response:
        """Return an answer of another kind (a status or an answer class), with nothing committed."""
        return self.emulator.answer(self.asked, what)

    def hung_up(self) -> None:
        """Learn that the caller has gone before its answer."""
        self.emulator.hung_up(self.asked)


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
        one_account: bool = False,
        retries_for: float = 30.0,
        waits_for: float | None = None,
        emit: Emit | None = None,
    ) -> None:
        """Keep ``contract`` in front of ``upstream``.

        ``identify`` names the operation of a mail; ``asked_faults`` reads faults from a request itself, or
        refuses one that asks for what nobody knows; a busy provider is tried again for ``retries_for``
        seconds; a repeat waits ``waits_for`` seconds for the first, or as long as the contract says. ``emit`` is called
        for every event that the store now holds: :meth:`Store.events_after` has them all, also after a crash.
        ``one_account``: a token says nothing of the account, unless it is written ACCOUNT:CREDENTIAL.
        """
        self.contract, self.upstream = contract, upstream
        #: Called with the operation and the answer of every request, before anything is written on its wire.
        self.answered: Callable[[str | None, Response], None] = lambda _, __: None
        self.store = store or Store()
        self.clock = clock or Clock()
        if emit is not None:
            self.store.told = emit
        self._identify = identify or (lambda _: None)
        self._asked_faults = asked_faults or (lambda _: ())
        who = Caller.in_one_account if one_account else Caller.of
        self._reader = Reader(contract, any_path=any_path, who=who)
        self._waits_for = contract.waits.played(10.0) if waits_for is None else waits_for
        telling = Telling(contract)
        self._courier = Courier(contract, upstream, self.store, self.clock, telling=telling, retries_for=retries_for)
        replays = Replays(contract, telling)
        self._repeats = Repeats(self._courier, replays)
        lookups = Lookups(self._courier, replays)
        drafts = Drafts(self._courier, lookups)
        self._acts: dict[str, Callable[[Asked], Told | Job]] = {
            "launch": drafts.launch,
            "reject": drafts.reject,
            "resolve": lookups.resolve,
            "reconcile": lookups.reconcile,
            "read": lookups.read,
            "nothing": self._nothing,
        }

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
        asked = self._reader.read(request, now=self.clock.now())
        operation = next((found for mail in asked.mails if (found := self._identify(mail))), None)
        notes = {
            "mail": asked.mail,
            "route": asked.route,
            "dry_run": asked.dry_run,
            **resends.notes(self.contract, request),
        }
        faults = self._asked_faults(asked)
        if isinstance(faults, Refusal):
            check = "server" if faults.kind is AnswerClass.FAILED else "edge"
            asked, faults = replace(asked, refusals=(*asked.refusals, (check, faults))), ()
        return Exchange(self, asked, operation, None if asked.made else asked.key, faults, notes=notes)

    def answer(self, asked: Asked, what: str | float) -> Told:
        """Return an answer that a fault asks for."""
        # A repeat is told of the same draft as before, although nothing was stored.
        seed = f"{asked.scope}\n{asked.key}" if asked.key is not None else str(uuid.uuid4())
        numbers = range(max(len(asked.mails), 1))
        ids = tuple(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}\n{number}")) for number in numbers)
        route = asked.route or SEND
        if isinstance(what, str) and not what.isdecimal():
            kind = AnswerClass(what)
            return render(self.contract, kind, route=route, ids=ids, recipients=asked.recipients, batch=asked.batch)
        return with_status(self.contract, int(what), ids, route=route)

    async def perform(self, asked: Asked) -> Told:
        """Do what a request asks, once."""
        if asked.items and not any(asked.refused(check) for check in _OF_ALL):
            return await self._each(asked)
        until = asyncio.get_running_loop().time() + self._waits_for
        try:
            while True:
                step = self._decide(asked)
                if isinstance(step, Told):
                    return step
                if not isinstance(step, asyncio.Task):
                    return await asyncio.shield(self._courier.send(step))
                left = until - asyncio.get_running_loop().time()
                if left <= 0:
                    return self._repeats.in_progress(asked)
                await asyncio.wait({step}, timeout=left)
        except sqlite3.Error as error:
            if asked.does == "send" and self.contract.store_failure.played("closed") == "open":
                return await self._unguarded(asked)
            # Before the claim is written nothing has happened, so to refuse is safe (and to send unguarded
            # is not).
            message = f"The store failed: {error}."
            return render(self.contract, AnswerClass.FAILED, route=asked.route or SEND, message=message)
        except asyncio.CancelledError:
            self.hung_up(asked)
            raise

    def hung_up(self, asked: Asked) -> None:
        """Do with a key what the contract does when its caller hangs up before the answer."""
        with contextlib.suppress(sqlite3.Error):  # then it stays as it is
            for one in asked.items or (asked,):
                self._repeats.hung_up(one)

    def _decide(self, asked: Asked) -> Step:
        edge = asked.refused("edge")
        if edge is not None:
            return refused(self.contract, edge, route=asked.route or SEND)
        act = self._acts.get(asked.does)
        return self._repeats.decide(asked, None if act is None else functools.partial(act, asked))

    def _nothing(self, asked: Asked) -> Told:
        return render(self.contract, AnswerClass.ACCEPTED, route=asked.route or SEND, ids=[str(uuid.uuid4())])

    async def _each(self, asked: Asked) -> Told:
        """Send a batch in which each mail has a key of its own, and answer for each."""
        told = await asyncio.gather(*(self.perform(item) for item in asked.items))
        if not any(one.kind in POSITIVE for one in told):
            return told[0]
        ids = [str(uuid.uuid4()) for _ in told]
        whole = render(self.contract, AnswerClass.ACCEPTED, route=asked.route or SEND, ids=ids, batch=True)
        body: Any = json.loads(whole.body)
        answers = [json.loads(one.body) if one.body else None for one in told]
        if isinstance(body, dict):
            body = {name: answers if isinstance(value, list) else value for name, value in body.items()}
        else:
            body = answers
        return replace(whole, body=json.dumps(body, separators=(",", ":")).encode(), replay=all(t.replay for t in told))

    async def _unguarded(self, asked: Asked) -> Told:
        """Send without the store, as an API does that fails open."""
        if asked.refusal is not None:
            return refused(self.contract, asked.refusal, route=asked.route or SEND)
        outcomes = [await self.upstream.send(mail, str(uuid.uuid4())) for mail in asked.mails]
        kinds = {outcome.kind for outcome in outcomes}
        order = (
            (Kind.UNKNOWN, AnswerClass.UNKNOWN),
            (Kind.SENT, AnswerClass.ACCEPTED),
            (Kind.BUSY, AnswerClass.FAILED),
            (Kind.REFUSED, AnswerClass.REFUSED),
        )
        kind = next(answer for outcome, answer in order if outcome in kinds)
        ids = [outcome.id or str(uuid.uuid4()) for outcome in outcomes]
        return render(
            self.contract, kind, route=asked.route or SEND, ids=ids, recipients=asked.recipients, batch=asked.batch
        )
