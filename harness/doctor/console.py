"""The doctor's report for a person: a table, one line for each thing, and at the end what it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

from sendtwice.harness.doctor import Report
from sendtwice.harness.doctor.rows import Row, State
from sendtwice.harness.report.paint import Color, Paper

_COLORS = {State.OK: "green", State.WRONG: "red", State.MISSING: "yellow"}


def show(report: Report, stream: TextIO, *, color: Color = "auto", quiet: bool = False) -> None:
    """Print a report; ``quiet``: only what is not well."""
    paper = Paper(stream, color=color)
    rows = [row for row in [*report.rows, *report.machine] if not quiet or row.state is not State.OK]
    width = max((len(row.what) for row in rows), default=0)
    where = None
    for row in rows:
        if row.where != where:
            paper.line(paper.style(row.where, bold=True))
            where = row.where
        paper.line(f"  {paper.style(f'{row.state:<8}', _COLORS[row.state])}  {row.what:<{width}}  {_seen(row)}")
    for warning in report.warnings:
        paper.line(f"warning: {warning}")
    for line in _summary(report):
        paper.line(line)


def _seen(row: Row) -> str:
    return row.seen if row.should is None else f"{row.seen}; it should be: {row.should}"


def _summary(report: Report) -> list[str]:
    wrong, missing = report.wrong, [row.what for row in report.machine if row.state is State.MISSING]
    lines = []
    if missing:
        lines.append(f"not here: {', '.join(missing)}")
    if wrong:
        named = ", ".join(f"{row.what} ({row.where})" for row in wrong[:5])
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        lines.append(f"{len(wrong)} of {len(report.rows)} do not do what they are called here: {named}{more}")
    else:
        lines.append(f"all {len(report.rows)} do what they are called here, seen in {report.seconds:.1f} s")
    return lines


def write(report: Report, file: str, stream: TextIO) -> None:
    """Write a report for programs, to a file or, for ``-``, to ``stream``."""
    text = json.dumps(report.as_json(), indent=2) + "\n"
    if file == "-":
        stream.write(text)
    else:
        Path(file).write_text(text, encoding="utf-8")
