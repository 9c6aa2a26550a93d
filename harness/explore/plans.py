"""Deeds into scenarios: a plan is the data, and what is played is a scenario like any other.

The attempts of a plan follow one another: ``first``, the same request ``again``, and, where the contract says what
becomes of it, ``other`` content under the same key. A deed is done in the time of one of them, at a point that was
found there. Every plan ends alike: what was killed is started again, and the caller retries until it knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.faults import Place, Verb
from sendtwice.harness.explore.deeds import Deed, How
from sendtwice.harness.explore.points import Point
from sendtwice.harness.fault_specs import STORE
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.target import TargetBody
from sendtwice.harness.target_running import front_of

FIRST, AGAIN, OTHER = "first", "again", "other"
#: What another attempt is called that comes while one is held.
RIVAL = "rival"
#: A lease of more seconds is not waited for.
_SHORT_LEASE = 5.0
_ALWAYS = 100_000
#: What is done on the wire alone: nobody waits for anything.
ON_THE_WIRE = (How.FAULT, How.OUTAGE)

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Move:
    """A deed at a point."""

    point: Point
    deed: Deed

    def __str__(self) -> str:
        """Return the move as a report says it."""
        return f"{self.point}: {self.deed.name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """So many moves, in the order of their points; none is the plan without faults."""

    moves: tuple[Move, ...] = ()

    def __str__(self) -> str:
        """Return the plan as the title of what is played."""
        return ", then ".join(map(str, self.moves)) or "without faults"


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes plans for one target."""

    target: TargetBody
    contract: Contract
    queued: bool = False  # the target answers first, and hands over afterwards

    @property
    def attempts(self) -> tuple[str, ...]:
        """The attempts of a plan, in their order."""
        other = self.contract.mismatch.judged and self.contract.fingerprint.of.judged
        return (FIRST, AGAIN, OTHER) if other else (FIRST, AGAIN)

    def unfit(self, move: Move) -> str | None:
        """Return why a move cannot be made here, beyond what the steps themselves need."""
        how = move.deed.how
        if how is How.CRASH_ONE and self.target.replicas < 2:
            return "the target has one instance: replicas of its process"
        if how is How.PAST_LEASE and self.lease_steps() is None:
            return "no lease is declared that the target's clock could be moved past: target.clock, target.timing.lease"
        if how is How.PREEMPT_OTHER and OTHER not in self.attempts:
            return f"contract {self.contract.name} does not say what becomes of other content under a used key"
        return None

    def scenario(self, plan: Plan, number: int) -> Scenario:
        """Return what is played for a plan."""
        steps = list(_Script(self, plan).steps())
        given = {"id": f"explore.{number}", "title": str(plan), "role": "api", "steps": steps}
        return Scenario.model_validate(given)

    def lease_steps(self, label: str = "") -> list[Step] | None:
        """Return how a lease is made to run out, or None where nothing can make it."""
        lasts = self.contract.lease.lasts
        lease = self.target.timing.lease or (lasts.value if lasts.judged else None)
        if lease is None:
            return None
        clock = self.target.clock
        if clock is not None and clock.kind not in ("none", "restart"):
            return [{"advance": {"by": float(lease), "plus": 1}}]
        if lease <= _SHORT_LEASE:
            # Nothing tells when a lease is over: its time is waited for.
            return [{"until": {"met": label or "lease", "times": 2, "or_after": lease + 0.2}}]
        return None


