"""Requests to the target that are no sends: its calls, and the provider's own events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import h11

from sendtwice.harness import placeholders
from sendtwice.harness.drivers.wire import Wire, decoded, serialise
from sendtwice.harness.errors import ScenarioError
from sendtwice.harness.history import Kind
from sendtwice.harness.judge.classes import answer_id
from sendtwice.harness.live import Plan
from sendtwice.harness.steps import Call
from sendtwice.harness.target_roles import CallOf, Sender

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench


async def request(
    bench: Bench,
    url: str,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    timeout: float | None = None,
) -> tuple[int, bytes]:
    """Ask the target for something that is no send; return the status and the body of its answer.

    ``timeout``: seconds for the answer, where it may take longer than ``answers_within``.
    """
    lines = [(name, bench.fill(value)) for name, value in headers.items()]
    if body and not any(name.lower() == "content-type" for name, _ in lines):
        lines.append(("Content-Type", "application/json"))
    host = urlsplit(url).netloc
    tls = bench.driver.tls if bench.driver is not None else None
    try:
        wire = await Wire.open(url, timeout=bench.target.timing.answers_within, tls=tls)
    except OSError as error:
        raise ScenarioError(f"{method} {path} could not be asked for: {error.strerror or error}") from None
    try:
        async with asyncio.timeout(timeout or bench.target.timing.answers_within):
            await wire.write(serialise(method, path, host, lines, body))
            answer = await wire.answer(method)
    except (OSError, EOFError, h11.RemoteProtocolError) as error:
        raise ScenarioError(f"{method} {path} got no answer: {str(error) or type(error).__name__}") from None
    finally:
        wire.close()
    return answer.status, answer.body


async def call(bench: Bench, step: Call, plan: Plan | None, scenario: str) -> None:
    """Use a call of the target file, as often as the step says at the same time."""
    settings = bench.target.calls[step.name]
    facts = bench.facts(scenario)
    ids = [a.id for a in facts.attempts if plan is not None and a.operation == plan.operation and a.id]
    headers = settings.headers
    if step.by is not None and bench.target.api is not None:
        api = bench.target.api
        headers = {**settings.headers, **api.headers, **api.senders.get(step.by, Sender()).headers}
    asked = [_call(bench, settings, headers, ids[0] if ids else "") for _ in range(step.times)]
    for told in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(told, BaseException) and not isinstance(told, ScenarioError):
            raise told
        # A call without an answer may have done its work all the same.
        status, body = (0, b"") if isinstance(told, BaseException) else told
        bench.recorder.record(
            Kind.CALL,
            scenario=scenario,
            operation=step.of,
            name=step.name,
            by=step.by,
            status=status,
            body=decoded(body),
            id=answer_id(bench.contract, status, body),
        )


async def _call(bench: Bench, settings: CallOf, headers: Mapping[str, str], id: str) -> tuple[int, bytes]:  # noqa: A002
    path = placeholders.fill_text(settings.path, {"id": id})
    body = b"" if settings.body is None else json.dumps(placeholders.fill(settings.body, {"id": id})).encode()
    return await request(bench, bench.url, settings.method, path, headers, body)


async def report(bench: Bench, operation: str, plan: Plan, sender: str, scenario: str) -> None:
    """Tell the target what became of a mail, as its provider's webhook does: it was delivered."""
    settings = bench.target.webhooks
    assert settings is not None
    facts = bench.facts(scenario)
    group = facts.group_of(operation)
    commits = facts.commits.get(group, [])
    message = str(commits[0].number) if commits else ""
    # The provider tells of the mail as it was handed over.
    seen = [str(e.data["sender"]) for e in facts.about(group) if e.data.get("sender")]
    event = {
        "type": "email.delivered",
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + bench.clock_offset)),
        "data": {
            "message_id": message,
            "from": seen[-1] if seen else sender,
            "to": plan.recipients,
            "subject": plan.subject,
        },
    }
    body = json.dumps(event).encode()
    number = f"evt_{plan.name}_{plan.uid}"
    headers = settings.scheme.sign(bench.fill(settings.secret), number, bench.signing_time, body)
    url = urlsplit(bench.fill(settings.url))
    status, _ = await request(bench, f"{url.scheme}://{url.netloc}", "POST", url.path or "/", headers, body)
    bench.recorder.record(Kind.REPORTED, scenario=scenario, operation=operation, status=status, type=event["type"])
