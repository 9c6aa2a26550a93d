"""The steps of the scenario language.

A step is a mapping with one key, the step's name. A fault is written at a crossing
(``at: {client.response: lose}``) or, in its long form, as a mapping with ``crossing``, one verb, and where it hits
(``of``, ``nth``, ``times``, ``stage``, ``label``).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    WrapSerializer,
    field_validator,
    model_validator,
)

from sendtwice.fake_provider.contracts import AnswerClass, Level
from sendtwice.fake_provider.faults import Verb
from sendtwice.harness.fault_specs import FaultSpec, Faulty, Strict, normal
from sendtwice.harness.sends import Burst, Notify, Operate, Redeliver, Send


class Until(Strict):
    """Wait for an attempt's answer, for a delivery, or until a labelled fault was met so often.

    ``or_after`` seconds (or the grace period) it goes on all the same: that chooses when, never a verdict.
    """

    answered: str | list[str] = []
    met: str | None = None
    delivered: str | None = None
    times: int = Field(default=1, ge=1)
    or_after: Literal["grace"] | Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] | None = None

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
    """Use a call of the target file (``[target.calls.NAME]``), ``times`` at the same instant.

    ``by`` uses the credential of a sender instead of the call's own.
    """

    name: str
    of: str | None = None
    by: str | None = None
    times: int = Field(default=1, ge=1, le=50)


class Advance(Strict):
    """Move the target's clock: so many seconds, or as many as a claim of the contract says, and ``plus``."""

    by: Annotated[float, Field(ge=0, le=315_360_000, allow_inf_nan=False)] | str
    plus: Annotated[float, Field(ge=-315_360_000, le=315_360_000, allow_inf_nan=False)] = 0


Number = Annotated[int, Field(ge=0)]
Count = Number | tuple[Number, Number]
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
        if not all(type(n) is int and n >= 0 for n in counts.values()):
            raise ValueError("how many answers of a class: a whole number, 0 or more")
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


#: What may leave at the same instant, by the word before it: ``{redeliver: {as: again, like: first}}``.
_ITEMS: dict[str, type[Faulty]] = {
    "send": Send,
    "operate": Operate,
    "notify": Notify,
    "redeliver": Redeliver,
}


def _item_name(given: Any) -> str:
    """Return the tag of an attempt in a ``parallel`` step; one without a word before it is a send."""
    if isinstance(given, Strict):
        return "~" + next(name for name, kind in _ITEMS.items() if type(given) is kind)
    return f"~{next(iter(given))}" if named_item(given) else "~send"


def named_item(given: Any) -> bool:
    """Whether an attempt in a ``parallel`` step says what it is."""
    return isinstance(given, dict) and len(given) == 1 and next(iter(given)) in _ITEMS


def _bare_item(given: Any) -> Any:
    return next(iter(given.values())) if named_item(given) else given


def _with_its_word(item: Faulty, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
    """Write an attempt with its word, or it would be read as another kind."""
    return {next(name for name, kind in _ITEMS.items() if type(item) is kind): written(item)}


_Worded = WrapSerializer(_with_its_word)
Item = Annotated[
    Annotated[Send, BeforeValidator(_bare_item), _Worded, Tag("~send")]
    | Annotated[Operate, BeforeValidator(_bare_item), _Worded, Tag("~operate")]
    | Annotated[Notify, BeforeValidator(_bare_item), _Worded, Tag("~notify")]
    | Annotated[Redeliver, BeforeValidator(_bare_item), _Worded, Tag("~redeliver")],
    Discriminator(_item_name),
]


class ParallelStep(Strict):
    """``parallel``: requests that leave at the same instant. An item without a word before it is the role's own."""

    parallel: list[Item] | Burst


class HoldStep(Strict):
    """``hold``: put a fault on a crossing ahead of time."""

    hold: FaultSpec

    @field_validator("hold", mode="before")
    @classmethod
    def _normal(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "crossing" not in given:
            raise ValueError("hold names its crossing: {crossing: provider.response, of: OP}")
        rest = {name: value for name, value in given.items() if name != "crossing"}
        return normal(given["crossing"], rest if set(rest) & set(Verb) else {"hold": None, **rest})


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


class AdvanceStep(Strict):
    """``advance``: the target's clock is moved forward."""

    advance: Advance

    @field_validator("advance", mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return given if isinstance(given, dict) else {"by": given}


class PauseStep(Strict):
    """``pause``: SIGSTOP to the target, to one of its processes (``worker``) or of its replicas (``target.2``)."""

    pause: str = "target"


class ResumeStep(Strict):
    """``resume``: SIGCONT."""

    resume: str = "target"


class StopStep(Strict):
    """``stop``: the target is asked to end (SIGTERM), and ends what it is doing first."""

    stop: str = "target"


class CrashStep(Strict):
    """``crash``: SIGKILL to the target (or to one of its processes or replicas)."""

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
    "advance": AdvanceStep,
    "crash": CrashStep,
    "restart": RestartStep,
    "stop": StopStep,
    "pause": PauseStep,
    "resume": ResumeStep,
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
    | Annotated[AdvanceStep, Tag("~advance")]
    | Annotated[CrashStep, Tag("~crash")]
    | Annotated[RestartStep, Tag("~restart")]
    | Annotated[StopStep, Tag("~stop")]
    | Annotated[PauseStep, Tag("~pause")]
    | Annotated[ResumeStep, Tag("~resume")]
    | Annotated[FinishStep, Tag("~finish")]
    | Annotated[SettleStep, Tag("~settle")],
    Discriminator(
        _step_name,
        custom_error_type="unknown_step",
        custom_error_message=f"is no step; a step is a mapping with one of: {', '.join(STEPS)}",
    ),
]
