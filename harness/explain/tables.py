"""Tables: for a terminal, with wrapped cells, and for a page in Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

Row = Sequence[str]
_GAP = "  "


def text_table(rows: Sequence[Row], *, most: Sequence[int], indent: str = "  ") -> Iterator[str]:
    """Return rows as columns, each as wide as ``most`` or its longest word; what is longer goes on in the next line."""
    words = [max((len(word) for row in rows for word in row[i].split()), default=0) for i in range(len(most))]
    widths = [max(words[i], min(limit, max(len(row[i]) for row in rows))) for i, limit in enumerate(most)]
    for row in rows:
        cells = [
            textwrap.wrap(cell, width or 1, break_long_words=False, break_on_hyphens=False) or [""]
            for cell, width in zip(row, widths, strict=True)
        ]
        for number in range(max(map(len, cells))):
            parts = [
                (cell[number] if number < len(cell) else "").ljust(width)
                for cell, width in zip(cells, widths, strict=True)
            ]
            yield f"{indent}{_GAP.join(parts)}".rstrip()


def markdown_table(head: Row, rows: Sequence[Row]) -> Iterator[str]:
    """Return rows as a table that can be pasted into a page."""
    yield _markdown_row(head)
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield _markdown_row(row)


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return " ".join(text.split()).replace("<", "&lt;").replace("|", "\\|")


def _markdown_row(cells: Row) -> str:
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"
