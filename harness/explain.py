"""``sendtwice explain``: a scenario, a rule or a contract in words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click
from pydantic import BaseModel

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import Basis, Claim, Contract
from sendtwice.fake_provider.documents import load_yaml
from sendtwice.fake_provider.faults import Place
from sendtwice.harness import words
from sendtwice.harness.catalogue import needs_of
from sendtwice.harness.judge import RULES, Rule
from sendtwice.harness.nearest import nearest
from sendtwice.harness.scenario import Scenario, catalogue
from sendtwice.harness.scenario import load as load_scenario
from sendtwice.harness.selection import tags_of
from sendtwice.harness.steps import CrashStep, Key, ParallelStep, Send

_WIDTH = 100


def lines(name: str) -> Iterator[str]:
    """Return the explanation of an id; a usage error names the nearest."""
    if name in RULES:
        yield from _rule(RULES[name])
        return
    shipped = {scenario.id: scenario for scenario in catalogue()}
    if name in shipped:
        yield from _scenario(shipped[name])
        return
    if name in contracts.names():
        yield from _contract(contracts.load(name))
        return
    if name.endswith((".yaml", ".yml")):
        # A scenario is told by its steps; what has none is read as a contract.
        data = load_yaml(name).data
        if isinstance(data, dict) and "steps" in data:
            yield from _scenario(load_scenario(name), file=name)
        else:
            yield from _contract(contracts.load(name))
        return
    known = [*shipped, *RULES, *contracts.names()]
    raise click.UsageError(f"{name!r} is no scenario, rule or contract; {nearest(name, known)}")


def rules_of(scenario: Scenario) -> list[str]:
    """Return the rules that a scenario's steps can break, the likeliest first."""
    items = [item for step in scenario.steps for item in words.items_of(step)]
    sends = [item for item in items if isinstance(item, Send)]
    faults = [spec for item in items for spec in getattr(item, "at", ())]
    faults += [step.hold for step in scenario.steps if hasattr(step, "hold")]
    provider_fails = any(
        spec.crossing in (Place.PROVIDER_REQUEST, Place.PROVIDER_RESPONSE) and spec.verb not in ("hold", "delay")
        for spec in faults
    )
    crash = any(isinstance(step, CrashStep) for step in scenario.steps)
    found = ["at-most-once"]
    found += ["at-most-once-after-unknown"] if provider_fails or crash else []
    found += ["no-lost-send"]
    if scenario.role == "api":
        changed = any(send.like and (send.change.to or send.change.subject or send.change.text) for send in sends)
        found += ["conflict"] if changed else ["replay-fidelity", "no-false-conflict"]
        parallel = any(isinstance(step, ParallelStep) for step in scenario.steps)
        waiting = any(getattr(item, "wait", "answer") == "none" for item in items)
        found += ["in-progress"] if parallel or waiting else []
        found += ["key-syntax"] if any(isinstance(send.key, Key) for send in sends) else []
        found += ["isolation"] if any(send.by for send in sends) else []
        refused = provider_fails or any(send.change.to == "invalid" for send in sends)
        found += ["refusal-policy", "progress"] if refused or crash else []
        found += ["status-as-declared"]
    return [*found, *(["expected"] if not scenario.expect.empty else [])]


def _scenario(scenario: Scenario, file: str | None = None) -> Iterator[str]:
    yield f"{scenario.id}  {scenario.title}"
    yield f"scenario for role {scenario.role}; tags: {', '.join(tags_of(scenario))}"
    yield from _part("why", scenario.why)
    yield from _part("source", scenario.source)
    yield from _list("played", words.steps_in_words(scenario), numbered=True)
    yield from _list("expects beyond the contract", words.expectations_in_words(scenario.expect))
    yield from _list("needs", needs_of(scenario))
    yield from _list("rules that can break", [f"{rule}: {RULES[rule].title}" for rule in rules_of(scenario)])
    yield ""
    yield f"play it: sendtwice run TARGET.toml --scenario {file or scenario.id}"


def _rule(rule: Rule) -> Iterator[str]:
    yield f"{rule.id}  {rule.title}"
    yield "rule"
    yield from _part("why", rule.why)
    yield from _part("source", rule.source)
    yield from _part("remedy", rule.remedy)


def _contract(contract: Contract) -> Iterator[str]:
    yield f"{contract.name}  {contract.title}"
    yield "contract" + (f"; extends {contract.extends}" if contract.extends else "")
    yield from _part("what", contract.summary)
    yield from _part("source", ", ".join(p for p in (contract.source, contract.as_of) if p))
    yield from _part("request", f"{contract.request.method} {contract.request.path}, key in {contract.key.at}")
    rows = list(_claims(contract))
    yield ""
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for claim, value, basis, where in rows:
        yield f"  {claim:<{widths[0]}}  {value:<{widths[1]}}  {basis:<10}  {where}".rstrip()
    yield from _list(
        "answers",
        [
            f"{kind.value}: {' or '.join(_shape(shape) for shape in shapes)}"
            for kind, shapes in contract.answers.items()
        ],
    )
    levels = [f"{rule}: {level.value}" for rule, level in contract.levels.items()]
    yield from _list("levels other than must", levels)


def _claims(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    if not prefix:
        yield ("claim", "value", "basis", "source or note")
    for field, info in type(model).model_fields.items():
        item = getattr(model, field)
        name = f"{prefix}{info.alias or field}"
        if isinstance(item, Claim):
            value = _value(item.value) if item.basis is not Basis.UNKNOWN else "-"
            also = f" (also {', '.join(map(_value, item.also))})" if item.also else ""
            yield (name, value + also, item.basis.value, "; ".join(p for p in (item.source, item.note) if p))
        elif isinstance(item, BaseModel) and field in (
            "key",
            "fingerprint",
            "replay",
            "outcomes",
            "retention",
        ):
            yield from _claims(item, f"{name}.")


def _value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    if isinstance(value, BaseModel):
        return " ".join(str(part) for part in value.model_dump(exclude_none=True).values())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _shape(shape: object) -> str:
    status = ", ".join(map(str, getattr(shape, "status", ())))
    code = getattr(shape, "code", None)
    return f"{status} with {code.at} {' or '.join(map(str, code.one_of))}" if code is not None else status


def _part(title: str, text: str) -> Iterator[str]:
    if text.strip():
        yield ""
        yield title
        yield from textwrap.wrap(" ".join(text.split()), _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _list(title: str, items: list[str], *, numbered: bool = False) -> Iterator[str]:
    if items:
        yield ""
        yield title
    for number, item in enumerate(items, 1):
        mark = f"  {number}. " if numbered else "  "
        yield from textwrap.wrap(item, _WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))
