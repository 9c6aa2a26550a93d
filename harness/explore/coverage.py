"""What was covered: a state for each point and deed, so that "nothing was found" says what was looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sendtwice.harness.explore.deeds import DEEDS
from sendtwice.harness.explore.plans import Move
from sendtwice.harness.explore.points import Point


class State(StrEnum):
    """What came of a plan."""

    HELD = "held"  # it was played, and no promise was broken
    BROKEN = "broken"
    NOT_APPLICABLE = "not applicable"  # this target or contract has no such thing
    NOT_REACHED = "not reached"  # the point did not come up again, or it was passed otherwise
    INCONCLUSIVE = "inconclusive"  # it was played, and shows nothing
    NOT_PLAYED = "not played"  # the budget was over before


@dataclass(slots=True)
class Cell:
    """One deed at one point."""

    state: State
    reason: str | None = None


@dataclass(slots=True)
class Coverage:
    """The table of one deed, and what came of two."""

    cells: dict[Move, Cell] = field(default_factory=dict)
    two: dict[tuple[Move, ...], State] = field(default_factory=dict)
    unstable: list[Point] = field(default_factory=list)  # crossings that were there in one play only

    def put(self, moves: tuple[Move, ...], state: State, reason: str | None = None) -> None:
        """Note what came of a plan."""
        if len(moves) == 1:
            self.cells[moves[0]] = Cell(state, reason)
        elif moves:
            self.two[moves] = state

    @property
    def points(self) -> list[Point]:
        """The points of the table, in the order in which they were found."""
        return list(dict.fromkeys(move.point for move in self.cells))

    @property
    def deeds(self) -> list[str]:
        """The columns of the table: what was done anywhere."""
        known = list(dict.fromkeys(deed.name for deeds in DEEDS.values() for deed in deeds))
        used = {move.deed.name for move in self.cells}
        return [name for name in known if name in used]

    def counts(self) -> Counter[State]:
        """How many plans of one deed came to each state."""
        return Counter(cell.state for cell in self.cells.values())

    @property
    def pairs(self) -> Counter[State]:
        """How many plans of two deeds came to each state."""
        return Counter(self.two.values())

    @property
    def all_played(self) -> bool:
        """Whether the budget has left no plan of two deeds out."""
        return State.NOT_PLAYED not in self.two.values()

    @property
    def complete(self) -> bool:
        """Whether every plan of one deed that can be played was, and showed something."""
        lacking = (State.NOT_PLAYED, State.NOT_REACHED, State.INCONCLUSIVE)
        return not self.unstable and not any(cell.state in lacking for cell in self.cells.values())

    def cell(self, point: Point, deed: str) -> Cell | None:
        """Return one cell; None where that deed is none of the point's."""
        return next((cell for move, cell in self.cells.items() if move.point == point and move.deed.name == deed), None)

    def as_json(self) -> dict[str, Any]:
        """Return the table for programs."""
        return {
            "crossings": [str(point) for point in self.points],
            "faults": self.deeds,
            "cells": [
                {
                    "crossing": str(move.point),
                    "fault": move.deed.name,
                    "state": cell.state.value,
                    **({"reason": cell.reason} if cell.reason else {}),
                }
                for move, cell in self.cells.items()
            ],
            "one": _counted(self.counts()),
            "two": _counted(self.pairs),
            "unstable": [str(point) for point in self.unstable],
        }


def _counted(counts: Counter[State]) -> dict[str, int]:
    return {state.value: counts[state] for state in State if counts[state]}
