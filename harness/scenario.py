"""The scenario language: a named plan of steps, faults, and what must hold beyond the contract. Pure data.

A step is a mapping with one key, the step's name. A fault is written at a crossing (``at: {client.response: lose}``)
or, in its long form, as a mapping with ``crossing``, one verb, and where it hits (``of``, ``nth``, ``times``,
``stage``, ``label``). Defaults are filled in here, so that whoever plays a scenario sees complete steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from sendtwice.fake_provider.contracts import AnswerClass, Level
from sendtwice.fake_provider.documents import BadFileError, Document, load_yaml, parse_yaml, validate
from sendtwice.fake_provider.faults import ARGUMENT, STAGES, VERBS, Fault, Place, Verb

FOLDER = Path(__file__).resolve().parent.parent / "scenarios"
#: Where client.response is lost: see DESIGN, "Faults".
LOSE_AT = ("before-answer", "first-byte", "in-body")


class Strict(BaseModel):
    """A part of a scenario file: an unknown key in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Key(Strict):
    """A key that is more than a name: sized, re-cased, literal, doubled, or absent.

    ``of`` names the key it derives from: keys of one name share a run-unique text.
    """

    of: str | None = None
    size: Literal["min", "max", "max+1", "max+long"] | int | None = None
    tail: str = ""
    case: Literal["lower", "upper"] | None = None
    text: str | None = None
    twice: Literal["same", "different"] | None = None
    absent: bool = False


class Change(Strict):
    """How a request differs from the one it is like. ``other`` gives a fresh value, ``invalid`` one that is refused."""

    to: Literal["other", "invalid"] | None = None
    subject: Literal["other"] | None = None
    text: Literal["other"] | None = None
    reply_to: Literal["other"] | None = None
    fields: Literal["reordered"] | None = None
    path: Literal["other"] | None = None


def _fault(crossing: str, spec: Any) -> dict[str, Any]:
    """Normalise the short forms of a fault: ``lose``, ``{cut: 20}``, ``{answer: 503, times: 2}``."""
    spec = {spec: None} if isinstance(spec, str) else spec
    if not isinstance(spec, dict):
        raise ValueError(f"{spec!r} is no fault; write a verb ({', '.join(Verb)}) or {{verb: argument}}")
    verbs = [name for name in spec if name in set(Verb)]
    if len(verbs) != 1:
        raise ValueError(
            f"the fault at {crossing} needs exactly one verb of {', '.join(Verb)}; it has: {', '.join(map(str, spec))}"
        )
    rest = {name: value for name, value in spec.items() if name != verbs[0]}
    return {"crossing": crossing, "verb": verbs[0], "argument": spec[verbs[0]], **rest}


class FaultSpec(Strict):
    """A fault as a scenario names it."""

    crossing: Place
    verb: Verb
    argument: str | float | None = None
    of: str | None = None
    nth: int = Field(default=1, ge=1)
    times: int = Field(default=1, ge=1)
    stage: str | None = None
    label: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.verb not in VERBS[self.crossing]:
            known = ", ".join(sorted(VERBS[self.crossing]))
            raise ValueError(f"{self.crossing} cannot be hit by {self.verb.value!r}; it knows: {known}")
        if self.stage is not None and self.stage not in STAGES:
            raise ValueError(f"stage {self.stage!r} is unknown; known: {', '.join(STAGES)}")
        if self.stage is not None and self.crossing is not Place.PROVIDER_REQUEST:
            raise ValueError("a stage belongs to provider.request; leave it out")
        number = isinstance(self.argument, int | float)
        match self.verb:
            case Verb.DELAY | Verb.CUT:
                good = number and float(self.argument or 0) >= 0
            case Verb.ANSWER:
                good = number or self.argument in set(AnswerClass)
            case Verb.LOSE:
                good = self.argument is None or (
                    self.argument in LOSE_AT
                    and self.crossing in (Place.CLIENT_RESPONSE, Place.WEBHOOK_RESPONSE)
                )
            case Verb.HOLD:
                good = self.argument is None or isinstance(self.argument, str)
            case _:
                good = self.argument is None
        if not good:
            raise ValueError(f"{self.verb.value} takes {ARGUMENT[self.verb]}, not {self.argument!r}")
        return self

    def fault(self, *, operation: str | None, attempt: str | None, key: str | None = None) -> Fault:
        """Return the fault to arm: provider crossings belong to an operation, client crossings to an attempt."""
        by_attempt = attempt is not None and not self.crossing.startswith("provider.")
        return Fault(
            self.crossing,
            self.verb,
            self.argument,
            operation=None if self.stage or by_attempt else operation,
            attempt=attempt if by_attempt else None,
            key=key,
            nth=self.nth,
            times=self.times,
            stage=self.stage,
            label=self.hold_label or attempt,
        )

    @property
    def hold_label(self) -> str | None:
        """The label by which a hold is released, when the scenario gives one."""
        if self.label is not None:
            return self.label
        return self.argument if self.verb is Verb.HOLD and isinstance(self.argument, str) else None


