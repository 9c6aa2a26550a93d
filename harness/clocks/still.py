"""Clocks that nothing moves while the target runs: one that stands, and one that is set by starting it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sendtwice.harness import placeholders
from sendtwice.harness.history import Kind

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench

#: The placeholder of the seconds by which the clock was moved so far.
OFFSET = "clock_offset"
#: The name that means all of the target.
WHOLE = "target"


def written(seconds: float) -> str:
    """Write seconds for a person or a program: no exponent, no needless point."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


class Still:
    """A clock that cannot be moved; also what every other one does when it has nothing to do."""

    whole = False

    def environment(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
        """Leave it as it is."""
        del name, command
        return dict(env)

    def started(self, name: str, pids: Iterable[int]) -> None:
        """Nothing to note."""

    async def move(self, bench: Bench, scenario: str, seconds: float) -> None:
        """Never called: scenarios that need it are skipped."""
        raise NotImplementedError

    async def restarted(self, bench: Bench, name: str) -> None:
        """Nothing to do."""

    async def doubt(self, bench: Bench) -> str | None:
        """Nothing to see."""
        del bench
        return None

    def close(self) -> None:
        """Nothing was made."""


class Restarted(Still):
    """The target is asked to end, and started again with ``{clock_offset}``: the seconds since its first start.

    A program that is run for each operation is told at its next run.
    """

    whole = True

    async def move(self, bench: Bench, scenario: str, seconds: float) -> None:
        """Start whatever is told the offset again."""
        bench.values[OFFSET] = written(bench.clock_offset + seconds)
        client = bench.target.client
        if client is not None and OFFSET in placeholders.names([client.command, client.env]):
            return  # it starts anew for each operation
        names = [one.name for one in bench.target.processes if OFFSET in placeholders.names([one.command, one.env])]
        names = names or [WHOLE]
        for name in names:
            bench.recorder.record(Kind.STOP, scenario=scenario, process=name)
            await bench.launcher.terminate(name)
        for name in names:
            willingly = await bench.launcher.restart(name)
            bench.recorder.record(Kind.RESTART, scenario=scenario, process=name, willingly=willingly)
