"""What the judge says: findings, and why a pass would prove nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from sendtwice.fake_provider.contracts import Level


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule, with the events that prove it and a remedy in one sentence."""

    rule: str
    level: Level
    message: str
    remedy: str
    events: tuple[int, ...]
    operation: str | None = None
    known: str | None = None  # why the target file accepts it


@dataclass(frozen=True, slots=True)
class Judgement:
    """All that the judge has to say about one scenario's history."""

    findings: tuple[Finding, ...] = ()
    voids: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()  # what the target does not have, found out while playing: a skip
    observed: dict[str, str] = field(default_factory=dict)