class Faulty(Strict):
    """A step that may carry faults."""

    at: list[FaultSpec] = []

    @field_validator("at", mode="before")
    @classmethod
    def _normal(cls, given: Any) -> Any:
        if isinstance(given, dict):
            if "crossing" in given:
                given = [given]
            else:
                return [_fault(str(crossing), spec) for crossing, spec in given.items()]
        if not isinstance(given, list):
            raise ValueError("at is a mapping from crossings to faults, or a list of faults")
        found = []
        for item in given:
            if not isinstance(item, dict) or "crossing" not in item:
                raise ValueError("a fault in its long form names its crossing")
            rest = {name: value for name, value in item.items() if name != "crossing"}
            found.append(item if "verb" in item else _fault(str(item["crossing"]), rest))
        return found


class Send(Faulty):
    """One request for an operation."""

    name: str = Field(alias="as")
    op: str | None = None
    key: str | Key | None = None
    content: str | None = None
    by: str | None = None
    like: str | None = None
    change: Change = Change()
    recipients: int | None = Field(default=None, ge=1, le=50)
    wait: Literal["answer", "none"] = "answer"


class Burst(Faulty):
    """``count`` attempts like one another, named ``as``.1, ``as``.2, ...; ``at`` lies on the provider's edge."""

    name: str = Field(alias="as")
    count: int = Field(ge=2, le=200)
    like: str | None = None
    op: str | None = None


class Operate(Faulty):
    """Role client: ask the target to perform an operation."""

    name: str = Field(alias="as")
    op: str | None = None
    like: str | None = None
    content: str | None = None
    wait: Literal["answer", "none"] = "answer"


class Notify(Faulty):
    """Role consumer: a signed event to the target."""

    name: str = Field(alias="as")
    op: str | None = None
    like: str | None = None
    content: str | None = None
    event: str | None = None
    wait: Literal["answer", "none"] = "answer"


class Redeliver(Faulty):
    """Role consumer: the same event again, with a new time and signature."""

    name: str = Field(alias="as")
    like: str
    wait: Literal["answer", "none"] = "answer"


class Until(Strict):
    """Wait for an attempt's answer, for a delivery, or until a labelled fault was met so often.

    ``or_after`` seconds (or the grace period) it goes on all the same: that chooses when, never a verdict.
    """

    answered: str | list[str] = []
    met: str | None = None
    delivered: str | None = None
    times: int = Field(default=1, ge=1)
    or_after: Literal["grace"] | float | None = None

    @model_validator(mode="after")
    def _waits_for_something(self) -> Self:
        if sum((bool(self.answered), self.met is not None, self.delivered is not None)) != 1:
            raise ValueError("until waits for one of: answered: ATTEMPT, met: LABEL, delivered: OPERATION")
        return self

    @property
    def names(self) -> list[str]:
        """The attempts it waits for."""
        return [self.answered] if isinstance(self.answered, str) else self.answered


class Call(Strict):
    """Use a call of the target file (``[target.calls.NAME]``)."""

    name: str
    of: str | None = None


Count = int | tuple[int, int]
Classes = Annotated[list[AnswerClass], Field(min_length=1)]


