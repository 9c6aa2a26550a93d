"""Role api: the target is a send API, and the harness its caller."""

from __future__ import annotations

import email.utils
import time
from typing import TYPE_CHECKING, Any

from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.contracts.model import SEND
from sendtwice.harness.drivers.caller import Flight
from sendtwice.harness.history import Kind
from sendtwice.harness.keys import KeyValue, make_key
from sendtwice.harness.live import Names, Plan
from sendtwice.harness.requests import build
from sendtwice.harness.target_roles import Sender

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench

#: In which parts of a scope (D5) a sender differs from main. Any other sender is a mailbox of the main account.
DIFFERS = {
    "main": (),
    "other-tenant": ("tenant", "credential", "user", "mailbox", "domain", "environment"),
    "other-credential": ("credential",),
    "other-user": ("user", "credential"),
    "other-domain": ("domain", "mailbox"),
    "other-environment": ("environment", "credential"),
    "other-region": ("region",),
    "unauthorized": ("credential",),
    "rate-limited": ("credential",),
    "over-quota": ("credential",),
}
_PARTS = ("tenant", "credential", "user", "mailbox", "domain", "environment", "region")
#: A caller that asserts a time of its first attempt long past.
_STALE = 86_400.0


def scope_of(sender: str) -> dict[str, str]:
    """Return the scope of a sender's keys, part by part."""
    differs = DIFFERS.get(sender, ("mailbox",))
    return {part: sender if part in differs else "main" for part in _PARTS}


def route_of(contract: Contract, plan: Plan) -> str:
    """Return the name of the route that a plan goes by."""
    if plan.change.path == "other":
        return other_route(contract) or SEND
    return plan.via or (contract.batch.route if plan.batch and contract.batch is not None else SEND)


def other_route(contract: Contract) -> str | None:
    """Return another route that sends and takes a key, or None."""
    keyed = [
        name
        for name, route in contract.routes.items()
        if route.does == "send" and contract.takes_key(name) != "ignored" and route.key_at is None
    ]
    return "other" if "other" in keyed else next(iter(keyed), None)


def flight(bench: Bench, scenario: str, plan: Plan, names: Names) -> Flight:
    """Return one attempt: its request is built from the contract, the target file and the plan."""
    settings, contract = bench.target.api, bench.contract
    assert settings is not None
    sender = settings.senders.get(plan.by, Sender())
    key = make_key(contract, plan.key, names.keys)
    route = route_of(contract, plan)
    values = names.values(plan, {name: bench.fill(value) for name, value in sender.values.items()})
    headers = {name: bench.fill(value) for name, value in {**settings.headers, **sender.headers}.items()}
    first_sent = _first_sent(bench, names, plan, key)
    items = names.items(plan)
    if plan.change.path == "other" and items is None and contract.route(route).body.__class__ is list:
        items = plan.recipients  # a batch of one
    url = bench.instance(plan.replica or names.turn())
    built = build(
        contract,
        url,
        headers,
        values,
        key,
        route=route,
        items=items,
        change=plan.change,
        first_sent=first_sent[0] if first_sent else None,
        dry_run=plan.dry_run,
    )
    extra: dict[str, Any] = {
        name: value
        for name, value in (
            ("form", plan.change.form),
            ("query", plan.change.query),
            ("content_type", plan.change.content_type),
            ("partly_invalid", plan.change.items == "one-invalid"),
            ("too_many", _too_many(contract, items)),
            ("dry_run", plan.dry_run),
            ("batch", items is not None),
            ("first_sent", first_sent[1] if first_sent else None),
        )
        if value
    }
    bench.recorder.record(
        Kind.ATTEMPT,
        scenario=scenario,
        operation=plan.operation,
        attempt=plan.name,
        key=key.value,
        key_problem=key.problem,
        content=built.content,
        sender=plan.by,
        scope=scope_of(plan.by),
        path=contract.route(route).path,
        route=route,
        invalid=plan.change.to == "invalid",
        **extra,
    )
    return Flight(plan.name, built, scenario, plan.operation, url)


def _too_many(contract: Contract, items: list[str] | None) -> bool:
    most = contract.batch.max if contract.batch is not None else None
    return items is not None and most is not None and most.judged and len(items) > (most.value or 0)


def _first_sent(bench: Bench, names: Names, plan: Plan, key: KeyValue) -> tuple[str | None, str] | None:
    """Return the time that a caller asserts for the first attempt under its key, and what is wrong with it."""
    if bench.contract.key.first_sent is None or key.value is None:
        return None
    first = names.first_sent.setdefault(key.value, time.time() + bench.clock_offset)
    match plan.change.first_sent:
        case "absent":
            return None, "absent"
        case "malformed":
            return "the day before", "malformed"
        case "stale":
            return email.utils.formatdate(first - _STALE, usegmt=True), "stale"
    return email.utils.formatdate(first, usegmt=True), ""
