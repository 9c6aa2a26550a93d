"""Which moves of the clock a target can play: some ways to move it need a target that is awake, or one at rest."""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.faults import Verb
from sendtwice.harness import clocks, placeholders
from sendtwice.harness.clocks import library
from sendtwice.harness.clocks.still import OFFSET
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.sends import Burst
from sendtwice.harness.steps import (
    Advance,
    AdvanceStep,
    AwaitStep,
    CrashStep,
    FinishStep,
    HoldStep,
    NotifyStep,
    OperateStep,
    ParallelStep,
    PauseStep,
    RedeliverStep,
    RedriveStep,
    ReleaseStep,
    ResumeStep,
    SendStep,
    SettleStep,
    UntilStep,
)
from sendtwice.harness.target import TargetBody


def missing(scenario: Scenario, target: TargetBody, contract: Contract) -> Iterator[str]:
    """Return why a target's clock cannot be moved as a scenario asks, each with the setting that would enable it."""
    moves = [step for step in scenario.steps if isinstance(step, AdvanceStep)]
    if not moves:
        return
    for step in moves:
        yield from _said(step.advance, contract, target)
    if not clocks.movable(target):
        if any((clocks.seconds_of(step.advance, contract, target) or 0) > clocks.PATIENCE for step in moves):
            yield "the target's clock cannot be moved: add [target.clock]"
        return
    yield from _means(target)
    assert target.clock is not None
    if target.clock.kind == "http" and any(asleep for _, asleep in _at_moves(scenario)):
        yield "a target that sleeps cannot be asked to move its clock; kind faketime could: target.clock.kind"
    if target.clock.kind == "restart" and any(busy or asleep for busy, asleep in _at_moves(scenario)):
        yield "its clock is moved by a restart, which would end what is in flight then: target.clock.kind"


def _said(advance: Advance, contract: Contract, target: TargetBody) -> Iterator[str]:
    if isinstance(advance.by, str) and clocks.seconds_of(advance, contract, target) is None:
        yield f"contract {contract.name} does not say: {advance.by}"


def _means(target: TargetBody) -> Iterator[str]:
    clock = target.clock
    assert clock is not None
    if clock.kind not in ("faketime", "restart"):
        return
    if target.container is not None:
        yield f"a clock of kind {clock.kind} is for processes, not for containers: target.clock.kind"
    elif clock.kind == "restart" and target.client is not None and target.client.command:
        if OFFSET not in placeholders.names([target.client.command, target.client.env]):
            yield "the client is not told the time: put {clock_offset} into target.client.env or command"
    elif not target.processes:
        yield f"a clock of kind {clock.kind} moves what [target.start] starts, and nothing is started"
    elif clock.kind == "faketime":
        complaint = library.complaint(clock.library)
        if complaint is not None:
            yield complaint
    elif not target.keeps_state:
        yield "its clock is moved by a restart, and it forgets everything then: target.start.keeps_state is false"
    elif target.processes and not any(OFFSET in placeholders.names([p.command, p.env]) for p in target.processes):
        yield "no process is told the time: put {clock_offset} into target.start.env or command"


def _at_moves(scenario: Scenario) -> Iterator[tuple[bool, bool]]:
    """Return for each move of the clock whether something may be in flight then, and whether a process sleeps."""
    flying: set[str] = set()
    asleep: set[str] = set()
    for step in scenario.steps:
        match step:
            case AdvanceStep():
                yield bool(flying), bool(asleep)
            case SendStep(send=item) | OperateStep(operate=item) | NotifyStep(notify=item):
                flying |= _left_in_flight(item)
            case RedeliverStep(redeliver=item) | RedriveStep(redrive=item):
                flying |= _left_in_flight(item)
            case ParallelStep(parallel=Burst() as burst):
                flying |= {burst.name} if any(spec.verb is Verb.HOLD for spec in burst.at) else set()
            case ParallelStep(parallel=list() as items):
                flying |= {name for item in items for name in _left_in_flight(item)}
            case HoldStep(hold=spec) if spec.verb is Verb.HOLD:
                flying.add(spec.hold_label or spec.of or str(spec.crossing))
            case ReleaseStep(release=label):
                # An attempt of this name is in flight until it is waited for.
                flying = {name for name in flying if name != label or name in _names(scenario)}
            case AwaitStep(awaited=name) | FinishStep(finish=name):
                flying.discard(name)
            case UntilStep(until=until) if until.or_after is None:
                flying -= set(until.names)
            case SettleStep() | CrashStep(crash="target"):
                flying.clear()
            case PauseStep(pause=name):
                asleep.add(name)
            case ResumeStep(resume=name) | CrashStep(crash=name):
                asleep.discard(name)
            case _:
                pass


def _left_in_flight(item: object) -> set[str]:
    """Return the name of an attempt that goes on after its step."""
    name = str(getattr(item, "name", ""))
    held = any(spec.verb is Verb.HOLD for spec in getattr(item, "at", ()))
    return {name} if held or getattr(item, "wait", "answer") == "none" else set()


def _names(scenario: Scenario) -> set[str]:
    """Return the names of a scenario's attempts."""
    found: set[str] = set()
    for step in scenario.steps:
        for field in type(step).model_fields:
            item = getattr(step, field)
            found |= {str(one.name) for one in (item if isinstance(item, list) else [item]) if hasattr(one, "name")}
    return found
