"""``sendtwice check``: start a target, send the canary, and say what a run would skip and which setting enables it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sendtwice.fake_provider import contracts
from sendtwice.harness import bench
from sendtwice.harness.effective import assumed_key
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.judge.classes import SUCCESS
from sendtwice.harness.result import ScenarioResult
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.session import Session
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import Target

#: So many of the scenarios that lack something are named.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What ``sendtwice check`` found out."""

    ok: bool
    lines: list[str]


async def check(target: Target, target_path: Path, scenarios: Sequence[Scenario], settings: RunSettings) -> CheckReport:
    """Start a target, send the canary, and say what a run would skip and why."""
    session = Session(target, target_path, scenarios, settings)
    lines: list[str] = []
    try:
        try:
            await session.bench.start()
            await session.canary()
            await session.try_mails()
        finally:
            await session.bench.stop()
    except HarnessError as error:
        return CheckReport(ok=False, lines=[str(error)])
    how = f" ({target.target.instances})" if target.target.instances else ""
    lines.append(f"{target.target.name}: started{how}, and the canary arrived")
    lines += session.bench.counting.said()
    lines += [bench.unheld(name) for name in session.bench.unused_stores]
    lines += [f"kinds of mails {session.observed['mails']}"] if "mails" in session.observed else []
    key = assumed_key(target, session.contract)
    if key is not None:
        lines.append(f"key in {key} (assumed; target.api.request.key says where it is)")
    place = _idless(session)
    strange = _undeclared(session)
    if strange is not None:
        lines.append(
            f"the canary was answered {strange}, which contract {session.contract.name} does not call accepted: "
            "see target.api.answer.accepted"
        )
    elif place is not None:
        lines.append(f"the answer has no id at {place}, so replays cannot be compared by it: see target.api.answer.id")
    lines.append(f"{len(session.chosen)} scenarios can be played")
    role = target.target.role
    lines += _left_out(session.skipped)
    other = sum(1 for s in scenarios if s.role != role)
    if other:
        lines.append(f"{other} scenarios are for other roles than {role}")
    return CheckReport(ok=True, lines=lines)


def _left_out(skipped: Sequence[ScenarioResult]) -> list[str]:
    """Return one line for each thing that scenarios lack, with the scenarios: what is set once enables them all."""
    lacking: dict[str, list[str]] = {}
    for one in skipped:
        if one.reason is not None and not one.reason.startswith("it is for role"):
            for need in one.needs:
                lacking.setdefault(need, []).append(one.id)
    return [
        f"skipped: {need}: {len(ids)}, {', '.join(ids[:_NAMED])}{', ...' if len(ids) > _NAMED else ''}"
        for need, ids in sorted(lacking.items(), key=lambda item: -len(item[1]))
    ]


def _undeclared(session: Session) -> int | None:
    """Return the status of the canary's answer, when the contract does not count it as a success."""
    facts = session.bench.facts("canary")
    odd = [a.status for a in facts.attempts if a.answered and not a.classes & SUCCESS]
    return odd[0] if odd and session.bench.target.role == "api" else None


def _idless(session: Session) -> str | None:
    """Return where the canary's answer should have had an id, when it had none there."""
    facts = session.bench.facts("canary")
    shapes = session.contract.shapes(contracts.AnswerClass.ACCEPTED)
    place = next((shape.id for shape in shapes if shape.id is not None), None)
    return place if session.bench.target.role == "api" and all(a.id is None for a in facts.attempts) else None
