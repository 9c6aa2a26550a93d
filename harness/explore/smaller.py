"""A counterexample with fewer steps: whatever can be left out while the same promise is still broken."""

from __future__ import annotations

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness.explore.stage import Played, Stage
from sendtwice.harness.report.saved import as_document
from sendtwice.harness.scenario import Scenario, made_of


async def smaller(stage: Stage, scenario: Scenario, played: Played, rule: str) -> tuple[Scenario, Played]:
    """Leave out one step after another, the last first, and return the fewest that break ``rule``."""
    for place in reversed(range(len(scenario.steps))):
        steps = [step for i, step in enumerate(as_document(scenario)["steps"]) if i != place]
        try:
            fewer = made_of({**as_document(scenario), "steps": steps})
        except BadFileError:
            continue  # another step needs it
        # Twice: what is saved must happen again when it is played again.
        plays = [await _breaks(stage, fewer, rule)]
        if plays[0] is not None:
            plays.append(await _breaks(stage, fewer, rule))
        if plays[-1] is not None:
            scenario, played = fewer, plays[-1]
    return scenario, played


async def _breaks(stage: Stage, scenario: Scenario, rule: str) -> Played | None:
    """Play it, and return what was seen when it breaks the rule."""
    played = await stage.play(scenario)
    stage.forget(played)
    return played if any(found.rule == rule for found in played.broken) else None
