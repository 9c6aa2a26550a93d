"""A record that grows, and those who wait until it says something: woken by each change, never by a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Watched:
    """Wakes who waits; whoever changes it calls :meth:`wake`."""

    _waiters: set[asyncio.Event] = field(default_factory=set)

    def wake(self) -> None:
        """Let those who wait look again."""
        for waiter in self._waiters:
            waiter.set()

    async def wait(self, done: Callable[[], bool], *, timeout: float) -> bool:
        """Wait until ``done()`` holds, looking again after each change; False after ``timeout`` seconds."""
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout):
                while not done():
                    waiter.clear()
                    await waiter.wait()
        except TimeoutError:
            return done()
        finally:
            self._waiters.discard(waiter)
        return True
