"""One scenario, played with a test as the code that sends.

The engine starts the API and asks for its first plain mail (the canary) before the test's function runs; that waits
until the function has returned and so has registered its callable. Then the test performs what it is asked for, and
what was seen is judged. A last plain mail and a short watch make "never twice" mean something, as at the end of a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from sendtwice.harness.operations import Told
from sendtwice.harness.result import RunResult, ScenarioResult, Verdict
from sendtwice.harness.session import Session
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.testing import redirect, report
from sendtwice.harness.testing.errors import SendtwiceError, one_line
from sendtwice.harness.testing.guard import Guard
from sendtwice.harness.testing.performing import Callback, Performer
from sendtwice.harness.testing.scenarios import Part, target_of
from sendtwice.harness.testing.send_api import SendApi
from sendtwice.harness.testing.settings import Choice
from sendtwice.harness.testing.thread import Engine

_Function = TypeVar("_Function", bound=Callback)
#: Seconds for the API to be there.
_START = 20.0
#: Seconds that a test watches for late mails when it does not say ``retries_for``.
_WATCH = 0.1


class Sendtwice:
    """The fixture ``sendtwice``: registers what sends, and knows where the API is."""

    def __init__(self, choice: Choice, part: Part, folder: Path) -> None:
        """Play ``part`` as a test asks; ``folder`` is the test file's."""
        self._choice, self._part = choice, part
        told = {kind: cast("Told", word) for kind, word in choice.told.items()}
        self._performer = Performer(told)
        self._guard = Guard(choice.allow)
        self._undo = contextlib.ExitStack()
        self._run: Future[RunResult] | None = None
        with one_line():
            self._session = Session(
                target_of(choice),
                folder / "test",
                [part.scenario],
                RunSettings(jobs=1, watch=_WATCH),
                perform=self._performer.perform,
            )
        self._engine = Engine()
        self._api: SendApi | None = None

    # -- what a test uses ----------------------------------------------------------------------------------------------

    def operate(self, function: _Function) -> _Function:
        """Register what performs an operation: ``function(op)``, sync or async; ``op`` is the same when asked again.

        It returned: the mail is sent. It raised: it is not, unless the marker's ``told`` says otherwise. It may also
        return ``"sent"``, ``"not_sent"``, ``"unknown"``, or False for not sent.
        """
        if not callable(function):
            raise SendtwiceError("operate registers a callable that takes the operation: @sendtwice.operate")
        if self._performer.function is not None:
            raise SendtwiceError("a callable is registered already; one performs all operations of a test")
        self._performer.function = function
        return function

    @property
    def scenario(self) -> str:
        """The id of the scenario that is played."""
        return self._part.scenario.id

    @property
    def url(self) -> str:
        """Where the API listens, without a path; the known SDKs are pointed at it already."""
        return self.api.url

    @property
    def api(self) -> SendApi:
        """The API itself: its mails and attempts, and faults beside those of the scenario."""
        if self._api is None:
            self._api = SendApi.over(self._session.bench.provider, self._engine)
        return self._api

    # -- what the plugin does with it ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the API and point the known SDKs at it."""
        self._run = self._engine.begin(self._session.run())
        self._run.add_done_callback(lambda _: self._performer.end())
        if not self._performer.waiting.wait(_START):
            raise SendtwiceError(f"the API was not there within {_START:g} s")
        if self._run.done():
            error = self._run.exception() or self._run.result().error
            raise SendtwiceError(" ".join(str(error).split()))
        provider = self._session.bench.provider
        names = [name for name in (provider.contract.name, provider.contract.extends) if name is not None]
        more = (redirect.OWN["client"], *self._choice.env)
        self._undo.enter_context(redirect.redirected(provider.url, provider.environment(), names, more=more))
        self._guard.begin()
        self._undo.callback(self._guard.end)

    def stop(self) -> None:
        """Put everything back, whatever has happened."""
        self._undo.close()
        if self._run is not None and not self._run.done():
            self._run.cancel()
        if self._run is not None:
            self._engine.do(self._ended())
        if self._api is not None:
            self._api.let_go()
        self._engine.stop()

    async def _ended(self) -> None:
        """Wait until a run that was cancelled has let go of everything."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=_START)

    def around(self, function: Callable[..., Any], *, color: bool) -> Callable[..., Any]:
        """Return a test's function with the scenario played after it."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> None:
                __tracebackhide__ = True
                await function(*args, **kwargs)
                self._check_registered()
                await self._performer.serve_async()
                self._conclude(color=color)

            return awaited

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            function(*args, **kwargs)
            self._check_registered()
            self._performer.serve()
            self._conclude(color=color)

        return called

    def _check_registered(self) -> None:
        __tracebackhide__ = True
        if self._performer.function is None:
            pytest.fail(
                f"{self._choice.test} registered nothing that sends; decorate a function that takes the operation: "
                "@sendtwice.operate",
                pytrace=False,
            )

    def _conclude(self, *, color: bool) -> None:
        """Raise what a test's outcome is, where it is not that it passed."""
        __tracebackhide__ = True
        performer = self._performer
        if performer.fatal is not None:
            raise performer.fatal
        if self._guard.refused:
            pytest.fail(str(self._guard.refused[0]), pytrace=False)
        assert self._run is not None
        try:
            run = self._run.result()
        except CancelledError:
            pytest.fail("the scenario was ended before it was over", pytrace=False)
        results = run.scenarios
        if run.error is not None and not any(result.broken for result in results):
            self._could_not(run.error.replace("{api_url}", "sendtwice.url"))
        for result in results:
            self._judge(result, color=color)

    def _could_not(self, error: str) -> None:
        """Say why nothing could be played; a callable that raised is the best answer to that."""
        __tracebackhide__ = True
        raised = self._performer.raised
        if raised:
            cause = raised[-1].error
            cause.add_note(f"sendtwice asked for one plain mail before the scenario, and this was raised: {error}")
            raise cause
        pytest.fail(f"sendtwice could not do its work: {error}", pytrace=False)

    def _judge(self, result: ScenarioResult, *, color: bool) -> None:
        __tracebackhide__ = True
        match result.verdict:
            case Verdict.FAILED:
                pytest.fail(report.failure(result, self._performer.raised, color=color), pytrace=False)
            case Verdict.SKIPPED:
                pytest.skip(result.reason or "it cannot be played here")
            case Verdict.INCONCLUSIVE:
                pytest.skip(f"inconclusive: {result.reason}")
            case Verdict.KNOWN:
                pytest.xfail(result.reason or "an accepted deviation")
            case _:
                pass
