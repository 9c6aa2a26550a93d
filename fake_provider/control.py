"""The control API under ``/_sendtwice/``: for tests in any language.

It reads the ledger and the attempts, puts faults on this endpoint's wire, moves its clock, and waits so
that nobody has to poll.  Everything that it is given is checked; a mistake is answered with 422 and one
sentence that says what would have been right.  ``openapi.json`` describes it all.
"""

from __future__ import annotations

from typing import Any

from sendtwice.fake_provider.attempts import Attempts, counts
from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.control_edge import AWAITED, EdgeControl, awaited, description
from sendtwice.fake_provider.control_input import BadInputError, body_of, is_number, number, query_of
from sendtwice.fake_provider.control_webhooks import WebhookControl
from sendtwice.fake_provider.emulator.engine import Emulator
from sendtwice.fake_provider.emulator.outbox import Outbox
from sendtwice.fake_provider.fault_addresses import FaultAddresses
from sendtwice.fake_provider.faults import Faults
from sendtwice.fake_provider.ledger import Delivery, Ledger
from sendtwice.fake_provider.messages import Request

_FILTERS = ("since", "to", "key", "operation")


class Control(EdgeControl):
    """Answers the control API of one endpoint."""

    def __init__(
        self,
        *,
        edge: str,
        ledger: Ledger,
        faults: Faults,
        clock: Clock,
        emulator: Emulator,
        addresses: FaultAddresses,
        outbox: Outbox | None = None,
    ) -> None:
        """Look at and move the parts of one fake provider; ``outbox`` is there when its events go somewhere."""
        webhooks = WebhookControl(outbox)
        super().__init__(
            faults,
            (edge,) if outbox is None else (edge, "webhook"),
            {
                "deliveries": {"GET": self._deliveries},
                "attempts": {"GET": self._attempts},
                "wait": {"GET": self._wait},
                "clock": {"GET": self._now, "POST": self._advance},
                "reset": {"POST": self._reset},
                "health": {"GET": self._health},
                "openapi.json": {"GET": self._openapi},
                "contract/openapi.json": {"GET": self._contract},
                "webhooks": {"GET": webhooks.listed},
                "webhooks/redrive": {"POST": webhooks.redrive},
                "webhooks/redeliver": {"POST": webhooks.redeliver},
            },
        )
        self.edge, self.ledger, self.clock = edge, ledger, clock
        self.emulator, self.addresses, self.outbox = emulator, addresses, outbox
        self.attempts = Attempts(edge)
        self._first_delivery = self._first_attempt = 0

    def observe(self, kind: str, /, **fields: Any) -> None:
        """Take in what the endpoint observed."""
        self.attempts.observe(kind, **fields)

    # --- Reading -------------------------------------------------------------------------------------------

    def _deliveries(self, request: Request) -> dict[str, Any]:
        self._need_ledger()
        query = query_of(request, _FILTERS)
        return self._listed(query)

    def _attempts(self, request: Request) -> dict[str, Any]:
        query = query_of(request, _FILTERS)
        since = max(int(number(query, "since", 0, whole=True)), self._first_attempt)
        found = [
            attempt
            for attempt in self.attempts.since(since)
            if ("to" not in query or (attempt.mail is not None and query["to"] in attempt.mail.recipients))
            and ("key" not in query or attempt.key == query["key"])
            and ("operation" not in query or attempt.operation == query["operation"])
        ]
        deliveries = {"deliveries": len(self._found(query))} if self.emulator.upstream.immediate else {}
        return {
            "attempts": [attempt.as_json() for attempt in found],
            "count": len(found),
            "counts": {**counts(found), **deliveries},
            "truncated": since < self.attempts.forgotten,
        }

    async def _wait(self, request: Request) -> dict[str, Any]:
        """Wait for deliveries, then for quiet; never by polling."""
        self._need_ledger()
        query = query_of(request, (*_FILTERS, *AWAITED))
        met = await awaited(query, self.ledger, lambda: len(self._found(query)))
        return {"met": met, **self._listed(query)}

    def _need_ledger(self) -> None:
        """An empty list would be a lie where mail goes on to another provider."""
        if not self.emulator.upstream.immediate:
            raise BadInputError("mail goes on to the upstream provider; ask its ledger what was delivered")

    def _since(self, query: dict[str, str]) -> int:
        return max(int(number(query, "since", 0, whole=True)), self._first_delivery)

    def _listed(self, query: dict[str, str]) -> dict[str, Any]:
        found = self._found(query)
        return {
            "deliveries": [delivery.as_json() for delivery in found],
            "count": len(found),
            "truncated": self._since(query) < self.ledger.forgotten,
        }

    def _found(self, query: dict[str, str]) -> list[Delivery]:
        return [
            delivery
            for delivery in self.ledger.since(self._since(query))
            if ("to" not in query or delivery.recipient == query["to"])
            and ("key" not in query or delivery.mail.key == query["key"])
            and ("operation" not in query or delivery.operation == query["operation"])
        ]

    def _now(self, _: Request) -> dict[str, Any]:
        return {"now": self.clock.now()}

    def _health(self, _: Request) -> dict[str, Any]:
        return {"ok": True, "contract": self.emulator.contract.name, "edge": self.edge}

    def _openapi(self, _: Request) -> dict[str, Any]:
        return description()

    def _contract(self, _: Request) -> dict[str, Any]:
        from sendtwice.fake_provider import openapi  # noqa: PLC0415  # few ask for it, and many start

        return openapi.document(self.emulator.contract)

    # --- Changing ------------------------------------------------------------------------------------------

    def _elsewhere(self, place: Any) -> str:
        events = isinstance(place, str) and place.startswith("webhook.")
        return "; events go nowhere without --webhook-url" if events else ""

    def _advance(self, request: Request) -> dict[str, Any]:
        seconds = body_of(request, ("advance",)).get("advance")
        if not is_number(seconds) or seconds < 0:
            raise BadInputError(f"advance must be a number of seconds, 0 or more, not {seconds!r}")
        self.clock.advance(float(seconds))
        return {"now": self.clock.now()}

    def _reset(self, request: Request) -> dict[str, Any]:
        """Start anew: the ledger and the log stay as they are and are shown from here on."""
        body_of(request, ())
        self._first_delivery, self._first_attempt = self.ledger.last, self.attempts.last
        self.forget_faults()
        self.addresses.reset()
        self.emulator.store.clear()
        if self.outbox is not None:
            self.outbox.forget()
        return {"ok": True, "since": self._first_delivery}
