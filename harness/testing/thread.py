"""The engine's thread: an event loop of its own beside whatever runs the test.

A test may block, or run a loop of asyncio or trio; the send API must answer all the same. So it lives on a loop in a
thread, and whoever wants something of it hands a function over and waits for what it returns.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_Found = TypeVar("_Found")
#: Seconds for the thread to end: everything on it has been told to by then.
_AT_MOST = 10.0


class Engine:
    """A running event loop in a daemon thread."""

    def __init__(self) -> None:
        """Start it."""
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="sendtwice", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def call(self, function: Callable[[], _Found]) -> _Found:
        """Call a function on the loop, and return what it returns."""

        async def called() -> _Found:
            return function()

        return self.do(called())

    def do(self, work: Coroutine[Any, Any, _Found]) -> _Found:
        """Await something on the loop, and return its result."""
        return self.begin(work).result()

    def begin(self, work: Coroutine[Any, Any, _Found]) -> Future[_Found]:
        """Begin something on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self) -> None:
        """End what is left on the loop, then the loop and its thread."""
        if not self._thread.is_alive():
            return
        self.do(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_AT_MOST)

    async def _end(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for _ in range(5):  # let the loop close what was closed
            await asyncio.sleep(0)
        await self.loop.shutdown_asyncgens()
        await self.loop.shutdown_default_executor()
