"""A fake provider in this process: an emulator of a contract behind an endpoint, its ledger and its faults.

For a target of role ``api`` or ``consumer`` it is the mail provider (edge ``provider``); for one of role
``client`` it is the send API itself (edge ``client``).  Either way the ledger is what was really delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from sendtwice.fake_provider import dialects, webhooks
from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.contracts.groups import Events
from sendtwice.fake_provider.control import Control
from sendtwice.fake_provider.emulator.database import StoredLog
from sendtwice.fake_provider.emulator.engine import Emulator
from sendtwice.fake_provider.emulator.outbox import SCHEDULE, Outbox
from sendtwice.fake_provider.emulator.store import Store
from sendtwice.fake_provider.emulator.upstream import LedgerUpstream, Upstream
from sendtwice.fake_provider.fault_addresses import FaultAddresses
from sendtwice.fake_provider.faults import Crossing, Fault, Faults
from sendtwice.fake_provider.http import Endpoint
from sendtwice.fake_provider.ledger import Ledger, Mail
from sendtwice.fake_provider.messages import Observe
from sendtwice.fake_provider.webhook_wire import TIMEOUT, Notifier, WebhookWire


class FakeProvider:
    """A contract on a socket."""

    def __init__(
        self,
        dialect: str | Contract = "generic",
        *,
        edge: Literal["provider", "client"] = "provider",
        identify: Callable[[Mail], str | None] | None = None,
        observe: Observe | None = None,
        notice: Callable[[Fault, Crossing], None] | None = None,
        clock: Clock | None = None,
        state: Path | str = ":memory:",
        upstream: Upstream | None = None,
        webhook_url: str | None = None,
        webhook_secret: str | None = None,
        webhook_schedule: Sequence[float] = SCHEDULE,
        webhook_timeout: float = TIMEOUT,
        one_account: bool = False,
    ) -> None:
        """Play ``dialect`` at ``edge``.

        ``identify`` says which operation a mail belongs to, ``observe`` receives every crossing, ``notice``
        every fault that fires. Mail goes into the ledger, or to ``upstream`` when there is one. The API's own events
        go to ``webhook_url``, signed with ``webhook_secret`` (made if left out), and again after the seconds of
        ``webhook_schedule`` where they were not taken within ``webhook_timeout``. ``one_account``: all that ask are
        one account, however often their token changes.
        """
        self.dialect = dialects.load(dialect) if isinstance(dialect, str) else dialects.of(dialect)
        self.contract = self.dialect.contract
        self.clock = clock or Clock()
        self.ledger = Ledger()
        self.faults = Faults(notice)
        self.addresses = FaultAddresses(edge, self.contract)
        self.webhook_secret = webhook_secret or webhooks.make_secret()
        notifier: Notifier | None = None
        events = self.contract.events or Events()
        if webhook_url is not None:
            wire = WebhookWire(webhook_url, self.faults, timeout=webhook_timeout)
            notifier = Notifier(wire, self.webhook_secret, place=events.id, identify=identify)
        # Of events in memory only an outbox can hear; from a file a later process may send them.
        store = Store(state, keeps_events=notifier is not None or str(state) != ":memory:")
        # A process that goes on with a file has the keys in it, and so their time.
        self.clock.keep(store.moved, store.note_moved)
        self.outbox: Outbox | None = None
        if notifier is not None:
            log = StoredLog(store)
            self.outbox = Outbox(log, notifier, clock=self.clock, rules=events, schedule=webhook_schedule)
        self.emulator = Emulator(
            self.contract,
            upstream=upstream or LedgerUpstream(self.ledger, identify),
            store=store,
            clock=self.clock,
            identify=identify,
            asked_faults=self.addresses.faults,
            any_path=self.dialect.any_path,
            one_account=one_account,
            emit=self._happened,
        )
        self.control = Control(
            edge=edge,
            ledger=self.ledger,
            faults=self.faults,
            clock=self.clock,
            emulator=self.emulator,
            addresses=self.addresses,
            outbox=self.outbox,
        )
        self._observe = observe
        seen = self.control.attempts.observe if observe is None else self._note
        self.endpoint = Endpoint(
            self.emulator, edge=edge, faults=self.faults, observe=seen, control=self.control, now=self.clock.now
        )

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Take up what an earlier process left, listen, and return the port."""
        await self.emulator.start()
        if self.outbox is not None:
            self.outbox.start()
        return await self.endpoint.start(host, port)

    async def stop(self) -> None:
        """Stop listening; hand-overs that have begun come to their end."""
        await self.endpoint.stop()
        if self.outbox is not None:
            await self.outbox.stop()
        self.clock.forsake(self.emulator.store.note_moved)
        await self.emulator.stop()

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.endpoint.url

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self.endpoint.port

    def forget(self) -> None:
        """Keep only the counts of what was delivered and asked so far: a search of many thousands goes on for hours."""
        self.ledger.forget()
        self.control.attempts.forget()

    def environment(self) -> dict[str, str]:
        """Return the variables that point the vendor's SDKs here."""
        return self.dialect.environment(self.url)

    def _happened(self, _: str, __: dict[str, Any]) -> None:
        if self.outbox is not None:
            self.outbox.wake()

    def _note(self, kind: str, /, **fields: Any) -> None:
        self.control.observe(kind, **fields)
        if self._observe is not None:
            self._observe(kind, **fields)
