"""What a container says and how it ends, followed in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any


class Follower:
    """Follows a container from one start to its end; over its restarts each has its own.

    The engine gives a container's output from its first start on, so what was written already is passed over.
    """

    def __init__(self, container: Any, log: Path, written: int) -> None:
        """``written``: how many bytes of the output are in ``log`` already."""
        self.ended = asyncio.Event()
        self.status: int | None = None
        self.starved = False
        self.lost: str | None = None
        self.written = written
        self._container, self._log = container, log
        self._loop = asyncio.get_running_loop()
        # A daemon: an engine that hangs must not keep the run from ending.
        threading.Thread(target=self._follow, name=f"follow {log.stem}", daemon=True).start()

    def _follow(self) -> None:
        try:
            self._write(follow=True)
            self.status = int(self._container.wait()["StatusCode"])
            self._write(follow=False)  # the last words may come after the end of what is followed
            self._container.reload()
            self.starved = bool(self._container.attrs["State"].get("OOMKilled"))
        except Exception as error:  # noqa: BLE001  # whatever it is, the container is out of sight
            if self.status is None:
                self.lost = str(error)
        finally:
            with contextlib.suppress(RuntimeError):  # the run is over
                self._loop.call_soon_threadsafe(self.ended.set)

    def _write(self, *, follow: bool) -> None:
        seen = 0
        chunks = self._container.logs(stream=True, follow=follow)
        with self._log.open("ab") as file:
            for chunk in chunks:
                fresh = chunk[max(0, self.written - seen) :]
                seen += len(chunk)
                if fresh:
                    file.write(fresh)
                    file.flush()
                    self.written = seen
