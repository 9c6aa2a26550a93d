"""How requests and answers look on the wire: routes, the places of mail and key, and the classes of answer."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from sendtwice.fake_provider.contracts.claims import Pointer, Strict

#: RFC 9110, 5.6.2: a token.
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class AnswerClass(StrEnum):
    """What an answer tells its caller. One answer may belong to several classes."""

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
    EXPIRED = "expired"
    UNAUTHORIZED = "unauthorized"
    RATE_LIMITED = "rate_limited"


def header_lines(given: dict[str, str]) -> dict[str, str]:
    """Return headers when each is one line; the ValueError names the one that is not."""
    for name, value in given.items():
        if not HEADER_NAME.fullmatch(name) or "\r" in value or "\n" in value:
            raise ValueError(f"{name!r} is no header of one line; take out what is no letter, digit or -")
    return given


class Code(Strict):
    """Where an answer names its reason (a JSON Pointer, RFC 6901), and the values that mean this class."""

    at: Pointer
    one_of: list[str | int] = Field(alias="is")

    @field_validator("one_of", mode="before")
    @classmethod
    def _one(cls, given: Any) -> Any:
        return given if isinstance(given, list) else [given]


Status = Annotated[int, Field(ge=200, le=599)]
StatusPattern = Status | Literal["2xx", "3xx", "4xx", "5xx"]


#: Where an answer names the message: a JSON Pointer into its body, or ``header:NAME``.
IdPlace = Annotated[str, Field(pattern=r"^(/|header:[A-Za-z0-9!#$%&'*+.^_`|~-]+$)")]


class AnswerShape(Strict):
    """How one class of answer looks on the wire, and how the emulator writes it.

    In ``body`` and ``headers`` the text ``{id}`` stands for the message's id and ``{to}`` for its recipients (a list of
    one ``"{to}"`` becomes the list of them). ``message``: where a sentence for a person stands. ``items``: where the
    answers of a batch stand, one for each mail; the body itself is the list when it is empty. ``empty``: there is no
    body at all.
    """

    status: list[StatusPattern]
    code: Code | None = None
    id: IdPlace | None = None
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    message: Pointer = "/message"
    items: Pointer | Literal[""] = "/data"
    empty: bool = False

    @field_validator("status", mode="before")
    @classmethod
    def _several(cls, given: Any) -> Any:
        return given if isinstance(given, list) else [given]

    @field_validator("headers")
    @classmethod
    def _one_line_each(cls, given: dict[str, str]) -> dict[str, str]:
        return header_lines(given)


#: The looks of each class of answer; a single look may stand without its list.
Answers = dict[AnswerClass, list[AnswerShape]]


def several(given: Any) -> Any:
    """Read ``accepted: {...}`` as ``accepted: [{...}]``."""
    if not isinstance(given, dict):
        return given
    return {name: shape if isinstance(shape, list) else [shape] for name, shape in given.items()}


class Marker(Strict):
    """What shows an answer to be a replay: a header or a field of the body, with its value.

    ``otherwise`` is its value on a first answer, where the vendor sends it always.
    """

    header: str | None = None
    at: str | None = None
    equals: str | bool | int = Field(alias="is")
    otherwise: str | bool | int | None = None

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if (self.header is None) == (self.at is None):
            raise ValueError("a marker is either a header or a field of the body; give one of header: and at:")
        if self.header is not None:
            header_lines({self.header: str(self.equals)})
        return self


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


class Mime(Strict):
    """Where a request may hold its mail as one MIME message (RFC 5322), and how that is encoded there."""

    at: Pointer
    encoding: Literal["none", "base64"] = "none"


class MailPlaces(Strict):
    """Where a request holds its mail (JSON Pointers): how the emulator and the dialects read it.

    At a list a step may also be ``*`` (each of its items) or ``name=value`` (the item that has this field):
    ``/content/type=text~1plain/value``. ``copies``: where further recipients stand. ``mime``: where the mail may stand
    as one message instead; the other places go before what is in it. ``items``: where the list of mails stands in the
    body of a batch; the body itself is the list when left out.
    """

    sender: str = Field(default="/from", alias="from")
    to: str = "/to"
    copies: list[Pointer] = ["/cc", "/bcc"]
    mime: Mime | None = None
    subject: str = "/subject"
    text: str = "/text"
    html: str = "/html"
    items: Pointer | None = None
    required: list[str] = []


class Route(Strict):
    """One thing that an API can be asked for.

    ``does`` says what comes of it: ``send`` mails (a batch when the body is a list of them), ``draft`` a mail that
    waits for ``launch`` (which sends it, once) or ``reject``, ``resolve`` an unknown outcome by a person, ``reconcile``
    one by a provider's event, ``read`` the state of a message, ``nothing`` that is of interest here. ``{id}`` in a path
    is the id that the message or draft was answered with.

    ``key``: whether this route takes one; ``ignored`` means that one may be sent and guards nothing. ``asks``: whose
    credential it needs; a ``person``'s is not the one that sends. A body template may say ``{x?}``, which drops the
    field when empty. What is left out is the contract's own.
    """

    method: str = "POST"
    path: str
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: dict[str, Any] | list[Any] = {}
    does: Literal["send", "draft", "launch", "reject", "resolve", "reconcile", "read", "nothing"] = "send"
    key: Literal["optional", "required", "ignored"] | None = None
    key_at: str | None = None
    scope: list[str] | None = None
    asks: Literal["sender", "person"] = "sender"
    mail: MailPlaces | None = None
    answers: Answers = {}
    note: str | None = None

    _shapes = field_validator("answers", mode="before")(several)

    @field_validator("key_at")
    @classmethod
    def _known_carrier(cls, at: str | None) -> str | None:
        return at if at is None else key_place(at)

    @field_validator("path")
    @classmethod
    def _one_word(cls, given: str) -> str:
        if not given.startswith("/") or any(ord(c) <= 32 or ord(c) == 127 for c in given):
            raise ValueError(f"{given!r} is no path; write one that starts with / and has %20 for a space")
        return given

    @field_validator("headers")
    @classmethod
    def _one_line_each(cls, given: dict[str, str]) -> dict[str, str]:
        return header_lines(given)
