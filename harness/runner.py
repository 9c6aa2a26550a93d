"""Plays one scenario on a bench. Everything it does and sees becomes an event; it judges nothing.

No step sleeps: each awaits an event (an answer, a gate that was reached, a commit) with a deadline. A deadline that
passes ends the scenario as inconclusive, except the grace period, which only chooses when to go on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from sendtwice.fake_provider.faults import Armed, Fault, Faults, Place, Verb
from sendtwice.harness import calls, clocks, mails, placeholders
from sendtwice.harness.bench import Bench
from sendtwice.harness.drivers import api, client, consumer
from sendtwice.harness.drivers.caller import Flight
from sendtwice.harness.errors import HarnessError, ScenarioError
from sendtwice.harness.expectation import as_data
from sendtwice.harness.fault_specs import STORE, FaultSpec
from sendtwice.harness.finish import finish
from sendtwice.harness.gates import Gates
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.judge.lost import awaited
from sendtwice.harness.keeper import Keeper
from sendtwice.harness.live import Live, Names, Plan
from sendtwice.harness.overlap import Overlaps
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.sends import Burst, Notify, Operate, Redeliver, Send
from sendtwice.harness.steps import (
    AdvanceStep,
    AwaitStep,
    CallStep,
    CheckStep,
    CrashStep,
    Expect,
    FinishStep,
    HangUpStep,
    HoldStep,
    NotifyStep,
    OperateStep,
    ParallelStep,
    PauseStep,
    RedeliverStep,
    RedriveStep,
    ReleaseStep,
    RestartStep,
    ResumeStep,
    SendStep,
    SettleStep,
    StopStep,
    Until,
    UntilStep,
)

#: Where the harness asks, and can be gone when the answer comes.
_ASKS = {("api", Place.CLIENT_RESPONSE), ("consumer", Place.WEBHOOK_RESPONSE)}
#: After the last thing in flight has ended, this long without a new message counts as quiet.
QUIET = 0.03


class Play:
    """One scenario, being played."""

    def __init__(self, bench: Bench, scenario: Scenario) -> None:
        """Nothing happens before :meth:`run`."""
        self.bench, self.scenario = bench, scenario
        settings = bench.target.api
        template = settings.request.recipient if settings is not None else "{token}@sendtwice.test"
        draw = mails.draw(bench.mails, scenario)
        self.names = Names(scenario, bench.attribution, bench.recorder, template, draw)
        self.live: dict[str, Live] = {}
        self.gates = Gates(scenario.id, bench.recorder)
        self.client_faults = Faults(bench.fired)  # on the wires of this scenario's own attempts
        self.tasks: set[asyncio.Task[Any]] = set()
        self.overlaps = Overlaps()
        self.keeper = Keeper(bench, scenario.id)
        self.failure: HarnessError | None = None  # why an operation could not even be asked for

    async def run(self) -> None:
        """Play all steps, then let go of everything and settle."""
        try:
            for step in self.scenario.steps:
                self.bench.check_alive()
                await self.bench.counting.look(self.scenario.id)
                await self._step(step)
                self._check_performed()
            self.gates.let_go()
            await self.keeper.wake()
            await self.settle()
            self._check_performed()
            await self._look_at_the_clock()
            self.overlaps.record(self.bench.recorder, self.scenario.id, self.live)
            self._record_expectation(self.scenario.expect, final=True)
        except ScenarioError as error:
            self.record(Kind.VOID, reason=str(error))
        finally:
            await self._end()
        try:
            await self.keeper.revive()
        except ScenarioError as error:
            self.record(Kind.VOID, reason=str(error))

    def record(self, kind: Kind, **data: Any) -> None:
        """Record an event of this scenario."""
        self.bench.recorder.record(kind, scenario=self.scenario.id, **data)

    # -- steps -----------------------------------------------------------------------------------------------------

    async def _step(self, step: Any) -> None:
        match step:
            case NotifyStep(notify=item) if self.bench.target.role == "api":
                await self._report(item)
            case SendStep(send=item) | OperateStep(operate=item) | NotifyStep(notify=item):
                await self._attempt(item)
            case RedeliverStep(redeliver=item) | RedriveStep(redrive=item):
                await self._attempt(item)
            case ParallelStep(parallel=Burst() as burst):
                consumed = self.bench.target.role == "consumer"
                await self._parallel(items=burst.notifies() if consumed else burst.sends(), faults=burst.at)
            case ParallelStep(parallel=list() as items):
                await self._parallel(items=items)
            case HoldStep(hold=spec):
                self._arm(
                    spec,
                    operation=self._uid(spec.of),
                    attempt=None,
                    label=spec.hold_label or spec.of or str(spec.crossing),
                )
            case ReleaseStep(release=label):
                self.gates.release(label)
            case HangUpStep(hang_up=name):
                if self.live[name].flight.ended.is_set():
                    self.overlaps.meeting(name, f"{name}'s hang-up")
                self._driver.hang_up(self.live[name].flight)
            case AwaitStep(awaited=name) if name not in self.live:
                await self._met(name)
            case AwaitStep(awaited=name):
                await self.within(self.live[name].flight.ended.wait(), f"{name} did not end")
            case UntilStep(until=until):
                await self._until(until)
            case CheckStep(check=expect):
                await self.bench.counting.look(self.scenario.id, final=True)
                self._record_expectation(expect, final=False)
            case CallStep(call=call):
                plans = [live.plan for live in self.live.values() if call.of in (None, live.plan.operation)]
                await calls.call(self.bench, call, plans[0] if plans else None, self.scenario.id)
            case AdvanceStep(advance=advance):
                await clocks.advance(self.bench, advance, self.scenario.id)
            case CrashStep(crash=name):
                await self._crash(name)
            case StopStep(stop=name):
                await self.keeper.stop(name)
            case PauseStep(pause=name):
                await self.keeper.pause(name)
            case ResumeStep(resume=name):
                await self.keeper.resume(name)
            case RestartStep(restart=name):
                await self.keeper.restart(name)
            case FinishStep(finish=name):
                await finish(self, name)
            case SettleStep():
                await self.settle()
            case _:
                raise AssertionError(f"no such step: {step!r}")

    @property
    def _driver(self) -> Any:
        assert self.bench.driver is not None
        return self.bench.driver

    def _plan(self, item: Send | Operate | Notify | Redeliver) -> Plan:
        if isinstance(item, Send):
            return self.names.send(item)
        if isinstance(item, Notify):
            return self.names.notify(item)
        return self.names.redeliver(item) if isinstance(item, Redeliver) else self.names.operate(item)

    async def _attempt(self, item: Send | Operate | Notify | Redeliver) -> Live:
        """Begin one attempt and wait for its end, or until it is held."""
        live = self.begin(self._plan(item), getattr(item, "at", ()))
        live.flight.task = self.spawn(self.fly(live))
        if item.wait == "none":
            like = getattr(item, "like", None)
            # A consumer may acknowledge before its work is done: then it is the work that the next one meets.
            if like is not None and self.bench.target.role != "consumer":
                self.overlaps.meeting(like, live.plan.name)
            return live
        held = [a for a in live.armed if a.fault.verb is Verb.HOLD]
        waits = [live.flight.ended.wait, *(a.reached.wait for a in held)]
        await self.within(_first(waits), f"{live.plan.name} neither ended nor was held")
        await self._queued(live, held)
        return live

    async def _queued(self, live: Live, held: Sequence[Armed]) -> None:
        """A target that answers first hands over later: its hold is waited for all the same."""
        waiting = [a for a in held if not a.reached.is_set() and a.fault.place.startswith("provider.")]
        answer = live.flight.answer
        if not waiting or answer is None or not 200 <= answer.status < 300:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.bench.target.timing.delivers_within):
                await asyncio.gather(*(a.reached.wait() for a in waiting))

    async def _parallel(
        self, *, items: Sequence[Send | Operate | Notify | Redeliver], faults: Sequence[FaultSpec] = ()
    ) -> None:
        """Let all leave at the same instant, and wait until all have ended or are held."""
        lives = [self.begin(self._plan(item), getattr(item, "at", ())) for item in items]
        for spec in faults:
            self._arm(spec, operation=lives[0].plan.uid, attempt=None, label=spec.hold_label or lives[0].plan.name)
        flights = [live.flight for live in lives]
        if self.bench.target.role == "client":
            for live in lives:
                live.flight.task = self.spawn(self.fly(live))
            spread = 0.0
        else:
            await self._driver.prepare_all(flights)
            spread = self._driver.fire(flights)
            for live in lives:
                live.flight.task = self.spawn(self._driver.finish(live.flight))
            self.overlaps.crowd([live.plan.name for live in lives], spread)
        for live in lives:
            held = [a.reached.wait for a in live.armed if a.fault.verb is Verb.HOLD]
            await self.within(_first([live.flight.ended.wait, *held]), f"{live.plan.name} did not end")

    def begin(self, plan: Plan, faults: Sequence[FaultSpec] = ()) -> Live:
        """Make an attempt and put its faults on the wires; nothing is sent yet."""
        live = Live(plan, self._flight(plan))
        self.bench.counting.expect(plan, self.names.values(plan, self._sender(plan)))
        live.flight.faults = self.client_faults
        self.live[plan.name] = live
        role = self.bench.target.role
        for spec in faults:
            # A client's attempts are its own: they are told apart by their number, not by a name.
            by_name = role == "api" or spec.crossing.startswith("webhook.")
            operation = self._uid(spec.of) if spec.of else plan.uid
            armed = self._arm(
                spec,
                operation=operation,
                attempt=plan.name if by_name else None,
                label=spec.hold_label or plan.name,
            )
            live.armed.append(armed)
            before_answer = spec.verb is Verb.LOSE and spec.argument in (None, "before-answer")
            if (role, spec.crossing) in _ASKS and before_answer:
                hold = Fault(
                    Place.PROVIDER_RESPONSE, Verb.HOLD, operation=plan.uid, label=plan.name, owner=self.scenario.id
                )
                wires = self.bench.provider.faults
                live.flight.committed = self.gates.arm(hold, wires, label=plan.name, silent=True)
        return live

    def _sender(self, plan: Plan) -> dict[str, str]:
        """Return the values of the sender of a plan."""
        settings = self.bench.target.api
        sender = settings.senders.get(plan.by) if settings is not None else None
        return dict(sender.values) if sender is not None else {}

    def _flight(self, plan: Plan) -> Flight:
        bench = self.bench
        if bench.target.role == "client":
            return client.flight(bench, self.scenario.id, plan)
        if bench.target.role == "consumer":
            return consumer.flight(bench, self.scenario.id, plan, self.names)
        return api.flight(bench, self.scenario.id, plan, self.names)

    async def fly(self, live: Live) -> None:
        """Send an attempt and wait for its end."""
        flight, bench = live.flight, self.bench
        if bench.target.role == "client":
            try:
                await client.operate(bench, self.scenario.id, live.plan, flight, self.names)
            except HarnessError as error:
                self.failure = error
            return
        await self._driver.prepare(flight)
        self._driver.fire([flight])
        await self._driver.finish(flight)

    def _check_performed(self) -> None:
        if self.failure is not None:
            raise self.failure

    # -- faults and gates --------------------------------------------------------------------------------------------

    def _uid(self, operation: str | None) -> str | None:
        """Return the wire's name of an operation of this scenario."""
        if operation is None:
            return None
        return next((p.uid for p in self.names.plans.values() if p.operation == operation), None)

    def _arm(self, spec: FaultSpec, *, operation: str | None, attempt: str | None, label: str) -> Armed:
        fault = replace(spec.fault(operation=operation, attempt=attempt), owner=self.scenario.id)
        on_wire = spec.crossing.startswith("provider.") or (
            spec.crossing.startswith("client.") and self.bench.target.role == "client"
        )
        if spec.crossing in STORE:
            wires = self.bench.store_faults
        else:
            wires = self.bench.provider.faults if on_wire else self.client_faults
        return self.gates.arm(fault, wires, label=label)

    async def _end(self) -> None:
        """Withdraw what is left, and end what is in flight."""
        self.gates.withdraw()
        await self.keeper.wake()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for live in self.live.values():  # one that was ended while it was held still has its connection
            if live.flight.wire is not None:
                live.flight.wire.close()

    # -- waiting -------------------------------------------------------------------------------------------------------

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Do something beside the steps; it is ended with the scenario."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def within(self, wait: Awaitable[Any], complaint: str) -> None:
        """Await an event for as long as the target may take to answer."""
        limit = self.bench.target.timing.answers_within + 1
        if self.bench.target.role == "client" and self.bench.target.client is not None:
            limit = self.bench.target.client.timeout + 1
        try:
            async with asyncio.timeout(limit):
                await wait
        except TimeoutError:
            raise ScenarioError(f"{complaint} within {limit:g} s") from None

    async def _met(self, label: str) -> None:
        """Wait until a fault was met; a caller that has done its work will not meet it any more."""
        met = asyncio.ensure_future(asyncio.gather(*self.gates.met(label)))
        waits: list[Callable[[], Awaitable[Any]]] = [lambda: met]
        if self.bench.target.role == "client":
            waits.append(self._all_ended)
        try:
            await self.within(_first(waits), f"nothing met the fault {label!r}")
            if not met.done():
                raise ScenarioError(f"the client has ended, and nothing met the fault {label!r}")
        finally:
            met.cancel()
            await asyncio.gather(met, return_exceptions=True)

    async def _all_ended(self) -> None:
        await asyncio.gather(*(live.flight.ended.wait() for live in self.live.values()))

    async def _delivered(self, operation: str) -> None:
        """Wait for the first delivery of an operation."""

        def arrived() -> bool:
            facts = self.bench.facts(self.scenario.id)
            return facts.count(facts.group_of(operation)) > 0

        within = self.bench.target.timing.delivers_within
        await self.bench.counting.wait(self.scenario.id, arrived, timeout=within)

    async def _until(self, until: Until) -> None:
        waits: list[Coroutine[Any, Any, Any]] = [self.live[name].flight.ended.wait() for name in until.names]
        if until.met is not None:
            waits += self.gates.met(until.met, until.times)
        if until.delivered is not None:
            waits.append(self._delivered(until.delivered))
        waiting = asyncio.gather(*waits)
        or_after = until.or_after
        if or_after is None:
            await self.within(waiting, "what was waited for did not come")
            return
        grace = self.bench.grace if or_after == "grace" else float(or_after)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await waiting

    async def settle(self) -> None:
        """Wait until nothing is in flight and every claimed success has arrived (or ``delivers_within`` is over)."""
        bench = self.bench
        for live in self.live.values():
            if not self.gates.holding:
                await self.within(live.flight.ended.wait(), f"{live.plan.name} did not end")
        endpoint = bench.provider.endpoint
        # The whole of answers_within: a target may have retries of its own behind an attempt that was lost.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(bench.target.timing.answers_within):
                await endpoint.idle({live.plan.uid for live in self.live.values()})
                await bench.provider.emulator.settled()
        arrived = await self._arrived()
        await bench.provider.ledger.wait(lambda: False, timeout=QUIET)
        self.record(Kind.SETTLED, arrived=arrived)

    async def _arrived(self) -> bool:
        """Wait for the mails that the target has promised."""
        bench = self.bench

        def facts() -> Facts:
            return bench.facts(self.scenario.id)

        def done() -> bool:
            seen = facts()
            return not any(awaited(seen, group) for group in seen.groups)

        return await bench.counting.wait(self.scenario.id, done, timeout=bench.target.timing.delivers_within)

    # -- the rest ------------------------------------------------------------------------------------------------------

    async def _crash(self, name: str) -> None:
        await self.keeper.crash(name)
        client = self.bench.target.client
        # Of a job on a queue only the outcome is asked for, and whoever asks does not die with the target.
        if name == "target" and not (self.bench.target.role == "client" and client is not None and client.queued):
            # What was in flight breaks off at once: the kernel has closed the dead process's sockets.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await asyncio.gather(*(live.flight.ended.wait() for live in self.live.values()))

    async def _look_at_the_clock(self) -> None:
        """Say that nothing is shown where the target's clock was to move, and did not."""
        if any(isinstance(step, AdvanceStep) for step in self.scenario.steps):
            doubt = await self.bench.clock.doubt(self.bench)
            if doubt is not None:
                self.record(Kind.VOID, reason=doubt, clock=True)

    async def _report(self, item: Notify) -> None:
        """The provider tells of an operation's mail."""
        operation = item.op or item.name
        plan = next(live.plan for live in self.live.values() if live.plan.operation == operation)
        values = self.names.values(plan, self._sender(plan))
        by_mailbox = "mailbox" in placeholders.names(self.bench.contract.request.body) and "mailbox" in values
        await calls.report(
            self.bench, operation, plan, str(values["mailbox" if by_mailbox else "from"]), self.scenario.id
        )

    def _record_expectation(self, expect: Expect, *, final: bool) -> None:
        if expect.empty:
            return
        self.record(Kind.EXPECTED, final=final, **as_data(expect))


async def _first(waits: Sequence[Callable[[], Awaitable[Any]]]) -> None:
    """Wait for the first of several events."""
    tasks = [asyncio.ensure_future(wait()) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
