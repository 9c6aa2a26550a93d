"""Plays one scenario on a bench. Everything it does and sees becomes an event; it judges nothing.

No step sleeps: each awaits an event (an answer, a gate that was reached, a commit) with a deadline. A deadline that
passes ends the scenario as inconclusive, except the grace period, which only chooses when to go on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from sendtwice.fake_provider.faults import Armed, Fault, Place, Verb
from sendtwice.harness.bench import Bench
from sendtwice.harness.drivers import client, consumer
from sendtwice.harness.drivers.api import Flight
from sendtwice.harness.errors import ScenarioError
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.classes import INDEFINITE, is_definite
from sendtwice.harness.judge.effects import undelivered
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.live import Live, Names, Plan
from sendtwice.harness.requests import build, make_key
from sendtwice.harness.scenario import (
    AwaitStep,
    Burst,
    CallStep,
    CheckStep,
    CrashStep,
    Expect,
    FaultSpec,
    FinishStep,
    HangUpStep,
    HoldStep,
    Notify,
    NotifyStep,
    Operate,
    OperateStep,
    ParallelStep,
    Redeliver,
    RedeliverStep,
    RedriveStep,
    ReleaseStep,
    RestartStep,
    Scenario,
    Send,
    SendStep,
    SettleStep,
    UntilStep,
)
from sendtwice.harness.target import Sender

#: How long a finish step retries where no lease is declared; and its first pause, doubled up to the second.
FINISH_FOR, _PAUSE, _LONGEST = 1.0, 0.05, 0.4
#: After the last thing in flight has ended, this long without a new message counts as quiet.
QUIET = 0.03


class Play:
    """One scenario, being played."""

    def __init__(self, bench: Bench, scenario: Scenario) -> None:
        """Nothing happens before :meth:`run`."""
        self.bench, self.scenario = bench, scenario
        api = bench.target.api
        template = api.request.recipient if api is not None else "{token}@sendtwice.test"
        self.names = Names(scenario.id, bench.attribution, bench.recorder, template)
        self.live: dict[str, Live] = {}
        self.labelled: dict[str, list[Armed]] = {}
        self.armed: list[Armed] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.overlaps: list[tuple[list[str], float]] = []
        self.meetings: list[tuple[str, str]] = []

    async def run(self) -> None:
        """Play all steps, then let go of everything and settle."""
        try:
            for step in self.scenario.steps:
                self.bench.check_alive()
                await self._step(step)
            await self._let_go()
            await self.settle()
            self._record_overlaps()
            self._record_expectation(self.scenario.expect, final=True)
        except ScenarioError as error:
            self.record(Kind.VOID, reason=str(error))
        finally:
            await self._end()

    def record(self, kind: Kind, **data: Any) -> None:
        """Record an event of this scenario."""
        self.bench.recorder.record(kind, scenario=self.scenario.id, **data)

    # -- steps -----------------------------------------------------------------------------------------------------

    async def _step(self, step: Any) -> None:
        match step:
            case SendStep(send=item) | OperateStep(operate=item) | NotifyStep(notify=item):
                await self._attempt(item)
            case RedeliverStep(redeliver=item) | RedriveStep(redrive=item):
                await self._attempt(item)
            case ParallelStep(parallel=Burst() as burst):
                await self._parallel(
                    faults=burst.at,
                    items=[Send(**{"as": f"{burst.name}.{i}"}, like=burst.like if i == 1 else burst.like or f"{burst.name}.1",
                          op=burst.op or (None if burst.like else burst.name)) for i in range(1, burst.count + 1)]
                )
            case ParallelStep(parallel=list() as items):
                await self._parallel(items=items)
            case HoldStep(hold=spec):
                self._arm(spec, operation=self._uid(spec.of), attempt=None, label=spec.hold_label or spec.of or str(spec.crossing))
            case ReleaseStep(release=label):
                self._release(label)
            case HangUpStep(hang_up=name):
                if self.live[name].flight.ended.is_set():
                    self.meetings.append((name, f"{name}'s hang-up"))
                self._driver.hang_up(self.live[name].flight)
            case AwaitStep(awaited=name) if name not in self.live:
                reached = [armed.reached.wait() for armed in self.labelled[name]]
                await self._within(asyncio.gather(*reached), f"nothing met the fault {name!r}")
            case AwaitStep(awaited=name):
                await self._within(self.live[name].flight.ended.wait(), f"{name} did not end")
            case UntilStep(until=until):
                waits = [self.live[name].flight.ended.wait() for name in until.names]
                waits += [armed.fired_times(until.times) for armed in self.labelled.get(until.met or "", ())]
                if until.delivered is not None:
                    waits.append(self._delivered(until.delivered))
                await self._until(waits, until.or_after)
            case CheckStep(check=expect):
                self._record_expectation(expect, final=False)
            case CallStep(call=call):
                await self._call(call.name, call.of)
            case CrashStep(crash=name):
                await self._crash(name)
            case RestartStep(restart=name):
                await self.bench.launcher.restart(name)
                self.record(Kind.RESTART, process=name)
            case FinishStep(finish=name):
                await self._finish(name)
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
        return self.names.redeliver(item) if isinstance(item, Redeliver) else self.names.operate(item)

    async def _attempt(self, item: Send | Operate | Notify | Redeliver) -> Live:
        """Begin one attempt and wait for its end, or until it is held."""
        live = self._begin(self._plan(item), getattr(item, "at", ()))
        live.flight.task = self._spawn(self._fly(live))
        if item.wait == "none":
            like = getattr(item, "like", None)
            if like is not None:
                self.meetings.append((like, live.plan.name))
            return live
        held = [a for a in live.armed if a.fault.verb is Verb.HOLD]
        waits = [live.flight.ended.wait, *(a.reached.wait for a in held)]
        await self._within(_first(waits), f"{live.plan.name} neither ended nor was held")
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
        lives = [self._begin(self._plan(item), getattr(item, "at", ())) for item in items]
        for spec in faults:
            self._arm(spec, operation=lives[0].plan.uid, attempt=None, label=spec.hold_label or lives[0].plan.name)
        flights = [live.flight for live in lives]
        if self.bench.target.role == "client":
            for live in lives:
                live.flight.task = self._spawn(self._fly(live))
            spread = 0.0
        else:
            await asyncio.gather(*(self._driver.prepare(flight) for flight in flights))
            spread = self._driver.fire(flights)
            for live in lives:
                live.flight.task = self._spawn(self._driver.finish(live.flight))
            self.overlaps.append(([live.plan.name for live in lives], spread))
        for live in lives:
            held = [a.reached.wait for a in live.armed if a.fault.verb is Verb.HOLD]
            await self._within(_first([live.flight.ended.wait, *held]), f"{live.plan.name} did not end")

    def _begin(self, plan: Plan, faults: Sequence[FaultSpec]) -> Live:
        live = Live(plan, self._flight(plan))
        self.live[plan.name] = live
        role = self.bench.target.role
        for spec in faults:
            # A client's attempts are its own: they are told apart by their number, not by a name.
            by_name = role == "api" or spec.crossing.startswith("webhook.")
            operation = self._uid(spec.of) if spec.of else plan.uid
            armed = self._arm(
                spec, operation=operation, attempt=plan.name if by_name else None, label=spec.hold_label or plan.name
            )
            live.armed.append(armed)
            if role == "api" and spec.crossing is Place.CLIENT_RESPONSE and spec.verb is Verb.LOSE:
                if spec.argument in (None, "before-answer"):
                    hold = Fault(Place.PROVIDER_RESPONSE, Verb.HOLD, operation=plan.uid, label=plan.name)
                    live.flight.committed = self.bench.provider.faults.arm(hold)
                    self.labelled.setdefault(plan.name, []).append(live.flight.committed)
        return live

    def _flight(self, plan: Plan) -> Flight:
        bench = self.bench
        if bench.target.role == "client":
            return client.flight(bench, self.scenario.id, plan)
        if bench.target.role == "consumer":
            return consumer.flight(bench, self.scenario.id, plan, self.names)
        api = bench.target.api
        assert api is not None
        contract = bench.contract
        sender = api.senders.get(plan.by, Sender())
        key = make_key(contract, plan.key, self.names.keys)
        route = contract.routes["other"] if plan.change.path == "other" else contract.request
        values = self.names.values(plan, {k: bench.fill(v) for k, v in sender.values.items()})
        headers = {n: bench.fill(v) for n, v in {**api.headers, **sender.headers}.items()}
        built = build(
            contract, route, bench.url, headers, values, key, reordered=plan.change.fields == "reordered"
        )
        self.record(
            Kind.ATTEMPT,
            operation=plan.operation,
            attempt=plan.name,
            key=key.value,
            key_problem=key.problem,
            content=built.content,
            sender=plan.by,
            tenant=plan.by if plan.by == "other-tenant" else "main",
            path=route.path,
            invalid=plan.change.to == "invalid",
        )
        return Flight(plan.name, built, self.scenario.id, plan.operation, bench.url)

    async def _fly(self, live: Live) -> None:
        flight, bench = live.flight, self.bench
        if bench.target.role == "client":
            await client.operate(bench, self.scenario.id, live.plan, flight)
            return
        await self._driver.prepare(flight)
        self._driver.fire([flight])
        await self._driver.finish(flight)

    # -- faults and gates --------------------------------------------------------------------------------------------

    def _uid(self, operation: str | None) -> str | None:
        """Return the wire's name of an operation of this scenario."""
        if operation is None:
            return None
        return next((p.uid for p in self.names.plans.values() if p.operation == operation), None)

    def _arm(self, spec: FaultSpec, *, operation: str | None, attempt: str | None, label: str) -> Armed:
        fault = spec.fault(operation=operation, attempt=attempt)
        on_wire = spec.crossing.startswith("provider.") or (
            spec.crossing.startswith("client.") and self.bench.target.role == "client"
        )
        armed = (self.bench.provider.faults if on_wire else self.bench.client_faults).arm(fault)
        self.armed.append(armed)
        self.labelled.setdefault(label, []).append(armed)
        self.record(Kind.ARMED, fault=str(fault), label=label)
        return armed

    def _release(self, label: str) -> None:
        for armed in self.labelled.get(label, ()):
            armed.gate.set()
            if armed.fault.verb is not Verb.HOLD:
                self.bench.provider.faults.withdraw(armed)
                self.bench.client_faults.withdraw(armed)

    def _open_gates(self) -> None:
        for armed in (a for many in self.labelled.values() for a in many):
            armed.gate.set()

    async def _let_go(self) -> None:
        """Open every gate; what waits behind one goes on."""
        self._open_gates()
        for faults in (self.bench.provider.faults, self.bench.client_faults):
            for armed in self.armed:
                if armed.fault.verb is Verb.HOLD:
                    faults.withdraw(armed)

    async def _end(self) -> None:
        """Withdraw what is left, end what is in flight, and say which faults never fired."""
        self._open_gates()
        for armed in self.armed:
            self.bench.provider.faults.withdraw(armed)
            self.bench.client_faults.withdraw(armed)
            if armed.fired == 0:
                self.record(Kind.UNFIRED, fault=str(armed.fault))
        for live in self.live.values():
            if live.flight.committed is not None:
                self.bench.provider.faults.withdraw(live.flight.committed)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _within(self, wait: Awaitable[Any], complaint: str) -> None:
        """Await an event for as long as the target may take to answer."""
        limit = self.bench.target.timing.answers_within + 1
        if self.bench.target.role == "client" and self.bench.target.client is not None:
            limit = self.bench.target.client.timeout + 1
        try:
            async with asyncio.timeout(limit):
                await wait
        except TimeoutError:
            raise ScenarioError(f"{complaint} within {limit:g} s") from None

    async def _delivered(self, operation: str) -> None:
        """Wait for the first delivery of an operation."""

        def arrived() -> bool:
            facts = Facts(self.bench.contract, self.bench.recorder.of(self.scenario.id))
            return facts.count(facts.group_of(operation)) > 0

        await self.bench.provider.ledger.wait(arrived, timeout=self.bench.target.timing.delivers_within)

    async def _until(self, waits: Sequence[Coroutine[Any, Any, Any]], or_after: str | float | None) -> None:
        waiting = asyncio.gather(*waits)
        if or_after is None:
            await self._within(waiting, "what was waited for did not come")
            return
        grace = self.bench.target.timing.grace if or_after == "grace" else float(or_after)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await waiting

    async def settle(self) -> None:
        """Wait until nothing is in flight and every claimed success has arrived (or ``delivers_within`` is over)."""
        bench = self.bench
        for live in self.live.values():
            if not any(a.fault.verb is Verb.HOLD and a.reached.is_set() and not a.gate.is_set() for a in self.armed):
                await self._within(live.flight.ended.wait(), f"{live.plan.name} did not end")
        endpoint = bench.provider.endpoint
        # The whole of answers_within: a target may have retries of its own behind an attempt that was lost.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(bench.target.timing.answers_within):
                await endpoint.idle()
                await bench.provider.emulator.settled()
        arrived = await self._arrived()
        await bench.provider.ledger.wait(lambda: False, timeout=QUIET)
        self.record(Kind.SETTLED, arrived=arrived)

    async def _arrived(self) -> bool:
        """Wait for the mails that the target has promised."""
        bench = self.bench

        def facts() -> Facts:
            events = bench.recorder.of(self.scenario.id)
            return Facts(bench.contract, events, bench.target.role)

        def done() -> bool:
            seen = facts()
            return not any(undelivered(seen, group) and seen.doubt(group) is None for group in seen.groups)

        return await bench.provider.ledger.wait(done, timeout=bench.target.timing.delivers_within)

    # -- the rest ------------------------------------------------------------------------------------------------------

    async def _crash(self, name: str) -> None:
        async with self.bench.provider.endpoint.callers_die():
            # Noted first: the end of what the process was doing must not seem to come before its cause.
            self.record(Kind.CRASH, process=name)
            await self.bench.launcher.crash(name)
        waits = [live.flight.ended.wait() for live in self.live.values()]
        if name == "target" and waits:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await asyncio.gather(*waits)

    async def _finish(self, name: str) -> None:
        """Retry with the same key until a definite answer, or for as long as that can be expected."""
        plan, timing = self.live[name].plan, self.bench.target.timing
        lease = timing.lease or (self.bench.contract.lease.value if self.bench.contract.lease.judged else None)
        limit = lease + 2 if lease is not None else FINISH_FOR
        started, pause = self.bench.recorder.now(), _PAUSE
        for n in range(1, 1000):
            again = self._begin(self._retry(name, n, plan), ())
            again.flight.task = self._spawn(self._fly(again))
            await self._within(again.flight.ended.wait(), f"{again.plan.name} did not end")
            waited = self.bench.recorder.now() - started
            definite = self._definite(again, waited)
            if definite or waited + pause > limit:
                self.record(
                    Kind.FINISHED,
                    operation=plan.operation,
                    attempt=name,
                    definite=definite,
                    waited=waited,
                    last=again.plan.name,
                )
                return
            # A caller's pause between retries: there is nothing to await but time.
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    def _retry(self, name: str, n: int, plan: Plan) -> Plan:
        return self.names.retry(f"{name}~{n}", plan)

    def _definite(self, live: Live, waited: float) -> bool:
        if self.bench.target.role != "api":
            return live.flight.outcome == "answered"
        facts = Facts(self.bench.contract, self.bench.recorder.of(self.scenario.id))
        attempt = facts.attempt(live.plan.name)
        if attempt is None or not attempt.answered:
            return False
        # A status that may mean "conflict" as well as "in progress" is retried a little, then taken as it stands.
        ambiguous = bool(attempt.classes & INDEFINITE) and bool(attempt.classes - INDEFINITE)
        return is_definite(attempt.classes) or (ambiguous and waited > FINISH_FOR / 2)

    async def _call(self, name: str, of: str | None) -> None:
        call = self.bench.target.calls[name]
        plan = next(
            (live.plan for live in self.live.values() if of is None or live.plan.operation == of), None
        )
        status = await consumer.call(self.bench, call, self._answer_id(plan))
        self.record(Kind.CALL, operation=of, name=name, status=status)

    def _answer_id(self, plan: Plan | None) -> str:
        facts = Facts(self.bench.contract, self.bench.recorder.of(self.scenario.id))
        ids = [a.id for a in facts.attempts if plan is not None and a.operation == plan.operation and a.id]
        return ids[0] if ids else ""

    def _record_overlaps(self) -> None:
        for names, spread in self.overlaps:
            flights = [self.live[name].flight for name in names]
            times = [(f.sent_at, f.ended_at) for f in flights if f.sent_at is not None and f.ended_at is not None]
            met = any(
                a[0] < b[1] and b[0] < a[1] for i, a in enumerate(times) for b in times[i + 1 :]
            )
            self.record(Kind.OVERLAP, attempts=names, overlapped=met, spread_us=round(spread, 1))
        for first, second in self.meetings:
            mine = self.live[first].flight
            yours = self.live[second].flight if second in self.live else None
            answered_first = mine.outcome == "answered" and (
                yours is None or (yours.sent_at or 0) > (mine.ended_at or 0)
            )
            self.record(
                Kind.OVERLAP, attempts=[first, second], overlapped=not answered_first, answered_first=answered_first
            )

    def _record_expectation(self, expect: Expect, *, final: bool) -> None:
        if expect.empty:
            return

        def listed(names: str | tuple[str, ...]) -> list[str]:
            return [names] if isinstance(names, str) else list(names)

        self.record(
            Kind.EXPECTED,
            final=final,
            level=expect.level.value,
            deliveries=[
                [listed(names), [count, count] if isinstance(count, int) else list(count)]
                for names, count in expect.deliveries.items()
            ],
            answers=[
                [
                    listed(names),
                    [str(c) for c in what] if isinstance(what, list)
                    else {str(k): [str(c) for c in v] if isinstance(v, list) else v for k, v in what.items()},
                ]
                for names, what in expect.answers.items()
            ],
            told=[[operation, list(what)] for operation, what in expect.told.items()],
        )


async def _first(waits: Sequence[Callable[[], Awaitable[Any]]]) -> None:
    """Wait for the first of several events."""
    tasks = [asyncio.ensure_future(wait()) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
