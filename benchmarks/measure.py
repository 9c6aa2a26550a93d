"""What a benchmark returns: ratios of two things that were measured by turns in one run, and the table of them all.

A figure of one machine on one day says nothing; a ratio of neighbours in time says something, and its spread over
the rounds says how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Aim:
    """What a ratio should be."""

    limit: float
    at_most: bool = False

    def __str__(self) -> str:
        """Return it as the table shows it."""
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"

    def met_by(self, ratio: float) -> bool:
        """Whether a ratio is as it should be."""
        return ratio <= self.limit if self.at_most else ratio >= self.limit


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Without ratios it was not measured, and ``other`` says why."""

    what: str
    ours: str
    other: str
    ratios: tuple[float, ...] = ()
    aim: Aim | None = None

    def cells(self) -> tuple[str, ...]:
        """Return the line's cells."""
        aim = str(self.aim) if self.aim else "-"
        if not self.ratios:
            return (self.what, self.ours, self.other, "-", aim, "not measured")
        middle = median(self.ratios)
        spread = ""
        if len(self.ratios) > 1:
            low, _, high = quantiles(self.ratios, n=4, method="inclusive")
            spread = f" ({low:.2f}..{high:.2f})"
        met = "-" if self.aim is None else "yes" if self.aim.met_by(middle) else "no"
        return (self.what, self.ours, self.other, f"{middle:.2f}{spread}", aim, met)


HEADINGS = ("what", "ours", "other", "ratio (quartiles)", "aim", "met")


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text in columns."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([shown[0], "  ".join("-" * width for width in widths), *shown[1:]])


def by_round(ours: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    """Return the ratio of each round."""
    return tuple(mine / theirs for mine, theirs in zip(ours, other, strict=True))
