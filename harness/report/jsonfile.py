"""``--json``, the histories as JSON lines, and what ``--last-failed`` needs to know about the last run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sendtwice.harness.events import RunEnded, RunEvent
from sendtwice.harness.history import Event
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report.files import write_text
from sendtwice.harness.result import RunResult, Verdict

LAST_RUN = "last-run.json"


def as_text(data: Any) -> str:
    """Return JSON as it is written to a file."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


class JsonFile:
    """Writes the result to ``--json FILE``; ``-`` is standard output."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        """Write to ``path`` when the run has ended."""
        self._path, self._redactor = path, redactor

    def __call__(self, event: RunEvent) -> None:
        """Wait for the end of the run."""
        if not isinstance(event, RunEnded):
            return
        text = as_text(self._redactor.data(event.result.as_json()))
        if str(self._path) == "-":
            try:
                sys.stdout.write(text)
                sys.stdout.flush()
            except BrokenPipeError:
                raise
            except OSError as error:
                error.filename = "standard output"
                raise
        else:
            write_text(self._path, text)


def history_path(reports: Path, scenario_id: str) -> Path:
    """Return where the history of a scenario is, in the folder of one run's reports."""
    return reports / f"{scenario_id}.history.jsonl"


class Histories:
    """Writes each scenario's history beside the saved failures, late events included."""

    def __init__(self, reports: Path, redactor: Redactor) -> None:
        """Write into the folder of one run's reports."""
        self._reports, self._redactor = reports, redactor

    def __call__(self, event: RunEvent) -> None:
        """Wait for the end of the run: until then a late mail may add to a history."""
        if isinstance(event, RunEnded):
            for scenario in event.result.scenarios:
                if scenario.history:
                    lines = map(self._line, scenario.history)
                    write_text(history_path(self._reports, scenario.id), "".join(lines))

    def _line(self, event: Event) -> str:
        return json.dumps(self._redactor.data(event.as_json()), ensure_ascii=False) + "\n"


class LastRun:
    """Remembers which scenarios failed, for ``--last-failed``."""

    def __init__(self, folder: Path, target_path: Path | None, redactor: Redactor) -> None:
        """Write ``last-run.json`` into the report folder."""
        self._folder, self._target, self._redactor = folder, target_path, redactor

    def __call__(self, event: RunEvent) -> None:
        """Wait for the end; a run that could not begin leaves the last one as it is."""
        if isinstance(event, RunEnded) and event.result.scenarios:
            write_text(self._folder / LAST_RUN, as_text(self._redactor.data(self._summary(event.result))))

    def _summary(self, result: RunResult) -> dict[str, Any]:
        return {
            "schema": 1,
            "target": result.target,
            "target_path": str(self._target) if self._target else None,
            "started": result.started,
            "verdict": result.verdict,
            "failed": [s.id for s in result.scenarios if s.verdict is Verdict.FAILED],
        }


def last_failed(folder: Path, target_path: Path | None) -> tuple[list[str], str | None]:
    """Return the scenarios that failed in the last run, or none and why all are played."""
    path = folder / LAST_RUN
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        failed = [str(name) for name in data["failed"]]
        target = data.get("target_path")
    except FileNotFoundError:
        return [], f"there is no last run in {folder}; all scenarios are played"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [], f"{path} cannot be read; all scenarios are played"
    if target is not None and target_path is not None and target != str(target_path):
        return [], f"the last run was of another target ({data.get('target')}); all scenarios are played"
    return failed, None if failed else "nothing failed in the last run; all scenarios are played"
