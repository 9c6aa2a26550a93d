"""A target that is a program run for each operation: what runs now is what can be killed and put to sleep.

Between two operations nothing of it is there but its state, the file ``{state}``, which outlives every run of it until
the end of the session. Processes that the target file starts beside it are launched as ever.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sendtwice.harness.errors import HarnessError
from sendtwice.harness.launch import Launcher, family


@dataclass(slots=True, eq=False)
class _Run:
    """One run of the program."""

    process: asyncio.subprocess.Process
    mark: str
    killed: bool = False


@dataclass(slots=True)
class Commands:
    """The runs of a client's program, and the processes beside it (``base``).

    ``queued``: the program only puts a job on a queue, so whoever does the work is among those processes, and is what
    dies as ``target``.
    """

    base: Launcher
    logs: Path
    queued: bool = False
    can_crash: bool = True
    _runs: list[_Run] = field(default_factory=list)
    _scratch: str = ""
    _count: int = 0

    def __post_init__(self) -> None:
        """Make the place for its state."""
        self._scratch = tempfile.mkdtemp(prefix="sendtwice-")

    @property
    def state(self) -> str:
        """The file in which it may keep what it must not forget."""
        return str(Path(self._scratch) / "client.state")

    async def run(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path, *, timeout: float | None
    ) -> int | None:
        """Run the program to its end; its exit status, or None when it was killed here.

        Raises :class:`TimeoutError` when it does not end in time (it is killed then), and :class:`HarnessError` when
        it cannot be started.
        """
        self._count += 1
        mark = f"{Path(self._scratch).name}.{self._count}"
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / "client.log").open("ab") as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    cwd=folder,
                    env={**env, family.MARK: mark},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise HarnessError(
                    f"the client's command {command[0]!r} cannot be started ({reason}); mend target.client.command"
                ) from None
        run = _Run(process, mark)
        self._runs.append(run)
        try:
            async with asyncio.timeout(timeout):
                status = await process.wait()
        finally:
            self._runs.remove(run)
            # What it left behind would go on sending.
            await family.kill(process.pid, mark)
            await process.wait()
        return None if run.killed else status

    async def start(self) -> None:
        """Start the processes beside it."""
        await self.base.start()

    async def crash(self, name: str) -> None:
        """SIGKILL to all of its runs, or to a process beside it."""
        if name != "target" or self.queued:
            await self.base.crash(name)
        if name == "target":
            for run in list(self._runs):
                run.killed = True
                await family.kill(run.process.pid, run.mark)
                await run.process.wait()  # only then has the kernel closed its sockets

    async def terminate(self, name: str) -> None:
        """Ask its runs to end (SIGTERM), or a process beside it."""
        if name != "target" or self.queued:
            await self.base.terminate(name)
        if name == "target":
            for run in self._runs:
                family.send(signal.SIGTERM, run.process.pid, run.mark)

    async def restart(self, name: str) -> bool:
        """Start what was killed beside it; the program itself starts when it is next asked."""
        return await self.base.restart(name) if name != "target" or self.queued else True

    async def pause(self, name: str) -> None:
        """SIGSTOP."""
        await self._signal(name, signal.SIGSTOP)

    async def resume(self, name: str) -> None:
        """SIGCONT."""
        await self._signal(name, signal.SIGCONT)

    async def _signal(self, name: str, number: signal.Signals) -> None:
        if name != "target" or self.queued:
            await (self.base.pause(name) if number is signal.SIGSTOP else self.base.resume(name))
        if name == "target":
            for run in self._runs:
                family.send(number, run.process.pid, run.mark)

    async def stop(self) -> None:
        """End everything and forget the state."""
        try:
            for run in list(self._runs):
                await family.kill(run.process.pid, run.mark)
                await run.process.wait()
            await self.base.stop()
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def died(self) -> str | None:
        """Return one line on a process beside it that ended by itself."""
        return self.base.died()

    def ports(self, name: str | None = None) -> list[int]:
        """Return the ports of the processes beside it."""
        return self.base.ports(name)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a run: this one's, and what the operation and the target file add."""
    return {**os.environ, **given}
