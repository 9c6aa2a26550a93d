"""A scenario in words: what each step does, which faults it plays, and what it kills. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sendtwice.fake_provider.signatures import Flaw
from sendtwice.harness.fault_words import fault_in_words
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.sends import Burst, Key, Notify, Operate, Redeliver, Send
from sendtwice.harness.steps import (
    AdvanceStep,
    AwaitStep,
    CallStep,
    CheckStep,
    CrashStep,
    Expect,
    FinishStep,
    HangUpStep,
    HoldStep,
    NotifyStep,
    OperateStep,
    ParallelStep,
    PauseStep,
    RedeliverStep,
    RedriveStep,
    ReleaseStep,
    RestartStep,
    ResumeStep,
    SendStep,
    SettleStep,
    StopStep,
    Until,
    UntilStep,
)

#: What passes at each crossing, seen from the harness.
_FORMS = {
    "field-order": "with its fields in another order",
    "whitespace": "with other spaces between its fields",
    "number-form": "with its numbers written otherwise (1.0 for 1)",
    "escapes": "with escapes for some characters",
    "empty-fields": "with its optional fields given as null",
    "recipient-form": "with the recipient as a text, not a list (or the other way round)",
    "recipient-order": "with its recipients in another order",
    "item-order": "with its mails in another order",
}
_ITEMS = {
    "fewer": "without the last of its mails",
    "more": "with one more mail",
    "one-invalid": "with one mail that is not valid",
}

_SIGNATURES = {
    Flaw.BAD: "with a signature that is none",
    Flaw.STALE: "signed a day ago",
    Flaw.ABSENT: "without a signature",
    Flaw.OTHER_SECRET: "signed with another secret",
    Flaw.TAMPERED: "changed after it was signed",
}


def steps_in_words(scenario: Scenario) -> list[str]:
    """Return one sentence for each step."""
    names = {item.name for step in scenario.steps for item in items_of(step)}
    found = []
    for step in scenario.steps:
        if isinstance(step, FinishStep) and scenario.role == "consumer":
            found.append(f"the provider delivers {step.finish} again by its schedule, until it is acknowledged or dead")
        elif isinstance(step, AwaitStep) and step.awaited not in names:
            found.append(f"wait until something meets the fault {step.awaited!r}")
        else:
            found += _step(step, scenario.role)
    return found


def expectations_in_words(expect: Expect) -> list[str]:
    """Return what a scenario expects beyond the contract."""
    found = []
    for names, count in expect.deliveries.items():
        wanted = f"{count[0]} to {count[1]}" if isinstance(count, tuple) else str(count)
        found.append(f"{_names(names)}: delivered {wanted} {'time' if wanted == '1' else 'times'}")
    for names, what in expect.answers.items():
        if isinstance(what, dict):
            parts = [f"{n} {c}" for c, n in what.items() if c != "rest"]
            rest = [str(c) for c in what.get("rest", ())]
            parts += [f"the rest {' or '.join(rest)}"] if rest else []
            found.append(f"{_names(names)}: {', '.join(parts)}")
        else:
            found.append(f"{_names(names)}: answered {' or '.join(map(str, what))}")
    found += [f"{op}: the target says {' or '.join(what)}" for op, what in expect.told.items()]
    return found


def faults_of(scenario: Scenario) -> list[str]:
    """Return every fault that a scenario plays, in words."""
    found, role = [], scenario.role
    for step in scenario.steps:
        for item in items_of(step):
            found += [f"{item.name}: {fault_in_words(spec, role=role)}" for spec in getattr(item, "at", ())]
        if isinstance(step, HoldStep):
            found.append(fault_in_words(step.hold, role=role))
        elif isinstance(step, HangUpStep):
            found.append(f"the caller of {step.hang_up} hangs up (RST)")
    return found


def kills_of(scenario: Scenario) -> list[str]:
    """Return what a scenario does to the target's processes, in words."""
    found = []
    for step in scenario.steps:
        if isinstance(step, CrashStep):
            found.append(f"{_process(step.crash)} is killed (SIGKILL)")
        elif isinstance(step, StopStep):
            found.append(f"{_process(step.stop)} is asked to end (SIGTERM)")
        elif isinstance(step, PauseStep):
            found.append(f"{_process(step.pause)} is stopped for a while (SIGSTOP)")
        elif isinstance(step, RestartStep):
            found.append(f"{_process(step.restart)} is started again")
    return found


