"""What an exploration leaves behind: its result as JSON, and the smallest counterexamples as scenario files."""

from __future__ import annotations

import sys
from pathlib import Path

import sendtwice
from sendtwice.harness.explore.events import Ended, Event
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report.files import write_text
from sendtwice.harness.report.jsonfile import as_text
from sendtwice.harness.report.saved import write_saved

SCHEMA = 1


class ExploreJson:
    """Writes the result to ``--json FILE``; ``-`` is standard output."""

    def __init__(self, path: str, target: str, contract: str, redactor: Redactor) -> None:
        """Write when the exploration is over."""
        self._path, self._target, self._contract, self._redactor = path, target, contract, redactor

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if not isinstance(event, Ended):
            return
        head = {
            "schema": SCHEMA,
            "sendtwice": sendtwice.__version__,
            "target": self._target,
            "contract": self._contract,
        }
        text = as_text(self._redactor.data({**head, **event.result.as_json()}))
        if self._path == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            write_text(Path(self._path), text)


class Saved:
    """Writes the smallest counterexample of each rule."""

    def __init__(self, target_path: Path, contract: str, redactor: Redactor) -> None:
        """``contract`` is what was judged by: a shipped name, or a file's path."""
        self._target_path, self._contract, self._redactor = target_path, contract, redactor

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if not isinstance(event, Ended):
            return
        for example in event.result.smallest:
            if example.replay is not None:
                write_saved(
                    Path(example.replay),
                    example.scenario,
                    self._target_path,
                    example.as_result(),
                    1,
                    contract=self._contract,
                    redactor=self._redactor,
                )
