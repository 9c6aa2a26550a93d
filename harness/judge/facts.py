"""What a history says, arranged for the rules: attempts, operations, commits, and the weather.

Order is used only between intervals: an attempt is *before* another when it was answered before the other began.
An attempt that got no answer may still be running, so it is never before anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import Any

from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.faults import Verb
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge.classes import SUCCESS, answer_id, classify


@dataclass(slots=True, eq=False)
class Attempt:
    """One request made for an operation."""

    name: str
    operation: str
    key: str | None
    key_problem: str | None
    content: str
    sender: str
    tenant: str
    path: str
    invalid: bool
    start: int
    end: int | None = None
    outcome: str = "running"
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    classes: set[AnswerClass] = field(default_factory=set)
    id: str | None = None
    never_arrived: bool = False
    sent_at: int | None = None
    reordered: bool = False
    doubled: bool = False  # the wire delivered it twice

    @property
    def answered(self) -> bool:
        """Whether its caller got the whole answer."""
        return self.outcome == "answered"

    @property
    def succeeded(self) -> bool:
        """Whether its answer can only be a claim of success."""
        return self.answered and bool(self.classes) and self.classes <= SUCCESS

    def before(self, other: Attempt) -> bool:
        """Whether this was answered before the other began."""
        return self.answered and self.end is not None and self.end < other.start

    def overlaps(self, other: Attempt) -> bool:
        """Whether neither was answered before the other began."""
        return not self.before(other) and not other.before(self)

    @property
    def events(self) -> tuple[int, ...]:
        """The events that show this attempt."""
        return tuple(seq for seq in (self.sent_at or self.start, self.end) if seq is not None)


@dataclass(slots=True)
class Commit:
    """One mail that the provider committed, with whether its answer reached the target."""

    number: int
    seq: int
    operation: str
    recipients: list[str]
    connection: int | None
    answered_at: int | None = None
    denied: bool = False  # the target was told that it was not taken


@dataclass(slots=True)
class Operation:
    """One logical effect, with the operations of equal content as its group."""

    name: str
    recipients: list[str]
    group: str
    content: str = ""


class Kin(Enum):
    """Whether two requests under one key are the same one; ``EITHER`` where the contract does not say."""

    SAME = auto()
    OTHER = auto()
    EITHER = auto()


@dataclass(frozen=True)
class Facts:
    """A history, read once. ``declared_lease``: seconds after which a claim lapses, by the target file."""

    contract: Contract
    events: Sequence[Event]
    role: str = "api"
    approval: bool = False
    declared_lease: float | None = None

    @property
    def lease(self) -> float | None:
        """After how many seconds a claim lapses, where somebody says so."""
        return self.contract.lease.value if self.contract.lease.judged else self.declared_lease

    @cached_property
    def attempts(self) -> list[Attempt]:
        """Every attempt in the order of its start."""
        found: dict[str, Attempt] = {}
        for event in self.events:
            name = event.attempt
            if event.kind is Kind.ATTEMPT and name is not None and event.operation is not None:
                found[name] = Attempt(
                    name=name,
                    operation=event.operation,
                    content=str(event.data.get("content", "")),
                    sender=str(event.data.get("sender", "main")),
                    tenant=str(event.data.get("tenant", "main")),
                    path=str(event.data.get("path", "")),
                    invalid=bool(event.data.get("invalid")),
                    start=event.seq,
                    key=event.data.get("key"),
                    key_problem=event.data.get("key_problem"),
                    reordered=bool(event.data.get("reordered")),
                )
            elif name in found and event.kind in (Kind.CLIENT_REQUEST, Kind.WEBHOOK_REQUEST):
                found[name].sent_at = event.seq
            elif name in found and event.kind is Kind.FIRED and event.data["verb"] == Verb.TWICE:
                found[name].doubled = True
            elif name in found and event.kind is Kind.ENDED:
                self._end(found[name], event)
        self._narrow(list(found.values()))
        return list(found.values())

    def _end(self, attempt: Attempt, event: Event) -> None:
        attempt.end, attempt.outcome = event.seq, str(event.data["outcome"])
        attempt.never_arrived = bool(event.data.get("never_arrived"))
        if attempt.answered:
            attempt.status = int(event.data["status"])
            attempt.headers = dict(event.data.get("headers", {}))
            attempt.body = event.data.get("body", "")
            attempt.classes = classify(self.contract, attempt.status, attempt.body, approval=self.approval)
            attempt.id = answer_id(self.contract, attempt.status, attempt.body)

    def _narrow(self, attempts: list[Attempt]) -> None:
        """The same id as an earlier success of this key is a replay; a first answer to a key is none."""
        for attempt in attempts:
            if not {AnswerClass.ACCEPTED, AnswerClass.REPLAYED} <= attempt.classes:
                continue
            earlier = [a for a in attempts if a is not attempt and self.may_share_key(a, attempt)]
            if attempt.doubled:
                continue
            if any(
                # An id that is made of the key is the same for every tenant.
                a.id is not None and a.id == attempt.id and a.before(attempt) and a.tenant == attempt.tenant
                for a in earlier
            ):
                attempt.classes.discard(AnswerClass.ACCEPTED)
            elif not any(a.start < (attempt.end or 0) for a in earlier) or (
                self.contract.replay.id.says("same")
                and attempt.id is not None
                and any(
                    a.succeeded
                    and a.id is not None
                    and a.id != attempt.id
                    and a.before(attempt)
                    and self.shares_key(a, attempt)
                    for a in earlier
                )
            ):
                attempt.classes.discard(AnswerClass.REPLAYED)

    def attempt(self, name: str) -> Attempt | None:
        """Return an attempt by its name."""
        return next((a for a in self.attempts if a.name == name), None)

    @cached_property
    def operations(self) -> dict[str, Operation]:
        """Every operation that the scenario declared."""
        return {
            event.operation: Operation(
                event.operation,
                list(event.data["recipients"]),
                str(event.data.get("group") or event.operation),
                str(event.data.get("content", "")),
            )
            for event in self.events
            if event.kind is Kind.OPERATION and event.operation is not None
        }

    @cached_property
    def groups(self) -> dict[str, list[Operation]]:
        """Operations by equal content: only a group's total can be judged."""
        found: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.operations.values():
            found[operation.group].append(operation)
        return dict(found)

    def group_of(self, operation: str) -> str:
        """Return the group of an operation."""
        known = self.operations.get(operation)
        return known.group if known else operation

    @cached_property
    def commits(self) -> dict[str, list[Commit]]:
        """The commits of each group, in order, each with the event that told the target of it."""
        by_number: dict[int, Commit] = {}
        for event in self.events:
            if event.kind is not Kind.DELIVERY or event.operation is None:
                continue
            number = int(event.data["commit"])
            commit = by_number.setdefault(
                number,
                Commit(number, event.seq, self.group_of(event.operation), [], event.data.get("connection")),
            )
            commit.recipients.append(str(event.data["recipient"]))
        for commit in by_number.values():
            self._told(commit)
        found: dict[str, list[Commit]] = defaultdict(list)
        for commit in by_number.values():
            found[commit.operation].append(commit)
        return dict(found)

    def _told(self, commit: Commit) -> None:
        """Note the event by which the target surely knew of a commit, or that it was told otherwise."""
        answer = next(
            (
                e
                for e in self.events
                if e.kind in (Kind.PROVIDER_RESPONSE, Kind.CLIENT_RESPONSE)
                and e.seq > commit.seq
                and e.data.get("commit") == commit.number
            ),
            None,
        )
        if answer is None:
            return
        if not answer.data.get("sent"):
            # An answer that was lost still is the provider's own; one that was replaced says what the provider did not.
            status = int(answer.data.get("status") or 0)
            commit.denied = status == 503 or (400 <= status < 500 and status != 408)
            return
        # A process that is killed may never have read what was written to it shortly before.
        crash = next((e.seq for e in self.events if e.kind is Kind.CRASH and e.seq > answer.seq), None)
        dead = False
        for event in self.events:
            if event.seq > answer.seq:
                break
            dead = event.kind is Kind.CRASH or (dead and event.kind is not Kind.RESTART)
        # An RST after the answer means that it lay unread when the target closed the connection.
        unread = any(
            e.kind is Kind.UNREAD and e.connection == commit.connection and e.seq > answer.seq for e in self.events
        )
        if dead or unread:
            return
        if crash is None:
            commit.answered_at = answer.seq
            return
        spoke = any(
            a.succeeded and a.end is not None and answer.seq < a.end < crash and a.start < answer.seq
            for a in self.attempts
            if self.group_of(a.operation) == commit.operation
        )
        commit.answered_at = answer.seq if spoke else None

    def person(self, group: str, address: str) -> str:
        """Return the recipient whom a delivered address means: targets fold case, add tags, or use one of their own."""
        written = address.casefold()
        local = written.rpartition("@")[0] or written
        best = ""
        for declared in (r for op in self.groups.get(group, ()) for r in op.recipients):
            if declared.casefold() == written:
                return declared
            token = declared.casefold().rpartition("@")[0]
            if token and token in local and len(token) > len(best.rpartition("@")[0]):
                best = declared
        return best or written

    def served(self, group: str) -> dict[str, int]:
        """Return how many mails each recipient of a group got."""
        declared = {r for op in self.groups.get(group, ()) for r in op.recipients}
        counts = dict.fromkeys(declared, 0)
        for commit in self.commits.get(group, ()):
            for recipient in {self.person(group, address) for address in commit.recipients}:
                counts[recipient] = counts.get(recipient, 0) + 1
        others = {r: n for r, n in counts.items() if r not in declared}
        if others and not any(counts[r] for r in declared):
            return others  # a target that writes to an address of its own
        # A copy to the house's archive is nobody's second mail.
        return {r: n for r, n in counts.items() if r in declared}

    def count(self, group: str, pick: Any = max) -> int:
        """Return the mails of a group for its most (``max``) or least (``min``) served recipient."""
        return int(pick(self.served(group).values(), default=0))

    @cached_property
    def blurred(self) -> set[str]:
        """The groups whose mails cannot be told apart, because the target swallowed their content."""
        found: set[str] = set()
        for event in self.events:
            if event.kind is Kind.DELIVERY and event.data.get("ambiguous") and event.operation is not None:
                found.add(self.group_of(event.operation))
                for group in self.groups:
                    if self.person(group, str(event.data["recipient"])) in {
                        r for op in self.groups[group] for r in op.recipients
                    }:
                        found.add(group)
        return found

    # -- who shares a key ---------------------------------------------------------------------------------------

    def _parts(self, attempt: Attempt) -> dict[str, str]:
        return {"tenant": attempt.tenant, "mailbox": attempt.sender, "path": attempt.path}

    def _equal_keys(self, a: Attempt, b: Attempt, *, folded: bool) -> bool:
        if a.key is None or b.key is None:
            return False
        return a.key.casefold() == b.key.casefold() if folded else a.key == b.key

    def shares_key(self, a: Attempt, b: Attempt) -> bool:
        """Whether two attempts surely meet under one key."""
        folded = self.contract.key.case.says("folded")
        return (
            self._equal_keys(a, b, folded=folded) and not a.key_problem and not b.key_problem and self._one_scope(a, b)
        )

    def _one_scope(self, a: Attempt, b: Attempt) -> bool:
        mine, yours = self._parts(a), self._parts(b)
        scope = self.contract.scope
        if scope.judged:
            return all(mine[part] == yours[part] for part in scope.value or () if part in mine)
        return mine == yours

    def may_share_key(self, a: Attempt, b: Attempt) -> bool:
        """Whether they may: surely, or because the contract does not say what a scope or a good key is."""
        folded = self.contract.key.case.permits("folded")
        return self._equal_keys(a, b, folded=folded) and (self._one_scope(a, b) or not self.contract.scope.judged)

    def rivals(self, attempt: Attempt) -> list[Attempt]:
        """Return the other attempts that may meet this one under its key."""
        return [
            a
            for a in self.attempts
            if a is not attempt
            and not a.never_arrived
            and self.may_share_key(a, attempt)
            and (attempt.end is None or a.start < attempt.end)
        ]

    def broken_off(self, attempt: Attempt) -> list[Attempt]:
        """Return the earlier attempts under this key that never arrived whole: they may have left a trace."""
        return [
            a
            for a in self.attempts
            if a is not attempt and a.never_arrived and a.start < attempt.start and self.shares_key(a, attempt)
        ]

    def kin(self, a: Attempt, b: Attempt) -> Kin:
        """Whether the contract calls two requests the same one."""
        if a.content != b.content or a.invalid != b.invalid:
            return Kin.OTHER
        fingerprint = self.contract.fingerprint
        if a.path != b.path and not fingerprint.parts.judged:
            return Kin.EITHER
        if a.path != b.path and "path" in (fingerprint.parts.value or ()):
            return Kin.OTHER
        if a.reordered != b.reordered and not fingerprint.field_order.says("same"):
            return Kin.OTHER if fingerprint.field_order.says("different") else Kin.EITHER
        return Kin.SAME

    def same_request(self, a: Attempt, b: Attempt) -> bool:
        """Whether they may be the same request."""
        return self.kin(a, b) is not Kin.OTHER

    def absent_path(self, attempt: Attempt) -> bool:
        """Whether an attempt went to another path of the contract that this target does not have."""
        return attempt.path != self.contract.request.path and attempt.status in (404, 405, 501)
