"""A count that a program prints: a whole number, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sendtwice.harness import placeholders, programs
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
        ended = await self._run(command)
        if ended.status:
            lines = [line for line in (ended.err or ended.out).splitlines() if line.strip()]
            words = f"its last words: {shown(lines[-1])}" if lines else "it wrote nothing"
            raise ProbeError(f"target.effects.command: {self._name} ended with status {ended.status}; {words}")
        number = whole(ended.out)
        if number is None:
            raise ProbeError(
                f"target.effects.command: {self._name} printed {shown(ended.out, 60)!r}; let it print one whole number"
            )
        return number

    @property
    def _name(self) -> str:
        return repr(self._command[0])

    async def _run(self, command: list[str]) -> programs.Printed:
        limit = self.settings.timeout
        try:
            return await programs.printed(command, self.folder, timeout=limit)
        except programs.NotStartedError as error:
            raise ProbeError(
                f"target.effects.command: {self._name} cannot be started ({error}); mend the command"
            ) from None
        except TimeoutError:
            raise ProbeError(
                f"target.effects.command: {self._name} did not end within {limit:g} s; mend it, or raise "
                "target.effects.timeout"
            ) from None
