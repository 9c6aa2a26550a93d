"""Proves on this machine that every fault does on the wire what it is called, and says what else is there.

The wires of sendtwice are looked at by peers in bare sockets, which share no code with them (:mod:`peers`): they stand
on the other side of the fake provider, of the API that it serves, of the proxy and of a store's wire (:mod:`serving`),
and of our own callers (:mod:`calling`). What is done to a target is done to a process that counts (:mod:`processes`).
What was seen is compared with what the fault's name says, word by word. Then the same instant is measured
(:mod:`overlap`), and the machine is looked at (:mod:`capabilities`).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import sendtwice
from sendtwice.harness.doctor import calling, capabilities, overlap, processes, serving
from sendtwice.harness.doctor.rows import Row, State

#: What looks at each wire.
WIRES: dict[str, Callable[[], Awaitable[list[Row]]]] = {
    "fake provider": serving.on_the_fake_provider,
    "served API": serving.on_the_served_api,
    "proxy": serving.on_the_proxy,
    "store edge": serving.on_the_store_edge,
    "our caller": calling.by_our_caller,
    "the API's events": calling.by_the_apis_events,
    "target": processes.on_the_target,
}


@dataclass(frozen=True, slots=True)
class Report:
    """What the doctor found."""

    faults: list[Row]
    machine: list[Row]
    spread: overlap.Spread | None
    seconds: float

    @property
    def rows(self) -> list[Row]:
        """Everything that has to do what it is called."""
        return [*self.faults, *([self.spread.row()] if self.spread is not None else [])]

    @property
    def wrong(self) -> list[Row]:
        """What does not do what it is called."""
        return [row for row in self.rows if row.state is State.WRONG]

    @property
    def warnings(self) -> list[str]:
        """What makes a run on this machine worth less."""
        warning = self.spread.warning if self.spread is not None else None
        return [warning] if warning is not None else []

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        spread = self.spread
        return {
            "schema": 1,
            "sendtwice": sendtwice.__version__,
            "verdict": "wrong" if self.wrong else "proven",
            "seconds": round(self.seconds, 2),
            "faults": [row.as_json() for row in self.rows],
            "same_instant": spread
            and {
                "requests": spread.requests,
                "written_within_us": round(spread.written, 1),
                "arrived_within_us": round(spread.arrived, 1),
                "by_kernel": spread.by_kernel,
            },
            "machine": [row.as_json() for row in self.machine],
            "warnings": self.warnings,
        }


async def examine() -> Report:
    """Look at everything, one after the other: what takes long must not seem to be another's fault."""
    begun = time.perf_counter()
    faults = [row for where in WIRES for row in await looked(where)]
    here = [*await capabilities.of_this_machine(), await capabilities.clock()]
    spread: overlap.Spread | None = None
    try:
        spread = await overlap.measured()
    except (OSError, TimeoutError) as error:
        faults.append(_unmade("same instant", error))
    return Report(faults, here, spread, time.perf_counter() - begun)


async def looked(where: str) -> list[Row]:
    """Look at one wire; one that cannot even be set up does not do what it is called."""
    try:
        return await WIRES[where]()
    except Exception as error:  # noqa: BLE001  # what is broken may raise anything
        return [_unmade(where, error)]


def _unmade(where: str, error: BaseException) -> Row:
    said = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")
    return Row(where, "a plain exchange", State.WRONG, said, "it works when nothing is done to it")
