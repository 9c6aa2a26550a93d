"""A count that a program prints: a whole number, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sendtwice.harness import placeholders
from sendtwice.harness.effects.asked import PER_OPERATION, ProbeError, shown, whole

if TYPE_CHECKING:
    from sendtwice.harness.target import Effects


@dataclass(slots=True)
class CommandProbe:
    """Runs a program in the target file's folder, once for each count."""

    settings: Effects
    folder: Path

    @property
    def _command(self) -> list[str]:
        return self.settings.command or []

    @property
    def described(self) -> str:
        """The program as the target file writes it."""
        return " ".join(self._command)

    @property
    def names(self) -> frozenset[str]:
        """What of an operation it is given."""
        return frozenset(placeholders.names(self._command)) & PER_OPERATION

    async def count(self, values: Mapping[str, str]) -> int:
        """Run it and read the number that it prints."""
        given = {**values, "python": sys.executable, "folder": str(self.folder)}
        command = [placeholders.fill_text(part, given) for part in self._command]
        status, printed, complained = await self._run(command)
        if status:
            lines = [line for line in (complained or printed).splitlines() if line.strip()]
            words = f"its last words: {shown(lines[-1])}" if lines else "it wrote nothing"
            raise ProbeError(f"target.effects.command: {self._name} ended with status {status}; {words}")
        number = whole(printed)
        if number is None:
            raise ProbeError(
                f"target.effects.command: {self._name} printed {shown(printed, 60)!r}; let it print one whole number"
            )
        return number

    @property
    def _name(self) -> str:
        return repr(self._command[0])

    async def _run(self, command: list[str]) -> tuple[int, str, str]:
        limit = self.settings.timeout
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self.folder,
                env=dict(os.environ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ProbeError(
                f"target.effects.command: {self._name} cannot be started ({reason}); mend the command"
            ) from None
        try:
            async with asyncio.timeout(limit):
                printed, complained = await process.communicate()
        except TimeoutError:
            raise ProbeError(
                f"target.effects.command: {self._name} did not end within {limit:g} s; mend it, or raise "
                "target.effects.timeout"
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return process.returncode or 0, printed.decode("utf-8", "replace"), complained.decode("utf-8", "replace")
