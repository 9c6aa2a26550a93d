"""Role api: the target is a send API, and the harness its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sendtwice.harness.drivers.caller import Flight
from sendtwice.harness.history import Kind
from sendtwice.harness.live import Names, Plan
from sendtwice.harness.requests import build, make_key
from sendtwice.harness.target import Sender

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench

#: The sender whose keys belong to another account; every other sender is a mailbox of the main one.
OTHER_TENANT = "other-tenant"


def flight(bench: Bench, scenario: str, plan: Plan, names: Names) -> Flight:
    """Return one attempt: its request is built from the contract, the target file and the plan."""
    settings, contract = bench.target.api, bench.contract
    assert settings is not None
    sender = settings.senders.get(plan.by, Sender())
    key = make_key(contract, plan.key, names.keys)
    route = contract.routes["other"] if plan.change.path == "other" else contract.request
    values = names.values(plan, {name: bench.fill(value) for name, value in sender.values.items()})
    headers = {name: bench.fill(value) for name, value in {**settings.headers, **sender.headers}.items()}
    reordered = plan.change.fields == "reordered"
    built = build(contract, route, bench.url, headers, values, key, reordered=reordered)
    bench.recorder.record(
        Kind.ATTEMPT,
        scenario=scenario,
        operation=plan.operation,
        attempt=plan.name,
        key=key.value,
        key_problem=key.problem,
        content=built.content,
        sender=plan.by,
        tenant=plan.by if plan.by == OTHER_TENANT else "main",
        path=route.path,
        invalid=plan.change.to == "invalid",
        reordered=reordered,
    )
    return Flight(plan.name, built, scenario, plan.operation, bench.url)
