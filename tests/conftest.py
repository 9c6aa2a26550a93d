"""The ground that every test stands on."""

import os
import sys
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.servers import postgresql, redis_server  # noqa: F401  # fixtures for every test

# Child processes find `sendtwice`, `python` and the rest where the tests run from, activated or not.
_BIN = str(Path(sys.executable).parent)
os.environ["PATH"] = os.pathsep.join([_BIN, *(p for p in os.environ["PATH"].split(os.pathsep) if p != _BIN)])

# How long an example takes says nothing: other tests run beside it.
hypothesis.settings.register_profile("sendtwice", deadline=None)
hypothesis.settings.load_profile("sendtwice")

_REPORTS = Path(__file__).resolve().parent.parent / "reports"

# Every flag of the command line is also an environment variable: a developer's own must not change what a
# test sees.
_OURS = ("SENDTWICE_REQUIRE", "SENDTWICE_PLANS", "SENDTWICE_PLANS_SEED")
for _name in [name for name in os.environ if name.startswith("SENDTWICE_") and name not in _OURS]:
    del os.environ[_name]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show by which rule, and in which scenarios, each flawed implementation was caught (test_matrix.py)."""
    found: list[dict[str, Any]] = []
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            found += [value for name, value in getattr(report, "user_properties", ()) if name == "flaw"]
    if not found:
        return
    found.sort(key=lambda flaw: (flaw["rule"], flaw["name"]))
    terminalreporter.section(f"{len(found)} flawed implementations")
    for flaw in found:
        seen = flaw["found"].get(flaw["rule"], [])
        more = f" (+{len(seen) - 2})" if len(seen) > 2 else ""
        others = ", ".join(sorted(set(flaw["found"]) - {flaw["rule"]}))
        also = f"; also {others}" if others else ""
        where = ", ".join(seen[:2]) or "SURVIVED"
        terminalreporter.write_line(f"{flaw['rule']:26} {flaw['name']:28} {where}{more}{also}")
    _REPORTS.mkdir(exist_ok=True)
    (_REPORTS / "flaws.md").write_text(_table(found), encoding="utf-8")
    terminalreporter.write_line("All scenarios: reports/flaws.md")


def _table(found: list[dict[str, Any]]) -> str:
    lines = [
        "# Flawed implementations: by which rule and in which scenarios each was caught",
        "",
        "| Flaw | What it does wrong | Contract | Rule | Scenarios that saw it | Other rules | Played |",
        "|---|---|---|---|---|---|---|",
    ]
    for flaw in found:
        seen = "<br>".join(flaw["found"].get(flaw["rule"], [])) or "**survived**"
        others = "<br>".join(
            f"{rule}: {', '.join(scenarios)}" for rule, scenarios in flaw["found"].items() if rule != flaw["rule"]
        )
        cells = [flaw["name"], flaw["what"], flaw["contract"], flaw["rule"], seen, others, str(flaw["played"])]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
