"""The control API under ``/_sendtwice/``: for tests in any language.

It reads the ledger and the attempts, puts faults on this endpoint's wire, moves its clock, and waits so
that nobody has to poll.  Everything that it is given is checked; a mistake is answered with 422 and one
sentence that says what would have been right.  ``openapi.json`` describes it all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sendtwice.fake_provider.attempts import Attempts, counts
from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts.model import AnswerClass
from sendtwice.fake_provider.control_input import BadInputError, body_of, count, is_number, near, number, query_of, text
from sendtwice.fake_provider.control_webhooks import WebhookControl
from sendtwice.fake_provider.emulator.engine import Emulator
from sendtwice.fake_provider.emulator.outbox import Outbox
from sendtwice.fake_provider.fault_addresses import FaultAddresses
from sendtwice.fake_provider.faults import ARGUMENT, STAGES, VERBS, Armed, Fault, Faults, Place, Verb
from sendtwice.fake_provider.ledger import Delivery, Ledger
from sendtwice.fake_provider.messages import Request, Response

_FILTERS = ("since", "to", "key", "operation")
_LOSE = ("before-answer", "first-byte", "in-body")
#: What can be done to a message that is not complete; an answer is a bare status there.
_EARLY = (Verb.LOSE, Verb.HOLD, Verb.DELAY, Verb.RESET, Verb.CLOSE, Verb.ANSWER)
_LONGEST_WAIT = 600.0


class Control:
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
        self.edge, self.ledger, self.faults, self.clock = edge, ledger, faults, clock
        self.emulator, self.addresses, self.outbox = emulator, addresses, outbox
        self._edges = (edge,) if outbox is None else (edge, "webhook")
        self.attempts = Attempts(edge)
        self._armed: list[Armed] = []
        self._first_delivery = self._first_attempt = 0
        webhooks = WebhookControl(outbox)
        self._routes: dict[str, dict[str, Callable[[Request], Any]]] = {
            "deliveries": {"GET": self._deliveries},
            "attempts": {"GET": self._attempts},
            "wait": {"GET": self._wait},
            "faults": {"GET": self._list_faults, "POST": self._arm},
            "release": {"POST": self._release},
            "clock": {"GET": self._now, "POST": self._advance},
            "reset": {"POST": self._reset},
            "health": {"GET": self._health},
            "openapi.json": {"GET": self._openapi},
            "contract/openapi.json": {"GET": self._contract},
            "webhooks": {"GET": webhooks.listed},
            "webhooks/redrive": {"POST": webhooks.redrive},
            "webhooks/redeliver": {"POST": webhooks.redeliver},
        }

    def observe(self, kind: str, /, **fields: Any) -> None:
        """Take in what the endpoint observed."""
        self.attempts.observe(kind, **fields)

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        if request.path == "/healthz":
            return await _done(self._health(request))
        name = request.path.removeprefix("/_sendtwice/").rstrip("/")
        methods = self._routes.get(name)
        if methods is None:
            return Response.of(404, {"error": f"/_sendtwice/{name} does not exist; {near(name, self._routes)}"})
        handler = methods.get(request.method)
        if handler is None:
            allowed = ", ".join(methods)
            error = f"/_sendtwice/{name} takes {allowed}, not {request.method}"
            return Response.of(405, {"error": error}, {"Allow": allowed})
        try:
            return await _done(handler(request))
        except BadInputError as error:
            return Response.of(422, {"error": str(error)})

    # --- Reading -------------------------------------------------------------------------------------------

    def _deliveries(self, request: Request) -> dict[str, Any]:
        self._need_ledger()
        query = query_of(request, _FILTERS)
        return _listed(self._found(query))

    def _attempts(self, request: Request) -> dict[str, Any]:
        query = query_of(request, _FILTERS)
        since = max(int(number(query, "since", 0, whole=True)), self._first_attempt)
        found = [
            attempt
            for attempt in self.attempts.log[since:]
            if ("to" not in query or (attempt.mail is not None and query["to"] in attempt.mail.recipients))
            and ("key" not in query or attempt.key == query["key"])
            and ("operation" not in query or attempt.operation == query["operation"])
        ]
        deliveries = {"deliveries": len(self._found(query))} if self.emulator.upstream.immediate else {}
        return {
            "attempts": [attempt.as_json() for attempt in found],
            "count": len(found),
            "counts": {**counts(found), **deliveries},
            "truncated": False,
        }

    async def _wait(self, request: Request) -> dict[str, Any]:
        """Wait for deliveries, then for quiet; never by polling."""
        self._need_ledger()
        query = query_of(request, (*_FILTERS, "at_least", "exactly", "quiet_ms", "timeout"))
        if "at_least" in query and "exactly" in query:
            raise BadInputError("at_least and exactly cannot both be given; keep one")
        exactly = int(number(query, "exactly", -1, whole=True))
        wanted = exactly if "exactly" in query else int(number(query, "at_least", 1, whole=True))
        # To say that there are exactly n needs a look at what comes after them.
        quiet = number(query, "quiet_ms", 200 if "exactly" in query else 0) / 1000
        timeout = min(number(query, "timeout", 10), _LONGEST_WAIT)
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        met = await self.ledger.wait(lambda: len(self._found(query)) >= wanted, timeout=timeout)
        while met and quiet > 0:
            seen = len(self._found(query))
            if "exactly" in query and seen > wanted:
                break
            left = until - loop.time()
            if not await self._more(query, seen, min(quiet, left)):
                met = left >= quiet
                break
        found = self._found(query)
        met = met and (len(found) == wanted if "exactly" in query else len(found) >= wanted)
        return {"met": met, **_listed(found)}

    async def _more(self, query: dict[str, str], seen: int, within: float) -> bool:
        return await self.ledger.wait(lambda: len(self._found(query)) > seen, timeout=max(within, 0))

    def _need_ledger(self) -> None:
        """An empty list would be a lie where mail goes on to another provider."""
        if not self.emulator.upstream.immediate:
            raise BadInputError("mail goes on to the upstream provider; ask its ledger what was delivered")

    def _found(self, query: dict[str, str]) -> list[Delivery]:
        since = max(int(number(query, "since", 0, whole=True)), self._first_delivery)
        return [
            delivery
            for delivery in self.ledger.since(since)
            if ("to" not in query or delivery.recipient == query["to"])
            and ("key" not in query or delivery.mail.key == query["key"])
            and ("operation" not in query or delivery.operation == query["operation"])
        ]

    def _now(self, _: Request) -> dict[str, Any]:
        return {"now": self.clock.now()}

    def _health(self, _: Request) -> dict[str, Any]:
        return {"ok": True, "contract": self.emulator.contract.name, "edge": self.edge}

    def _openapi(self, _: Request) -> dict[str, Any]:
        described = Path(__file__).with_name("control.openapi.json").read_text(encoding="utf-8")
        document: dict[str, Any] = json.loads(described)
        return document

    def _contract(self, _: Request) -> dict[str, Any]:
        from sendtwice.fake_provider import openapi  # noqa: PLC0415  # few ask for it, and many start

        return openapi.document(self.emulator.contract)

    # --- Changing ------------------------------------------------------------------------------------------

    def _arm(self, request: Request) -> Response:
        given = body_of(
            request,
            ("crossing", "fault", "attempt", "nth", "times", "key", "to", "operation", "stage", "label"),
        )
        fault = self._fault(given)
        try:
            armed = self.faults.arm(fault)
        except ValueError as error:
            raise BadInputError(str(error)) from None
        self._armed.append(armed)
        return Response.of(201, _shown(armed))

    def _fault(self, given: dict[str, Any]) -> Fault:
        places = [str(place) for place in Place if place.partition(".")[0] in self._edges]
        if given.get("crossing") not in places:
            shown = given.get("crossing")
            raise BadInputError(f"crossing must be {' or '.join(places)} here, not {shown!r}{self._elsewhere(shown)}")
        place = Place(given["crossing"])
        verb, argument = _verb(given.get("fault"))
        if verb not in VERBS[place]:
            raise BadInputError(f"{place} cannot be hit by {verb}; it knows: {', '.join(sorted(VERBS[place]))}")
        outward = place.startswith("webhook.")
        if outward and verb is Verb.LOSE and argument is not None:
            raise BadInputError(f"{place} is lost as a whole; write lose without {argument!r}")
        stage = text(given, "stage")
        if stage is not None and outward:
            raise BadInputError(f"{place} has no stages; leave stage out")
        if stage is not None and (stage not in STAGES or place.endswith("response")):
            raise BadInputError(f"stage must be {' or '.join(STAGES)}, at a request; leave it out otherwise")
        if stage is not None and (verb not in _EARLY or isinstance(argument, str)):
            raise BadInputError(f"at stage {stage} the message is not complete; use {', '.join(_EARLY)}")
        narrowed = [name for name in ("key", "to", "operation") if given.get(name) is not None]
        if stage is not None and narrowed:
            raise BadInputError(f"at stage {stage} nothing is known of a {narrowed[0]} yet; leave it out")
        if "attempt" in given and "nth" in given:
            raise BadInputError("attempt and nth mean the same; keep one")
        label = text(given, "label") or (str(argument) if verb is Verb.HOLD and argument is not None else None)
        return Fault(
            place,
            verb,
            None if verb is Verb.HOLD else argument,
            operation=text(given, "operation"),
            key=text(given, "key"),
            to=text(given, "to"),
            nth=count(given, "attempt" if "attempt" in given else "nth"),
            times=count(given, "times"),
            stage=stage,
            label=label or f"fault-{len(self._armed) + 1}",
        )

    def _elsewhere(self, place: Any) -> str:
        events = isinstance(place, str) and place.startswith("webhook.")
        return "; events go nowhere without --webhook-url" if events else ""

    def _list_faults(self, _: Request) -> dict[str, Any]:
        return {"faults": [_shown(armed) for armed in self._armed], "count": len(self._armed)}

    def _release(self, request: Request) -> dict[str, Any]:
        label = text(body_of(request, ("label",)), "label")
        labels = {armed.fault.label or "": armed for armed in self._armed if armed.fault.verb is Verb.HOLD}
        if label is None or label not in labels:
            raise BadInputError(f"there is no hold with label {label!r}; {near(label or '', labels)}")
        released = [armed for armed in self._armed if armed.fault.label == label]
        for armed in released:
            self.faults.withdraw(armed)
        return {"label": label, "released": sum(armed.fired for armed in released)}

    def _advance(self, request: Request) -> dict[str, Any]:
        seconds = body_of(request, ("advance",)).get("advance")
        if not is_number(seconds) or seconds < 0:
            raise BadInputError(f"advance must be a number of seconds, 0 or more, not {seconds!r}")
        self.clock.advance(float(seconds))
        return {"now": self.clock.now()}

    def _reset(self, request: Request) -> dict[str, Any]:
        """Start anew: the ledger and the log stay as they are and are shown from here on."""
        body_of(request, ())
        self._first_delivery, self._first_attempt = len(self.ledger.deliveries), len(self.attempts.log)
        self.faults.withdraw_all()
        self._armed.clear()
        self.addresses.reset()
        self.emulator.store.clear()
        if self.outbox is not None:
            self.outbox.forget()
        return {"ok": True, "since": self._first_delivery}


async def _done(result: Any) -> Response:
    if asyncio.iscoroutine(result):
        result = await result
    return result if isinstance(result, Response) else Response.of(200, result)


def _listed(found: list[Delivery]) -> dict[str, Any]:
    return {
        "deliveries": [delivery.as_json() for delivery in found],
        "count": len(found),
        "truncated": False,
    }


def _shown(armed: Armed) -> dict[str, Any]:
    return {
        "fault": str(armed.fault),
        "label": armed.fault.label,
        "met": armed.met,
        "fired": armed.fired,
    }


def _verb(given: Any) -> tuple[Verb, str | float | None]:
    """Read ``lose`` or ``{delay: 2}``."""
    name, argument = next(iter(given.items())) if isinstance(given, dict) and len(given) == 1 else (given, None)
    if not isinstance(name, str) or name not in set(Verb):
        hint = near(str(name), list(Verb))
        raise BadInputError(f'fault must be a verb, or a verb with its argument as {{"delay": 2}}; {hint}')
    verb = Verb(name)
    wrong = BadInputError(f"{verb} takes {ARGUMENT[verb]}, not {argument!r}")
    match verb:
        case Verb.DELAY:
            right = is_number(argument) and argument >= 0
        case Verb.CUT:
            right = isinstance(argument, int) and not isinstance(argument, bool) and argument >= 0
        case Verb.LOSE:
            right = argument is None or argument in _LOSE
        case Verb.HOLD:
            right = argument is None or isinstance(argument, str)
        case Verb.ANSWER:
            right = isinstance(argument, str) and argument in set(AnswerClass)
            if isinstance(argument, int) and not isinstance(argument, bool):
                right = 200 <= argument <= 599
            elif isinstance(argument, str) and not right:
                raise BadInputError(f"{argument!r} is no class of answer; {near(argument, list(AnswerClass))}")
        case _:
            right = argument is None
    if not right:
        raise wrong
    return verb, argument
