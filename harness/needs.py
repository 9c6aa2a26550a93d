"""What a scenario needs that a target may not have. A missing capability is neither a pass nor a failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.contracts.model import as_claims
from sendtwice.fake_provider.faults import Place
from sendtwice.harness import forms, mails, placeholders
from sendtwice.harness.clocks import needs as clock_needs
from sendtwice.harness.drivers.api import other_route
from sendtwice.harness.effects.sql import lacking
from sendtwice.harness.fault_specs import STORE, FaultSpec
from sendtwice.harness.requests import has_mails
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.sends import Burst, Form, Key, Notify, Redeliver, Send
from sendtwice.harness.side_by_side import faults_of
from sendtwice.harness.steps import (
    CallStep,
    CrashStep,
    FinishStep,
    HoldStep,
    NotifyStep,
    OperateStep,
    ParallelStep,
    PauseStep,
    RestartStep,
    ResumeStep,
    SendStep,
    StopStep,
)
from sendtwice.harness.target import TargetBody
from sendtwice.harness.target_roles import Consumer, Sender
from sendtwice.harness.target_running import front_of

_PROVIDER = (Place.PROVIDER_REQUEST, Place.PROVIDER_RESPONSE)
#: Senders that need a table of their own in the target file.
_DEFAULT_SENDER = "main"
#: Other bytes that every JSON parser reads as the same; the other forms may be refused where nobody declares them.
_ALWAYS_GOOD = ("field-order", "whitespace", "escapes")


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
    if scenario.each is not None and scenario.route is None:
        takes = "that takes a key" if scenario.each == "keyed-route" else "that ignores keys"
        yield f"contract {contract.name} has no other route {takes}: routes"
    if target.effects is not None:
        yield from _held_elsewhere(scenario)
    yield from clock_needs.missing(scenario, target, contract)
    for step in scenario.steps:
        if isinstance(step, CrashStep | RestartStep | StopStep | PauseStep | ResumeStep) and target.started:
            yield from _process(next(iter(step.model_dump().values())), target)
        if isinstance(step, CrashStep | RestartStep | StopStep):
            if not target.can_be_killed:
                yield "the target cannot be killed and restarted: give it [target.start]"
            elif not target.keeps_state:
                where = "start" if target.container is None else "container"
                yield f"the target forgets everything when it restarts: target.{where}.keeps_state is false"
        elif isinstance(step, CallStep) and step.call.name not in target.calls:
            yield f"no call {step.call.name!r}: add [target.calls.{step.call.name}]"
        elif isinstance(step, PauseStep | ResumeStep) and not target.can_be_killed:
            yield "the target cannot be paused: give it [target.start]"
        elif isinstance(step, NotifyStep) and target.role == "api" and target.webhooks is None:
            yield "the provider's events have nowhere to go: add [target.webhooks]"
        if target.role == "consumer" and target.consumer is not None:
            for item in events_of(step):
                yield from _event(item, target, target.consumer)
        for spec in _faults(step):
            yield from _store(spec, target)
        for send in _sends(step):
            yield from _send(send, target, contract)


def _held_elsewhere(scenario: Scenario) -> Iterator[str]:
    """Return what cannot be played where the target's mail goes to a provider of its own."""
    if any(spec.crossing in _PROVIDER for spec, _ in faults_of(scenario)):
        yield "effects are counted elsewhere: nothing is held at the provider (target.effects)"
    if scenario.role == "api" and any(isinstance(step, NotifyStep) for step in scenario.steps):
        yield "effects are counted elsewhere: what the provider tells of its mails is not ours to say (target.effects)"


def _faults(step: object) -> Iterator[FaultSpec]:
    if isinstance(step, HoldStep):
        yield step.hold
    for send in _sends(step):
        yield from send.at


def _store(spec: FaultSpec, target: TargetBody) -> Iterator[str]:
    if spec.crossing in STORE and not target.store:
        yield "no wire of the target to its store is held: add [target.store.NAME]"
    elif spec.store is not None and spec.store not in target.store:
        yield f"no store {spec.store!r}: add [target.store.{spec.store}]"


