"""What a request under a key gets: the checks of the contract in their order (D7), then a claim, or what is there.

Deciding is synchronous: from the look at a key to the claim there is no await.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from sendtwice.fake_provider.contracts.model import SEND, AnswerClass, Storage
from sendtwice.fake_provider.emulator.answers import Told, naming, refused, render
from sendtwice.fake_provider.emulator.asked import Asked, Refusal
from sendtwice.fake_provider.emulator.callers import needs_approval
from sendtwice.fake_provider.emulator.courier import Courier, Job
from sendtwice.fake_provider.emulator.records import Claim, Entry, Message, State, new_messages
from sendtwice.fake_provider.emulator.replays import Replays, original, tells_of_messages
from sendtwice.fake_provider.emulator.templates import Templates
from sendtwice.fake_provider.emulator.upstream import LedgerUpstream

#: Checks of a request itself, and checks of what its key holds; in their order where the contract does not say.
OF_REQUEST = ("auth", "rate_limit", "key", "validation")
OF_KEY = ("mismatch", "in_progress", "replay")
ORDER = OF_REQUEST + OF_KEY

#: An answer, a send that has been claimed, or the first request, which a repeat waits for.
Step = Told | Job | asyncio.Task[Any]


class _Way(Enum):
    """Where a check leads that answers nothing."""

    ON = "on"  # to the next check
    UNGUARDED = "unguarded"  # past the key
    FREED = "freed"  # the key is free again


def complete(order: Sequence[str]) -> list[str]:
    """Return a declared order with the checks that it does not name, each beside those of its kind."""
    found = list(order)
    for kind in (OF_REQUEST, OF_KEY):
        for at, check in enumerate(kind):
            if check in found:
                continue
            following = [found.index(known) for known in kind[at + 1 :] if known in found]
            before = [found.index(known) + 1 for known in kind[:at] if known in found]
            if check == "auth" or (kind is OF_REQUEST and not following and not before):
                place = 0  # who asks comes first, unless the contract says otherwise
            else:
                place = min(following) if following else max(before, default=len(found))
            found.insert(place, check)
    return found


class Repeats:
    """Decides about sends and drafts."""

    def __init__(self, courier: Courier, replays: Replays) -> None:
        """Claim in the courier's store, and look there."""
        self._courier, self._replays = courier, replays
        self._contract, self._store, self._clock = courier.contract, courier.store, courier.clock
        self._endings, self._retention = courier.endings, courier.endings.retention
        contract = self._contract
        self._order = complete(contract.order.played([]))
        self._policies: dict[str, Storage] = {
            "auth": contract.outcomes.unauthorized.played("released"),
            "rate_limit": contract.outcomes.rate_limited.played("released"),
            "validation": contract.outcomes.invalid.played("released"),
            "server": contract.outcomes.server_error.played("released"),
        }
        self._queued = contract.delivery.played("inline") == "queued"
        self._guards = contract.duplicates.played("replay") != "execute"
        self._templates = Templates(contract)
        afterwards = any(route.does not in ("send", "draft", "nothing") for route in contract.routes.values())
        #: Whether anybody can ask afterwards for a mail that no key guards.
        self._remembers = afterwards or self._store.durable or self._store.keeps_events

    def decide(self, asked: Asked, act: Callable[[], Told | Job] | None = None) -> Step:
        """Return the answer, or what has to be done or waited for to have one; ``act`` does what is no send."""
        guarded = asked.claims and self._guards
        entry = self._known(asked) if guarded else None
        for check in self._order if asked.refusals or entry is not None else ():
            refusal = asked.refused(check)
            if refusal is not None:
                if entry is None or self._policies.get(check, "released") == "released":
                    return self._refused(asked, check, refusal, guarded=guarded and entry is None)
            elif entry is not None:
                step = self._look(check, asked, entry)
                if not isinstance(step, _Way):
                    return step
                entry = entry if step is _Way.ON else None
                guarded = guarded and step is not _Way.UNGUARDED
        refusal = asked.refusal
        if refusal is not None:
            return self._refused(asked, asked.refusals[0][0], refusal, guarded=guarded)
        if asked.dry_run:
            return self._dry(asked)
        if act is not None:
            return self._done(asked, act) if guarded else act()
        return self._accept(asked, guarded=guarded)

    def in_progress(self, asked: Asked) -> Told:
        """Tell a repeat that its first request has no definite outcome yet, in the contract's own words."""
        known = self._contract.answers
        kind = AnswerClass.IN_PROGRESS
        if kind not in known and AnswerClass.UNKNOWN in known:
            kind = AnswerClass.UNKNOWN
        return self._told(asked, kind)

    def hung_up(self, asked: Asked) -> None:
        """Do with a key what the contract does when its caller hangs up before the answer."""
        policy = self._contract.outcomes.disconnect.played("stored")
        entry = self._store.find(asked.scope, asked.key or "") if asked.claims and policy != "stored" else None
        if entry is None or entry.answer is not None or self._courier.running(entry.number) is None:
            return
        match policy:
            case "released":
                self._store.free(entry.number)
            case "kept":
                self._store.strand(entry.number)
            case "poisoned":
                self._store.settle(entry.number, AnswerClass.KEY_INVALID)

    # --- A key that is taken -------------------------------------------------------------------------------

    def _known(self, asked: Asked) -> Entry | None:
        """Return the entry of a key that is not forgotten, or is remembered as forgotten."""
        entry = self._store.find(asked.scope, asked.key or "")
        if entry is None or not self._forgotten(entry) or self._retention.refuses:
            return entry
        # Its messages stay: to forget a key takes no mail back.
        self._store.free(entry.number)
        return None

    def _forgotten(self, entry: Entry) -> bool:
        return self._retention.forgotten(entry, self._clock.now()) and not self._store.running(entry)

    def _look(self, check: str, asked: Asked, entry: Entry) -> Step | _Way:
        """Return what one check makes of a key that is taken already."""
        match check:
            case "key" | "mismatch" | "in_progress" | "replay" if entry.poisoned:
                return self._told(asked, AnswerClass.KEY_INVALID, message="This key cannot be used again.")
            case "key" | "mismatch" | "in_progress" | "replay" if self._forgotten(entry):
                return self._told(asked, AnswerClass.EXPIRED)
            case "mismatch" if entry.fingerprint != asked.fingerprint:
                match self._contract.mismatch.played("refuse"):
                    case "refuse":
                        return self._told(asked, AnswerClass.CONFLICT)
                    case "execute":
                        return _Way.UNGUARDED
            case "in_progress" if entry.answer is None:
                return self._in_flight(asked, entry)
            case "replay" if entry.answer is not None:
                return self._replayed(asked, entry)
        return _Way.ON

    def _in_flight(self, asked: Asked, entry: Entry) -> Step | _Way:
        running = self._courier.running(entry.number)
        if running is not None and not self._store.running(entry):
            return running  # it has come to its end, and is about to write down its answer
        if self._retention.lapsed(entry, self._clock.now()):
            lease = self._contract.lease
            match lease.then.played("execute"):
                case "execute":
                    self._store.free(entry.number, fence=lease.late_original.played("fenced") == "fenced")
                    return _Way.FREED
                case "refuse":
                    return self._told(
                        asked, AnswerClass.REFUSED, message="The first request never ended; use a new key."
                    )
                case "unknown":
                    return self._told(asked, AnswerClass.UNKNOWN)
            return self._resumed(asked, entry, running)
        match self._contract.concurrent.played("refuse"):
            case "wait" if running is not None:
                return running
            case "execute" if running is not None:
                return _Way.UNGUARDED
        if self._contract.duplicates.played("replay") == "resume" and running is None:
            return self._resumed(asked, entry, running)
        return self.in_progress(asked)

    def _resumed(self, asked: Asked, entry: Entry, running: asyncio.Task[Any] | None) -> Step:
        """Go on where the first request stopped, or wait for it where it has not."""
        if running is not None:
            return running
        messages = self._courier.resumable(self._store.messages(entry.number))
        told = None if entry.response is None else original(replace(entry, answer=AnswerClass.ACCEPTED))
        if any(message.state in (State.QUEUED, State.HANDING) for message in messages):
            return Job(entry.number, messages, entry.batch, entry.route, told)
        unknown = any(message.state is State.UNKNOWN for message in messages)
        return self._told(asked, AnswerClass.UNKNOWN) if unknown else self.in_progress(asked)

    def _replayed(self, asked: Asked, entry: Entry) -> Told:
        if self._retention.renews:
            self._store.count_from(entry.number, self._clock.now())
        messages = self._store.messages(entry.number)
        match self._contract.duplicates.played("replay"):
            case "refuse":
                return self._told(asked, AnswerClass.DUPLICATE)
            case "redirect":
                return self._redirected(asked, messages)
            case "accept" if tells_of_messages(entry) and entry.response is not None:
                return original(entry)
        return self._replays.again(entry, messages, route=asked.route or SEND, echo=asked.sent)

    def _redirected(self, asked: Asked, messages: Sequence[Message]) -> Told:
        """Name the message that is there already, and where it can be read."""
        told = self._told(asked, AnswerClass.DUPLICATE)
        if messages:
            told = naming(self._contract, told, messages[0].id, route=asked.route or SEND)
        reading = next((route for route in self._contract.routes.values() if route.does == "read"), None)
        if reading is None or not messages:
            return told
        return replace(told, headers={**told.headers, "Location": reading.path.replace("{id}", messages[0].id)})

    # --- A key that is free, or none -----------------------------------------------------------------------

    def _refused(self, asked: Asked, check: str, refusal: Refusal, *, guarded: bool) -> Told:
        told = refused(self._contract, refusal, route=asked.route or SEND, echo=self._echo(asked))
        policy = self._policies.get(check, "released")
        if guarded and policy != "released":
            answer = {"stored": refusal.kind, "poisoned": AnswerClass.KEY_INVALID}.get(policy)
            self._claim(asked, (), answer=answer, kept=policy == "kept", told=told)
        return told

    def _done(self, asked: Asked, act: Callable[[], Told | Job]) -> Told | Job:
        """Do something else than send, and claim the key for it in the same transaction."""
        with self._store.together():
            step = act()
            told = step if isinstance(step, Told) else step.told
            if told is not None and told.kind is AnswerClass.ACCEPTED:
                self._claim(asked, (), answer=told.kind, told=told)
        return step

    def _accept(self, asked: Asked, *, guarded: bool) -> Told | Job:
        now = self._clock.now()
        waits = asked.does == "draft" or any(needs_approval(self._contract, mail) for mail in asked.mails)
        later = asked.due if asked.due is not None and asked.due > now else None
        if self._courier.ledger is not None and not waits and later is None:
            return self._deliver(asked, self._courier.ledger, guarded=guarded, now=now)
        state = State.PENDING if waits else State.QUEUED
        messages = new_messages(asked.mails, now=now, account=asked.account, state=state, due=later)
        kind = AnswerClass.ACCEPTED
        if waits and (asked.does == "send" or self._contract.shapes(AnswerClass.PENDING, asked.route or SEND)):
            kind = AnswerClass.PENDING
        told = self._taken(asked, kind, messages)
        at_once = self._queued or later is not None
        answer = AnswerClass.PENDING if waits else AnswerClass.ACCEPTED if at_once else None
        number = None
        if guarded:
            number = self._claim(asked, messages, answer=answer, told=told)
        else:
            self._store.add(messages, now=now, event=self._courier.telling.stored)
        if waits:
            return told
        job = Job(number, [replace(m, entry=number) for m in messages], asked.batch, asked.route or SEND, told)
        if not at_once:
            return job
        self._courier.queue(job)
        return told

    def _deliver(self, asked: Asked, ledger: LedgerUpstream, *, guarded: bool, now: float) -> Told:
        """Store a send with its outcome and its answer, in one transaction, and deliver it into our own ledger.

        What was accepted can be counted at once. Nobody can look in between: there is no await, and a process that dies
        takes the ledger with it.
        """
        messages = new_messages(asked.mails, now=now, account=asked.account, state=State.SENT, handed=now)
        accepted = AnswerClass.ACCEPTED
        told = self._taken(asked, accepted, messages)
        if guarded:
            self._claim(asked, messages, answer=accepted, told=told, counted=self._retention.at_end(accepted, now))
        elif self._remembers:
            self._store.add(messages, now=now, event=self._courier.telling.stored)
        for mail in asked.mails:
            ledger.deliver(mail)
        return told

    def _taken(self, asked: Asked, kind: AnswerClass, messages: Sequence[Message]) -> Told:
        """Write the answer to a send that is taken."""
        if not asked.batch:
            (message,) = messages
            to = message.mail.recipients
            return self._templates.write(
                kind, route=asked.route or SEND, number=message.id, to=to, echo=self._echo(asked)
            )
        errors = [{"index": at, "message": message} for at, message in asked.flaws]
        return self._told(
            asked,
            kind,
            ids=[message.id for message in messages],
            extra={"errors": errors} if errors else None,
            flaws=asked.flaws,
        )

    def _claim(
        self,
        asked: Asked,
        messages: Sequence[Message],
        *,
        answer: AnswerClass | None,
        told: Told,
        kept: bool = False,
        counted: float | None = None,
    ) -> int:
        now = self._clock.now()
        claimed = self._store.claim(
            Claim(
                asked.scope,
                asked.key or "",
                asked.fingerprint,
                asked.batch,
                asked.route or SEND,
                self._retention.counted(asked, now) if counted is None else counted,
                self._retention.until(asked, now),
            ),
            messages,
            now=now,
            answer=answer,
            kept=kept,
            response=told.stored(),
            event=self._courier.telling.stored,
        )
        assert isinstance(claimed, int)  # nobody can have come between, as there is no await
        return claimed

    def _dry(self, asked: Asked) -> Told:
        """Answer as a send is answered; nothing is stored, reserved or sent."""
        ids = [str(uuid.uuid4()) for _ in asked.mails]
        return self._told(asked, AnswerClass.ACCEPTED, ids=ids, status=self._contract.dry_run_status)

    def _told(self, asked: Asked, kind: AnswerClass, **more: Any) -> Told:
        return render(
            self._contract,
            kind,
            route=asked.route or SEND,
            recipients=asked.recipients,
            batch=asked.batch,
            echo=self._echo(asked),
            **more,
        )

    @staticmethod
    def _echo(asked: Asked) -> str | None:
        return asked.sent if asked.claims else None
