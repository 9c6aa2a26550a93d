"""libfaketime on this machine: where it is, what is wrong with it, and a copy in which that is mended.

To mend is to rename a symbol that the library interposes, so that the dynamic linker finds the C library's own instead:
one byte in the table of names of a copy. Which names, is a fact about the version and about the program; see
:mod:`~sendtwice.harness.clocks.faketime`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sendtwice.harness.clocks.shared import Shared

#: Where packages put it, and the name that is safe with threads before the one that is not.
_FOLDERS = ("/usr/lib/*/faketime", "/usr/lib64/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime")
_NAMES = ("libfaketimeMT.so.1", "libfaketime.so.1")
MISSING = "libfaketime is not installed: apt install faketime"
#: What 0.9.10 gets wrong where the monotonic clock is not moved.
SLEEP = ("clock_nanosleep",)
#: What cannot be interposed in a program whose malloc asks for the time.
JEMALLOC = ("clock_gettime", "pthread_cond_init", "pthread_cond_destroy", "pthread_cond_timedwait")

_TRIAL = "import time, threading; time.sleep(0.001); threading.Event().wait(0.001)"
_TRIAL_TAKES = 5.0


def find(given: str | None) -> Path | None:
    """Return the library: the one that the target file names, or the one that is installed."""
    if given is not None:
        path = Path(given)
        return path if path.is_file() else None
    machine = platform.machine()
    for name in _NAMES:
        found = [path for folder in _FOLDERS for path in Path("/").glob(f"{folder[1:]}/{name}")]
        if found:
            # Several architectures may be installed side by side.
            return min(found, key=lambda path: (machine not in path.parent.parent.name, str(path)))
    return None


def complaint(given: str | None) -> str | None:
    """Return why no process can be moved on this machine, with the remedy, or None."""
    if sys.platform != "linux":
        return "a clock of kind faketime needs Linux: choose another kind of [target.clock]"
    if find(given) is None:
        return MISSING if given is None else f"target.clock.library: there is no {given}"
    return None


def settings(library: Path, timestamps: Path, *, monotonic: bool) -> dict[str, str]:
    """Return the variables that the library reads."""
    found = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(timestamps),
        "FAKETIME_NO_CACHE": "1",
        # With it, a wait on a condition of the monotonic clock ends at once.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    return found if monotonic else {**found, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def mended(library: Path, names: Sequence[str], into: Path) -> Path:
    """Return a copy that does not interpose ``names``."""
    data = library.read_bytes()
    for name in names:
        # The linker's table of names stands before all other uses of the word.
        at = data.find(name.encode() + b"\0")
        if at >= 0:
            data = data[:at] + b"~" + data[at + 1 :]
    into.write_bytes(data)
    into.chmod(0o755)
    return into


@functools.cache
def spoils_sleep(library: Path) -> bool:
    """Whether a sleep of Python fails under this library when the clock was moved: tried out, once."""
    with tempfile.TemporaryDirectory(prefix="sendtwice-") as folder:
        timestamps = Path(folder, "offset")
        timestamps.write_text("+86400\n")
        shared = Shared()
        env = {**os.environ, **settings(library, timestamps, monotonic=False), "FAKETIME_SHARED": shared.value or ""}
        env = {name: value for name, value in env.items() if value and name != "FAKETIME"}
        with contextlib.closing(shared), contextlib.suppress(OSError, subprocess.TimeoutExpired):
            tried = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _TRIAL],
                env=env,
                capture_output=True,
                timeout=_TRIAL_TAKES,
                check=False,
            )
            return tried.returncode != 0
    return True


def has_jemalloc(command: Sequence[str]) -> bool:
    """Whether a program that a command names has jemalloc in it."""
    words = [word for part in command for word in part.split()]
    return any(_linked(path) for word in words if (path := shutil.which(word)) is not None)


@functools.cache
def _linked(program: str) -> bool:
    try:
        data = Path(program).read_bytes()
    except OSError:
        return False
    return data.startswith(b"\x7fELF") and (b"libjemalloc.so" in data or b"<jemalloc>: " in data)
