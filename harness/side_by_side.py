"""Which scenarios can be played side by side, and doing so: the run's time is then the target's, not ours.

Each has operations, keys and recipients of its own, so what is seen belongs to one of them, and whatever the target
does late is watched for once, at the end of the run. What concerns the target as a whole (it is killed, paused, its
clock is moved) or a message of which nobody knows whose it is (to a store, before its headers) is played alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from sendtwice.harness.fault_specs import STORE, FaultSpec
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.steps import (
    AdvanceStep,
    CallStep,
    CrashStep,
    HoldStep,
    ParallelStep,
    PauseStep,
    RestartStep,
    ResumeStep,
    StopStep,
)

#: What happens to the target as a whole.
_WHOLE = (AdvanceStep, CrashStep, PauseStep, RestartStep, ResumeStep, StopStep)


def sharable(scenario: Scenario) -> bool:
    """Whether a scenario can be played beside others."""
    if scenario.role == "consumer" or any(isinstance(step, _WHOLE) for step in scenario.steps):
        return False
    # A call that is for no operation of its own is for all of the target's.
    if any(isinstance(step, CallStep) and step.call.of is None for step in scenario.steps):
        return False
    return not any(_anybodys(spec, held) for spec, held in faults_of(scenario))


def faults_of(scenario: Scenario) -> Iterator[tuple[FaultSpec, bool]]:
    """Return every fault of a scenario, and whether it lies there for nobody's attempt."""
    for step in scenario.steps:
        if isinstance(step, HoldStep):
            yield step.hold, True
        items = step.parallel if isinstance(step, ParallelStep) else [next(iter(vars(step).values()), None)]
        for item in items if isinstance(items, list) else [items]:
            yield from ((spec, False) for spec in getattr(item, "at", ()))


def _anybodys(spec: FaultSpec, held: bool) -> bool:
    return spec.crossing in STORE or spec.stage is not None or (held and spec.of is None)


async def play(
    scenarios: Sequence[Scenario], one: Callable[[Scenario], Awaitable[None]], *, jobs: int, stop: Callable[[], bool]
) -> None:
    """Play scenarios, ``jobs`` at a time, each as soon as there is room; begin none more once ``stop()`` holds."""
    waiting = iter(scenarios)

    async def worker() -> None:
        for scenario in waiting:
            if stop():
                return
            await one(scenario)

    async with asyncio.TaskGroup() as workers:
        for _ in range(min(jobs, len(scenarios))):
            workers.create_task(worker())


def split(scenarios: Iterable[Scenario], *, jobs: int) -> tuple[list[Scenario], list[Scenario]]:
    """Return what can be played side by side, and what is played alone."""
    together: list[Scenario] = []
    alone: list[Scenario] = []
    for scenario in scenarios:
        (together if jobs > 1 and sharable(scenario) else alone).append(scenario)
    # The slow ones first: the others are played meanwhile.
    return sorted(together, key=lambda scenario: "slow" not in scenario.tags), alone
