"""``--dry-run``: what a run would send, to whom, with which faults and kills. Contacts nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness import words
from sendtwice.harness.effective import assumed_key
from sendtwice.harness.effects import probe_of
from sendtwice.harness.needs import missing
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import Target, is_loopback


def lines(target: Target, contract: Contract, scenarios: Sequence[Scenario], settings: RunSettings) -> Iterator[str]:
    """Return what would happen, in the order in which it would."""
    body = target.target
    needs = {scenario.id: missing(scenario, body, contract) for scenario in scenarios}
    chosen = [scenario for scenario in scenarios if not needs[scenario.id]]
    yield f"dry run: nothing is contacted; a run would play {len(chosen)} of {len(scenarios)} scenarios"
    yield f"target: {body.name}, role {body.role}, contract {contract.name}"
    for process in body.processes:
        yield f"starts: {process.described}" + (f" (as {process.name})" if len(body.processes) > 1 else "")
    if body.container is not None:
        yield f"starts: {body.container.described}"
    if not body.started and body.role != "client":
        yield "starts: nothing; the target must already run"
    where = _whom(target, contract)
    yield f"sends to: {where}"
    url = getattr(body, body.role).url or ""
    permitted = settings.allow_remote or (body.api is not None and body.api.allow_remote)
    if url and not is_loopback(url.replace("{port}", "1")):
        how = "allowed" if permitted else "refused: it needs --allow-remote or target.api.allow_remote"
        yield f"remote: {url} is not on this machine; {how}"
    assumed = assumed_key(target, contract)
    if assumed is not None:
        yield f"key in {assumed} (assumed: neither the file nor the contract says it; see target.api.request.key)"
    if body.effects is not None:
        yield f"effects: counted by {probe_of(body.effects, Path()).described}; mails at the fake provider are not"
    else:
        yield f"mail: must come to the fake provider, dialect {body.provider.dialect}; nothing is sent on"
    recipient = body.api.request.recipient if body.api else "{token}@sendtwice.test"
    yield f"recipients: fresh ones, {recipient}"
    arrival = "reach the fake provider" if body.effects is None else "get counted"
    yield f"first: one plain mail, the canary; if it does not {arrival}, nothing more is sent"
    for scenario in chosen:
        yield ""
        yield f"{scenario.id}  {scenario.title}"
        yield f"  sends: {', '.join(words.attempts_of(scenario))}"
        yield from (f"  fault: {fault}" for fault in words.faults_of(scenario))
        yield from (f"  kill: {kill}" for kill in words.kills_of(scenario))
    yield ""
    for scenario in scenarios:
        if needs[scenario.id]:
            yield f"skipped: {scenario.id}: {'; '.join(needs[scenario.id])}"
    yield "last: late mails are watched for, then one plain mail, the sentinel"


def _whom(target: Target, contract: Contract) -> str:
    body = target.target
    if body.role == "client" and body.client is not None:
        if body.client.url is not None:
            return f"{body.client.method} {body.client.url}, a worker that sends to the emulated API"
        return f"nobody: {' '.join(body.client.command)} is run, and sends to the emulated API"
    if body.role == "consumer" and body.consumer is not None:
        return f"POST {body.consumer.url} (signature {body.consumer.signature})"
    url = body.api.url if body.api is not None else ""
    return f"{contract.request.method} {url.rstrip('/')}{contract.request.path} (key: {contract.key.at})"
