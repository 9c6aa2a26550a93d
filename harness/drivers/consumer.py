"""Role consumer: signed webhooks to the target, as a mail provider sends them (Standard Webhooks)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sendtwice.fake_provider import webhooks
from sendtwice.harness import placeholders
from sendtwice.harness.drivers.caller import Flight
from sendtwice.harness.history import Kind
from sendtwice.harness.live import Names, Plan
from sendtwice.harness.requests import Built

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench


def flight(bench: Bench, scenario: str, plan: Plan, names: Names) -> Flight:
    """Return one delivery of an event: the id and the body stay, the time and the signature are new each time."""
    settings = bench.target.consumer
    assert settings is not None
    values: dict[str, Any] = {
        "event_id": plan.event,
        "message_id": f"msg_{plan.event}",
        "operation": plan.operation,
        "from": plan.recipients[0],
        "to": "inbox@sendtwice.test",
        "subject": f"Question {plan.content.subject}",
        "text": f"Where is my order {plan.content.text}?",
        "now": "2026-01-01T00:00:00Z",
    }
    body = json.dumps(payload(bench, settings.event, values)).encode()
    headers = [("Content-Type", "application/json")]
    if settings.signature == "standard":
        secret = bench.fill(settings.secret)
        headers += list(webhooks.sign(secret, plan.event, bench.signing_time, body).items())
    url = bench.instance(names.turn())
    target = "/" + url.split("//", 1)[1].partition("/")[2]
    bench.recorder.record(
        Kind.ATTEMPT,
        scenario=scenario,
        operation=plan.operation,
        attempt=plan.name,
        key=plan.event,
        content=plan.event,
        path=target,
    )
    return Flight(plan.name, Built("POST", url, target, headers, body, plan.event), scenario, plan.operation, url)


def payload(bench: Bench, event: str, values: dict[str, Any]) -> Any:
    """Return the body of an event: a shipped payload, or the user's own JSON file."""
    if event.endswith(".json"):
        template = json.loads((bench.folder / event).read_text("utf-8"))
    else:
        template = webhooks.payload(event)
    return placeholders.fill(template, values)
