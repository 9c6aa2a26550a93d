"""Role client: the target's own code performs an operation, and the harness is the send API it calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sendtwice.harness.drivers import performing
from sendtwice.harness.drivers.caller import Flight
from sendtwice.harness.history import Kind
from sendtwice.harness.live import Names, Plan
from sendtwice.harness.operations import Operation
from sendtwice.harness.requests import Built

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench


def flight(bench: Bench, scenario: str, plan: Plan) -> Flight:
    """Return the flight of one operation that the target was asked for; its wire attempts are the target's own."""
    return Flight(plan.name, Built("", "", "", [], b"", ""), scenario, plan.operation, bench.url)


async def operate(bench: Bench, scenario: str, plan: Plan, flight: Flight, names: Names) -> None:
    """Have the target perform one operation, and note what it says became of it."""
    recorder = bench.recorder
    recorder.record(Kind.ASKED, scenario=scenario, operation=plan.operation, attempt=plan.name, id=plan.known_as)
    words = names.values(plan, {})
    asked = Operation(plan.known_as, plan.recipients[0], words["subject"], words["text"], words["from"])
    try:
        ended = await performing.perform(bench, asked)
    except TimeoutError:
        flight.outcome = "timed-out"
        limit = bench.target.client.timeout if bench.target.client is not None else 0.0
        recorder.record(
            Kind.VOID,
            scenario=scenario,
            reason=f"the client did not end within {limit:g} s (target.client.timeout)",
            waited=limit,
        )
    else:
        flight.outcome = "lost" if ended.lost else "answered"
        if ended.told is not None:
            recorder.record(
                Kind.TOLD,
                scenario=scenario,
                operation=plan.operation,
                attempt=plan.name,
                told=ended.told,
                status=ended.status,
            )
    finally:
        flight.ended_at = recorder.now()
        flight.ended.set()
