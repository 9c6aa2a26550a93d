"""``sendtwice explain``: a scenario, a rule or a contract in words."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import click

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.documents import load_yaml
from sendtwice.fake_provider.faults import Place
from sendtwice.harness import words
from sendtwice.harness.catalogue import needs_of
from sendtwice.harness.explain import contract as contract_page
from sendtwice.harness.explain import diff
from sendtwice.harness.explain.contract import Format
from sendtwice.harness.judge import RULES, Rule
from sendtwice.harness.judge.rules import OF_CALLERS
from sendtwice.harness.nearest import nearest
from sendtwice.harness.scenario import Scenario, catalogue
from sendtwice.harness.scenario import load as load_scenario
from sendtwice.harness.selection import tags_of
from sendtwice.harness.sends import Key, Send
from sendtwice.harness.steps import CrashStep, FinishStep, ParallelStep

_WIDTH = 100


def lines(name: str, *, against: str | None = None, shape: Format = "text") -> Iterator[str]:
    """Return the explanation of an id; a usage error names the nearest.

    A contract has other shapes than text, and may be told ``against`` another, to which a caller moves.
    """
    contract = _contract_named(name)
    if contract is not None:
        yield from _contract(contract, contracts.load(against) if against is not None else None, shape)
        return
    for option, given in (("--against", against is not None), ("--format", shape != "text")):
        if given:
            raise click.UsageError(f"{option} is for contracts, and {name!r} is none; contracts: {_listed_contracts()}")
    shipped = {scenario.id: scenario for scenario in catalogue()}
    if name in RULES:
        yield from _rule(RULES[name])
    elif name in shipped:
        yield from _scenario(shipped[name])
    elif _is_file(name):
        yield from _scenario(load_scenario(name), file=name)
    else:
        known = [*shipped, *RULES, *contracts.names()]
        raise click.UsageError(f"{name!r} is no scenario, rule or contract; {nearest(name, known)}")


def _is_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))


def _contract_named(name: str) -> Contract | None:
    """Return a contract by its name or file; a file that has steps is a scenario."""
    if _is_file(name):
        data = load_yaml(name).data
        return None if isinstance(data, dict) and "steps" in data else contracts.load(name)
    return contracts.load(name) if name in contracts.names() else None


def _listed_contracts() -> str:
    return ", ".join(contracts.names())


def _contract(contract: Contract, against: Contract | None, shape: Format) -> Iterator[str]:
    if against is None:
        return _ALONE[shape](contract)
    return _AGAINST[shape](contract, against)


def _json(data: dict[str, Any]) -> Iterator[str]:
    yield json.dumps(data, indent=2, ensure_ascii=False)


_ALONE: dict[Format, Callable[[Contract], Iterator[str]]] = {
    "text": contract_page.text,
    "markdown": contract_page.markdown,
    "json": lambda contract: _json(contract_page.data(contract)),
}
_AGAINST: dict[Format, Callable[[Contract, Contract], Iterator[str]]] = {
    "text": diff.text,
    "markdown": diff.markdown,
    "json": lambda old, new: _json(diff.data(old, new)),
}


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
    if scenario.role == "consumer":
        finished = any(isinstance(step, FinishStep) for step in scenario.steps)
        found += ["progress"] if finished else []
        found = ["unverified"] * any(getattr(item, "signature", None) for item in items) + found
    if scenario.role == "client":
        found += [name for name in OF_CALLERS if name not in found]
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
