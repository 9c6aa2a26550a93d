"""Which scenarios of the catalogue a test is played with, and why some cannot be.

Only the files that fit are read: a scenario's file has its name.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sendtwice.harness.effective import effective_contract
from sendtwice.harness.judge.rules import RULES
from sendtwice.harness.nearest import nearest
from sendtwice.harness.needs import missing
from sendtwice.harness.scenario import FOLDER, Scenario, load, under
from sendtwice.harness.steps import CrashStep, PauseStep, RestartStep, ResumeStep, StopStep
from sendtwice.harness.target import Target
from sendtwice.harness.testing.errors import SendtwiceError, one_line
from sendtwice.harness.testing.settings import TIMING, Choice

if TYPE_CHECKING:
    from pathlib import Path

_OF_PROCESSES = (CrashStep, RestartStep, StopStep, PauseStep, ResumeStep)


@dataclass(frozen=True, slots=True)
class Part:
    """One test: a scenario, and why it cannot be played here, if so."""

    scenario: Scenario
    lacks: str | None

    def __str__(self) -> str:
        return self.scenario.id


def target_of(choice: Choice) -> Target:
    """Return the target that a test is."""
    timing = dict(choice.timing)
    client: dict[str, Any] = {"in_process": True, "timeout": choice.timeout}
    if "max_attempts" in timing:
        client["max_attempts"] = int(timing.pop("max_attempts"))
    body = {
        "name": choice.test,
        "role": "client",
        "contract": choice.needed_contract(),
        "client": client,
        "timing": timing,
        **({"mails": choice.mails} if choice.mails is not None else {}),
    }
    for rule in choice.known:
        if rule not in RULES:
            raise SendtwiceError(f"{choice.test}: known names {rule!r}, which is no rule; {nearest(rule, list(RULES))}")
    known = [{"scenario": "*", "rule": rule, "reason": reason} for rule, reason in choice.known.items()]
    try:
        return Target.model_validate({"target": body, "known": known})
    except ValueError as error:
        first = error.errors()[0] if hasattr(error, "errors") else {"loc": ("",), "msg": str(error)}
        raise SendtwiceError(f"{choice.test}: the marker's {first['loc'][-1]}: {first['msg']}") from None


def parts(choice: Choice, folder: Path) -> list[Part]:
    """Return the tests that a choice makes; :class:`SendtwiceError` when it fits nothing."""
    files = {path.stem: path for path in sorted(FOLDER.rglob("*.yaml"))}
    names: list[str] = []
    for glob in choice.scenarios:
        found = fnmatch.filter(files, glob)
        if not found:
            raise SendtwiceError(f"{choice.test}: scenarios={glob!r} fits no scenario; {nearest(glob, list(files))}")
        names += [name for name in found if name not in names]
    names = [name for name in names if not any(fnmatch.fnmatchcase(name, glob) for glob in choice.exclude)]
    target = target_of(choice)
    with one_line():
        contract = effective_contract(target, folder)
        scenarios = [load(files[name]) for name in sorted(names)]
        mine = [scenario for scenario in scenarios if scenario.role == "client"]
        if not mine:
            what = f"{scenarios[0].id} is for role {scenarios[0].role}" if scenarios else "exclude leaves none"
            raise SendtwiceError(f"{choice.test}: {what}; a test plays scenarios of role client, such as client.*")
        return [Part(one, _lacks(one, missing(one, target.target, contract))) for one in under(contract, mine)]


def _lacks(scenario: Scenario, needs: list[str]) -> str | None:
    if any(isinstance(step, _OF_PROCESSES) for step in scenario.steps):
        return "it kills or pauses the process that sends, which is the test's own: play it with sendtwice run"
    words = "; ".join(needs)
    for name in TIMING:
        words = words.replace(f"target.timing.{name}", f"{name}=... in the marker sendtwice")
    return words or None
