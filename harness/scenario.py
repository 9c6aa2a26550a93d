"""A scenario: a named plan of steps and faults, and what must hold beyond the contract. Pure data."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.documents import BadFileError, Document, load_yaml, parse_yaml, validate
from sendtwice.harness.fault_specs import FaultSpec, Strict
from sendtwice.harness.sends import Burst
from sendtwice.harness.steps import (
    AwaitStep,
    CallStep,
    CheckStep,
    Expect,
    FinishStep,
    HangUpStep,
    HoldStep,
    NotifyStep,
    OperateStep,
    ParallelStep,
    RedeliverStep,
    RedriveStep,
    ReleaseStep,
    SendStep,
    Step,
    UntilStep,
    named_item,
)

FOLDER = Path(__file__).resolve().parent.parent / "scenarios"


#: Steps that mean the whole target when they name no process.
_WHOLE = ("crash", "restart", "stop", "pause", "resume")


class Scenario(Strict):
    """A plan that one runner plays, wherever it came from."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    title: str
    role: Literal["api", "client", "consumer"]
    tags: list[str] = []
    why: str = ""
    source: str = ""
    needs: list[str] = []
    each: Literal["keyed-route", "unkeyed-route"] | None = None  # played once for each; ``via: each`` stands for it
    route: str | None = None
    steps: Annotated[list[Step], Field(min_length=1)]
    expect: Expect = Expect()
    saved: dict[str, Any] | None = None  # where a saved failure came from

    @field_validator("steps", mode="before")
    @classmethod
    def _bare_steps(cls, given: Any, info: ValidationInfo) -> Any:
        """A step without arguments may be a bare word (``- settle``); what is sent at once is the role's own."""
        if not isinstance(given, list):
            return given
        own = {"client": "operate", "consumer": "notify"}.get(str(info.data.get("role")), "send")
        return [
            {step: "target" if step in _WHOLE else None} if isinstance(step, str) else _at_once(step, own)
            for step in given
        ]

    @property
    def family(self) -> str:
        """The part of the id before the first dot: also a tag of every scenario."""
        return self.id.partition(".")[0]


def _at_once(step: Any, own: str) -> Any:
    """Put the role's own word before each item of a ``parallel`` step that has none."""
    items = step.get("parallel") if isinstance(step, dict) and len(step) == 1 else None
    if not isinstance(items, list):
        return step
    bare = [isinstance(item, dict) and not named_item(item) for item in items]
    return {"parallel": [{own: item} if is_bare else item for item, is_bare in zip(items, bare, strict=True)]}


def load(path: Path | str, *, shipped: bool = False) -> Scenario:
    """Read a scenario file and check its names; :class:`BadFileError` names the line of a mistake."""
    document = load_yaml(path, shipped=shipped)
    scenario = validate(Scenario, document)
    _check_names(scenario, document)
    return scenario


def parse(text: str, name: str = "scenario") -> Scenario:
    """Read a scenario from a text."""
    document = parse_yaml(text, name)
    scenario = validate(Scenario, document)
    _check_names(scenario, document)
    return scenario


def made_of(data: dict[str, Any]) -> Scenario:
    """Check a scenario that is plain data already, its names included."""
    document = Document("scenario", data)
    scenario = validate(Scenario, document)
    _check_names(scenario, document)
    return scenario


