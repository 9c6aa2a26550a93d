"""Role consumer: signed events to the target, as a mail provider sends them.

Three things have an identity of their own, and a target must not take one for another. The *event* is one
notification: its id is the same each time it is delivered. The *message* is what came in: its id is the same in every
event about it, and two messages of equal content have two. The *operation* is the effect: one mail for one message.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sendtwice.fake_provider import webhooks
from sendtwice.harness.drivers.caller import Flight
from sendtwice.harness.errors import HarnessError, ScenarioError
from sendtwice.harness.history import Kind
from sendtwice.harness.live import Names, Plan
from sendtwice.harness.requests import Built

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench


def flight(bench: Bench, scenario: str, plan: Plan, names: Names) -> Flight:
    """Return one delivery of an event: the id and the body stay, the time and the signature are new each time."""
    settings = bench.target.consumer
    assert settings is not None
    body = names.bodies.get((plan.event, plan.operation))
    if body is None:
        body = names.bodies[plan.event, plan.operation] = _body(bench, plan)
    headers = [("Content-Type", "application/json"), *_signed(bench, plan, body).items()]
    url = bench.instance(plan.replica or names.turn())
    target = "/" + url.split("//", 1)[1].partition("/")[2]
    bench.recorder.record(
        Kind.ATTEMPT,
        scenario=scenario,
        operation=plan.operation,
        attempt=plan.name,
        key=plan.event,
        content=plan.event,
        path=target,
        signature=None if plan.signature is None else plan.signature.value,
        tells=plan.tells or None,
    )
    return Flight(plan.name, Built("POST", url, target, headers, body, plan.event), scenario, plan.operation, url)


def _signed(bench: Bench, plan: Plan, body: bytes) -> dict[str, str]:
    settings = bench.target.consumer
    assert settings is not None
    secret, scheme = bench.fill(settings.secret), settings.scheme
    try:
        if plan.signature is None:
            return scheme.sign(secret, plan.event, bench.signing_time, body)
        # What stood there before: the same event, of another sender.
        original = body.replace(plan.recipients[0].encode(), b"somebody.else@sendtwice.test") + b"\n"
        return scheme.sign_wrongly(plan.signature, secret, plan.event, bench.signing_time, body, original=original)
    except ValueError as error:
        raise HarnessError(f"the events cannot be signed: {error} (target.consumer.secret)") from None


def _body(bench: Bench, plan: Plan) -> bytes:
    settings = bench.target.consumer
    assert settings is not None
    now = time.time() + (bench.clock_offset if bench.clock.whole else 0.0)
    values = {
        "event_id": plan.event,
        "message_id": plan.message,
        "mail_id": _mail_id(bench, plan) if plan.tells else "",
        "operation": plan.known_as,
        "from": plan.recipients[0],
        "to": "inbox@sendtwice.test",
        "subject": f"Question {plan.content.subject}" if plan.words is None else plan.subject,
        "text": f"Where is my order {plan.content.text}?" if plan.words is None else plan.text,
        "now": datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "created": str(int(now)),
    }
    template: Any = webhooks.payload(settings.payload_of(plan.tells) or settings.event, relative_to=bench.folder)
    return json.dumps(webhooks.fill(template, values)).encode()


def _mail_id(bench: Bench, plan: Plan) -> str:
    """Return the id of the mail that was sent for an operation, as its provider answers it, or soon will."""
    found = bench.announced.mail_ids.get(plan.uid)
    if found is None:
        raise ScenarioError(f"no mail was sent for {plan.operation}, so its provider has nothing to tell of it")
    return found
