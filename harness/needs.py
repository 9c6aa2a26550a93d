"""What a scenario needs that a target may not have. A missing capability is neither a pass nor a failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness import placeholders
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.steps import (
    Burst,
    CallStep,
    CrashStep,
    FinishStep,
    Key,
    NotifyStep,
    OperateStep,
    ParallelStep,
    RestartStep,
    Send,
    SendStep,
)
from sendtwice.harness.target import Sender, TargetBody

#: Senders that need a table of their own in the target file.
_DEFAULT_SENDER = "main"


def missing(scenario: Scenario, target: TargetBody, contract: Contract) -> list[str]:
    """Return why a target cannot play a scenario, each with the setting that would enable it; empty when it can."""
    if scenario.role != target.role:
        return [f"it is for role {scenario.role}; this target has role {target.role}"]
    return list(dict.fromkeys(_missing(scenario, target, contract)))


def _missing(scenario: Scenario, target: TargetBody, contract: Contract) -> Iterator[str]:
    for need in scenario.needs:
        yield from _need(need, target, contract)
    if contract.key.presence.says("none") and scenario.role == "api" and _relies_on_keys(scenario):
        yield f"contract {contract.name} has no key, so every retry is a new send: key.presence"
    for step in scenario.steps:
        if isinstance(step, CrashStep | RestartStep):
            if not target.processes:
                yield "the target cannot be killed and restarted: give it [target.start]"
            elif not all(process.keeps_state for process in target.processes):
                yield "the target forgets everything when it restarts: target.start.keeps_state is false"
        elif isinstance(step, CallStep) and step.call.name not in target.calls:
            yield f"no call {step.call.name!r}: add [target.calls.{step.call.name}]"
        for send in _sends(step):
            yield from _send(send, target, contract)


def _relies_on_keys(scenario: Scenario) -> bool:
    """Whether a scenario is about a key, or counts the deliveries of an operation that is tried again."""
    again = any(
        isinstance(step, FinishStep | ParallelStep) or any(send.like for send in _sends(step))
        for step in scenario.steps
    )
    return scenario.family in ("key", "scope") or (again and bool(scenario.expect.deliveries))


def _sends(step: object) -> Iterator[Send]:
    if isinstance(step, SendStep):
        yield step.send
    elif isinstance(step, ParallelStep) and not isinstance(step.parallel, Burst):
        yield from (item for item in step.parallel if isinstance(item, Send))
    elif isinstance(step, OperateStep | NotifyStep):
        return


def _send(send: Send, target: TargetBody, contract: Contract) -> Iterator[str]:
    api = target.api
    senders = api.senders if api is not None else {}
    if send.by is not None and send.by != _DEFAULT_SENDER and send.by not in senders:
        yield f"no sender {send.by!r}: add [target.api.senders.{send.by}]"
    elif send.by is not None and send.by in senders and not _differs(senders, send.by, target, contract):
        yield (
            f"sender {send.by!r} would send the same request as main: none of its values stands in the request "
            "(target.api.request.body), and its headers are main's"
        )
    if send.change.path == "other" and "other" not in contract.routes:
        yield f"contract {contract.name} names no other path that takes a key: routes.other"
    if send.change.reply_to is not None and "reply_to" not in placeholders.names(contract.request.body):
        yield "the request has no place for a reply reference: {reply_to?} in target.api.request.body"
    if (send.recipients or 1) > 1 and not placeholders.takes_several_recipients(contract.request.body):
        yield 'the request takes one recipient: ["{to}"] in target.api.request.body would take several'
    if isinstance(send.key, Key):
        yield from _key(send.key, contract)


def _differs(senders: dict[str, Sender], name: str, target: TargetBody, contract: Contract) -> bool:
    """Whether a sender's requests differ from main's at all."""
    main, other = senders.get(_DEFAULT_SENDER, Sender()), senders[name]
    if main.headers != other.headers:
        return True
    request, headers = contract.request, target.api.headers if target.api is not None else {}
    used = placeholders.names([request.body, request.path, request.headers, headers, main.headers])
    return any(main.values.get(value) != other.values.get(value) for value in used)


def _key(key: Key, contract: Contract) -> Iterator[str]:
    if key.size in ("max", "max+1", "max+long") and not contract.key.max.judged:
        yield f"contract {contract.name} names no longest key: key.max"
    if key.twice is not None and not contract.key.at.startswith("header:"):
        yield "the key is not in a header, so it cannot be doubled"


def _need(need: str, target: TargetBody, contract: Contract) -> Iterator[str]:
    """``claim:PATH`` needs a documented claim, ``not:PATH=VALUE`` forbids one, any other word is a capability."""
    kind, _, what = need.partition(":")
    if kind == "claim":
        path, _, value = what.partition("=")
        claim: object = contract
        for part in path.split("."):
            claim = getattr(claim, part)
        if not getattr(claim, "judged", False):
            yield f"contract {contract.name} does not say: {path}"
        elif value and str(getattr(claim, "value", None)) != value:
            yield f"contract {contract.name} has {path}: {getattr(claim, 'value', None)}, not {value}"
    elif need not in {*target.capabilities, *contract.capabilities}:
        yield f"the capability {need!r} is not declared: target.capabilities"


def unplayable(target: TargetBody, folder: Path) -> str | None:
    """Return why no scenario at all can be played, in one line, or None."""
    if target.role == "consumer" and target.consumer is not None and target.consumer.event.endswith(".json"):
        path = folder / target.consumer.event
        if not path.exists():
            return f"target.consumer.event: {path.name} does not exist beside the target file"
    return None
