"""Histories made by hand, for the judge: what a runner would have recorded, told in a few words.

A history is written in the order in which a runner would note it. The answers are rendered here from the contract's
data, with no code of the judge or of the emulator.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import AnswerClass, Contract, Level
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge import Judgement, judge

#: The contracts under which every history must be judged fairly.
CONTRACTS = ("universal", "postfleet", "rasket", "pylota", "resend", "ietf-07")
#: Those that promise replays, conflicts and the rest at ``must``.
STRICT = ("postfleet", "rasket", "pylota", "resend")

_CUSTOM = {
    AnswerClass.ACCEPTED: 200,
    AnswerClass.REPLAYED: 200,
    AnswerClass.PENDING: 202,
    AnswerClass.UNKNOWN: 504,
    AnswerClass.REFUSED: 422,
    AnswerClass.FAILED: 503,
    AnswerClass.KEY_MISSING: 400,
    AnswerClass.KEY_INVALID: 400,
    AnswerClass.UNAUTHORIZED: 401,
    AnswerClass.RATE_LIMITED: 429,
}


@cache
def contract_named(name: str) -> Contract:
    """Return a shipped contract, read once."""
    return contracts.load(name)


def rendered(contract: Contract, kind: AnswerClass, number: str | None) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Return status, headers and body of an answer, as the contract shows its first shape."""
    shape = contract.answers[kind][0]
    first = shape.status[0]
    status = first if isinstance(first, int) else _CUSTOM.get(kind, 409)
    body: dict[str, Any] = dict(shape.body)
    if shape.code is not None:
        body[shape.code.at.removeprefix("/")] = shape.code.one_of[0]
    if shape.id is not None and number is not None:
        body[shape.id.removeprefix("/")] = number
    headers = {name.lower(): value for name, value in shape.headers.items()}
    if kind is AnswerClass.REPLAYED:
        for marker in contract.replay.marker.value or []:
            if marker.header is not None:
                headers[marker.header.lower()] = str(marker.equals)
            if marker.at is not None:
                body[marker.at.removeprefix("/")] = marker.equals
    return status, headers, body


@dataclass(slots=True)
class HandOver:
    """A message at the provider's edge."""

    operation: str
    recipients: tuple[str, ...]
    connection: int
    commit: int | None = None


@dataclass(slots=True)
class _Asked:
    """What an attempt asked for, so that another can be like it."""

    operation: str
    key: str | None
    content: str
    sender: str
    tenant: str
    path: str
    invalid: bool
    problem: str | None


_SAME: Any = object()


