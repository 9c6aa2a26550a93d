"""A fault that a test has put somewhere: whether it was met, and for a hold, when it is let go."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Self

import anyio.to_thread

from sendtwice.fake_provider.faults import Armed, Faults
from sendtwice.harness.testing.errors import SendtwiceError
from sendtwice.harness.testing.thread import Engine


class FaultHandle:
    """A fault on a wire of the API."""

    def __init__(self, armed: Armed, engine: Engine, faults: Faults, *, may_miss: bool) -> None:
        """``may_miss``: whether it need not be met."""
        self._armed, self._engine, self._wires = armed, engine, faults
        self.may_miss = may_miss

    def __str__(self) -> str:
        fault = self._armed.fault
        which = f"attempt {fault.nth}" if fault.times == 1 else f"attempts {fault.nth} to {fault.nth + fault.times - 1}"
        only = "".join(f", {name} {value}" for name, value in (("to", fault.to), ("key", fault.key)) if value)
        return f"{fault} ({which}{only})"

    @property
    def fired(self) -> int:
        """How often it was met."""
        return self._armed.fired

    def reached(self, timeout: float = 5.0) -> Self:
        """Wait until it is met, and return it; :class:`SendtwiceError` when it is not."""

        async def met() -> bool:
            try:
                await asyncio.wait_for(self._armed.reached.wait(), timeout)
            except TimeoutError:
                return False
            return True

        if not self._engine.do(met()):
            raise SendtwiceError(f"{self} was not met within {timeout:g} s; send in another thread or task")
        return self

    async def reached_async(self, timeout: float = 5.0) -> Self:
        """Wait as :meth:`reached` does, without holding up the test's own loop (asyncio or trio)."""
        return await anyio.to_thread.run_sync(partial(self.reached, timeout))

    def withdraw(self) -> None:
        """Take it away, and let go what it holds."""
        self._engine.call(lambda: self._wires.withdraw(self._armed))


class Held(FaultHandle):
    """A message that is held. As a context manager it is let go at the end of the block."""

    def release(self) -> None:
        """Let it go on."""
        self.withdraw()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
