"""How a target is started, killed and started again: one module per way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Launcher(Protocol):
    """What the runner needs of any way to run a target."""

    @property
    def can_crash(self) -> bool:
        """Whether the target can be killed and restarted."""

    async def start(self) -> None:
        """Start everything and wait until it is ready; :class:`HarnessError` when it never is."""

    async def crash(self, name: str) -> None:
        """SIGKILL a process (or all: ``target``) and wait until it is gone."""

    async def terminate(self, name: str) -> None:
        """Ask a process to end (SIGTERM), and go on at once: what it does first may need time."""

    async def restart(self, name: str) -> bool:
        """Start what was killed or asked to end, with the state it kept; False when it had to be killed for that."""

    async def pause(self, name: str) -> None:
        """SIGSTOP to a process and all of its group."""

    async def resume(self, name: str) -> None:
        """SIGCONT."""

    async def stop(self) -> None:
        """End everything that was started."""

    def died(self) -> str | None:
        """Return one line on a process that ended by itself, or None."""

    def ports(self, name: str | None = None) -> list[int]:
        """Return the ports of a process's replicas; by default of the process that answers requests."""


#: Makes a launcher of the addresses that a target is told: ``provider_url``, ``webhook_secret``.
MakeLauncher = Callable[[Mapping[str, str]], Launcher]


class External:
    """A target that already runs: nothing is started, and nothing can be killed."""

    can_crash = False

    async def start(self) -> None:
        """Nothing to do."""

    async def crash(self, name: str) -> None:
        """Never called: scenarios that need it are skipped."""
        raise NotImplementedError(name)

    async def terminate(self, name: str) -> None:
        """Never called: scenarios that need it are skipped."""
        raise NotImplementedError(name)

    async def restart(self, name: str) -> bool:
        """Never called: scenarios that need it are skipped."""
        raise NotImplementedError(name)

    async def pause(self, name: str) -> None:
        """Never called: scenarios that need it are skipped."""
        raise NotImplementedError(name)

    async def resume(self, name: str) -> None:
        """Never called: scenarios that need it are skipped."""
        raise NotImplementedError(name)

    async def stop(self) -> None:
        """Nothing to do."""

    def died(self) -> str | None:
        """Nothing is known about it."""
        return None

    def ports(self, name: str | None = None) -> list[int]:
        """It has its own port, in its URL."""
        del name
        return [0]
