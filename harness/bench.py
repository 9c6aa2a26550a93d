"""Everything a scenario is played on: the target, its provider, the wires between them, and the one recorder.

What the wires announce becomes the history in :mod:`~sendtwice.harness.announced`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from sendtwice.fake_provider import webhooks
from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.faults import Faults, Place
from sendtwice.fake_provider.provider import FakeProvider
from sendtwice.harness import clocks, placeholders
from sendtwice.harness.announced import Announced
from sendtwice.harness.attribution import Attribution, Identity
from sendtwice.harness.drivers.caller import Caller
from sendtwice.harness.drivers.wire import tls_context
from sendtwice.harness.edges.store import StoreEdge
from sendtwice.harness.effects.counting import Counting
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.history import Kind, Recorder
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.launch import External, Launcher, MakeLauncher
from sendtwice.harness.launch.commands import Commands
from sendtwice.harness.launch.container import Containers
from sendtwice.harness.launch.process import Processes
from sendtwice.harness.mails import Mails
from sendtwice.harness.operations import Perform
from sendtwice.harness.target import TargetBody

#: A target that takes so many times as long as usual is waiting for something.
_PATIENCE = 4
#: Where a target that already runs is told to send its mail.
DEFAULT_PROVIDER_PORT = 8025


class Bench:
    """One target on its wires."""

    def __init__(
        self,
        target: TargetBody,
        contract: Contract,
        folder: Path,
        logs: Path,
        perform: Perform | None = None,
        *,
        launcher: MakeLauncher | None = None,
    ) -> None:
        """Nothing starts yet; ``folder`` is the target file's, ``logs`` takes the target's output.

        ``perform`` is the target itself, where it is a function of this process; ``launcher`` makes what starts it,
        where the target file does not say, and is told the addresses.
        """
        self.perform, self._make_launcher = perform, launcher
        self.mails: Mails | None = None  # where they are varied
        self.target, self.contract, self.folder, self.logs = target, contract, folder, logs
        self.recorder = Recorder()
        self.attribution = Attribution()
        self.announced = Announced(self)
        self.fired = self.announced.fired
        self.store_faults = Faults(self.fired)
        self.stores: list[StoreEdge] = []
        self.playing: set[str] = set()  # the scenarios that are played now
        self.clock = clocks.of(target.clock)
        self.clock_offset = 0.0  # how far the target's clock was moved, in seconds
        self.provider = FakeProvider(
            contract if target.role == "client" else target.provider.dialect,
            edge="client" if target.role == "client" else "provider",
            one_account=target.role == "client",
            identify=self.attribution.uid,
            observe=self.announced.observe,
            notice=self.fired,
        )
        self.provider.ledger.subscribe(self.announced.delivered)
        self.provider.emulator.answered = self.announced.answered
        self.counting = Counting(self)
        self.webhook_secret = webhooks.make_secret()
        self.launcher: Launcher = External()
        self.values: dict[str, str] = {}
        self.urls: list[str] = []  # of the target's replicas
        self.usual = 0.0  # seconds that an attempt takes, at most, in fair weather
        self.driver: Caller | None = None
        self.turns: Iterator[int] = iter(())  # role client: the ports of a worker's instances, each asked in turn

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the provider, the wires to the stores, then the target, and work out its URLs."""
        target = self.target
        containers: Containers | None = None
        if target.container is not None:
            containers = await Containers.prepare(target.container, target.name, self.folder, self.logs)
            self.launcher = containers
        await self._start_provider(containers)
        if self._make_launcher is not None:
            self.launcher = self._make_launcher(self.values)
        reached = getattr(target, target.role)  # [target.api], [target.client] or [target.consumer]
        url = reached.url or "{port}"
        # A url with a port of its own says where the process that answers requests listens.
        own = None if "{port}" in url else urlsplit(url).port
        secure = tls_context(verify=False) if url.startswith("https") else None
        if containers is not None:
            containers.reached(self.values, own, secure)
        elif target.processes:
            processes = Processes(
                target.processes,
                self.folder,
                self.values,
                self.logs,
                front_port=own,
                front_tls=secure,
                surroundings=self.clock,
                dying=self.callers_die,
            )
            self.launcher = processes
            self.values |= processes.addresses
        if target.client is not None and target.client.command and target.role == "client":
            self.launcher = Commands(self.launcher, self.logs, queued=target.client.queued)
        await self._start_stores(containers)
        self.values["port"] = str(self.launcher.ports()[0])
        await self._start_target()
        verify: bool | str = True
        if target.api is not None and target.role == "api":
            self.urls, verify = self._replicas(target.api.url), target.api.verify_tls
        elif target.consumer is not None and target.role == "consumer":
            self.urls = self._replicas(target.consumer.url)
        elif target.client is not None and target.client.url is not None:
            parts = urlsplit(target.client.url)  # its path may be another one for each operation
            self.urls = self._replicas(f"{parts.scheme}://{parts.netloc}")
            self.turns = itertools.cycle(self.launcher.ports())
        tls = tls_context(verify) if self.url.startswith("https") else None
        self.driver = Caller(
            self.recorder,
            timeout=target.timing.answers_within,
            tls=tls,
            edge="webhook" if target.role == "consumer" else "client",
        )

    def _replicas(self, url: str) -> list[str]:
        """Return the URL of each instance of the target."""
        return [self.fill(url.replace("{port}", str(port))) for port in self.launcher.ports()]

    @property
    def url(self) -> str:
        """Where the target is; its first instance, when it has several."""
        return self.urls[0] if self.urls else ""

    def instance(self, number: int) -> str:
        """Return the URL of one of the target's instances, counted from 1, and round again after the last."""
        return self.urls[(number - 1) % len(self.urls)] if self.urls else ""

    async def _start_target(self) -> None:
        """Start what the target file starts; a store may be among it, so only then can one be missed."""
        failure: HarnessError | None = None
        try:
            await self.launcher.start()
        except HarnessError as error:
            failure = error
        absent = [words for store in self.stores if (words := await store.complaint()) is not None]
        if absent:
            raise HarnessError("; ".join([*([str(failure)] if failure else []), *absent])) from None
        if failure is not None:
            raise failure

    async def _start_stores(self, containers: Containers | None) -> None:
        for name, store in self.target.store.items():
            edge = StoreEdge(name, self.fill(store.upstream), store.protocol, self.store_faults, self._stored)
            self.stores.append(edge)
            address = await edge.start(containers.network.here if containers is not None else "127.0.0.1")
            self.values[f"store.{name}"] = containers.network.seen(address) if containers is not None else address

    @property
    def alone(self) -> str | None:
        """The scenario that whatever happens belongs to; None when none is played, or several are."""
        return next(iter(self.playing)) if len(self.playing) == 1 else None

    def _stored(self, place: Place, store: str, message: str, connection: int) -> None:
        """Note a message between the target and one of its stores."""
        self.recorder.record(Kind(place), scenario=self.alone, connection=connection, store=store, message=message)

    async def _start_provider(self, containers: Containers | None) -> None:
        settings = self.target.provider
        bind, advertise = settings.bind, settings.advertise
        if containers is not None:
            bind, advertise = await containers.network.provider_place(settings)
        port = settings.port
        started = self.target.started or self._make_launcher is not None
        if port == 0 and not started and self.target.role != "client":
            port = DEFAULT_PROVIDER_PORT
        try:
            await self.provider.start(bind, port)
        except OSError as error:
            raise HarnessError(
                f"the fake provider cannot listen on {bind}:{port} ({error.strerror}); "
                "end what listens there, or set target.provider.port"
            ) from None
        url = self.provider.url
        if advertise is not None:
            url = "http://" + advertise.replace("{port}", str(self.provider.port))
        self.values = {
            "provider_url": url,
            "api_url": url,
            "webhook_secret": self.webhook_secret,
            "clock_offset": "0",
        }

    async def stop(self) -> None:
        """End the target and the provider; nothing is left behind."""
        try:
            await self.launcher.stop()
        finally:
            self.clock.close()
            for store in self.stores:
                await store.stop()
            await self.provider.stop()
            for _ in range(5):  # let the loop close what was closed
                await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def callers_die(self) -> AsyncIterator[None]:
        """Discard what processes that die inside this block had sent, and the provider or a store not yet taken."""
        async with contextlib.AsyncExitStack() as frozen:
            await frozen.enter_async_context(self.provider.endpoint.callers_die())
            for store in self.stores:
                await frozen.enter_async_context(store.callers_die())
            yield

    @property
    def signing_time(self) -> int:
        """The time for a signature: one that is old by the target's own clock would be refused."""
        return int(time.time() + (self.clock_offset if self.clock.whole else 0.0))

    @property
    def grace(self) -> float:
        """Seconds after which an attempt that is not answered is taken to wait for another one.

        As the target file says; else several times what the target usually takes, for a slow one is not a waiting one.
        """
        timing = self.target.timing
        if "grace" in timing.model_fields_set:
            return timing.grace
        return min(max(timing.grace, _PATIENCE * self.usual), timing.answers_within)

    def learn(self, scenario: str) -> None:
        """Learn from a scenario in fair weather how long the target takes for an attempt."""
        began: dict[str | None, float] = {}
        for event in self.recorder.of(scenario):
            if event.kind is Kind.ATTEMPT:
                began[event.attempt] = event.at
            elif event.kind is Kind.ENDED and event.attempt in began:
                self.usual = max(self.usual, event.at - began[event.attempt])

    @property
    def unused_stores(self) -> list[str]:
        """The stores whose wire no message has crossed so far."""
        return [edge.name for edge in self.stores if not edge.used]

    @property
    def approval(self) -> bool:
        """Whether the target can let a send wait for a person's approval."""
        return "approval" in {*self.target.capabilities, *self.contract.can_do()}

    def facts(self, scenario: str) -> Facts:
        """Return what the history of a scenario says so far."""
        return Facts(
            self.contract,
            self.recorder.of(scenario),
            self.target.role,
            approval=self.approval,
            declared_lease=self.target.timing.lease,
            max_attempts=self.target.max_attempts,
            attempt_timeout=self.target.timing.attempt_timeout,
        )

    def fill(self, template: str) -> str:
        """Fill a template of the target file."""
        try:
            return placeholders.fill_text(template, self.values)
        except placeholders.MissingEnvironmentError as error:
            raise HarnessError(str(error)) from None

    def forget(self) -> None:
        """Forget what the provider remembers of what is over, and the connections that it came by."""
        self.provider.forget()
        self.announced.wires.clear()

    def check_alive(self) -> None:
        """Raise when the target has ended by itself."""
        words = self.launcher.died()
        if words is not None:
            self.recorder.record(Kind.DIED, scenario=self.alone, detail=words)
            raise HarnessError(words)

    def identity(self, uid: str | None) -> Identity | None:
        """Return the operation that a wire's name for it stands for."""
        return self.attribution.of_uid(uid) if uid is not None else None


def unheld(store: str) -> str:
    """Say that a store's wire is not used, and the remedy."""
    return (
        f"nothing of the target went through store {store!r}: let it use {{store.{store}}}, "
        f"or take [target.store.{store}] out"
    )