def items_of(step: Any) -> Iterator[Send | Operate | Notify | Redeliver | Burst]:
    """Return the attempts that a step makes."""
    match step:
        case SendStep(send=item) | OperateStep(operate=item) | NotifyStep(notify=item):
            yield item
        case RedeliverStep(redeliver=item) | RedriveStep(redrive=item):
            yield item
        case ParallelStep(parallel=Burst() as burst):
            yield burst
        case ParallelStep(parallel=list() as items):
            yield from items
        case _:
            pass


def attempts_of(scenario: Scenario) -> list[str]:
    """Return the names of the attempts that a scenario's steps make; ``finish`` may add retries."""
    found = []
    for step in scenario.steps:
        found += [f"{i.name} ({i.count} times)" if isinstance(i, Burst) else i.name for i in items_of(step)]
    return found


def _step(step: Any, role: str) -> Iterator[str]:
    match step:
        case ParallelStep(parallel=Burst() as burst):
            like = f", each like {burst.like}" if burst.like else ""
            first, last = f"{burst.name}.1", f"{burst.name}.{burst.count}"
            yield f"send {burst.count} at the same instant ({first} to {last}){like}"
        case ParallelStep(parallel=list() as items):
            yield "at the same instant: " + "; ".join(_attempt(item, role) for item in items)
        case SendStep() | OperateStep() | NotifyStep() | RedeliverStep():
            yield from (_attempt(item, role) for item in items_of(step))
        case RedriveStep(redrive=item):
            yield f"a person redrives the event of {item.like} as {item.name}"
        case HoldStep(hold=spec):
            yield f"from now on: {fault_in_words(spec, role=role)}"
        case ReleaseStep(release=label):
            yield f"release {label!r}"
        case HangUpStep(hang_up=name):
            yield f"the caller of {name} hangs up (RST)"
        case AwaitStep(awaited=name):
            yield f"wait for the end of {name}"
        case UntilStep(until=until):
            yield _until(until)
        case CheckStep(check=expect):
            yield "here it must already hold: " + "; ".join(expectations_in_words(expect))
        case CallStep(call=call):
            times = f", {call.times} times at the same instant" if call.times > 1 else ""
            who = f", with the credential of {call.by}" if call.by else ""
            yield f"call {call.name!r} of the target file" + (f" for {call.of}" if call.of else "") + who + times
        case AdvanceStep(advance=advance):
            by = f"{advance.by:g} s" if isinstance(advance.by, float) else f"the contract's {advance.by}"
            more = f" {'and' if advance.plus > 0 else 'less'} {abs(advance.plus):g} s" if advance.plus else ""
            yield f"move the target's clock forward by {by}{more}"
        case PauseStep(pause=name):
            yield f"stop {_process(name)} for a while (SIGSTOP)"
        case ResumeStep(resume=name):
            yield f"let {_process(name)} go on (SIGCONT)"
        case StopStep(stop=name):
            yield f"ask {_process(name)} to end (SIGTERM)"
        case CrashStep(crash=name):
            yield f"kill {_process(name)} (SIGKILL)"
        case RestartStep(restart=name):
            yield f"start {_process(name)} again, with the state it kept"
        case FinishStep(finish=name):
            yield f"retry {name} with the same key until a definite answer"
        case SettleStep():
            yield "wait until nothing is in flight and what was promised has arrived"
        case _:  # a step that a later version adds
            yield type(step).__name__.removesuffix("Step").lower()


def _until(until: Until) -> str:
    what = f"the answer of {' and '.join(until.names)}"
    if until.met is not None:
        often = f" {until.times} times" if until.times > 1 else ""
        what = f"something to meet the fault {until.met!r}{often}"
    elif until.delivered is not None:
        what = f"the first delivery of {until.delivered}"
    after = "" if until.or_after is None else ", or for "
    if until.or_after is not None:
        after += "the grace period" if until.or_after == "grace" else f"{until.or_after:g} s"
    return f"wait for {what}{after}"


