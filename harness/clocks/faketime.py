"""The clock of whole processes, moved by libfaketime: it is loaded before the C library and answers for the clock.

Every process that the target file starts gets it, and a store among them, unless its ``clock`` is false. The offset
stands in a file that each call reads, so all of them move at the same instant, their children and sleepers too, and a
process that is started later has the time of the others.

What it does not reach: programs that ask the kernel without the C library (Go), statically linked ones, setuid ones,
and those of another architecture. Such a process has not loaded the library, or the ``Date`` of its answers stays
behind; both are looked at. Only the time of day is moved. Timeouts and timers count on another clock, which goes on as
it is unless ``monotonic`` says so; CPython hangs then, because it waits in a way that the library does not know. The
time of a file seems to move along with the clock, so a lock file never grows old.

Traps, each with what is done about it here:

- The library without threads gives torn times when threads ask at once: ``libfaketimeMT`` is used where it is there.
- 0.9.10 (Debian 12, Ubuntu 22.04 and 24.04) makes ``time.sleep`` of CPython 3.11 fail, and a wait on a condition of
  another clock end at once. The first is tried out, and the sleep then left to the C library; the second is a setting.
- A program with jemalloc (``redis-server``) hangs, because the library asks for memory before it is ready. Such a
  program keeps its own ``clock_gettime`` and conditions; it is moved by ``gettimeofday`` and ``time`` alone.
- It makes shared memory for each process and forgets it when the process is killed; and one that changes its user may
  not open what it made before. So it is made here, for each start, and removed at the end.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sendtwice.harness.clocks import dates, library
from sendtwice.harness.clocks.shared import Shared
from sendtwice.harness.clocks.still import Still, written
from sendtwice.harness.errors import ScenarioError

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench

#: A date has whole seconds, so a shorter move cannot be told by it.
_SEEN_FROM = 20.0


class FakeTime(Still):
    """The clock of all processes that the target file starts."""

    whole = True

    def __init__(self, *, monotonic: bool, library: str | None) -> None:
        """Nothing is made before the first process."""
        self._monotonic, self._given = monotonic, library
        self._folder: Path | None = None
        self._shared: dict[str, Shared] = {}
        self._unmoved: str | None = None  # why a process keeps its own time
        self._seen: bool | None = None  # whether its answers show that it moves

    # -- processes ---------------------------------------------------------------------------------------------------

    def environment(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
        """Put the library before what the process preloads by itself."""
        found = library.find(self._given)
        if found is None:
            return dict(env)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="sendtwice-clock-"))
            self._folder.chmod(0o755)  # a process that changes its user reads it too
            self._write(0.0)
        settings = library.settings(self._fitting(found, command), self._timestamps, monotonic=self._monotonic)
        if env.get("LD_PRELOAD"):
            settings["LD_PRELOAD"] += f":{env['LD_PRELOAD']}"
        if name in self._shared:
            self._shared[name].close()
        shared = self._shared[name] = Shared()
        if shared.value is not None:
            settings["FAKETIME_SHARED"] = shared.value
        # FAKETIME itself would outrank the file.
        return {**{key: value for key, value in env.items() if not key.startswith("FAKETIME")}, **settings}

    def _fitting(self, found: Path, command: Sequence[str]) -> Path:
        """Return the library, or a copy that is mended for this machine and this program."""
        names: tuple[str, ...] = ()
        if not self._monotonic and library.spoils_sleep(found):
            names += library.SLEEP
        if library.has_jemalloc(command):
            names += library.JEMALLOC
        if not names:
            return found
        assert self._folder is not None
        into = self._folder / f"{len(names)}-{found.name}"
        return into if into.exists() else library.mended(found, names, into)

    def started(self, name: str, pids: Iterable[int]) -> None:
        """Look whether the library was loaded: where it cannot be, the linker goes on without it."""
        loaded = [_loaded(pid) for pid in pids]
        if loaded and not any(one is not False for one in loaded):
            self._unmoved = (
                f"its clock did not move: process {name!r} has not loaded libfaketime (a static program, as in Go, a "
                "setuid one, or one for another architecture); give it clock = false, or [target.clock] another kind"
            )

    # -- time --------------------------------------------------------------------------------------------------------

    async def move(self, bench: Bench, scenario: str, seconds: float) -> None:
        """Write the new offset, and see whether the target's answers show it."""
        del scenario
        if self._unmoved is not None:
            raise ScenarioError(self._unmoved)
        if self._seen is False:
            raise ScenarioError(_STAYED)
        looks = self._seen is None and seconds >= _SEEN_FROM
        before = await dates.ahead(bench) if looks else None
        offset = bench.clock_offset + seconds
        self._write(offset)
        if before is not None:
            self._seen = await dates.moved(bench, at_least=before + seconds / 2)
            if self._seen is False:
                raise ScenarioError(_STAYED)

    async def doubt(self, bench: Bench) -> str | None:
        """Look again, where the target could not answer when it was moved."""
        if self._seen is None and bench.clock_offset >= _SEEN_FROM:
            self._seen = await dates.moved(bench, at_least=bench.clock_offset / 2)
        return _STAYED if self._seen is False else None

    @property
    def _timestamps(self) -> Path:
        assert self._folder is not None
        return self._folder / "offset"

    def _write(self, offset: float) -> None:
        """Give all processes a new offset at one instant: none reads half of a file that was renamed."""
        if self._folder is not None:
            fresh = self._folder / "offset.new"
            fresh.write_text(f"+{written(offset)}\n")
            fresh.chmod(0o644)
            fresh.replace(self._timestamps)

    def close(self) -> None:
        """Remove the file, the copies and the shared memory."""
        for shared in self._shared.values():
            shared.close()
        self._shared.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


_STAYED = (
    "its clock did not move: the Date of its answers stayed behind (it asks the kernel itself, as programs in Go do, "
    "or another program writes the Date); choose another kind of [target.clock]"
)


def _loaded(pid: int) -> bool | None:
    """Whether a process has loaded the library; None when that cannot be seen."""
    try:
        return "libfaketime" in Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    except OSError:
        return None
