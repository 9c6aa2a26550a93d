"""What a history says, arranged for the rules: attempts, operations, commits, and what happened around them.

Everything is read once and found by its key, its operation or its group, so that the cost of judging grows with the
number of events and not with its square.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge import caller_knows
from sendtwice.harness.judge.attempt import Attempt, read_attempts
from sendtwice.harness.judge.commits import Commit, read_commits
from sendtwice.harness.judge.keyring import MARGIN, Keyring, Kin, Memory
from sendtwice.harness.judge.narrow import narrow
from sendtwice.harness.judge.post import Operation, Post
from sendtwice.harness.judge.storms import INSTANT, Storms, of_store
from sendtwice.harness.judge.wires import Wires

__all__ = ["Attempt", "Commit", "Facts", "Kin", "Memory", "Operation"]

#: What happens to a target as a whole, or to a message of which nobody can say whose it is.
_GENERAL = frozenset({Kind.CRASH, Kind.RESTART, Kind.STOP, Kind.PAUSE, Kind.RESUME, Kind.DISCARDED, Kind.FIRED})


@dataclass(frozen=True)
class Facts:
    """A history, read once. ``declared_lease``: seconds after which a claim lapses, by the target file.

    ``max_attempts`` and ``attempt_timeout`` are what it says of a caller: how often it tries, and how long it waits.
    """

    contract: Contract
    events: Sequence[Event]
    role: str = "api"
    approval: bool = False
    declared_lease: float | None = None
    max_attempts: int | None = None
    attempt_timeout: float | None = None

    @property
    def lease(self) -> float | None:
        """After how many seconds a claim lapses, where somebody says so."""
        lasts = self.contract.lease.lasts
        return lasts.value if lasts.judged else self.declared_lease

    def advanced(self, since: int, until: int) -> bool:
        """Whether the target's clock was moved between two events."""
        return any(since < event.seq < until for event in self.advances)

    def decisions(self, operation: str, *, until: int | None = None) -> list[Event]:
        """Return the events by which a person or the provider said what becomes of an operation's mail."""
        return [event for event in self._decisions[operation] if until is None or event.seq < until]

    @cached_property
    def _decisions(self) -> dict[str, list[Event]]:
        """The decisions about each operation; an event of the provider fits every one of equal content."""
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.operation is None or not 200 <= int(event.data.get("status") or 0) < 300:
                continue
            if event.kind is Kind.REPORTED:
                for operation in self.groups.get(self.group_of(event.operation), ()):
                    found[operation.name].append(event)
            elif event.kind is Kind.CALL:  # for one draft
                found[event.operation].append(event)
        return found

    def lapsed(self, first: Attempt, second: Attempt) -> bool:
        """Whether the claim of one attempt, still in flight, may have lapsed before another that met it ended."""
        # Of one that the wire doubled, the other copy may still run when this one is answered.
        if not first.start < second.start or (first.before(second) and not first.doubled):
            return False
        if not self.contract.lease.lasts.judged:
            return self.advanced(first.start, second.start)
        return self.outlasts(first, second)

    def outlasts(self, first: Attempt, second: Attempt) -> bool:
        """Whether one attempt may have ended when the lease of the claim that another made was over.

        A clock that was moved is not exact to the second.
        """
        lasts = self.contract.lease.lasts.value or 0.0
        return second.over is None or second.over - first.began > lasts - min(MARGIN, lasts / 10)

    def both_first(self, a: Attempt, b: Attempt) -> bool:
        """Whether each of two may have been the first, because the contract frees a claim after its lease (D12)."""
        return self.leases_lapse and self.lapsed(a, b)

    @cached_property
    def leases_lapse(self) -> bool:
        """Whether any claim may have been freed by time alone."""
        lease = self.contract.lease
        return lease.then.permits("execute") and (lease.lasts.judged or bool(self.advances))

    def surely_in_flight(self, rival: Attempt, attempt: Attempt) -> bool:
        """Whether one attempt was being worked on for as long as another took: its mail stood at the provider.

        Once the provider has spoken its key may be free, or hold an outcome, though its caller still waits.
        """
        if rival.start > attempt.start or attempt.end is None or (rival.end is not None and rival.end < attempt.end):
            return False
        if any(rival.start < spell.start < attempt.end for spell in self.storms.spells):
            return False
        group = self.group_of(rival.operation)
        return self.wires.open_during(group, since=rival.start, start=attempt.start, end=attempt.end)

    @property
    def last_seq(self) -> int:
        """The number of the last event."""
        return self.events[-1].seq if self.events else 0

    @cached_property
    def advances(self) -> list[Event]:
        """The events by which the target's clock was moved."""
        return [event for event in self.events if event.kind is Kind.ADVANCED]

    @cached_property
    def elsewhere(self) -> bool:
        """Whether the target's mail goes to a provider of its own: effects are counted, and no hand-over is seen."""
        return any(event.kind is Kind.ELSEWHERE for event in self.events)

    @cached_property
    def count_in_doubt(self) -> bool:
        """Whether effects could not be counted when they should: what is missing may be there."""
        return any(event.kind is Kind.VOID and bool(event.data.get("uncounted")) for event in self.events)

    @cached_property
    def clock_in_doubt(self) -> bool:
        """Whether the target's clock may have stood still though it was moved."""
        return any(event.kind is Kind.VOID and bool(event.data.get("clock")) for event in self.events)

    @cached_property
    def _by_name(self) -> dict[str, Attempt]:
        return read_attempts(self.contract, self.events, approval=self.approval)

    @cached_property
    def keyring(self) -> Keyring:
        """Who meets whom under a key."""
        moved = sum(float(event.data["seconds"]) for event in self.advances)
        end = (self.events[-1].at if self.events else 0.0) + moved
        return Keyring(
            self.contract,
            self._by_name.values(),
            moved=bool(self.advances),
            end=end,
            doubtful=self.clock_in_doubt,
            busy=self._busy,
        )

    def _busy(self, attempt: Attempt, before: int) -> float:
        """Return when the provider last had to do with an attempt's mail; infinity while that is still to come."""
        group = self.group_of(attempt.operation)
        wires = [e for e in self.about(group) if e.kind in (Kind.PROVIDER_REQUEST, Kind.PROVIDER_RESPONSE)]
        times = [
            event.at + sum(float(a.data["seconds"]) for a in self.advances if a.seq < event.seq)
            for event in wires
            if event.seq < before
        ]
        if self.wires.pending(group, since=0, until=before) or (wires and not times):
            return float("inf")
        last = next((event for event in reversed(wires) if event.seq < before), None)
        if last is not None and self._just_before_an_advance(last):
            return float("inf")
        return max(times, default=0.0)

    def _just_before_an_advance(self, event: Event) -> bool:
        """Whether the clock was moved so soon after an event that the target may not have taken it in before."""
        moved = next((a for a in self.advances if a.seq > event.seq), None)
        if moved is None or moved.at - event.at > INSTANT:
            return False
        return not any(e.kind is Kind.SETTLED and event.seq < e.seq < moved.seq for e in self.events)

    @cached_property
    def attempts(self) -> list[Attempt]:
        """Every attempt in the order of its start."""
        narrow(self, self._by_name.values())
        return list(self._by_name.values())

    def attempt(self, name: str) -> Attempt | None:
        """Return an attempt by its name."""
        return self._by_name.get(name) if self.attempts else None

    @cached_property
    def _by_operation(self) -> dict[str, list[Attempt]]:
        found: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            found[attempt.operation].append(attempt)
        return found

    @cached_property
    def crowded(self) -> set[Attempt]:
        """The attempts that overlap another one."""
        found: set[Attempt] = set()
        earlier: Attempt | None = None  # the one that is answered last, or never
        for attempt in self.attempts:
            if earlier is not None and not earlier.before(attempt):
                found |= {earlier, attempt}
            if earlier is None or (earlier.answered and _end(attempt) > _end(earlier)):
                earlier = attempt
        return found

    @cached_property
    def by_id(self) -> dict[str, list[Attempt]]:
        """The attempts whose answers name an id, by that id."""
        found: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            if attempt.id is not None:
                found[attempt.id].append(attempt)
        return found

    def attempts_for(self, operation: str) -> list[Attempt]:
        """Return the attempts for one operation."""
        return self._by_operation.get(operation, [])

    def attempts_of(self, group: str) -> list[Attempt]:
        """Return the attempts for the operations of a group, in the order of their start."""
        operations = self.groups.get(group)
        if operations is None:
            return self.attempts_for(group)
        if len(operations) == 1:
            return self.attempts_for(operations[0].name)
        found = [attempt for operation in operations for attempt in self.attempts_for(operation.name)]
        return sorted(found, key=lambda attempt: attempt.start)

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
    def _by_group(self) -> dict[str | None, list[Event]]:
        found: dict[str | None, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.operation is not None:
                found[self.group_of(event.operation)].append(event)
            elif event.kind in _GENERAL and not of_store(event):
                found[None].append(event)
        return found

    def about(self, *groups: str) -> list[Event]:
        """Return the events of some groups and those that concern everything, in order."""
        several = [events for name in (None, *groups) if (events := self._by_group.get(name))]
        if len(several) == 1:
            return several[0]
        return sorted((event for events in several for event in events), key=lambda event: event.seq)

    @cached_property
    def wires(self) -> Wires:
        """What passed between the target and its provider, by group."""
        return Wires(self.events, self.group_of, calm=not self._by_group.get(None))

    @cached_property
    def storms(self) -> Storms:
        """What befell the target as a whole, and its stores."""
        return Storms(self.events)

    @cached_property
    def gave_up(self) -> dict[str, list[int]]:
        """The answers of each group that were given because a message to a store was held."""
        found: dict[str, list[int]] = defaultdict(list)
        for attempt in self.attempts:
            if attempt.end is not None and self.storms.gave_up(attempt):
                found[self.group_of(attempt.operation)].append(attempt.end)
        return dict(found)

    @cached_property
    def commits(self) -> dict[str, list[Commit]]:
        """The commits of each group, in order, each with the event that told the target of it."""
        inline = self.contract.delivery.says("inline") and self.role == "api"
        found = read_commits(self.events, self.attempts, self.group_of, self.storms, inline=inline)
        if self.role == "client":
            caller_knows.note_denials(self, found)
        return found

    @cached_property
    def post(self) -> Post:
        """Who got how many mails."""
        return Post(self.groups, self.commits)

    def person(self, group: str, address: str) -> str:
        """Return the recipient whom a delivered address means."""
        return self.post.person(group, address)

    def served(self, group: str) -> dict[str, int]:
        """Return how many mails each recipient of a group got."""
        return self.post.served(group)

    def count(self, group: str, pick: Any = max) -> int:
        """Return the mails of a group for its most (``max``) or least (``min``) served recipient."""
        return int(pick(self.served(group).values(), default=0))

    @cached_property
    def blurred(self) -> set[str]:
        """The groups whose mails cannot be told apart, because the target swallowed their content."""
        swallowed = [
            (self.group_of(event.operation), str(event.data["recipient"]))
            for event in self.events
            if event.kind is Kind.DELIVERY and event.data.get("ambiguous") and event.operation is not None
        ]
        return {group for own, address in swallowed for group in (own, *self.post.meant_by(address))}

    # -- who shares a key ---------------------------------------------------------------------------------------

    def shares_key(self, a: Attempt, b: Attempt) -> bool:
        """Whether two attempts surely meet under one key."""
        return self.keyring.shares_key(a, b)

    def may_share_key(self, a: Attempt, b: Attempt) -> bool:
        """Whether they may meet under one key."""
        return self.keyring.may_share_key(a, b)

    def rivals(self, attempt: Attempt) -> list[Attempt]:
        """Return the other attempts that may meet this one under its key."""
        known = self._rivals.get(attempt)
        if known is None:
            known = self._rivals[attempt] = [
                a
                for a in self.keyring.of(attempt)
                if a is not attempt
                and not a.never_arrived
                and (attempt.end is None or a.start < attempt.end)
                and self.may_share_key(a, attempt)
            ]
        return known

    @cached_property
    def _rivals(self) -> dict[Attempt, list[Attempt]]:
        return {}

    def broken_off(self, attempt: Attempt) -> list[Attempt]:
        """Return the earlier attempts under this key that never arrived whole: they may have left a trace."""
        return [
            a
            for a in self.keyring.of(attempt)
            if a is not attempt and a.never_arrived and a.start < attempt.start and self.shares_key(a, attempt)
        ]

    def forgotten(self, attempt: Attempt) -> list[Attempt]:
        """Return the earlier attempts under this key whose record is surely gone."""
        return self.keyring.forgotten(attempt)

    def kin(self, a: Attempt, b: Attempt) -> Kin:
        """Whether the contract calls two requests the same one."""
        return self.keyring.kin(a, b)

    def same_request(self, a: Attempt, b: Attempt) -> bool:
        """Whether they may be the same request."""
        return self.keyring.kin(a, b) is not Kin.OTHER

    def sends(self, attempt: Attempt) -> bool:
        """Whether the route that an attempt went by sends mail at all."""
        route = self.contract.routes.get(attempt.route)
        return route is None or route.does in ("send", "draft")

    def runs_again(self, attempt: Attempt) -> bool:
        """Whether the contract says that this request, under a used key, may run as a new one."""
        if self._fails_open and any(self.unguarded(one) for one in (attempt, *self.rivals(attempt))):
            return True
        same, other = self.contract.duplicates, self.contract.mismatch
        if same.judged and same.permits("execute"):
            return True
        if not (other.judged and other.permits("execute")):
            return False
        return any(self.kin(rival, attempt) is Kin.OTHER for rival in self.rivals(attempt))

    def unguarded(self, attempt: Attempt) -> bool:
        """Whether an attempt met a store that failed, and the contract then sends without its guard (D15)."""
        return self._fails_open and self.storms.out_of_store(attempt)

    @cached_property
    def _fails_open(self) -> bool:
        policy = self.contract.store_failure
        return policy.judged and policy.permits("open")

    def absent_path(self, attempt: Attempt) -> bool:
        """Whether an attempt went to another path of the contract that this target does not have."""
        return attempt.path != self.contract.request.path and attempt.status in (404, 405, 501)


def _end(attempt: Attempt) -> float:
    return attempt.end if attempt.answered and attempt.end is not None else float("inf")