@dataclass(slots=True)
class _Script:
    """The steps of one plan, as they are written."""

    writer: Writer
    plan: Plan
    rivals: int = 0
    asked: dict[str, int] = field(default_factory=dict)  # the instance that each attempt asks
    down: list[int] = field(default_factory=list)  # instances that were killed, and are not started again yet

    def steps(self) -> Iterator[Step]:
        attempts, moves = self.writer.attempts, self.plan.moves
        last = max((attempts.index(move.point.attempt) for move in moves), default=len(attempts) - 1)
        for turn, name in enumerate(attempts[: max(last, 1) + 1]):
            mine = [(f"{name}.{n}", move) for n, move in enumerate(moves, 1) if move.point.attempt == name]
            yield {"send": self._send(name, turn, at=[_fault(label, move) for label, move in mine])}
            if self.writer.queued and name == FIRST and all(_harmless(move) for _, move in mine):
                # What befalls the target next must not befall it while its queue is at work.
                yield {"until": {"delivered": FIRST, "or_after": self.writer.target.timing.delivers_within}}
            ends: list[Step] = []
            holds = 0
            for label, move in mine:
                if move.deed.how not in ON_THE_WIRE:
                    holds += 1
                    if holds > 1:  # what was done before may have kept it from coming
                        yield {"until": {"met": label, "or_after": "grace"}}
                yield from self._deed(name, turn, label, move, ends)
            # Nobody is waited for as long as something is held.
            yield from ends
        yield from ({"restart": self._process(number)} for number in self.down)
        yield {"finish": FIRST}

    def _send(self, name: str, turn: int, *, at: Sequence[Step] = ()) -> Step:
        written: Step = {"as": name}
        if name != FIRST:
            written["like"] = FIRST
        if name == OTHER:
            written |= {"op": name, "change": {"text": "other"}}
        if at:
            written["at"] = list(at)
        return written | self._replica(name, turn)

    def _rival(self, name: str, turn: int, *, other: bool = False, waits: bool = True) -> Step:
        """Return the attempt that comes while ``name`` is held."""
        self.rivals += 1
        rival = RIVAL if self.rivals == 1 else f"{RIVAL}{self.rivals}"
        written: Step = {"as": rival}
        if self.writer.queued and waits and name != OTHER:
            # Said without `like`, which would claim that it meets the other before that is answered.
            written |= {"op": FIRST, "key": FIRST, "content": FIRST}
        else:
            written["like"] = name
        if other:
            written |= {"op": rival, "change": {"text": "other"}}
        if waits:
            written["wait"] = "none"
        return written | self._replica(rival, turn + 1)

    def _replica(self, name: str, turn: int) -> Step:
        """Choose the instance that an attempt asks: each the next one, among those that are up."""
        replicas = self.writer.target.replicas
        up = [number for number in range(1, replicas + 1) if number not in self.down]
        self.asked[name] = up[turn % len(up)]
        return {"replica": self.asked[name]} if replicas > 1 else {}

    def _deed(self, name: str, turn: int, label: str, move: Move, ends: list[Step]) -> Iterator[Step]:
        how, release = move.deed.how, {"release": label}
        process = self._process(self.asked[name])
        match how:
            case How.OUTAGE:
                yield release
            case How.CRASH:
                yield from self._crash("target", name, release, move)
                yield {"restart": "target"}
                self.down.clear()
            case How.CRASH_ONE:
                yield from self._crash(process, name, release, move)
                yield from self._another(name, turn)
            case How.PAUSE:
                yield from ({"pause": process}, release, *self._met(name, turn, ends), {"resume": process})
            case How.PAST_LEASE:
                lease = self.writer.lease_steps(label) or ()
                yield from (*lease, *self._met(name, turn, ends), release)
            case How.HANG_UP:
                yield from ({"hang_up": name}, *self._met(name, turn, ends), release)
            case How.PREEMPT | How.PREEMPT_OTHER:
                yield from (*self._met(name, turn, ends, other=how is How.PREEMPT_OTHER), release)

    def _met(self, name: str, turn: int, ends: list[Step], *, other: bool = False) -> list[Step]:
        """Let another attempt come; who is waited for at the end are it and ``name``."""
        sent = self._rival(name, turn, other=other)
        ends += [end for end in ({"await": name}, {"await": sent["as"]}) if end not in ends]
        return [{"send": sent}, {"until": {"answered": sent["as"], "or_after": "grace"}}]

    def _crash(self, process: str, name: str, release: Step, move: Move) -> Iterator[Step]:
        if move.point.place is Place.CLIENT_RESPONSE:
            # The answer has left the target: that its caller takes it changes nothing, and nobody need wait for it.
            yield from (release, {"await": name}, {"crash": process})
        else:
            yield from ({"crash": process}, release)

    def _another(self, name: str, turn: int) -> Iterator[Step]:
        """Let whoever comes after an instance was killed meet another one."""
        self.down.append(self.asked[name])
        if len(self.down) == self.writer.target.replicas:
            yield {"restart": self._process(self.down.pop(0))}
        if name != FIRST:
            yield {"send": self._rival(name, turn, waits=False)}

    def _process(self, number: int) -> str:
        front = front_of(self.writer.target.processes)
        return "target" if front is None or front.replicas == 1 else f"{front.name}.{number}"


def _harmless(move: Move) -> bool:
    """Whether a mail comes all the same: only the caller's answer is lost, or its request comes twice."""
    answer = move.point.place is Place.CLIENT_RESPONSE and move.deed.how is How.FAULT
    return answer or move.deed.verb is Verb.TWICE


def _fault(label: str, move: Move) -> Step:
    point, deed = move.point, move.deed
    verb, argument = (deed.verb.value, deed.argument) if deed.how in ON_THE_WIRE else ("hold", None)
    fault: Step = {"crossing": point.place.value, verb: argument}
    if point.store is not None:
        fault["store"] = point.store
    if deed.how is How.OUTAGE:
        fault |= {"nth": point.order, "times": _ALWAYS}
    else:
        fault |= {"nth": point.nth} if point.nth > 1 else {}
        fault |= {"message": point.message} if point.message is not None else {}
    return {**fault, "label": label}


def in_store(plan: Plan) -> bool:
    """Whether a plan touches a wire to a store."""
    return any(move.point.place in STORE for move in plan.moves)