def _attempt(item: Send | Operate | Notify | Redeliver | Burst, role: str) -> str:
    like = getattr(item, "like", None)
    match item:
        case Operate():
            text = f"ask the target to perform {item.op or item.name}" if not like else _asked_again(item)
        case Notify(about=str() as about):
            text = f"the provider tells that the mail of {about} was {item.type}, as {item.name}" + _of_event(item)
        case Notify():
            text = f"notify {item.name}" + (f", {_which_event(item)}" if like else "") + _of_event(item)
        case Redeliver():
            text = f"the provider delivers the event of {like} again, as {item.name}" + _of_event(item)
        case Send():
            text = f"send {item.name}" + (f", like {like}" if like else "") + _differences(item)
        case _:
            text = f"send {item.name}"
    faults = [fault_in_words(spec, role=role) for spec in getattr(item, "at", ())]
    text += f"; {'; '.join(faults)}" if faults else ""
    return text + (", and go on at once" if getattr(item, "wait", "answer") == "none" else "")


def _asked_again(item: Operate) -> str:
    """Return what an operation has to do with the one that it is like."""
    if item.known_as is not None:
        return f"ask the target to perform {item.known_as} again, with other words, as {item.name}"
    if item.op is not None:
        return f"ask the target to perform {item.op}, with the content of {item.like}'s"
    return f"ask the target again for what {item.like} asked for, as {item.name}"


def _which_event(item: Notify) -> str:
    """Return what an event has to do with the one that it is like."""
    if item.op is not None:
        return f"another message ({item.op}) with the content of {item.like}'s"
    return f"another event of {item.like}'s message" if item.event is not None else f"the same event as {item.like}"


def _of_event(item: Notify | Redeliver) -> str:
    wrong = f", {_SIGNATURES[item.signature]}" if item.signature is not None else ""
    return wrong + (f", to the target's instance {item.replica}" if item.replica is not None else "")


def _differences(send: Send) -> str:
    found = []
    if isinstance(send.key, Key):
        found.append(_key(send.key))
    elif send.key is not None:
        found.append(f"under the key {send.key}")
    found += [f"for the operation {send.op}"] if send.op else []
    found += [f"with the content {send.content}"] if send.content else []
    found += [f"by {send.by}"] if send.by else []
    found += [f"to the target's instance {send.replica}"] if send.replica else []
    found += [f"to {send.recipients} recipients"] if send.recipients else []
    found += [f"as a batch of {send.items} mails"] if send.items else []
    found += ["on each of these routes"] if send.via == "each" else [f"by the route {send.via}"] if send.via else []
    found += ["as a dry run"] if send.dry_run else []
    change = send.change
    names = {
        "to": "recipient",
        "subject": "subject",
        "text": "text",
        "reply_to": "reply address",
        "excluded": "field that does not count",
        "path": "path",
        "query": "query",
        "content_type": "type of content",
    }
    found += [
        f"with {'an invalid' if how == 'invalid' else 'another'} {name}"
        for field, name in names.items()
        if (how := getattr(change, field)) is not None
    ]
    found += [_FORMS[change.form]] if change.form else []
    found += [_ITEMS[change.items]] if change.items else []
    found += [f"with a time of the first attempt that is {change.first_sent}"] if change.first_sent else []
    return ", " + ", ".join(found) if found else ""


def _key(key: Key) -> str:
    if key.absent:
        return "without a key"
    if key.text is not None:
        return f"under the key {key.text!r}" if key.text else "under an empty key"
    text = "under a key" + (f" derived from {key.of}" if key.of else "")
    if key.size is not None:
        sizes = {
            "min": "of the least length",
            "max": "of the greatest length",
            "max+1": "one character too long",
        }
        text += " " + sizes.get(str(key.size), f"of the length {key.size}")
    text += f" in {key.case} case" if key.case else ""
    text += f" ending in {key.tail!r}" if key.tail else ""
    text += "" if key.quoted is None else " in quotes" if key.quoted else " without quotes"
    text += " with blanks around it" if key.padded else ""
    return text + (f" given twice ({key.twice} values)" if key.twice else "")


def _names(names: str | tuple[str, ...]) -> str:
    return names if isinstance(names, str) else " + ".join(names)


def _process(name: str) -> str:
    base, _, number = name.rpartition(".")
    if base == "target" and number.isdigit():
        return f"the target's instance {number}"
    return "the target" if name == "target" else f"the target's process {name}"
