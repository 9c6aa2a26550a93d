"""The provider's retry schedule, for role consumer: an event is delivered again until it is acknowledged, or dead.

Only a 2xx acknowledges. What the provider does not get (it was lost, late, or a gateway spoke instead) does not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sendtwice.fake_provider.webhook_wire import seconds_of
from sendtwice.harness.drivers.caller import Flight
from sendtwice.harness.history import Kind
from sendtwice.harness.live import Plan

if TYPE_CHECKING:
    from sendtwice.harness.runner import Play

_GONE = 410


async def see_through(play: Play, name: str) -> None:
    """Deliver an event again by the schedule of the target file, until it is acknowledged or dead."""
    settings, recorder = play.bench.target.consumer, play.bench.recorder
    assert settings is not None
    first = play.live[name]
    if play.gates.holding and not first.flight.ended.is_set():
        return  # it is still waited for
    await play.within(first.flight.ended.wait(), f"{name} did not end")
    started, last, flight = recorder.now(), name, first.flight
    acknowledged = _acknowledged(play, first.plan)
    for number, wait in enumerate(_waits(play, settings.schedule), 1):
        if acknowledged or (flight.answer is not None and flight.answer.status == _GONE):
            break
        # The schedule of a sender: there is nothing to await but time.
        await asyncio.sleep(max(wait, _asked_for(play, flight)))
        again = play.begin(play.names.retry(f"{name}~{number}", first.plan))
        again.flight.task = play.spawn(play.fly(again))
        await play.within(again.flight.ended.wait(), f"{again.plan.name} did not end")
        last, flight = again.plan.name, again.flight
        acknowledged = _acknowledged(play, first.plan)
    play.record(
        Kind.FINISHED,
        operation=first.plan.operation,
        attempt=name,
        definite=acknowledged,
        waited=recorder.now() - started,
        last=last,
    )


def _waits(play: Play, schedule: list[float]) -> list[float]:
    """Return the schedule; where the target file says how long a claim lasts, the last wait is past that."""
    lease = play.bench.target.timing.lease
    return schedule if lease is None else [*schedule, lease + 1]


def _asked_for(play: Play, flight: Flight) -> float:
    """Return the seconds for which the target asked by Retry-After, as far as anybody waits for a test."""
    told = None if flight.answer is None else seconds_of(flight.answer.headers.get("retry-after"))
    return min(told or 0.0, play.bench.target.timing.answers_within)


def _acknowledged(play: Play, plan: Plan) -> bool:
    """Whether any delivery of an event was acknowledged."""
    return any(
        live.flight.outcome == "answered" and live.flight.answer is not None and live.flight.answer.status // 100 == 2
        for live in play.live.values()
        if live.plan.event == plan.event
    )
