"""``sendtwice scenarios``: the catalogue as a list, and what each scenario needs."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator

import click

from sendtwice.harness.fault_specs import STORE
from sendtwice.harness.nearest import nearest
from sendtwice.harness.scenario import Scenario, catalogue
from sendtwice.harness.selection import tags_of
from sendtwice.harness.steps import (
    AdvanceStep,
    CallStep,
    CrashStep,
    HoldStep,
    NotifyStep,
    PauseStep,
    RestartStep,
    ResumeStep,
)
from sendtwice.harness.words import items_of


def lines(glob: str | None, *, as_json: bool) -> Iterator[str]:
    """Return what is printed for the scenarios that fit; a usage error names the nearest."""
    every = catalogue()
    found = [s for s in every if glob is None or fnmatch.fnmatchcase(s.id, glob)]
    if not found and glob is not None:
        raise click.UsageError(f"{glob!r} fits no scenario; {nearest(glob, [s.id for s in every])}")
    if as_json:
        yield json.dumps([_as_json(scenario) for scenario in found], indent=2, ensure_ascii=False)
        return
    width = max((len(scenario.id) for scenario in found), default=0)
    role = ""
    for scenario in sorted(found, key=lambda s: (("api", "client", "consumer").index(s.role), s.id)):
        if scenario.role != role:
            yield from ([""] if role else [])
            role = scenario.role
            yield f"role {role}"
        needs = needs_of(scenario)
        yield f"  {scenario.id:<{width}}  {scenario.title}" + (f"  [needs: {'; '.join(needs)}]" if needs else "")
    yield ""
    yield f"{len(found)} scenarios; sendtwice explain ID says more"


def needs_of(scenario: Scenario) -> list[str]:
    """Return what a target must have, in words."""
    found = [_need(need) for need in scenario.needs]
    if scenario.each is not None:
        found.append(f"a contract with other routes: it is played for each {scenario.each.replace('-', ' ')}")
    for step in scenario.steps:
        if isinstance(step, CrashStep | RestartStep):
            found.append("a target that sendtwice starts and that keeps its state ([target.start])")
        elif isinstance(step, CallStep):
            found.append(f"[target.calls.{step.call.name}]")
        elif isinstance(step, AdvanceStep):
            found.append("a clock that can be moved ([target.clock])")
            found += [f"a contract that says {step.advance.by}"] if isinstance(step.advance.by, str) else []
        elif isinstance(step, NotifyStep) and scenario.role == "api":
            found.append("[target.webhooks]")
        elif isinstance(step, PauseStep | ResumeStep):
            found.append("a target that can be paused, which none can yet")
        specs = [step.hold] if isinstance(step, HoldStep) else []
        specs += [spec for item in items_of(step) for spec in getattr(item, "at", ())]
        if any(spec.crossing in STORE for spec in specs):
            found.append("a store behind sendtwice ([target.store.NAME])")
        for item in items_of(step):
            by, via = getattr(item, "by", None), getattr(item, "via", None)
            if by not in (None, "main"):
                found.append(f"[target.api.senders.{by}]")
            if via not in (None, "each", "send"):
                found.append(f"a contract with the route {via!r}")
            if getattr(item, "items", None) is not None:
                found.append("a contract with batches")
    return list(dict.fromkeys(found))


def _need(need: str) -> str:
    kind, _, what = need.partition(":")
    if kind == "claim":
        path, _, value = what.partition("=")
        return f"a contract with {path}: {value}" if value else f"a contract that says {path}"
    return f"the capability {need!r}"


def _as_json(scenario: Scenario) -> dict[str, object]:
    return {
        "id": scenario.id,
        "title": scenario.title,
        "role": scenario.role,
        "tags": tags_of(scenario),
        "needs": needs_of(scenario),
        "why": scenario.why,
        "source": scenario.source,
    }
