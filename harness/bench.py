"""Everything a scenario is played on: the target, its provider, the wires between them, and the one recorder.

The bench translates what the wires announce (crossings, faults that fired, deliveries) into events of the history,
each with the scenario and the operation it belongs to. A late delivery still finds its scenario: attribution is by
the mail's own tokens, over the whole run.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sendtwice.fake_provider import webhooks
from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.faults import Crossing, Fault, Faults, Place
from sendtwice.fake_provider.http import current_connection
from sendtwice.fake_provider.ledger import Delivery, Mail
from sendtwice.fake_provider.provider import FakeProvider
from sendtwice.harness import clocks, placeholders
from sendtwice.harness.attribution import Attribution, Identity
from sendtwice.harness.drivers.caller import Caller
from sendtwice.harness.drivers.wire import decoded, tls_context
from sendtwice.harness.edges.store import StoreEdge
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.history import Kind, Recorder
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.launch import External, Launcher
from sendtwice.harness.launch.container import Containers
from sendtwice.harness.launch.process import Processes
from sendtwice.harness.target import TargetBody

#: A target that takes so many times as long as usual is waiting for something.
_PATIENCE = 4
#: Where a target that already runs is told to send its mail.
DEFAULT_PROVIDER_PORT = 8025


@dataclass(slots=True)
class _Wire:
    """What is remembered of a provider connection until its answer."""

    commits: list[int]
    attempt: str | None = None


class Bench:
    """One target on its wires."""

    def __init__(self, target: TargetBody, contract: Contract, folder: Path, logs: Path) -> None:
        """Nothing starts yet; ``folder`` is the target file's, ``logs`` takes the target's output."""
        self.target, self.contract, self.folder, self.logs = target, contract, folder, logs
        self.recorder = Recorder()
        self.attribution = Attribution()
        self.store_faults = Faults(self.fired)
        self.stores: list[StoreEdge] = []
        self.playing: set[str] = set()  # the scenarios that are played now
        self.strays = 0
        self.clock = clocks.of(target.clock)
        self.clock_offset = 0.0  # how far the target's clock was moved, in seconds
        self._wires: dict[int, _Wire] = defaultdict(lambda: _Wire([]))
        self._attempts: dict[tuple[str, str], itertools.count[int]] = {}
        self.provider = FakeProvider(
            contract if target.role == "client" else target.provider.dialect,
            edge="client" if target.role == "client" else "provider",
            identify=self.attribution.uid,
            observe=self._observe,
            notice=self.fired,
        )
        self.provider.ledger.subscribe(self._delivered)
        self.webhook_secret = webhooks.make_secret()
        self.launcher: Launcher = External()
        self.values: dict[str, str] = {}
        self.urls: list[str] = []  # of the target's replicas
        self.usual = 0.0  # seconds that an attempt takes, at most, in fair weather
        self.driver: Caller | None = None

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the provider, the wires to the stores, then the target, and work out its URLs."""
        target = self.target
        containers: Containers | None = None
        if target.container is not None:
            containers = await Containers.prepare(target.container, target.name, self.folder, self.logs)
            self.launcher = containers
        await self._start_provider(containers)
        url = target.api.url if target.api else target.consumer.url if target.consumer else "{port}"
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
        await self._start_stores(containers)
        self.values["port"] = str(self.launcher.ports()[0])
        await self._start_target()
        verify: bool | str = True
        if target.api is not None and target.role == "api":
            self.urls, verify = self._replicas(target.api.url), target.api.verify_tls
        elif target.consumer is not None and target.role == "consumer":
            self.urls = self._replicas(target.consumer.url)
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
        if port == 0 and not self.target.started and self.target.role != "client":
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
        self._wires.clear()

    def check_alive(self) -> None:
        """Raise when the target has ended by itself."""
        words = self.launcher.died()
        if words is not None:
            self.recorder.record(Kind.DIED, scenario=self.alone, detail=words)
            raise HarnessError(words)

    # -- what the wires announce -----------------------------------------------------------------------------------

    def identity(self, uid: str | None) -> Identity | None:
        """Return the operation that a wire's name for it stands for."""
        return self.attribution.of_uid(uid) if uid is not None else None

    def _observe(self, kind: str, /, **fields: Any) -> None:
        identity = self.identity(fields.get("operation"))
        scenario = identity.scenario if identity else self.alone
        operation = identity.operation if identity else None
        connection = fields.get("connection")
        wire = self._wires[connection or 0]
        data: dict[str, Any] = {}
        if "response" in fields:
            data["status"] = fields["response"].status
            data["sent"] = bool(fields.get("sent")) and not fields.get("replaced")
            data["commit"] = wire.commits.pop() if wire.commits else None
        elif "request" in fields:
            mail: Mail | None = fields.get("mail")
            data["key"] = fields.get("key")
            data["path"] = fields["request"].path
            # Which attempt of which call the provider's SDK says it is.
            data |= {name: fields[name] for name in ("call", "resend") if fields.get(name) is not None}
            if mail is not None:
                data["recipients"] = list(mail.recipients)
                data["subject"] = mail.subject
                data["sender"] = mail.sender
        name = None
        if self.target.role == "client" and identity is not None:
            name = self._client_attempt(kind, identity, wire, fields)
        self.recorder.record(
            Kind(kind), scenario=scenario, operation=operation, attempt=name, connection=connection, **data
        )
        if "response" in fields:
            self.provider.ledger.wake()  # a refusal for good ends a wait as well
        if self.target.role == "client" and "response" in fields:
            self._client_ended(scenario, operation, name, fields)

    def _client_attempt(self, kind: str, identity: Identity, wire: _Wire, fields: dict[str, Any]) -> str | None:
        """Number the attempts that a client makes by itself, as they arrive."""
        if kind != Kind.CLIENT_REQUEST:
            return wire.attempt
        counter = self._attempts.setdefault((identity.scenario, identity.operation), itertools.count(1))
        wire.attempt = f"{identity.operation}#{next(counter)}"
        request = fields["request"]
        self.recorder.record(
            Kind.ATTEMPT,
            scenario=identity.scenario,
            operation=identity.operation,
            attempt=wire.attempt,
            key=fields.get("key"),
            content=decoded(request.body),
            path=request.path,
        )
        return wire.attempt

    def _client_ended(
        self, scenario: str | None, operation: str | None, name: str | None, fields: dict[str, Any]
    ) -> None:
        response = fields["response"]
        sent = bool(fields.get("sent"))
        self.recorder.record(
            Kind.ENDED,
            scenario=scenario,
            operation=operation,
            attempt=name,
            outcome="answered" if sent else "lost",
            status=response.status,
            headers={k.lower(): v for k, v in response.headers.items()},
            body=decoded(response.body),
        )

    def fired(self, fault: Fault, crossing: Crossing) -> None:
        """Note that a fault has fired."""
        identity = self.identity(crossing.operation)
        known: dict[str, Any] = {"stage": fault.stage, "store": crossing.store, "message": crossing.message}
        self.recorder.record(
            Kind.FIRED,
            scenario=identity.scenario if identity else fault.owner or self.alone,
            operation=identity.operation if identity else crossing.operation,
            attempt=crossing.attempt,
            fault=str(fault),
            place=fault.place.value,
            verb=fault.verb.value,
            argument=fault.argument,
            **{name: value for name, value in known.items() if value},
        )
        self.provider.ledger.wake()  # a fault that ends a hand-over ends a wait as well

    def _delivered(self, delivery: Delivery) -> None:
        connection = current_connection.get()
        match = self.attribution.identify(delivery.mail, (delivery.recipient,))
        if match is None:
            self.strays += 1
            self.recorder.record(Kind.STRAY, recipient=delivery.recipient, subject=delivery.mail.subject)
            return
        if connection is not None:
            commits = self._wires[connection].commits
            if delivery.commit not in commits:
                commits.append(delivery.commit)
        self.recorder.record(
            Kind.DELIVERY,
            scenario=match.identity.scenario,
            operation=match.identity.operation,
            connection=connection,
            recipient=delivery.recipient,
            commit=delivery.commit,
            swallowed=match.swallowed,
            ambiguous=match.ambiguous,
        )


def unheld(store: str) -> str:
    """Say that a store's wire is not used, and the remedy."""
    return (
        f"nothing of the target went through store {store!r}: let it use {{store.{store}}}, "
        f"or take [target.store.{store}] out"
    )
