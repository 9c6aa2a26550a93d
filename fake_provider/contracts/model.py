"""What a send API promises about keys, as data that the judge, the emulator and the docs all read.

A contract is a set of **claims**. A claim has a value and a basis: ``documented`` (the vendor's page says
so),
``observed`` (seen, not promised) or ``unknown``. Unknown is never judged. In a file a bare value is a
documented claim; the word ``unknown`` is an unknown one; the long form names everything::

    concurrent: {value: refuse, also: [wait], source: "Rasket, section on three behaviours", play: wait}

``also`` lists behaviours that were seen and must not be held against anyone; ``play`` is what the emulator
does.

Where the dimensions of real contracts have their place (a claim that a later version adds goes into the group
that is named here, so that files written today stay valid):

=====================  ==========================================================================
dimension              field
=====================  ==========================================================================
duplicate model        ``duplicates``
key carrier, presence  ``key.at`` ``key.presence``       syntax  ``key.*``
scope                  ``scope``                         fingerprint  ``fingerprint.*``
order of checks        ``order``                         replay fidelity, marker  ``replay.*``
mismatch               ``mismatch``                      concurrent, lease  ``concurrent`` ``lease``
outcome storage        ``outcomes.*``                    unknown outcomes  ``second_after_unknown``
retention              ``retention.*``                   store failures  ``store_failure``
hints, answers         ``answers.*`` (status, code, headers, place of the id)
batch, lookup, ...     ``routes`` (other paths that take a key), later groups of their own
=====================  ==========================================================================
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

T = TypeVar("T")

#: RFC 9110, 5.6.2: a token.
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class AnswerClass(StrEnum):
    """What an answer tells its caller. One answer may belong to several classes: see :mod:`answers`."""

    ACCEPTED = "accepted"
    REPLAYED = "replayed"
    DUPLICATE = "duplicate"
    PENDING = "pending"
    CONFLICT = "conflict"
    IN_PROGRESS = "in_progress"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    FAILED = "failed"
    KEY_MISSING = "key_missing"
    KEY_INVALID = "key_invalid"
    UNAUTHORIZED = "unauthorized"
    RATE_LIMITED = "rate_limited"


class Basis(StrEnum):
    """How a claim is known."""

    DOCUMENTED = "documented"
    OBSERVED = "observed"
    UNKNOWN = "unknown"


class Level(StrEnum):
    """How much a broken rule weighs; only ``must`` fails a run by default."""

    MUST = "must"
    SHOULD = "should"
    HOLE = "hole"
    OBSERVE = "observe"


class Strict(BaseModel):
    """A part of a file: frozen, and an unknown key in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Claim(Strict, Generic[T]):
    """One promise of a contract, with how it is known and where it is written."""

    value: T | None = None
    also: list[T] = []
    basis: Basis = Basis.DOCUMENTED
    source: str | None = None
    note: str | None = None
    play: T | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, given: Any) -> Any:
        if isinstance(given, Claim):
            return given
        if given == "unknown":
            return {"basis": "unknown"}
        if isinstance(given, dict) and given.keys() & {"value", "basis", "play"}:
            return given if "value" in given else {"basis": "unknown", **given}
        return {"value": given}

    @property
    def judged(self) -> bool:
        """Whether the claim is a promise: only documented claims are held against a target."""
        return self.basis is Basis.DOCUMENTED and self.value is not None

    def says(self, value: T) -> bool:
        """Whether the contract promises exactly ``value`` (and tolerates nothing beside it)."""
        return self.judged and self.value == value and not self.also

    def permits(self, value: T) -> bool:
        """Whether ``value`` may happen without breaking this claim."""
        return not self.judged or self.value == value or value in self.also

    def played(self, default: T) -> T:
        """Return what the emulator does."""
        for choice in (self.play, self.value):
            if choice is not None:
                return choice
        return default


def unknown() -> Any:
    """Return the default of every claim."""
    return Field(default_factory=lambda: Claim(basis=Basis.UNKNOWN))


#: A JSON Pointer (RFC 6901) to something within an answer.
Pointer = Annotated[str, Field(pattern=r"^/")]


class Code(Strict):
    """Where an answer names its reason (a JSON Pointer, RFC 6901), and the values that mean this class."""

    at: Pointer
    one_of: list[str | int] = Field(alias="is")

    @field_validator("one_of", mode="before")
    @classmethod
    def _one(cls, given: Any) -> Any:
        return given if isinstance(given, list) else [given]


Status = Annotated[int, Field(ge=100, le=599)]
StatusPattern = Status | Literal["2xx", "3xx", "4xx", "5xx"]
#: Seconds, up to ten years: what is longer is a slip of the pen.
Seconds = Annotated[float, Field(ge=0, le=315_360_000, allow_inf_nan=False)]
Length = Annotated[int, Field(ge=0)]


class AnswerShape(Strict):
    """How one class of answer looks on the wire, and how the emulator writes it."""

    status: list[StatusPattern]
    code: Code | None = None
    id: Pointer | None = None
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}

    @field_validator("status", mode="before")
    @classmethod
    def _several(cls, given: Any) -> Any:
        return given if isinstance(given, list) else [given]


class Marker(Strict):
    """What shows that an answer is a replay: a header or a field of the body, with its value."""

    header: str | None = None
    at: str | None = None
    equals: str | bool | int = Field(alias="is")


class Replay(Strict):
    """How a replay resembles the first answer."""

    marker: Claim[list[Marker]] = unknown()
    id: Claim[Literal["same", "new"]] = unknown()


