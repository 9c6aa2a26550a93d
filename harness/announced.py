"""What the wires announce becomes the history: crossings, faults that fired, deliveries, a client's own attempts.

Each event is noted with the scenario and the operation that it belongs to. A late delivery still finds its scenario:
attribution is by the mail's own tokens, over the whole run.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sendtwice.fake_provider.faults import Crossing, Fault
from sendtwice.fake_provider.http import current_connection
from sendtwice.fake_provider.ledger import Delivery, Mail
from sendtwice.fake_provider.messages import Request, Response
from sendtwice.harness.attribution import Identity
from sendtwice.harness.drivers.wire import decoded
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.classes import answer_id

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench

#: Where callers put what they are known by, and the schemes by which each request has a signature of its own there.
_SIGNED = frozenset({"aws4-hmac-sha256", "digest", "hmac", "hmac-sha256", "oauth", "signature"})
_CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-postmark-server-token")


@dataclass(slots=True)
class _Wire:
    """What is remembered of a provider connection until its answer."""

    commits: list[int]
    attempt: str | None = None


class Announced:
    """Listens to a bench's provider and its faults, and writes what it hears into the bench's history."""

    def __init__(self, bench: Bench) -> None:
        """Nothing was heard yet."""
        self.bench = bench
        self.strays = 0
        self.mail_ids: dict[str, str] = {}  # of the first mail of each operation, as its provider answers it
        self.wires: dict[int, _Wire] = defaultdict(lambda: _Wire([]))
        self._attempts: dict[tuple[str, str], itertools.count[int]] = {}

    def answered(self, operation: str | None, response: Response) -> None:
        """Note the id of a mail before its sender learns it: the provider's events may be faster than its answer."""
        if operation is not None and self.bench.target.role == "consumer" and operation not in self.mail_ids:
            number = answer_id(self.bench.provider.contract, response.status, response.body, response.headers)
            if number is not None:
                self.mail_ids[operation] = number

    def observe(self, kind: str, /, **fields: Any) -> None:
        """Note a crossing."""
        identity = self.bench.identity(fields.get("operation"))
        scenario = identity.scenario if identity else self.bench.alone
        operation = identity.operation if identity else None
        connection = fields.get("connection")
        wire = self.wires[connection or 0]
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
        if self.bench.target.role == "client" and identity is not None:
            name = self._client_attempt(kind, identity, wire, fields)
        self.bench.recorder.record(
            Kind(kind), scenario=scenario, operation=operation, attempt=name, connection=connection, **data
        )
        if "response" in fields:
            self.bench.provider.ledger.wake()  # a refusal for good ends a wait as well
        if self.bench.target.role == "client" and "response" in fields:
            self._client_ended(scenario, operation, name, fields)

    def _client_attempt(self, kind: str, identity: Identity, wire: _Wire, fields: dict[str, Any]) -> str | None:
        """Number the attempts that a client makes by itself, as they arrive."""
        if kind != Kind.CLIENT_REQUEST:
            return wire.attempt
        counter = self._attempts.setdefault((identity.scenario, identity.operation), itertools.count(1))
        wire.attempt = f"{identity.operation}#{next(counter)}"
        request = fields["request"]
        self.bench.recorder.record(
            Kind.ATTEMPT,
            scenario=identity.scenario,
            operation=identity.operation,
            attempt=wire.attempt,
            key=fields.get("key"),
            content=decoded(request.body),
            method=request.method,
            path=request.path,
            query=request.target.partition("?")[2] or None,
            content_type=request.header("content-type"),
            host=request.header("host"),
            credential=_credential(request),
        )
        return wire.attempt

    def _client_ended(
        self, scenario: str | None, operation: str | None, name: str | None, fields: dict[str, Any]
    ) -> None:
        response = fields["response"]
        sent = bool(fields.get("sent"))
        self.bench.recorder.record(
            Kind.ENDED,
            scenario=scenario,
            operation=operation,
            attempt=name,
            outcome="answered" if sent else "lost",
            status=response.status,
            headers={k.lower(): v for k, v in response.headers.items()},
            body=decoded(response.body),
            garbled=bool(fields.get("garbled")),
            time=self.bench.provider.clock.now(),  # for answers that name a time of day
        )

    def fired(self, fault: Fault, crossing: Crossing) -> None:
        """Note that a fault has fired."""
        identity = self.bench.identity(crossing.operation)
        known: dict[str, Any] = {"stage": fault.stage, "store": crossing.store, "message": crossing.message}
        self.bench.recorder.record(
            Kind.FIRED,
            scenario=identity.scenario if identity else fault.owner or self.bench.alone,
            operation=identity.operation if identity else crossing.operation,
            attempt=crossing.attempt,
            fault=str(fault),
            place=fault.place.value,
            verb=fault.verb.value,
            argument=fault.argument,
            **{name: value for name, value in known.items() if value},
        )
        self.bench.provider.ledger.wake()  # a fault that ends a hand-over ends a wait as well

    def delivered(self, delivery: Delivery) -> None:
        """Note a mail that was committed, or a stray."""
        connection = current_connection.get()
        match = self.bench.attribution.identify(delivery.mail, (delivery.recipient,))
        if match is None:
            self.strays += 1
            self.bench.recorder.record(Kind.STRAY, recipient=delivery.recipient, subject=delivery.mail.subject)
            return
        elsewhere = self.bench.counting.elsewhere
        if connection is not None and not elsewhere:
            commits = self.wires[connection].commits
            if delivery.commit not in commits:
                commits.append(delivery.commit)
        self.bench.recorder.record(
            Kind.UNCOUNTED if elsewhere else Kind.DELIVERY,
            scenario=match.identity.scenario,
            operation=match.identity.operation,
            connection=connection,
            recipient=delivery.recipient,
            commit=delivery.commit,
            swallowed=match.swallowed,
            ambiguous=match.ambiguous,
        )


def _credential(request: Request) -> str | None:
    """Return a name for the credential of a request, which does not tell it; None where each request is signed anew."""
    shown = next((value for name in _CREDENTIALS if (value := request.header(name)) is not None), None)
    scheme, _, token = (shown or "").rpartition(" ")
    # A JWT is fetched anew before it is too old, and begins with an encoded brace.
    if shown is None or scheme.partition(" ")[0].lower() in _SIGNED or token.startswith("eyJ"):
        return None
    return hashlib.sha256(shown.encode()).hexdigest()[:8]
