"""A failure as a file: the scenario itself, in the scenario language, with where it came from.

``sendtwice replay`` plays it like any other scenario; there is no second format. Paths in it are relative
to the file, so that a folder of reports can be moved together with what it is about.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from sendtwice.harness.events import RunEnded, RunEvent, RunStarted
from sendtwice.harness.fault_specs import FaultSpec
from sendtwice.harness.judge import Finding
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report.files import write_text
from sendtwice.harness.result import ScenarioResult
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.sends import Notify, Operate, Send
from sendtwice.harness.steps import Expect, HoldStep, ParallelStep


class SavedFailures:
    """Writes each failed scenario to the place that its result names, when the run is over."""

    def __init__(self, target_path: Path | None, contract: str | None, redactor: Redactor) -> None:
        """``contract`` is what the run was judged by: a shipped name, or a file's path."""
        self._target_path, self._contract, self._redactor = target_path, contract, redactor
        self._scenarios: dict[str, Scenario] = {}

    def __call__(self, event: RunEvent) -> None:
        """Take one event of the runner."""
        if isinstance(event, RunStarted):
            self._scenarios = {scenario.id: scenario for scenario in event.scenarios}
        elif isinstance(event, RunEnded):
            for result in event.result.scenarios:
                if result.replay is not None and result.id in self._scenarios:
                    write_saved(
                        Path(result.replay),
                        self._scenarios[result.id],
                        self._target_path,
                        result,
                        event.result.seed,
                        contract=self._contract,
                        redactor=self._redactor,
                    )


def write_saved(
    path: Path,
    scenario: Scenario,
    target_path: Path | None,
    result: ScenarioResult,
    seed: int,
    *,
    contract: str | None = None,
    redactor: Redactor | None = None,
) -> None:
    """Write the scenario as it was played; ``contract`` is a shipped name, or a file's path."""
    redactor = redactor or Redactor()
    worst = worst_finding(result)
    if contract is not None and Path(contract).is_absolute() and target_path is not None:
        contract = os.path.relpath(contract, target_path.parent)
    saved: dict[str, Any] = {
        "target": os.path.relpath(target_path, path.parent) if target_path is not None else None,
        "contract": contract,
        "seed": seed,
        "verdict": result.verdict.value,
        "rule": worst.rule if worst else None,
        "message": redactor.text(worst.message if worst else result.reason or ""),
    }
    data = as_document(scenario)
    data["saved"] = {name: value for name, value in saved.items() if value not in (None, "")}
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=False)
    write_text(path, text)


def worst_finding(result: ScenarioResult) -> Finding | None:
    """Return the finding that a scenario is remembered for; the judge sorts by weight."""
    return result.findings[0] if result.findings else None


def as_document(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as the plain data of its file, in the short forms that people write."""
    data: dict[str, Any] = {"id": scenario.id, "title": scenario.title, "role": scenario.role}
    for name in ("tags", "why", "source", "needs", "each", "route"):
        value = getattr(scenario, name)
        if value:
            data[name] = " ".join(value.split()) if isinstance(value, str) else _Flow(value)
    data["steps"] = [_step(step, scenario.role) for step in scenario.steps]
    if not scenario.expect.empty:
        data["expect"] = _expect(scenario.expect)
    if scenario.saved is not None:
        data["saved"] = scenario.saved
    return data


#: What is sent at the same instant without a word before it.
_OWN: dict[str, type[BaseModel]] = {"client": Operate, "consumer": Notify}


def _step(step: BaseModel, role: str) -> Any:
    if isinstance(step, ParallelStep) and isinstance(step.parallel, list):
        own = _OWN.get(role, Send)
        words = [(type(item).__name__.lower(), item) for item in step.parallel]
        return {"parallel": [_plain(item) if type(item) is own else {word: _plain(item)} for word, item in words]}
    field, info = next(iter(type(step).model_fields.items()))
    name, value = info.alias or field, getattr(step, field)
    if isinstance(step, HoldStep):
        return {name: _long(step.hold)}
    if value is None or (name in ("crash", "restart") and value == "target"):
        return name
    return {name: _plain(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, Expect):
        return _expect(value)
    if isinstance(value, BaseModel):
        found: dict[str, Any] = {}
        # The name comes first, as people write it; faults come from a base class and would.
        fields = sorted(type(value).model_fields.items(), key=lambda item: item[0] == "at")
        for field, info in fields:
            given = getattr(value, field)
            if field == "at":
                if given:
                    found["at"] = _at(given)
            elif given != info.get_default(call_default_factory=True):
                found[info.alias or field] = _plain(given)
        return found
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {_key(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return _Flow(_plain(item) for item in value)
    return value


def _expect(expect: Expect) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if expect.deliveries:
        found["deliveries"] = _plain(expect.deliveries)
    if expect.answers:
        found["answers"] = {_key(names): _plain(what) for names, what in expect.answers.items()}
    if expect.told:
        found["told"] = _plain(expect.told)
    if expect.level is not Expect().level:
        found["level"] = expect.level.value
    return found


def _at(faults: list[FaultSpec]) -> Any:
    crossings = [spec.crossing for spec in faults]
    if len(set(crossings)) == len(crossings):
        short = {spec.crossing.value: _long(spec) for spec in faults}
        for spec in short.values():
            del spec["crossing"]
        # `{lose: null}` is written `lose`.
        return {
            crossing: next(iter(spec)) if len(spec) == 1 and next(iter(spec.values())) is None else spec
            for crossing, spec in short.items()
        }
    return [_long(spec) for spec in faults]


def _long(spec: FaultSpec) -> dict[str, Any]:
    found: dict[str, Any] = {"crossing": spec.crossing.value, spec.verb.value: spec.argument}
    for name in ("of", "nth", "times", "stage", "label", "store", "message", "location"):
        value = getattr(spec, name)
        if value != FaultSpec.model_fields[name].default:
            found[name] = value
    if spec.retry_after is not None:
        date = spec.retry_after.date
        found["retry_after"] = spec.retry_after.after if date is None else {"date": date}
    return found


def _key(name: Any) -> Any:
    if isinstance(name, Enum):
        return name.value
    return _FlowKey(name) if isinstance(name, tuple) else name


class _Flow(list[Any]):
    """A list that is written on one line."""


class _FlowKey(tuple[Any, ...]):
    """A group of names as a key: ``[m1, m2]: 2``."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes scenarios as they are written by hand: groups on one line, no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _flow(dumper: yaml.SafeDumper, data: Any) -> yaml.Node:
    simple = not any(isinstance(item, dict) for item in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", list(data), flow_style=simple)


_Dumper.add_representer(_Flow, _flow)
_Dumper.add_representer(_FlowKey, _flow)
