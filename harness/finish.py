"""The step ``finish``: a caller that retries with the same key until it knows, or the provider's own retry schedule."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sendtwice.harness import clocks
from sendtwice.harness.errors import ScenarioError
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.classes import INDEFINITE, is_definite
from sendtwice.harness.live import Live
from sendtwice.harness.schedule import see_through
from sendtwice.harness.steps import Advance

if TYPE_CHECKING:
    from sendtwice.harness.runner import Play

#: How long a finish step retries where no lease is declared; and its first pause, doubled up to the second.
FINISH_FOR, FINISH_IN_DOUBT, _PAUSE, _LONGEST = 2.0, 0.5, 0.05, 0.4
#: A lease up to this many seconds is waited for; past a longer one the clock is moved, if it can be.
LONGEST_LEASE = 60.0


async def finish(play: Play, name: str) -> None:
    """Retry with the same key until a definite answer, or for as long as that can be expected."""
    if play.bench.target.role == "consumer":
        await see_through(play, name)
        return
    plan, timing = play.live[name].plan, play.bench.target.timing
    claim = play.bench.contract.lease.lasts
    lease = timing.lease or (claim.value if claim.judged else None)
    facts = play.bench.facts(play.scenario.id)
    doubtful = weather.uncertain(facts, {plan.operation}, until=None)
    limit, moved = (FINISH_IN_DOUBT if doubtful else FINISH_FOR), 0.0
    if doubtful and lease is not None and lease <= LONGEST_LEASE:
        limit = lease + 2
    elif doubtful and lease is not None and clocks.movable(play.bench.target, in_flight=True):
        if play.bench.alone is None:
            raise ScenarioError("the lease can be waited out only by moving the clock, which others are using")
        moved = lease + 1
        await clocks.advance(play.bench, Advance(by=moved), play.scenario.id)
    started, pause = play.bench.recorder.now(), _PAUSE
    for n in range(1, 1000):
        again = play.begin(play.names.retry(f"{name}~{n}", plan))
        again.flight.task = play.spawn(play.fly(again))
        await play.within(again.flight.ended.wait(), f"{again.plan.name} did not end")
        waited = play.bench.recorder.now() - started
        definite = _definite(play, again, waited)
        if definite or waited + pause > limit:
            play.record(
                Kind.FINISHED,
                operation=plan.operation,
                attempt=name,
                definite=definite,
                waited=waited + moved,
                last=again.plan.name,
            )
            return
        # A caller's pause between retries: there is nothing to await but time.
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST)


def _definite(play: Play, live: Live, waited: float) -> bool:
    if play.bench.target.role != "api":
        return live.flight.outcome == "answered"
    facts = play.bench.facts(play.scenario.id)
    attempt = facts.attempt(live.plan.name)
    if attempt is None or not attempt.answered:
        return False
    # A status that may mean "conflict" as well as "in progress" is retried a little, then taken as it stands.
    ambiguous = bool(attempt.classes & INDEFINITE) and bool(attempt.classes - INDEFINITE)
    return is_definite(attempt.classes) or (ambiguous and waited > FINISH_IN_DOUBT)
