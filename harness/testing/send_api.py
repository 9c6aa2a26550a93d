"""A send API that a test has for itself: the emulator of a contract on a free port of this machine, with faults.

What a test reads here (mails, attempts) and does (faults, the clock) is handed over to the engine's thread, so the
handle may be used from any thread, and from tests of asyncio and trio as well: each call takes well under a
millisecond, except those that wait, which have a form to be awaited (``wait_async``, ``reached_async``).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar, Unpack

import anyio.to_thread
from pydantic import ValidationError

from sendtwice.fake_provider import contracts, dialects
from sendtwice.fake_provider.attempts import Attempt as Noted
from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.faults import Verb
from sendtwice.fake_provider.in_process import InProcess
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.provider import FakeProvider
from sendtwice.harness.fault_specs import FaultSpec
from sendtwice.harness.nearest import nearest
from sendtwice.harness.testing import redirect
from sendtwice.harness.testing.attempts import Attempt
from sendtwice.harness.testing.errors import SendtwiceError, one_line
from sendtwice.harness.testing.fault_handles import FaultHandle, Held
from sendtwice.harness.testing.guard import Guard
from sendtwice.harness.testing.thread import Engine

if TYPE_CHECKING:
    from respx import Router

_Found = TypeVar("_Found")
_Handle = TypeVar("_Handle", bound=FaultHandle)
Edge = Literal["client", "provider"]


class Where(TypedDict, total=False):
    """Which messages a fault hits: from which ``attempt``, how many ``times``, only ``to`` or with this ``key``.

    ``stage``: before a request is complete. ``may_miss``: whether it need not be met.
    """

    attempt: int
    times: int
    to: str
    key: str
    stage: Literal["connect", "headers"]
    may_miss: bool


class SendApi:
    """A contract's API for one test. As a context manager it is there, and the known SDKs are pointed at it, inside.

    ::

        with sendtwice.SendApi("resend") as api:
            api.lose("client.response", attempt=1)
            send_receipt(order_id="1042", to="a@x.test")
            assert api.deliveries == 1

    A fault that was never met fails the test at the end: it would have shown nothing. So does a connection to another
    host, even if the code under test swallowed the error; ``allow`` names the hosts that are meant.
    """

    def __init__(
        self,
        contract: str | Contract,
        *,
        edge: Edge = "client",
        allow: Sequence[str] = (),
        variables: Sequence[str] = (),
    ) -> None:
        """Take a shipped contract's name or a contract file's path; ``variables`` of the environment get its address.

        With ``edge="provider"`` it is the mail provider behind an application, and its crossings are
        ``provider.request`` and ``provider.response``.
        """
        self.edge: Edge = edge
        with one_line():
            self._contract = contract if isinstance(contract, Contract) else _read(contract, edge)
        self._running: FakeProvider | None = None
        self._engine: Engine | None = None
        self._transport: InProcess | None = None
        self._faults: list[FaultHandle] = []
        self._first_commit = self._first_attempt = 0
        self._variables = (redirect.OWN[edge], *variables)
        self._guard = Guard(allow)
        self._undo = contextlib.ExitStack()

    @classmethod
    def over(cls, provider: FakeProvider, engine: Engine) -> SendApi:
        """Return a handle of an API that somebody else starts and stops."""
        api = cls(provider.contract)
        api._engine, api._running = engine, provider
        return api

    # -- its life ------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listen, point the known SDKs here, and refuse connections to other hosts."""
        self._engine = Engine()
        try:
            provider = self._running = FakeProvider(self._contract, edge=self.edge, one_account=True)
            self._engine.do(provider.start())
            names = [name for name in (provider.contract.name, provider.contract.extends) if name is not None]
            environment = provider.environment()
            self._undo.enter_context(redirect.redirected(self.url, environment, names, more=self._variables))
            self._guard.begin()
            self._undo.callback(self._guard.end)
        except BaseException:
            self.stop(check=False)
            raise
        return self

    def stop(self, *, check: bool = True) -> None:
        """Put everything back. ``check``: raise for a fault that was never met and for a connection elsewhere."""
        self._undo.close()
        engine, self._engine = self._engine, None
        if engine is None:
            return
        missed = [handle for handle in self._faults if not handle.fired and not handle.may_miss]
        try:
            if self._transport is not None:
                self._transport.close()
            seen = engine.call(lambda: len(self._noted()))
            engine.do(self._provider.stop())
        finally:
            engine.stop()
        if check and self._guard.refused:
            raise SendtwiceError(str(self._guard.refused[0]))
        if check and missed:
            named = "; ".join(str(handle) for handle in missed)
            raise SendtwiceError(
                f"a fault was never met: {named} ({seen} attempt{'' if seen == 1 else 's'} came), so it has shown "
                "nothing. Take it out, or say may_miss=True"
            )

    def let_go(self) -> None:
        """Forget an API that somebody else stops; what it saw can still be read."""
        if self._transport is not None:
            self._transport.close()
        self._engine = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.stop(check=kind is None)

    # -- what it is and saw --------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where it listens, without a path: ``http://127.0.0.1:40123``."""
        return self._provider.url

    @property
    def contract(self) -> str:
        """The name of the contract that it keeps."""
        return self._contract.name

    @property
    def deliveries(self) -> int:
        """How many mails were really delivered; one to two recipients is one."""
        return self._call(lambda: self._provider.ledger.commits) - self._first_commit

    @property
    def mails(self) -> list[Mail]:
        """The mails that were delivered, in the order of their delivery."""
        found = self._call(lambda: list(self._provider.ledger.deliveries))
        by_commit = {delivery.commit: delivery.mail for delivery in found if delivery.commit > self._first_commit}
        return list(by_commit.values())

    @property
    def attempts(self) -> list[Attempt]:
        """The requests that it got, in the order of their arrival."""
        return self._call(lambda: [Attempt.of(noted) for noted in self._noted()])

    @property
    def keys(self) -> list[str | None]:
        """The key of each attempt; None for one without."""
        return [attempt.key for attempt in self.attempts]

    def _noted(self) -> list[Noted]:
        return self._provider.control.attempts.since(self._first_attempt)

    # -- faults --------------------------------------------------------------------------------------------------------

    def lose(self, place: str, how: str | None = None, **where: Unpack[Where]) -> FaultHandle:
        """Lose a message: the request before anything is done, or the answer after the mail is out.

        At ``client.response``, ``how`` may be ``first-byte``, ``in-body`` or ``in-chunks``: so much still arrives.

        Every fault takes: ``attempt`` (which such message it hits first; 1), ``times`` (how many; 1), ``to`` (only
        mail to this address), ``key`` (only requests with this key), ``stage`` (``connect`` or ``headers``: before a
        request is complete) and ``may_miss`` (it need not be met).
        """
        return self._put(place, Verb.LOSE, how, FaultHandle, where)

    def hold(self, place: str, **where: Unpack[Where]) -> Held:
        """Hold a message until it is released; the handle says when it is held, and lets it go."""
        return self._put(place, Verb.HOLD, None, Held, where)

    def delay(self, place: str, seconds: float, **where: Unpack[Where]) -> FaultHandle:
        """Let a message wait so many seconds."""
        return self._put(place, Verb.DELAY, seconds, FaultHandle, where)

    def drip(self, place: str, seconds: float, **where: Unpack[Where]) -> FaultHandle:
        """Send an answer in small pieces, so that it takes so many seconds."""
        return self._put(place, Verb.DRIP, seconds, FaultHandle, where)

    def cut(self, place: str, after: int, **where: Unpack[Where]) -> FaultHandle:
        """Send so many bytes of an answer and reset the connection."""
        return self._put(place, Verb.CUT, after, FaultHandle, where)

    def garble(self, place: str, how: str, **where: Unpack[Where]) -> FaultHandle:
        """Send a whole answer that says nothing: ``html``, ``empty``, ``half`` of its JSON, or half of its ``gzip``."""
        return self._put(place, Verb.GARBLE, how, FaultHandle, where)

    def reset(self, place: str, **where: Unpack[Where]) -> FaultHandle:
        """Reset the connection (RST) instead of passing the message on. To start anew, see :meth:`clear`."""
        return self._put(place, Verb.RESET, None, FaultHandle, where)

    def close(self, place: str, how: str | None = None, **where: Unpack[Where]) -> FaultHandle:
        """Close the connection (FIN) instead of passing the message on; ``after-answer`` closes it behind the answer.

        The API itself ends with its test.
        """
        return self._put(place, Verb.CLOSE, how, FaultHandle, where)

    def twice(self, place: str = "client.request", **where: Unpack[Where]) -> FaultHandle:
        """Let a request arrive twice, as a proxy does that sends it again."""
        return self._put(place, Verb.TWICE, None, FaultHandle, where)

    def answer(
        self,
        place: str,
        what: int | str,
        *,
        headers: Mapping[str, str] | None = None,
        body: str | Mapping[str, Any] | None = None,
        retry_after: float | Mapping[str, float] | None = None,
        location: str | None = None,
        **where: Unpack[Where],
    ) -> FaultHandle:
        """Answer a status, or a class of the contract's answers (``conflict``, ``rate_limited``, ``unknown``, ...).

        At ``client.request`` nothing is done; at ``client.response`` the mail is out, and the caller is told this.
        ``retry_after``: seconds, or ``{"date": seconds}`` for a date; ``location``: ``same`` or ``other`` origin.
        """
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        asked = {"retry_after": retry_after, "location": location}
        return self._put(
            place, Verb.ANSWER, what, FaultHandle, where, asked, headers=tuple((headers or {}).items()), body=text
        )

    def _put(
        self,
        place: str,
        verb: Verb,
        argument: str | float | None,
        kind: type[_Handle],
        where: Where,
        asked: Mapping[str, Any] = MappingProxyType({}),
        *,
        headers: tuple[tuple[str, str], ...] = (),
        body: str | None = None,
    ) -> _Handle:
        places = (f"{self.edge}.request", f"{self.edge}.response")
        if place not in places:
            raise SendtwiceError(f"there is no crossing {place!r} here; write {places[0]} or {places[1]}")
        known = list(Where.__annotations__)
        for name in where:
            if name not in known:
                raise SendtwiceError(f"a fault has no {name!r}; {nearest(name, known)}")
        given = {"crossing": place, "verb": verb, "argument": argument, "nth": where.get("attempt", 1)}
        given |= {"times": where.get("times", 1), "stage": where.get("stage")}
        try:
            spec = FaultSpec.model_validate(given | dict(asked))
        except ValidationError as error:
            raise SendtwiceError(_first_of(error)) from None
        to, key = where.get("to"), where.get("key")
        if spec.stage is not None and (to or key):
            raise SendtwiceError(f"at stage {spec.stage} no recipient and no key is known yet; leave to and key out")
        fault = replace(spec.fault(operation=None, attempt=None, key=key), to=to, headers=headers, body=body)
        armed = self._on().call(lambda: self._provider.faults.arm(fault))
        handle = kind(armed, self._on(), self._provider.faults, may_miss=bool(where.get("may_miss", False)))
        self._faults.append(handle)
        return handle

    # -- without sockets -----------------------------------------------------------------------------------------------

    @property
    def transport(self) -> InProcess:
        """The API as a transport of httpx, for a client that is made with ``httpx.Client(transport=...)``."""
        if self._transport is None:
            self._transport = InProcess(self._provider, self._on().loop)
        return self._transport

    def respx(self, router: Router, **pattern: Any) -> None:
        """Let a router of respx answer what fits ``pattern`` (``host="api.resend.com"``); without one, everything.

        ::

            def test_receipt(send_api, respx_mock):
                send_api.respx(respx_mock, host="api.resend.com")
        """
        router.route(**pattern).mock(side_effect=self.transport.side_effect)

    # -- time ----------------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Move the API's clock forward: past the time for which it keeps a key, for one."""
        if seconds < 0:
            raise SendtwiceError("a clock only moves forward")
        self._call(lambda: self._provider.clock.advance(seconds))

    def wait(self, deliveries: int = 1, *, timeout: float = 5.0, quiet: float = 0.0) -> int:
        """Wait until so many mails are delivered, and then for ``quiet`` seconds without another; return how many are.

        For what is sent by another thread, worker or process; :class:`SendtwiceError` when they do not come.
        """
        ledger = self._provider.ledger
        wanted = self._first_commit + deliveries

        async def more(than: int) -> bool:
            return await ledger.wait(lambda: ledger.commits > than, timeout=quiet)

        async def waited() -> int:
            met = await ledger.wait(lambda: ledger.commits >= wanted, timeout=timeout)
            while met and quiet > 0 and await more(ledger.commits):
                pass
            return ledger.commits - self._first_commit

        found = self._on().do(waited())
        if found < deliveries:
            came = len(self.attempts)
            raise SendtwiceError(
                f"{found} of {deliveries} mails were delivered within {timeout:g} s, in {came} "
                f"attempt{'' if came == 1 else 's'}; give a longer timeout, or see what became of the others"
            )
        return found

    async def wait_async(self, deliveries: int = 1, *, timeout: float = 5.0, quiet: float = 0.0) -> int:
        """Wait as :meth:`wait` does, without holding up the test's own loop (asyncio or trio)."""
        return await anyio.to_thread.run_sync(partial(self.wait, deliveries, timeout=timeout, quiet=quiet))

    def clear(self) -> None:
        """Start anew: no mails, no attempts, no faults, no keys; the address stays."""

        def cleared() -> None:
            self._provider.faults.withdraw_all()
            self._provider.addresses.reset()
            self._provider.emulator.store.clear()
            self._first_commit, self._first_attempt = (
                self._provider.ledger.commits,
                self._provider.control.attempts.last,
            )

        self._call(cleared)
        self._faults.clear()

    # -- the rest ------------------------------------------------------------------------------------------------------

    @property
    def _provider(self) -> FakeProvider:
        if self._running is None:
            raise SendtwiceError("the API is not running; use it inside its with block, or take the fixture send_api")
        return self._running

    def _on(self) -> Engine:
        if self._engine is None:
            raise SendtwiceError("the API is not running any more; ask this of it inside its with block")
        return self._engine

    def _call(self, function: Callable[[], _Found]) -> _Found:
        """Call a function on the engine's loop; what was seen can be read when that has ended, too."""
        return function() if self._engine is None else self._engine.call(function)


def _first_of(error: ValidationError) -> str:
    """Return the first complaint, in the words of a test."""
    first = error.errors()[0]
    text = str(first["msg"]).removeprefix("Value error, ")
    place = str(first["loc"][0]) if first["loc"] else ""
    return f"{'attempt' if place == 'nth' else place}: {text}" if place else text


def _read(name: str, edge: Edge) -> Contract:
    """Read a contract; a mail provider may be called by its dialect, which is the same."""
    return contracts.load(name) if edge == "client" else dialects.load(name).contract