def _process(name: str, target: TargetBody) -> Iterator[str]:
    """Return why a target has no process of a name: ``target``, one of its instances (``target.2``), or another."""
    front = front_of(target.processes)
    base, _, number = name.rpartition(".")
    if number.isdigit() and base in ("target", front.name if front is not None else "target"):
        if int(number) > target.replicas:
            yield f"the target has no instance number {number}: replicas of its process"
    elif name != "target" and all(name != one.name for one in target.processes):
        yield f"the target has no process {name!r}: add [[target.process]] with this name"


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
    elif (
        send.by not in (None, _DEFAULT_SENDER)
        and send.by in senders
        and not _differs(senders, send.by, target, contract)
    ):
        yield (
            f"sender {send.by!r} would send the same request as main: none of its values stands in the request "
            "(target.api.request.body), and its headers are main's"
        )
    if send.change.path == "other" and other_route(contract) is None:
        yield f"contract {contract.name} names no other path that takes a key: routes.other"
    if send.via not in (None, "each", "send") and send.via not in contract.routes:
        yield f"contract {contract.name} has no route {send.via!r}: routes.{send.via}"
    if send.items is not None and contract.batch is None:
        yield f"contract {contract.name} has no batch: batch"
    elif send.items is not None and contract.batch is not None and contract.batch.key.value == "item":
        yield "each mail of a batch has a key of its own, which cannot be played yet: batch.key"
    elif send.items is not None and contract.batch is not None and not has_mails(contract, contract.batch.route):
        route = contract.batch.route
        yield f"the batch's body has no list with a mail in it: routes.{route}.body, and routes.{route}.mail.items"
    body = contract.request.body
    if send.change.reply_to is not None and "reply_to" not in placeholders.names(body):
        yield "the request has no place for a reply reference: {reply_to?} in target.api.request.body"
    if (send.recipients or 1) > 1 and not placeholders.takes_several_recipients(body):
        yield 'the request takes one recipient: ["{to}"] in target.api.request.body would take several'
    if send.change.form is not None:
        yield from _form(send.change.form, body, contract)
    if send.change.excluded is not None and not contract.fingerprint.excluded.judged:
        yield f"contract {contract.name} does not say: fingerprint.excluded"
    if send.change.first_sent is not None and contract.key.first_sent is None:
        yield f"contract {contract.name} has no asserted time of the first attempt: key.first_sent"
    if send.replica is not None and send.replica > target.replicas:
        yield f"the target has no instance number {send.replica}: replicas of its process"
    if send.dry_run and contract.dry_run is None:
        yield f"contract {contract.name} has no dry run: dry_run"
    if isinstance(send.key, Key):
        yield from _key(send.key, contract)


def events_of(step: object) -> Iterator[Notify | Redeliver]:
    """Return the events that a step delivers."""
    items = step.parallel if isinstance(step, ParallelStep) else [next(iter(vars(step).values()), None)]
    yield from (one for one in (items if isinstance(items, list) else ()) if isinstance(one, Notify | Redeliver))


def _event(item: Notify | Redeliver, target: TargetBody, consumer: Consumer) -> Iterator[str]:
    """Return why an event cannot be told to a target of role consumer."""
    if item.signature is not None and not consumer.scheme.can_be(item.signature):
        how = "are not signed" if consumer.signature == "none" else f"carry no signed time ({consumer.signature})"
        yield f"its events {how}: target.consumer.signature"
    if isinstance(item, Notify) and item.event == "new" and not consumer.tells_messages_apart:
        yield f"its events do not say which message they are about: {{message_id}} in {consumer.event}"
    if isinstance(item, Notify) and item.type is not None and consumer.payload_of(item.type) is None:
        yield f"what its provider tells of a mail is not known: target.consumer.{item.type}"
    if item.replica is not None and item.replica > target.replicas:
        yield f"the target has no instance number {item.replica}: replicas of its process"


def _form(form: Form, body: object, contract: Contract) -> Iterator[str]:
    if not contract.equivalence(form).judged and form not in _ALWAYS_GOOD:
        where = "batch.item_order" if form == "item-order" else f"fingerprint.{form.replace('-', '_')}"
        yield f"contract {contract.name} does not say: {where}"
    lacking = forms.unfit(body, form)
    if lacking is not None:
        yield lacking


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
    in_header = contract.key.at.startswith("header:")
    if key.twice is not None and not in_header:
        yield "the key is not in a header, so it cannot be doubled"
    if key.padded and in_header:
        yield "the key is in a header, where blanks around a value are no part of it (RFC 9110, 5.5)"


def _need(need: str, target: TargetBody, contract: Contract) -> Iterator[str]:
    """Return what a need lacks.

    ``claim:PATH`` is a documented claim, ``claim:PATH=A|B`` one of these values, ``answer:CLASS`` an answer that the
    contract declares, ``timing:NAME`` seconds that the target file says; other words are capabilities.
    """
    kind, _, what = need.partition(":")
    if kind == "claim":
        path, _, value = what.partition("=")
        claim = as_claims(contract).get(path)
        if claim is None or not claim.judged:
            yield f"contract {contract.name} does not say: {path}"
        elif value and not _among(value, claim.value):
            yield f"contract {contract.name} has {path}: {_shown(claim.value)}, not {value}"
    elif kind == "answer":
        if not contract.shapes(AnswerClass(what)):
            yield f"contract {contract.name} has no answer for {what.replace('_', ' ')}: answers.{what}"
    elif kind == "timing":
        if getattr(target.timing, what, None) is None:
            yield f"only you know it: set target.timing.{what}"
    elif need not in {*target.capabilities, *contract.can_do()}:
        yield f"the capability {need!r} is not declared: target.capabilities"


def _among(wanted: str, value: object) -> bool:
    """Whether a claim has one of the values of ``a|b``; a list has it among its own."""
    listed = value if isinstance(value, list) else [value]
    return any(str(item) in wanted.split("|") for item in listed)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def unplayable(target: TargetBody, folder: Path) -> str | None:
    """Return why no scenario at all can be played, in one line, or None."""
    if target.role == "consumer" and target.consumer is not None and target.consumer.event.endswith(".json"):
        path = folder / target.consumer.event
        if not path.exists():
            return f"target.consumer.event: {path.name} does not exist beside the target file"
    if target.effects is not None and target.effects.database is not None:
        return lacking(target.effects.database)
    if target.mails == "varied" and not mails.available():
        return mails.MISSING
    return None
