"""Operations on their way from the engine's thread to the test, and what became of them on the way back.

A sync test performs one operation at a time in its own thread, so that what belongs to a thread (a database session, a
transaction that is rolled back) is at hand. Only an operation that is asked for while another is still going on runs
in a thread beside it, with a copy of the test's context variables. An async test awaits its callable in its own loop,
all of them at once; a sync callable of an async test runs in a worker thread, as it must not hold up the loop.

What a callable says of an operation: it returned, so the mail is sent; it raised, so it is not, unless ``told`` says
that such an exception means ``unknown`` or ``sent``. It may also return ``"sent"``, ``"not_sent"``, ``"unknown"``, or
False for not sent.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import anyio.to_thread

from sendtwice.harness.errors import HarnessError
from sendtwice.harness.operations import Operation, Told
from sendtwice.harness.testing.guard import UnexpectedHostError

#: What performs an operation: it may be async.
Callback = Callable[[Operation], Any]
#: Seconds for what was performed beside the test's own thread to end: its connections are closed by then.
_AT_MOST = 10.0


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception of the callable, and what it was taken to mean."""

    operation: Operation
    error: Exception
    told: Told


@dataclass(slots=True, eq=False)
class _Asked:
    operation: Operation
    told: Future[Told] = field(default_factory=Future)


class Performer:
    """Takes operations from the engine and has them performed by the test."""

    def __init__(self, told: Mapping[type[BaseException], Told]) -> None:
        """``told``: what exceptions mean other than not sent."""
        self._told = told
        self._queue: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._in_test: _Asked | None = None
        self._threads: list[threading.Thread] = []
        self._context = contextvars.copy_context()
        self._together = False  # the test performs all at once, in its loop
        self.function: Callback | None = None
        self.waiting = threading.Event()  # something is to be done, or nothing will be any more
        self.raised: list[Raised] = []
        self.fatal: BaseException | None = None

    # -- on the engine's loop ------------------------------------------------------------------------------------------

    async def perform(self, operation: Operation) -> Told:
        """Have an operation performed, and return what the test says became of it."""
        asked = _Asked(operation)
        if self._together or self._in_test is None or self._in_test.told.done():
            self._in_test = asked
            self._queue.put(asked)
        else:
            work = functools.partial(self._context.copy().run, self._do, asked)
            thread = threading.Thread(target=work, name=f"sendtwice {operation.id}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self.waiting.set()
        # Whoever gives up on it does not end it: the callable goes on, as it would in life.
        return await asyncio.shield(asyncio.wrap_future(asked.told))

    def end(self) -> None:
        """Let the test go on: nothing more will be asked."""
        self._queue.put(None)
        self.waiting.set()

    # -- in the test ---------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Perform what is asked for, in this thread, until nothing more is."""
        if inspect.iscoroutinefunction(self.function):
            # The loop is the callable's own, for all of its operations; the default one of the thread is left alone.
            self._together = True
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                runner.run(self.serve_async())
            return
        self._context = contextvars.copy_context()
        while (asked := self._queue.get()) is not None:
            self._do(asked)
        for thread in self._threads:
            thread.join(_AT_MOST)

    async def serve_async(self) -> None:
        """Perform what is asked for, in this task's loop, until nothing more is."""
        self._together = True
        try:
            async with anyio.create_task_group() as group:
                while (asked := await anyio.to_thread.run_sync(self._queue.get, abandon_on_cancel=True)) is not None:
                    group.start_soon(self._do_async, asked)
        finally:
            self._queue.put(None)  # whoever still waits for it

    def _do(self, asked: _Asked) -> None:
        try:
            value = self._call(asked.operation)
            if inspect.isawaitable(value):
                with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                    value = runner.run(_awaited(value))
        except BaseException as error:  # noqa: BLE001  # whatever a user's code raises must find its way to the test
            self._failed(asked, error)
        else:
            asked.told.set_result(_meaning(value))

    async def _do_async(self, asked: _Asked) -> None:
        try:
            if inspect.iscoroutinefunction(self.function):
                value = await self._call(asked.operation)
            else:
                call = functools.partial(self._call, asked.operation)
                value = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
                value = await value if inspect.isawaitable(value) else value
        except anyio.get_cancelled_exc_class():
            asked.told.set_result("unknown")
            raise
        except BaseException as error:  # noqa: BLE001
            self._failed(asked, error)
        else:
            asked.told.set_result(_meaning(value))

    def _call(self, operation: Operation) -> Any:
        __tracebackhide__ = True
        assert self.function is not None
        return self.function(operation)

    def _failed(self, asked: _Asked, error: BaseException) -> None:
        if not isinstance(error, Exception) or isinstance(error, UnexpectedHostError):
            # A skip, an interrupt, a mail that would have left this machine: the end of the test, and no outcome.
            self.fatal = self.fatal or error
            asked.told.set_exception(HarnessError("the callable ended the test"))
            return
        meanings: list[Told] = [self._told[kind] for kind in type(error).__mro__ if kind in self._told]
        told: Told = meanings[0] if meanings else "not_sent"
        self.raised.append(Raised(asked.operation, error, told))
        asked.told.set_result(told)


async def _awaited(value: Any) -> Any:
    return await value


def _meaning(value: object) -> Told:
    if value is False:
        return "not_sent"
    return cast("Told", value) if isinstance(value, str) and value in ("sent", "not_sent", "unknown") else "sent"
