"""Faults as a scenario writes them: ``{client.response: lose}``, or in the long form with ``crossing``."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.faults import ARGUMENT, GARBLES, STAGED, VERBS, Fault, Place, Verb

#: Where client.response is lost: see DESIGN, "Faults".
LOSE_AT = ("before-answer", "first-byte", "in-body", "in-chunks")
#: The wire between a target and its store.
STORE = (Place.STORE_REQUEST, Place.STORE_RESPONSE)
#: Seconds: a day. Nobody waits longer for a test, and infinity is a slip.
LONGEST = 86_400.0
#: Arguments of verbs that only the fake send API can play.
_API_ONLY = ("in-chunks", "after-answer")


class Strict(BaseModel):
    """A part of a scenario file: an unknown key in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def normal(crossing: str, spec: Any) -> dict[str, Any]:
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


def _whole(argument: str | float | None) -> bool:
    return isinstance(argument, int | float) and math.isfinite(argument) and argument == int(argument)


class RetryAfter(Strict):
    """How long an answer asks its caller to wait: so many ``seconds``, or a ``date`` so many seconds from then."""

    seconds: Annotated[float, Field(gt=0, le=LONGEST)] | None = None
    date: Annotated[float, Field(gt=0, le=LONGEST)] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.seconds is None) == (self.date is None):
            raise ValueError("retry_after is a number of seconds, or {date: SECONDS}")
        return self

    @property
    def after(self) -> float:
        """Seconds."""
        return self.date or self.seconds or 0.0


class FaultSpec(Strict):
    """A fault as a scenario names it. ``store`` and ``message`` choose among the messages to stores.

    An answer to a caller may ask it to come back after ``retry_after`` seconds (``{date: 2}`` says it as a date), or
    send it to the ``same`` or an ``other`` origin.
    """

    crossing: Place
    verb: Verb
    argument: str | float | None = None
    of: str | None = None
    nth: int = Field(default=1, ge=1)
    times: int = Field(default=1, ge=1)
    stage: str | None = None
    label: str | None = None
    store: str | None = None
    message: str | None = Field(default=None, min_length=1)
    retry_after: RetryAfter | None = None
    location: Literal["same", "other"] | None = None

    @field_validator("retry_after", mode="before")
    @classmethod
    def _as_number(cls, given: Any) -> Any:
        return {"seconds": given} if isinstance(given, int | float) and not isinstance(given, bool) else given

    @property
    def of_callers(self) -> bool:
        """Whether only the fake send API can play it: something about its answer, or before a request is read."""
        special = self.stage is not None or self.argument in _API_ONLY or self.retry_after or self.location
        return self.crossing in (Place.CLIENT_REQUEST, Place.CLIENT_RESPONSE) and bool(
            special or self.verb in (Verb.GARBLE, Verb.DRIP)
        )

    @property
    def _early(self) -> bool:
        """Whether it can be done to a message of which not all is there."""
        if self.verb is Verb.ANSWER:
            return not (isinstance(self.argument, str) or self.retry_after or self.location)
        return self.verb in (Verb.LOSE, Verb.HOLD, Verb.DELAY, Verb.RESET, Verb.CLOSE)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.verb not in VERBS[self.crossing]:
            known = ", ".join(sorted(VERBS[self.crossing]))
            raise ValueError(f"{self.crossing} cannot be hit by {self.verb.value!r}; it knows: {known}")
        stages = STAGED.get(self.crossing, ())
        if self.stage is not None and not stages:
            raise ValueError(f"a stage belongs to {' or '.join(STAGED)}; leave it out")
        if self.stage is not None and self.stage not in stages:
            raise ValueError(f"stage {self.stage!r} is unknown at {self.crossing}; known: {', '.join(stages)}")
        if self.crossing not in STORE and (self.store is not None or self.message is not None):
            raise ValueError("store and message choose among store.request and store.response; leave them out")
        number = isinstance(self.argument, int | float)
        match self.verb:
            case Verb.GARBLE:
                good = self.argument in GARBLES
            case Verb.CLOSE:
                good = self.argument is None or (
                    self.argument == "after-answer" and self.crossing is Place.CLIENT_RESPONSE
                )
            case Verb.DELAY | Verb.DRIP:
                good = number and 0 <= float(self.argument or 0) <= LONGEST
            case Verb.CUT:
                good = _whole(self.argument) and float(self.argument or 0) >= 0
            case Verb.ANSWER:
                good = (_whole(self.argument) and 100 <= float(self.argument or 0) <= 599) or (
                    self.argument in set(AnswerClass) and self.crossing is not Place.WEBHOOK_RESPONSE
                )
            case Verb.LOSE:
                good = self.argument is None or (
                    (self.argument in LOSE_AT and self.crossing is Place.CLIENT_RESPONSE)
                    or (self.argument in LOSE_AT[:-1] and self.crossing is Place.WEBHOOK_RESPONSE)
                )
            case Verb.HOLD:
                good = self.argument is None or isinstance(self.argument, str)
            case _:
                good = self.argument is None
        if self.stage is not None and not self._early:
            raise ValueError(
                f"at stage {self.stage} the message is not complete; it can be lost, held, delayed, reset, closed, "
                "or answered with a bare status"
            )
        if (self.retry_after or self.location) and self.verb is not Verb.ANSWER:
            raise ValueError("retry_after and location are headers of an answer; write {answer: 503, retry_after: 1}")
        if not good:
            raise ValueError(f"{self.verb.value} takes {ARGUMENT[self.verb]}, not {self.argument!r}")
        return self

    def fault(self, *, operation: str | None, attempt: str | None, key: str | None = None) -> Fault:
        """Return the fault to arm: provider crossings belong to an operation, client crossings to an attempt.

        Store crossings belong to neither: nobody knows which one a message to the store is for.
        """
        if self.crossing in STORE:
            operation = attempt = None
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
            store=self.store,
            message=self.message,
            retry_after=self.retry_after.after if self.retry_after is not None else None,
            as_date=self.retry_after is not None and self.retry_after.date is not None,
            location=self.location,
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
                return [normal(str(crossing), spec) for crossing, spec in given.items()]
        if not isinstance(given, list):
            raise ValueError("at is a mapping from crossings to faults, or a list of faults")
        found = []
        for item in given:
            if not isinstance(item, dict) or "crossing" not in item:
                raise ValueError("a fault in its long form names its crossing")
            rest = {name: value for name, value in item.items() if name != "crossing"}
            found.append(item if "verb" in item else normal(str(item["crossing"]), rest))
        return found
