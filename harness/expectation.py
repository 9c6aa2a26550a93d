"""What a scenario expects, as it stands in the history for the judge."""

from __future__ import annotations

from typing import Any

from sendtwice.harness.steps import Expect


def as_data(expect: Expect) -> dict[str, Any]:
    """Return an expectation as plain data: lists of names, each with what is expected of them."""
    return {
        "level": expect.level.value,
        "deliveries": [
            [_listed(names), [count, count] if isinstance(count, int) else list(count)]
            for names, count in expect.deliveries.items()
        ],
        "answers": [[_listed(names), _classes(what)] for names, what in expect.answers.items()],
        "told": [[operation, list(what)] for operation, what in expect.told.items()],
    }


def _listed(names: str | tuple[str, ...]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _classes(what: Any) -> Any:
    if isinstance(what, list):
        return [str(c) for c in what]
    return {str(k): [str(c) for c in v] if isinstance(v, list) else v for k, v in what.items()}
