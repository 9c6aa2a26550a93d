"""What a scenario does to the target's processes: each act is noted, and at the end what was left is put right."""

from __future__ import annotations

from typing import Any

from sendtwice.harness.bench import Bench
from sendtwice.harness.clocks.still import WHOLE
from sendtwice.harness.history import Kind


class Keeper:
    """The processes of the target, while one scenario is played."""

    def __init__(self, bench: Bench, scenario: str) -> None:
        """Everything is noted as ``scenario``'s."""
        self.bench, self._scenario = bench, scenario
        self.paused: list[str] = []  # what sleeps now
        self._down: list[str] = []  # what was killed or asked to end, and not started again

    def _record(self, kind: Kind, **data: Any) -> None:
        self.bench.recorder.record(kind, scenario=self._scenario, **data)

    async def crash(self, name: str) -> None:
        """Kill it, together with what it had sent and nobody had taken yet."""
        async with self.bench.callers_die():
            # Noted first: the end of what the process was doing must not seem to come before its cause.
            self._record(Kind.CRASH, process=name)
            await self.bench.launcher.crash(name)
        self.paused = [other for other in self.paused if name not in (other, WHOLE)]
        self._down.append(name)

    async def stop(self, name: str) -> None:
        """Ask it to end."""
        self._record(Kind.STOP, process=name)
        await self.bench.launcher.terminate(name)
        self._down.append(name)

    async def pause(self, name: str) -> None:
        """Let it sleep."""
        await self.bench.launcher.pause(name)
        self._record(Kind.PAUSE, process=name)
        self.paused.append(name)

    async def resume(self, name: str) -> None:
        """Wake it up."""
        # Noted first: what the process does when it wakes must not seem to come before that.
        self._record(Kind.RESUME, process=name)
        self.paused = [other for other in self.paused if other != name]
        await self.bench.launcher.resume(name)

    async def restart(self, name: str) -> None:
        """Start it again, with the time that its clock had."""
        if name in self.paused:
            await self.resume(name)  # one that sleeps cannot end
        willingly = await self.bench.launcher.restart(name)
        await self.bench.clock.restarted(self.bench, name)
        self._record(Kind.RESTART, process=name, willingly=willingly)
        self._down = [other for other in self._down if name not in (other, WHOLE)]

    async def wake(self) -> None:
        """Wake up what was left asleep."""
        for name in list(self.paused):
            await self.resume(name)

    async def revive(self) -> None:
        """Start what was left dead: the next scenario needs it."""
        for name in list(dict.fromkeys(self._down)):
            await self.restart(name)