class Expect(Strict):
    """What must hold beyond the contract."""

    deliveries: dict[str | tuple[str, ...], Count] = {}
    answers: dict[str | tuple[str, ...], Any] = {}
    told: dict[str, list[Literal["sent", "not_sent", "unknown"]]] = {}
    level: Level = Level.MUST

    @field_validator("deliveries", mode="before")
    @classmethod
    def _counts(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            raise ValueError("deliveries is a mapping from operations to numbers")
        return given

    @field_validator("told", mode="before")
    @classmethod
    def _told(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {op: [what] if isinstance(what, str) else what for op, what in given.items()}

    @field_validator("answers")
    @classmethod
    def _answers(cls, given: dict[Any, Any]) -> dict[Any, Any]:
        return {names: _expected_answers(names, what) for names, what in given.items()}

    @property
    def empty(self) -> bool:
        """Whether nothing is expected beyond the contract."""
        return not (self.deliveries or self.answers or self.told)


def _expected_answers(names: str | tuple[str, ...], what: Any) -> Any:
    """Check ``accepted``, ``[accepted, replayed]``, or ``{accepted: 1, rest: [replayed]}`` for a group."""
    if isinstance(what, dict):
        if isinstance(names, str):
            raise ValueError(f"counts of answers are for a group of attempts, not for {names!r} alone")
        rest = [AnswerClass(c) for c in _listed(what.get("rest", []))]
        counts = {AnswerClass(c): n for c, n in what.items() if c != "rest"}
        if not all(isinstance(n, int) for n in counts.values()):
            raise ValueError("how many answers of a class: a whole number")
        return {**counts, "rest": rest}
    return [AnswerClass(c) for c in _listed(what)]


def _listed(what: Any) -> list[Any]:
    return what if isinstance(what, list) else [what]


class SendStep(Strict):
    """``send``."""

    send: Send


class OperateStep(Strict):
    """``operate``."""

    operate: Operate


class NotifyStep(Strict):
    """``notify``."""

    notify: Notify


class RedeliverStep(Strict):
    """``redeliver``: the provider sends the same event again by itself."""

    redeliver: Redeliver


class RedriveStep(Strict):
    """``redrive``: a person sends a dead event again."""

    redrive: Redeliver


class ParallelStep(Strict):
    """``parallel``: requests that leave at the same instant."""

    parallel: list[Send | Operate | Notify | Redeliver] | Burst


class HoldStep(Strict):
    """``hold``: put a fault on a crossing ahead of time."""

    hold: FaultSpec

    @field_validator("hold", mode="before")
    @classmethod
    def _normal(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "crossing" not in given:
            raise ValueError("hold names its crossing: {crossing: provider.response, of: OP}")
        rest = {name: value for name, value in given.items() if name != "crossing"}
        return _fault(given["crossing"], rest if set(rest) & set(Verb) else {"hold": None, **rest})


class ReleaseStep(Strict):
    """``release``: open a gate."""

    release: str


class HangUpStep(Strict):
    """``hang_up``: the caller of an attempt in flight goes away (RST)."""

    hang_up: str


class AwaitStep(Strict):
    """``await``: an attempt's end, or the moment when a labelled fault was met."""

    awaited: str = Field(alias="await")


class UntilStep(Strict):
    """``until``."""

    until: Until


class CheckStep(Strict):
    """``check``: an expectation in the middle."""

    check: Expect


class CallStep(Strict):
    """``call``."""

    call: Call

    @field_validator("call", mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given


class CrashStep(Strict):
    """``crash``: SIGKILL to the target (or to one of its processes)."""

    crash: str = "target"


class RestartStep(Strict):
    """``restart``: start it again with the state it kept."""

    restart: str = "target"


class FinishStep(Strict):
    """``finish``: retry with the same key until a definite answer."""

    finish: str


class SettleStep(Strict):
    """``settle``: wait until nothing is in flight and what was promised has arrived."""

    settle: Any = None


STEPS: dict[str, type[Strict]] = {
    "send": SendStep,
    "operate": OperateStep,
    "notify": NotifyStep,
    "redeliver": RedeliverStep,
    "redrive": RedriveStep,
    "parallel": ParallelStep,
    "hold": HoldStep,
    "release": ReleaseStep,
    "hang_up": HangUpStep,
    "await": AwaitStep,
    "until": UntilStep,
    "check": CheckStep,
    "call": CallStep,
    "crash": CrashStep,
    "restart": RestartStep,
    "finish": FinishStep,
    "settle": SettleStep,
}


def _step_name(given: Any) -> str | None:
    """Return the tag of a step; ``~`` keeps it out of the place that an error names."""
    if isinstance(given, Strict):
        return "~" + next(name for name, kind in STEPS.items() if type(given) is kind)
    if isinstance(given, str):
        given = {given: None}
    if not isinstance(given, dict) or len(given) != 1:
        return None
    return f"~{next(iter(given))}"


Step = Annotated[
    Annotated[SendStep, Tag("~send")]
    | Annotated[OperateStep, Tag("~operate")]
    | Annotated[NotifyStep, Tag("~notify")]
    | Annotated[RedeliverStep, Tag("~redeliver")]
    | Annotated[RedriveStep, Tag("~redrive")]
    | Annotated[ParallelStep, Tag("~parallel")]
    | Annotated[HoldStep, Tag("~hold")]
    | Annotated[ReleaseStep, Tag("~release")]
    | Annotated[HangUpStep, Tag("~hang_up")]
    | Annotated[AwaitStep, Tag("~await")]
    | Annotated[UntilStep, Tag("~until")]
    | Annotated[CheckStep, Tag("~check")]
    | Annotated[CallStep, Tag("~call")]
    | Annotated[CrashStep, Tag("~crash")]
    | Annotated[RestartStep, Tag("~restart")]
    | Annotated[FinishStep, Tag("~finish")]
    | Annotated[SettleStep, Tag("~settle")],
    Discriminator(
        _step_name,
        custom_error_type="unknown_step",
        custom_error_message=f"is no step; a step is a mapping with one of: {', '.join(STEPS)}",
    ),
]


class Scenario(Strict):
    """A plan that one runner plays, wherever it came from."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    title: str
    role: Literal["api", "client", "consumer"]
    tags: list[str] = []
    why: str = ""
    source: str = ""
    needs: list[str] = []
    steps: Annotated[list[Step], Field(min_length=1)]
    expect: Expect = Expect()
    saved: dict[str, Any] | None = None  # where a saved failure came from

    @field_validator("steps", mode="before")
    @classmethod
    def _bare_steps(cls, given: Any) -> Any:
        """A step without arguments may be a bare word (``- settle``)."""
        if not isinstance(given, list):
            return given
        return [{step: "target"} if step in ("crash", "restart") else {step: None} if isinstance(step, str) else step for step in given]

    @property
    def family(self) -> str:
        """The part of the id before the first dot: also a tag of every scenario."""
        return self.id.partition(".")[0]


def load(path: Path | str) -> Scenario:
    """Read a scenario file and check its names; :class:`BadFileError` names the line of a mistake."""
    document = load_yaml(path)
    scenario = validate(Scenario, document)
    _check_names(scenario, document)
    return scenario


def parse(text: str, name: str = "scenario") -> Scenario:
    """Read a scenario from a text."""
    document = parse_yaml(text, name)
    scenario = validate(Scenario, document)
    _check_names(scenario, document)
    return scenario


def catalogue(folder: Path = FOLDER) -> list[Scenario]:
    """Return every shipped scenario, in the order of its ids."""
    return sorted((load(path) for path in folder.rglob("*.yaml")), key=lambda s: s.id)


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

    def attempt(item: Any, *loc: int | str) -> None:
        like = getattr(item, "like", None)
        if like is not None:
            known(like, attempts, "attempt", *loc, "like")
        if isinstance(item, Burst):
            attempts.update(f"{item.name}.{i}" for i in range(1, item.count + 1))
        attempts.add(item.name)
        operations.add(getattr(item, "op", None) or like or item.name)
        for spec in getattr(item, "at", ()):
            labels.add(spec.hold_label or item.name)

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
                labels.add(spec.hold_label or spec.of or str(spec.crossing))
            case ReleaseStep(release=label):
                known(label, labels, "label", i, "release")
            case AwaitStep(awaited=name):
                known(name, attempts | labels, "attempt or label", i, "await")
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
    for names in scenario.expect.deliveries:
        for name in [names] if isinstance(names, str) else names:
            if name not in operations:
                listed = ", ".join(sorted(operations))
                raise BadFileError(
                    document.path,
                    f"{name!r} is no operation of this scenario; known: {listed}",
                    line=document.line_of(("expect", "deliveries")),
                    where="expect.deliveries",
                )
    for names in scenario.expect.answers:
        for name in [names] if isinstance(names, str) else names:
            if name not in attempts:
                listed = ", ".join(sorted(attempts))
                raise BadFileError(
                    document.path,
                    f"{name!r} is no attempt of this scenario; known: {listed}",
                    line=document.line_of(("expect", "answers")),
                    where="expect.answers",
                )
