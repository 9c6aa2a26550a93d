"""The target's clock: how it is moved, and whether it did move.

A key's life, a lease and a reconciliation take minutes to weeks, and nobody waits for them. So time is moved under the
target: by libfaketime (:mod:`~sendtwice.harness.clocks.faketime`), by a hook of its own
(:mod:`~sendtwice.harness.clocks.hooks`), or by starting it again with another time. The harness's own clock stands
still: the history notes by how much the target's was moved, and whoever reads it adds that.

A clock that silently did not move would accuse a sound target ("it never forgets"), so it is looked at where it can be
seen, and a scenario whose time did not pass proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.contracts.model import as_claims
from sendtwice.harness.clocks.faketime import FakeTime
from sendtwice.harness.clocks.hooks import Asked, Commanded
from sendtwice.harness.clocks.still import Restarted, Still
from sendtwice.harness.errors import ScenarioError
from sendtwice.harness.history import Kind
from sendtwice.harness.steps import Advance
from sendtwice.harness.target import TargetBody
from sendtwice.harness.target_running import TargetClock

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench

#: Without a clock that can be moved, so many seconds are waited out: a short lease needs no more.
PATIENCE = 6.0


class Clock(Protocol):
    """One way to move a target's clock."""

    whole: bool  # whether all that the target sees of time is moved, and not only what it asks a hook of its own for

    def environment(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment in which a process is started, with what this clock needs in it."""

    def started(self, name: str, pids: Iterable[int]) -> None:
        """Learn that a process is ready, as these processes."""

    async def move(self, bench: Bench, scenario: str, seconds: float) -> None:
        """Move it forward; :class:`ScenarioError` when it cannot be, or did not."""

    async def restarted(self, bench: Bench, name: str) -> None:
        """Move the clock of what was started again to where it was, unless it kept its time."""

    async def doubt(self, bench: Bench) -> str | None:
        """Return why what was played after a move proves nothing, when the clock did not go with it."""

    def close(self) -> None:
        """Leave nothing behind."""


def of(settings: TargetClock | None) -> Clock:
    """Return the clock that a target file describes."""
    match settings.kind if settings is not None else "none":
        case "http":
            return Asked()
        case "command":
            return Commanded()
        case "faketime" if settings is not None:
            return FakeTime(monotonic=settings.monotonic, library=settings.library)
        case "restart":
            return Restarted()
    return Still()


async def advance(bench: Bench, step: Advance, scenario: str) -> None:
    """Move the target's clock forward, by seconds or by what a claim says; a short time is waited out if it must be."""
    seconds = max(0.0, seconds_of(step, bench.contract, bench.target) or 0.0)
    if not movable(bench.target):
        if seconds > PATIENCE:
            raise ScenarioError(f"the target's clock cannot be moved, and {seconds:g} s are too long to wait")
        # There is no event to await: it is time itself that is waited for.
        await bench.provider.ledger.wait(lambda: False, timeout=seconds)
        bench.recorder.record(Kind.ADVANCED, scenario=scenario, seconds=0.0, waited=seconds)
        return
    await bench.clock.move(bench, scenario, seconds)
    if bench.target.role == "client":
        bench.provider.clock.advance(seconds)  # the API lives in the same time as its caller
    bench.clock_offset += seconds
    bench.recorder.record(Kind.ADVANCED, scenario=scenario, seconds=seconds, total=bench.clock_offset)


def movable(target: TargetBody, *, in_flight: bool = False) -> bool:
    """Whether a target's clock can be moved at all, or while something is ``in_flight``."""
    return target.clock is not None and target.clock.kind not in ("none", *(("restart",) if in_flight else ()))


def seconds_of(step: Advance, contract: Contract, target: TargetBody) -> float | None:
    """Return by how much a step moves the clock, or None where nobody says it."""
    by = step.by if isinstance(step.by, float) else claimed(contract, step.by)
    if by is None and step.by == "lease.lasts":
        by = target.timing.lease
    return None if by is None else by + step.plus


def claimed(contract: Contract, path: str) -> float | None:
    """Return the number that a claim of seconds has, or None."""
    claim = as_claims(contract).get(path)
    value = claim.value if claim is not None and claim.judged else None
    return float(value) if isinstance(value, int | float) else None
