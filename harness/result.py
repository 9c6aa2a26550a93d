"""The outcome of a run: verdicts, findings, and what was seen. Frozen in INTERFACES as ``--json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.history import Event
from sendtwice.harness.judge import Finding

SCHEMA = 1


class Verdict(StrEnum):
    """What can be said about a scenario; never a guess."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    INCONCLUSIVE = "inconclusive"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One scenario's verdict, with the evidence."""

    id: str
    title: str
    verdict: Verdict
    reason: str | None = None
    needs: tuple[str, ...] = ()
    seconds: float = 0.0
    watched: float = 0.0
    deliveries: dict[str, int] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    replay: str | None = None
    history: tuple[Event, ...] = ()

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that fail the run: level must, and not accepted by the target file."""
        return tuple(f for f in self.findings if f.level is Level.MUST and f.known is None)

    @property
    def known(self) -> tuple[str, ...]:
        """Why findings of this scenario are accepted deviations."""
        return tuple(dict.fromkeys(f.known for f in self.findings if f.known is not None))

    def as_json(self) -> dict[str, Any]:
        """Return the scenario's part of ``--json``."""
        return {
            "id": self.id,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "needs": list(self.needs),
            "seconds": round(self.seconds, 3),
            "watched": round(self.watched, 3),
            "deliveries": self.deliveries,
            "answers": self.answers,
            "findings": [
                {
                    "rule": f.rule,
                    "level": f.level.value,
                    "message": f.message,
                    "remedy": f.remedy,
                    "events": list(f.events),
                    "operation": f.operation,
                    "known": f.known,
                }
                for f in self.findings
            ],
            "replay": self.replay,
        }


@dataclass(frozen=True, slots=True)
class RunResult:
    """A whole run."""

    version: str
    target: str
    role: str
    contract: str
    contract_sha256: str
    seed: int
    started: str
    seconds: float
    scenarios: tuple[ScenarioResult, ...]
    strays: int = 0
    watched: float = 0.0
    retries_declared: bool = False
    observed: dict[str, str] = field(default_factory=dict)
    error: str | None = None  # why the harness could not do its work

    @property
    def counts(self) -> dict[str, int]:
        """How many scenarios have each verdict."""
        return {verdict.value: sum(s.verdict is verdict for s in self.scenarios) for verdict in Verdict}

    @property
    def verdict(self) -> str:
        """The run's verdict in one word."""
        if self.error is not None:
            return "error"
        counts = self.counts
        for verdict in ("failed", "inconclusive", "passed", "known"):
            if counts[verdict]:
                return verdict
        return "skipped"

    @property
    def exit_code(self) -> int:
        """0, 1, 3 or 4, as INTERFACES says; a usage error (2) has no result."""
        if self.error is not None:
            return 4
        return {"failed": 1, "inconclusive": 3}.get(self.verdict, 0)

    def as_json(self) -> dict[str, Any]:
        """Return the whole of ``--json``."""
        return {
            "schema": SCHEMA,
            "sendtwice": self.version,
            "target": self.target,
            "role": self.role,
            "contract": self.contract,
            "contract_sha256": self.contract_sha256,
            "seed": self.seed,
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "verdict": self.verdict,
            "error": self.error,
            "counts": self.counts,
            "strays": self.strays,
            "watched": round(self.watched, 3),
            "scenarios": [s.as_json() for s in self.scenarios],
            "observed": self.observed,
        }