def under(contract: Contract, scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Return what scenarios are under a contract: one with ``each`` is one for each such route, if there is any."""
    found: list[Scenario] = []
    for scenario in scenarios:
        if scenario.each is None or scenario.route is not None:
            found.append(scenario)
            continue
        takes = ("optional", "required") if scenario.each == "keyed-route" else ("ignored",)
        routes = [
            name
            for name, route in contract.routes.items()
            if route.does == "send" and contract.takes_key(name) in takes
        ]
        found += [
            scenario.model_copy(
                update={"id": f"{scenario.id}.{name}", "title": f"{scenario.title} ({name})", "route": name}
            )
            for name in routes
        ] or [scenario]
    return found


def catalogue() -> list[Scenario]:
    """Return every shipped scenario, in the order of its ids."""
    return list(_shipped())


@functools.cache
def _shipped() -> tuple[Scenario, ...]:
    return tuple(sorted((load(path, shipped=True) for path in FOLDER.rglob("*.yaml")), key=lambda s: s.id))


def _check_names(scenario: Scenario, document: Document) -> None:
    """Every attempt, operation, label that a step refers to must exist by then."""
    attempts: set[str] = set()
    operations: set[str] = set()
    labels: set[str] = set()

    def known(name: str, among: set[str], what: str, *loc: int | str) -> None:
        if name not in among:
            listed = ", ".join(sorted(among)) or "none so far"
            raise BadFileError(
                document.path,
                f"{name!r} is no {what} of an earlier step; known here: {listed}",
                line=document.line_of(("steps", *loc)),
                where=".".join(map(str, ("steps", *loc))),
            )

    def playable(spec: FaultSpec, *loc: int | str) -> None:
        if spec.of_callers and scenario.role != "client":
            raise BadFileError(
                document.path,
                f"'{spec.fault(operation=None, attempt=None)}' is played by the fake send API, for role client only; "
                "leave it out",
                line=document.line_of(("steps", *loc)),
                where=".".join(map(str, ("steps", *loc))),
            )

    of_attempt: dict[str, str] = {}

    def attempt(item: Any, *loc: int | str) -> None:
        like = getattr(item, "like", None)
        if like is not None:
            known(like, attempts, "attempt", *loc, "like")
        if item.name in attempts:
            raise BadFileError(
                document.path,
                f"there is an attempt {item.name!r} already; give this one another name",
                line=document.line_of(("steps", *loc, "as")),
                where=".".join(map(str, ("steps", *loc, "as"))),
            )
        about = getattr(item, "about", None)
        if about is not None:
            known(about, operations, "operation", *loc, "about")
        operation = about or getattr(item, "op", None) or (of_attempt[like] if like else item.name)
        names = [send.name for send in item.sends()] if isinstance(item, Burst) else []
        for name in (item.name, *names):
            attempts.add(name)
            of_attempt[name] = operation
        operations.add(operation)
        for spec in getattr(item, "at", ()):
            playable(spec, *loc, "at")
            labels.add(spec.hold_label or item.name)
        same = getattr(item, "known_as", None)
        if same is not None:
            known(same, operations, "operation", *loc, "known_as")

    for i, step in enumerate(scenario.steps):
        match step:
            case SendStep(send=item) | OperateStep(operate=item) | NotifyStep(notify=item):
                attempt(item, i, next(iter(type(step).model_fields)))
            case RedeliverStep(redeliver=item) | RedriveStep(redrive=item):
                attempt(item, i, next(iter(type(step).model_fields)))
            case ParallelStep(parallel=Burst() as burst):
                attempt(burst, i, "parallel")
            case ParallelStep(parallel=list() as items):
                for j, item in enumerate(items):
                    attempt(item, i, "parallel", j)
            case HoldStep(hold=spec):
                playable(spec, i, "hold")
                labels.add(spec.hold_label or spec.of or str(spec.crossing))
            case ReleaseStep(release=label):
                known(label, labels, "label", i, "release")
            case AwaitStep(awaited=name):
                known(name, attempts | labels, "attempt or label", i, "await")
            case CallStep(call=call) if call.of is not None:
                known(call.of, operations, "operation", i, "call", "of")
            case HangUpStep(hang_up=name) | FinishStep(finish=name):
                known(name, attempts, "attempt", i)
            case UntilStep(until=until):
                for name in until.names:
                    known(name, attempts, "attempt", i, "until", "answered")
                if until.met is not None:
                    known(until.met, labels, "label", i, "until", "met")
                if until.delivered is not None:
                    known(until.delivered, operations, "operation", i, "until", "delivered")
            case _:
                pass
    _check_expectation(scenario.expect, document, ("expect",), operations, attempts)
    for i, step in enumerate(scenario.steps):
        if isinstance(step, CheckStep):
            _check_expectation(step.check, document, ("steps", i, "check"), operations, attempts)


def _check_expectation(
    expect: Expect, document: Document, at: tuple[int | str, ...], operations: set[str], attempts: set[str]
) -> None:
    """What is expected of a name that nothing has would be held against every target."""
    for field, given, among, what in (
        ("deliveries", expect.deliveries, operations, "operation"),
        ("answers", expect.answers, attempts, "attempt"),
        ("told", expect.told, operations, "operation"),
    ):
        for names in given:
            for name in [names] if isinstance(names, str) else names:
                if name not in among:
                    raise BadFileError(
                        document.path,
                        f"{name!r} is no {what} of this scenario; known: {', '.join(sorted(among))}",
                        line=document.line_of((*at, field)),
                        where=".".join(map(str, (*at, field))),
                    )
