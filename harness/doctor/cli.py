"""``sendtwice doctor``."""

from __future__ import annotations

import sys

from sendtwice.harness import doctor as examining
from sendtwice.harness.cli_run import until_signal, writable_file
from sendtwice.harness.doctor import console
from sendtwice.harness.report.paint import Color


def doctor(*, json_file: str | None, quiet: bool, color: Color) -> int:
    """Look at everything, tell it, and return the exit status."""
    if json_file not in (None, "-"):
        writable_file(str(json_file), "--json")
    report = until_signal(examining.examine())
    console.show(report, sys.stderr if json_file == "-" else sys.stdout, color=color, quiet=quiet)
    if json_file is not None:
        console.write(report, json_file, sys.stdout)
    return 4 if report.wrong else 0
