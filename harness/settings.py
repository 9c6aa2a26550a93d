"""What the user asked a run to do, as the command line, the environment or Python code says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunSettings:
    """One run's choices. ``scenario``, ``tag`` and ``exclude`` are globs; empty means all.

    ``jobs``: so many scenarios are played side by side, where they can be.
    """

    scenario: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    contract: str | None = None
    seed: int = 1
    fail_fast: bool = False
    time_limit: float | None = None
    require_all: bool = False
    allow_remote: bool = False
    strict_known: bool = False
    jobs: int = 4
    reports: Path = field(default_factory=lambda: Path("reports"))
    watch: float = 1.0  # seconds at the end of a run when the target file does not say retries_for

    def replay_path(self, scenario: str) -> Path:
        """Return where a scenario's saved failure is, in the folder of this run's reports."""
        return self.reports / f"{scenario}.yaml"

    @property
    def output(self) -> Path:
        """Where the target's own output is kept."""
        return self.reports / "output"