def key_place(at: str) -> str:
    """Return ``at`` when it is a place for a key; the ValueError says how one is written."""
    carrier, _, name = at.partition(":")
    if carrier not in {"header", "body", "query"} or not name:
        raise ValueError(f"{at!r} is no place for a key; write header:NAME, body:/POINTER or query:NAME")
    if carrier == "body" and not name.startswith("/"):
        raise ValueError(f"{at!r} needs a JSON Pointer after body: (body:/{name})")
    if carrier == "header" and not HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no header name; write header:Idempotency-Key")
    return at


class Key(Strict):
    """The key: its carrier, presence and syntax."""

    at: str = "header:Idempotency-Key"
    presence: Claim[Literal["optional", "required", "none"]] = unknown()
    min: Claim[Length] = unknown()
    max: Claim[Length] = unknown()
    charset: Claim[Literal["any", "printable-ascii", "visible-ascii", "token", "uuid"]] = unknown()
    form: Claim[Literal["bare", "quoted", "either"]] = unknown()
    case: Claim[Literal["sensitive", "folded"]] = unknown()
    empty: Claim[Literal["invalid", "absent"]] = unknown()
    repeated: Claim[Literal["invalid", "first", "joined"]] = unknown()
    invalid: Claim[Literal["refuse", "ignore"]] = unknown()

    @field_validator("at")
    @classmethod
    def _known_carrier(cls, at: str) -> str:
        return key_place(at)


class Fingerprint(Strict):
    """What makes two requests under one key the same request."""

    parts: Claim[list[Literal["body", "path", "method", "query", "raw"]]] = unknown()
    field_order: Claim[Literal["same", "different"]] = unknown()


Storage = Literal["stored", "released", "kept", "poisoned"]


class Outcomes(Strict):
    """What becomes of the key after each kind of first outcome."""

    invalid: Claim[Storage] = unknown()
    provider_refused: Claim[Storage] = unknown()
    provider_busy: Claim[Storage] = unknown()
    unknown: Claim[Storage] = unknown()


class Retention(Strict):
    """How long a key is remembered, in seconds: a floor, a ceiling, and from when it counts."""

    at_least: Claim[Seconds] = unknown()
    at_most: Claim[Seconds] = unknown()
    start: Claim[Literal["first-receipt", "first-success", "completion", "last-use"]] = Field(
        default_factory=lambda: Claim(basis=Basis.UNKNOWN), alias="from"
    )


class Route(Strict):
    """One way to ask for a send: method, path, headers, a body template (``{x?}`` drops an empty field)."""

    method: str = "POST"
    path: str
    headers: dict[str, str] = {}
    body: dict[str, Any] | list[Any] = {}

    @field_validator("path")
    @classmethod
    def _one_word(cls, given: str) -> str:
        if not given.startswith("/") or any(ord(c) <= 32 or ord(c) == 127 for c in given):
            raise ValueError(f"{given!r} is no path; write one that starts with / and has %20 for a space")
        return given

    @field_validator("headers")
    @classmethod
    def _one_line_each(cls, given: dict[str, str]) -> dict[str, str]:
        for name, value in given.items():
            if not HEADER_NAME.fullmatch(name) or "\r" in value or "\n" in value:
                raise ValueError(f"{name!r} is no header of one line; take out what is no letter, digit or -")
        return given


class MailPlaces(Strict):
    """Where a request holds its mail (JSON Pointers): how the emulator and the dialects read it."""

    sender: str = Field(default="/from", alias="from")
    to: str = "/to"
    subject: str = "/subject"
    text: str = "/text"
    html: str = "/html"
    required: list[str] = []


class Contract(Strict):
    """A send API's promises. Read one with :func:`sendtwice.fake_provider.contracts.load`."""

    name: str
    title: str
    extends: str | None = None
    source: str | None = None
    as_of: str | None = None
    summary: str = ""
    request: Route
    routes: dict[str, Route] = {}
    mail: MailPlaces = MailPlaces()
    delivery: Claim[Literal["inline", "queued"]] = unknown()
    key: Key = Key()
    scope: Claim[list[Literal["tenant", "mailbox", "path", "method"]]] = unknown()
    fingerprint: Fingerprint = Fingerprint()
    duplicates: Claim[Literal["replay", "replay_current", "refuse", "redirect", "accept", "execute", "resume"]] = (
        unknown()
    )
    mismatch: Claim[Literal["refuse", "replay", "execute"]] = unknown()
    concurrent: Claim[Literal["refuse", "wait", "execute"]] = unknown()
    order: Claim[list[str]] = unknown()
    replay: Replay = Replay()
    outcomes: Outcomes = Outcomes()
    second_after_unknown: Claim[Literal["forbidden", "permitted"]] = unknown()
    lease: Claim[Seconds] = unknown()
    reconciliation: Claim[Seconds] = unknown()
    retention: Retention = Retention()
    store_failure: Claim[Literal["closed", "open"]] = unknown()
    answers: dict[AnswerClass, list[AnswerShape]]
    levels: dict[str, Level] = {}
    capabilities: list[str] = []

    @field_validator("answers", mode="before")
    @classmethod
    def _shapes(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: shape if isinstance(shape, list) else [shape] for name, shape in given.items()}

    @model_validator(mode="after")
    def _accepts_something(self) -> Self:
        if AnswerClass.ACCEPTED not in self.answers:
            raise ValueError("answers has no 'accepted'; say how a first successful send is answered")
        return self

    def shapes(self, kind: AnswerClass) -> list[AnswerShape]:
        """Return the declared looks of one class of answer; empty when the contract names none."""
        return self.answers.get(kind, [])
