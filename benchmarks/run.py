"""Measures everything and prints one table. ``python benchmarks/run.py [--quick] [--only NAME]``."""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import arrivals, exploring, judge, throughput
from benchmarks.measure import Row, table
from benchmarks.servers import RIVALS

BENCHMARKS = {"arrivals": arrivals.run, "throughput": throughput.run, "judge": judge.run, "exploring": exploring.run}


def main() -> None:
    """Run it from a command line. It never fails for a figure: what is slow on one machine may be fast on another."""
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: whether it runs, not how fast")
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="this one; may be given again")
    given = parser.parse_args()
    begun = time.monotonic()
    _say(_machine())
    rows: list[Row] = []
    for name in given.only or BENCHMARKS:
        _say(f"measuring {name} ...")
        rows += BENCHMARKS[name](quick=given.quick)
    _say(f"\n{table(rows)}\n\n{time.monotonic() - begun:.0f} s; load average at the end {os.getloadavg()[0]:.1f}")


def _machine() -> str:
    """Return what the figures depend on."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpuinfo.read_text(encoding="utf-8")) if cpuinfo.exists() else None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    pins = (RIVALS / "requirements.in").read_text(encoding="utf-8").split()
    npm = re.findall(r'"(mountebank)": "(.*)"', (RIVALS / "package.json").read_text(encoding="utf-8"))
    where = f"{model[1] if model else platform.processor()}, {cores} cores, {platform.system()} {platform.release()}"
    rivals = [*(pin.replace("==", " ") for pin in pins), *(" ".join(found) for found in npm)]
    return (
        f"{where}, load average at the start {os.getloadavg()[0]:.1f}\n"
        f"Python {platform.python_version()}, httpx {version('httpx')}, {_node()}, against {', '.join(rivals)}"
    )


def _node() -> str:
    try:
        return (
            f"node {subprocess.run(['node', '--version'], capture_output=True, text=True, check=True).stdout.strip()}"
        )
    except (OSError, subprocess.CalledProcessError):
        return "no node"


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # the table is what it is run for


if __name__ == "__main__":
    main()
