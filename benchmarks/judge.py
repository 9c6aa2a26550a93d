"""How fast the judge is, and how its cost grows with the number of keys."""

from __future__ import annotations

import math
import time
from statistics import linear_regression, median

from benchmarks.measure import Aim, Row
from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.judge import judge
from tests.harness.histories import History

_CONTRACT = "resend"
_SIZES = (1_000, 10_000, 100_000)
#: A history that would take longer than this is left out, so that the whole run ends in time.
_PATIENCE = 30.0


def run(*, quick: bool) -> list[Row]:
    """Measure, and return the rows."""
    costs: dict[int, float] = {}
    left_out = ""
    for size in _SIZES[:2] if quick else _SIZES:
        # A judge that looks at every pair shows it only with many: the worst is expected.
        if costs and (worst := costs[max(costs)] * (size / max(costs)) ** 2) > _PATIENCE:
            left_out = f"; {size // 1000}k left out, up to {worst:,.0f} s"
            break
        costs[size] = _cost(_history(size))
    largest = max(costs)
    per_second = largest / costs[largest]
    exponent = _exponent(costs)
    sizes = ", ".join(f"{size // 1000}k: {cost:.2f} s" for size, cost in costs.items())
    return [
        Row(
            f"judge: {largest:,} events, ten to a key",
            f"{per_second:,.0f} events/s",
            "100,000 events/s",
            (per_second / 100_000,),
            Aim(1),
        ),
        Row(
            "judge: exponent of its cost over the number of keys",
            f"{exponent:.2f}",
            f"1 ({sizes}{left_out})",
            (exponent,),
            Aim(1.1, at_most=True),
        ),
    ]


def _history(size: int) -> History:
    """Make a history of sound sends: each key is asked for, delivered, and asked for again; some answers are lost."""
    history = History.under(_CONTRACT)
    for number in range(size // 10):
        op, again = f"o{number}", f"o{number}-again"
        history.send(op)
        history.deliver(op)
        if number % 5:
            history.answer(op, number=f"m{number}")
        else:
            history.ends(op)
        history.send(again, like=op)
        history.answer(again, "replayed" if "replayed" in history.contract.answers else "accepted", number=f"m{number}")
    return history


def _cost(history: History) -> float:
    """Return the CPU seconds that judging takes; the middle of three where that is not long."""
    costs: list[float] = []
    while len(costs) < 3 and sum(costs) < _PATIENCE / 10:
        begun = time.process_time()
        judgement = judge(history.contract, history.events)
        costs.append(time.process_time() - begun)
        broken = [finding.message for finding in judgement.findings if finding.level is Level.MUST]
        assert not broken, f"a sound history was found to break a rule: {broken[0]}"
    return median(costs)


def _exponent(costs: dict[int, float]) -> float:
    """Return the slope of the cost over the size, both as logarithms."""
    return linear_regression([math.log(size) for size in costs], [math.log(cost) for cost in costs.values()]).slope
