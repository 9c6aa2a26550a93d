"""Hints for names that nothing has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(given: str, known: Iterable[str]) -> str:
    """Return a hint: the names nearest to what was given."""
    known = list(known)
    wanted = given.strip("*?[]")
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    near = near or [name for name in known if wanted and wanted in name][:3]
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known: {', '.join(known[:12])}{' and more' if len(known) > 12 else ''}" if known else "there is none"
