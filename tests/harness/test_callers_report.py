"""The table of callers and faults: what its cells say of a run, whatever the order of the runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support import ROOT

REPORT = ROOT / "tests" / "implementations" / "callers" / "report.py"
LOST = "client.response-lost"


def attempt(name: str, key: str | None, content: str = "mail") -> dict[str, Any]:
    return {"kind": "attempt", "operation": "first", "attempt": name, "data": {"key": key, "content": content}}


def asked(*told: str | None) -> list[dict[str, Any]]:
    """Asks of one operation, and what was said to each; None where it was killed."""
    events = []
    for number, word in enumerate(told):
        ask = {"operation": "first", "attempt": f"ask{number}"}
        events.append({"kind": "asked", **ask, "data": {}})
        if word is not None:
            events.append({"kind": "told", **ask, "data": {"told": word}})
    return events


def run(
    folder: Path, target: str, events: list[dict[str, Any]], mails: int = 1, *findings: str, verdict: str = "passed"
) -> Path:
    """A run of one scenario, as `sendtwice run --report DIR --json DIR/result.json` leaves it."""
    histories = folder / "20270101-120000"
    histories.mkdir(parents=True)
    (histories / f"{LOST}.history.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    found = [dict(zip(("level", "rule"), finding.split(), strict=True)) for finding in findings]
    scenario = {"id": LOST, "verdict": verdict, "deliveries": {"first": mails}, "findings": found}
    result = {
        "error": None,
        "target": target,
        "sendtwice": "1",
        "contract": "resend",
        "contract_sha256": "0" * 64,
        "scenarios": [scenario],
    }
    (folder / "result.json").write_text(json.dumps(result))
    return folder


def printed(*folders: Path) -> str:
    command = [sys.executable, str(REPORT), *map(str, folders)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def row(*folders: Path) -> str:
    return next(line for line in printed(*folders).splitlines() if line.startswith("| response-lost |"))


def test_cell_says_what_was_on_the_wire_what_was_told_and_what_was_delivered(tmp_path: Path) -> None:
    sound = [attempt("first#1", "k"), attempt("first#2", "k"), *asked(None, "sent")]

    assert row(run(tmp_path / "1", "got", sound)) == "| response-lost | 2, one key → killed, sent / 1 |"


def test_cell_shows_keys_bytes_and_rules_that_are_broken(tmp_path: Path) -> None:
    two_keys = [attempt("first#1", "a"), attempt("first#2", "b"), *asked("sent")]
    other_bytes = [attempt("first#1", "a", "one"), attempt("first#2", "a", "two"), *asked("not_sent")]

    doubled = run(tmp_path / "1", "axios", two_keys, 2, "must at-most-once", "should retry-after", verdict="failed")
    changed = run(tmp_path / "2", "got", other_bytes)

    assert row(doubled, changed) == (
        "| response-lost | 2, 2 keys → sent / **2**; **at-most-once**; *retry-after* | "
        "2, one key, other bytes → not sent / 1 |"
    )


def test_attempts_without_a_key_are_not_called_changed(tmp_path: Path) -> None:
    bare = [attempt("first#1", None, "one"), attempt("first#2", None, "two"), *asked("unknown")]

    assert row(run(tmp_path / "1", "got", bare)) == "| response-lost | 2, no key → unknown / 1 |"


def test_what_never_came_to_pass_is_not_shown_as_passed(tmp_path: Path) -> None:
    silent = run(tmp_path / "1", "got", asked("unknown"), 0, verdict="inconclusive")

    assert row(silent) == "| response-lost | 0 → unknown / 0; not shown |"


def test_runs_that_differ_are_counted_and_their_order_does_not_matter(tmp_path: Path) -> None:
    once = run(tmp_path / "1", "got", [attempt("first#1", "k"), *asked("unknown")])
    twice = run(tmp_path / "2", "got", [attempt("first#1", "k"), attempt("first#2", "k"), *asked("sent")])

    assert row(once, twice) == (
        "| response-lost | 1, one key → unknown / 1 (1 of 2) or 2, one key → sent / 1 (1 of 2) |"
    )
    assert printed(once, twice) == printed(twice, once)