@dataclass(slots=True)
class History:
    """Writes a history event by event, a millisecond apart."""

    contract: Contract
    role: str = "api"
    approval: bool = False
    lease: float | None = None
    events: list[Event] = field(default_factory=list)
    _asked: dict[str, _Asked] = field(default_factory=dict)
    _groups: dict[str, str] = field(default_factory=dict)
    _recipients: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _waited: float = 0.0
    _connections: int = 0
    _commits: int = 0

    @classmethod
    def under(cls, name: str, *, role: str = "api", approval: bool = False) -> Self:
        """Begin a history that a shipped contract is to judge."""
        return cls(contract_named(name), role, approval)

    def note(
        self,
        kind: Kind,
        *,
        op: str | None = None,
        attempt: str | None = None,
        connection: int | None = None,
        **data: Any,
    ) -> None:
        """Append one event."""
        seq = len(self.events) + 1
        self.events.append(Event(seq, seq / 1000 + self._waited, kind, "story", op, attempt, connection, data))

    # -- operations and attempts --------------------------------------------------------------------------------

    def operation(self, name: str, *, to: Sequence[str] = (), group: str | None = None, invalid: bool = False) -> None:
        """Declare an operation; ``group``: the operation with which it shares its content."""
        if name in self._groups:
            return
        self._groups[name] = group or name
        addresses = tuple(to) or self._recipients.get(group or "", (f"{name}@sendtwice.test",))
        self._recipients[name] = addresses
        recipients = [] if invalid else list(addresses)
        self.note(Kind.OPERATION, op=name, recipients=recipients, group=self._groups[name], content=name)

    def send(
        self,
        attempt: str,
        *,
        like: str | None = None,
        op: str | None = None,
        key: str | None = _SAME,
        content: str | None = None,
        sender: str | None = None,
        path: str | None = None,
        invalid: bool | None = None,
        problem: str | None = _SAME,
        to: Sequence[str] = (),
        group: str | None = None,
        **more: Any,
    ) -> None:
        """An attempt leaves; what is not given is as in ``like``, or named after the attempt itself.

        ``more``: whatever else its event says (route, form, query, dry_run, partly_invalid).
        """
        base = self._asked.get(like or "")
        operation = op or (base.operation if base else attempt)
        wrong = invalid if invalid is not None else bool(base and base.invalid)
        self.operation(operation, to=to, group=group, invalid=wrong)
        who = sender or (base.sender if base else "main")
        asked = _Asked(
            operation,
            key if key is not _SAME else (base.key if base else f"key-{operation}"),
            content or (base.content if base else f"content of {self._groups[operation]}"),
            who,
            "other-tenant" if who == "other-tenant" else "main",
            path or (base.path if base else self.contract.request.path),
            wrong,
            problem if problem is not _SAME else (base.problem if base else None),
        )
        self._asked[attempt] = asked
        self.note(
            Kind.ATTEMPT,
            op=operation,
            attempt=attempt,
            key=asked.key,
            key_problem=asked.problem,
            content=asked.content,
            sender=who,
            tenant=asked.tenant,
            path=asked.path,
            invalid=wrong,
            **more,
        )
        self.note(Kind.CLIENT_REQUEST, op=operation, attempt=attempt, method="POST", headers={}, body="")

    def answer(
        self,
        attempt: str,
        kind: AnswerClass | str = AnswerClass.ACCEPTED,
        *,
        number: str | None = "m1",
        status: int | None = None,
        unmarked: bool = False,
    ) -> None:
        """Its caller gets an answer of a class, in the contract's own look."""
        shown = AnswerClass(kind)
        code, headers, body = rendered(self.contract, shown, number)
        if unmarked:
            headers, body = {}, {k: v for k, v in body.items() if k != "deduplicated"}
        self.reply(attempt, status or code, body, headers)

    def reply(self, attempt: str, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        """Its caller gets these bytes."""
        self.note(
            Kind.ENDED,
            op=self._asked[attempt].operation,
            attempt=attempt,
            outcome="answered",
            status=status,
            headers=headers or {},
            body=json.dumps(body),
        )

    def ends(self, attempt: str, outcome: str = "lost", *, never_arrived: bool = False) -> None:
        """An attempt ends without an answer: lost, hung-up, timed-out, broken, unreachable."""
        extra: dict[str, Any] = {"never_arrived": True} if never_arrived else {}
        self.note(Kind.ENDED, op=self._asked[attempt].operation, attempt=attempt, outcome=outcome, **extra)

    # -- the provider ---------------------------------------------------------------------------------------------

    def hand_over(self, op: str, *, to: Sequence[str] = ()) -> HandOver:
        """A whole message stands at the provider, not committed."""
        self._connections += 1
        recipients = tuple(to) or self._recipients[op]
        made = HandOver(self._groups[op], recipients, self._connections)
        self.note(Kind.PROVIDER_REQUEST, op=made.operation, connection=made.connection, recipients=list(recipients))
        return made

    def commit(self, made: HandOver, *, ambiguous: bool = False) -> HandOver:
        """The provider takes it."""
        self._commits += 1
        made.commit = self._commits
        for recipient in made.recipients:
            self.note(
                Kind.DELIVERY,
                op=made.operation,
                connection=made.connection,
                recipient=recipient,
                commit=made.commit,
                swallowed=ambiguous,
                ambiguous=ambiguous,
            )
        return made

    def tell(self, made: HandOver, status: int = 200, *, sent: bool = True) -> None:
        """The provider's answer goes out; ``sent=False``: it never reached the target."""
        self.note(
            Kind.PROVIDER_RESPONSE,
            op=made.operation,
            connection=made.connection,
            status=status,
            sent=sent,
            commit=made.commit,
        )

    def fired(
        self,
        place: str,
        verb: str,
        argument: Any = None,
        *,
        op: str | None = None,
        attempt: str | None = None,
    ) -> None:
        """A fault was played."""
        self.note(
            Kind.FIRED,
            op=self._groups.get(op or "", op),
            attempt=attempt,
            fault=f"{place}: {verb}",
            place=place,
            verb=verb,
            argument=argument,
        )

    def deliver(self, op: str, *, to: Sequence[str] = (), ambiguous: bool = False) -> None:
        """One mail, handed over, taken and confirmed."""
        made = self.commit(self.hand_over(op, to=to), ambiguous=ambiguous)
        self.tell(made)

    def provider_says(self, op: str, status: int) -> None:
        """The provider answers a message with a status, and takes nothing."""
        made = self.hand_over(op)
        self.fired("provider.request", "answer", status, op=op)
        self.tell(made, status)

    def provider_silent(self, op: str, *, verb: str = "close") -> None:
        """The provider takes a message and drops the connection without an answer."""
        made = self.commit(self.hand_over(op))
        self.fired("provider.response", verb, op=op)
        self.tell(made, sent=False)

    def provider_lies(self, op: str, status: int) -> None:
        """The provider takes a message, and another answer than its own reaches the target."""
        made = self.commit(self.hand_over(op))
        self.fired("provider.response", "answer", status, op=op)
        self.tell(made, status, sent=False)

    def provider_deaf(self, op: str, *, verb: str = "reset") -> None:
        """The connection breaks at the message: nothing is taken, and the target cannot know."""
        self.hand_over(op)
        self.fired("provider.request", verb, op=op)

    # -- the target, and the scenario's own words -----------------------------------------------------------------

    def crash(self, *in_flight: HandOver, broken: Sequence[str] = (), process: str = "target") -> None:
        """SIGKILL: what was handed over and not committed is discarded; ``broken`` attempts break off."""
        self.note(Kind.CRASH, process=process)
        for made in in_flight:
            self.note(Kind.DISCARDED, op=made.operation, connection=made.connection)
        for attempt in broken:
            self.ends(attempt, "broken")

    def restart(self, process: str = "target") -> None:
        """It is started again, with the state it kept."""
        self.note(Kind.RESTART, process=process, willingly=True)

    def stop(self, *, broken: Sequence[str] = (), process: str = "target") -> None:
        """SIGTERM; ``broken`` attempts break off."""
        self.note(Kind.STOP, process=process)
        for attempt in broken:
            self.ends(attempt, "broken")

    def pause(self, process: str = "target") -> None:
        """SIGSTOP."""
        self.note(Kind.PAUSE, process=process)

    def resume(self, process: str = "target") -> None:
        """SIGCONT."""
        self.note(Kind.RESUME, process=process)

    # -- its store ------------------------------------------------------------------------------------------------

    def asks_store(self, message: str = "SET", *, wire: int = 1) -> None:
        """A message leaves for the store."""
        self.note(Kind.STORE_REQUEST, connection=wire, store="db", message=message)

    def store_says(self, message: str = "OK", *, wire: int = 1) -> None:
        """Its answer comes."""
        self.note(Kind.STORE_RESPONSE, connection=wire, store="db", message=message)

    def store_works(self, message: str = "SET", *, wire: int = 1) -> None:
        """A message and its answer."""
        self.asks_store(message, wire=wire)
        self.store_says(wire=wire)

    def store_fails(self, verb: str = "reset", place: str = "store.request", *, wire: int = 1) -> None:
        """A message is met by a fault on its way there, or its answer on the way back; held ones stay held."""
        self.asks_store(wire=wire)
        if place == "store.response":
            self.store_says(wire=wire)
        self.fired(place, verb)

    def advance(self, seconds: float) -> None:
        """The target's clock is moved."""
        self.note(Kind.ADVANCED, seconds=seconds)

    def call(self, op: str, name: str, status: int = 200, *, by: str | None = None) -> None:
        """A call of the target file was used."""
        self.note(Kind.CALL, op=op, name=name, status=status, by=by, body="{}")

    def report(self, op: str, status: int = 200) -> None:
        """The provider's own event about an operation's mail was given to the target."""
        self.note(Kind.REPORTED, op=op, status=status, type="email.delivered")

    def wait(self, seconds: float) -> None:
        """Real time passes, in which nothing happens."""
        self._waited += seconds

    def settle(self) -> None:
        """Nothing is in flight, and what was promised has had its time."""
        self.note(Kind.SETTLED, arrived=True)

    def finish(self, op: str, last: str, *, definite: bool, waited: float = 1.0) -> None:
        """A finish step is over."""
        self.note(Kind.FINISHED, op=op, attempt=op, definite=definite, waited=waited, last=last)

    def expect(self, *, final: bool = True, level: Level = Level.MUST, **what: Any) -> None:
        """The scenario's own expectation: deliveries, answers, told."""
        self.note(
            Kind.EXPECTED,
            final=final,
            level=level.value,
            deliveries=what.get("deliveries", []),
            answers=what.get("answers", []),
            told=what.get("told", []),
        )

    def told(self, op: str, what: str) -> None:
        """Role client: what the target says became of an operation."""
        self.note(Kind.TOLD, op=op, told=what)

    # -- the judge ------------------------------------------------------------------------------------------------

    @property
    def judgement(self) -> Judgement:
        """All that the judge has to say."""
        return judge(self.contract, self.events, role=self.role, approval=self.approval, lease=self.lease)

    def rules(self, level: Level = Level.MUST) -> set[str]:
        """The rules that the judge calls broken at a level."""
        return {finding.rule for finding in self.judgement.findings if finding.level is level}

    @property
    def accusations(self) -> list[str]:
        """What the judge holds against the target at ``must``, in words (for a readable assertion)."""
        return [f"{f.rule}: {f.message}" for f in self.judgement.findings if f.level is Level.MUST]
