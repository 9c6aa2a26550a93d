"""How a target is asked by role: ``[target.api]``, ``[target.client]``, ``[target.consumer]`` and its webhooks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, field_validator, model_validator

from sendtwice.fake_provider import webhooks
from sendtwice.fake_provider.contracts.model import Status, key_place
from sendtwice.fake_provider.signatures import Name, Scheme
from sendtwice.harness.target_parts import (
    Environment,
    Headers,
    Pointer,
    Seconds,
    Some,
    Strict,
    UrlPath,
    header_name,
    one_line,
)


class Sender(Strict):
    """Who sends: headers of its own, and values for the templates."""

    headers: Headers = {}
    values: dict[str, str] = {}


class ApiRequest(Strict):
    """How a send is asked for, where it differs from the contract."""

    method: Annotated[str, Field(pattern=r"^[A-Z]+$")] | None = None
    path: UrlPath | None = None
    key: str | None = None
    headers: Headers | None = None
    recipient: str = "{token}@sendtwice.test"
    body: dict[str, Any] | None = None

    @field_validator("key")
    @classmethod
    def _has_place(cls, given: str | None) -> str | None:
        return given if given is None else key_place(given)

    @field_validator("recipient")
    @classmethod
    def _has_token(cls, given: str) -> str:
        if "{token}" not in given.partition("@")[0]:
            raise ValueError(f"{given!r} has no {{token}} before the @; a mail is recognised by it")
        return given


class ApiAnswer(Strict):
    """How answers look, where they differ from the contract."""

    id: Pointer | None = None
    accepted: Annotated[list[Status], Field(min_length=1)] | None = None


class Api(Strict):
    """Role api: a send API."""

    url: str
    headers: Headers = {}
    allow_remote: bool = False
    verify_tls: bool | str = True
    senders: dict[str, Sender] = {}  # each has what main has, unless it says otherwise
    request: ApiRequest = ApiRequest()
    routes: dict[str, ApiRequest] = {}
    answer: ApiAnswer = ApiAnswer()

    @field_validator("senders")
    @classmethod
    def _like_main(cls, given: dict[str, Sender]) -> dict[str, Sender]:
        main = given.get("main", Sender())
        return {
            name: Sender(headers={**main.headers, **one.headers}, values={**main.values, **one.values})
            for name, one in given.items()
        }


class CallOf(Strict):
    """One call that a scenario may make."""

    method: str = Field(default="POST", pattern=r"^[A-Z]+$")
    path: UrlPath
    headers: Headers = {}
    body: dict[str, Any] | None = None


#: What a caller may say became of an operation.
Word = Literal["sent", "not_sent", "unknown"]
#: What an exit status says, and what the status of a worker's answer says, unless the target file says otherwise.
_EXIT: dict[Word, list[int]] = {"sent": [0], "not_sent": [1], "unknown": [75]}
_STATUS: dict[Word, list[int]] = {
    "sent": [200, 201, 204],
    "not_sent": [400, 409, 410, 422, 424],
    "unknown": [202, 500, 502, 503, 504],
}


class Outcome(Strict):
    """How a queued job ended: asked, by a request or a program, until it is one of these; anything else is "not yet".

    ``at`` is a JSON Pointer into the answer; of a program, what it prints is compared.
    """

    url: str | None = None
    headers: Headers = {}
    command: list[str] = []
    at: Pointer = "/state"
    sent: list[str] = ["sent"]
    not_sent: list[str] = ["not_sent"]
    unknown: list[str] = ["unknown"]

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.url is None) == (not self.command):
            raise ValueError("an outcome is asked for in one way: url, or command")
        return self


class Client(Strict):
    """Role client: code that calls a send API.

    It is asked for each operation: a ``command`` that is run, or a ``url`` of a worker that runs. ``queued``: what that
    says is only that the job was put on a queue; ``outcome`` is how to learn its end. ``told`` are the exit statuses,
    or the statuses of the worker's answer. ``timeout``: seconds for an operation with all its attempts, of which there
    are at most ``max_attempts``. ``in_process``: a function of this process performs it.
    """

    command: list[str] = []
    env: Environment = {}
    url: str | None = None
    method: str = Field(default="POST", pattern=r"^[A-Z]+$")
    headers: Headers = {}
    body: dict[str, Any] = {"operation": "{operation}", "to": "{to}", "subject": "{subject}", "text": "{text}"}
    queued: bool = False
    outcome: Outcome | None = None
    timeout: Some = 60
    max_attempts: int | None = Field(default=None, ge=1)
    told: dict[Word, list[int]] = {}
    in_process: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum((bool(self.command), self.url is not None, self.in_process)) != 1:
            raise ValueError("an operation is asked for in one way: a command that is run, or the url of a worker")
        if self.outcome is not None and not self.queued:
            raise ValueError("an outcome is asked for where the job is queued; add queued = true, or take outcome out")
        return self

    def says(self, status: int) -> Word | None:
        """Return what a status says became of an operation; None when nobody declares it."""
        told = {**(_EXIT if self.command else _STATUS), **self.told}
        return next((word for word, statuses in told.items() if status in statuses), None)


class Signed(Strict):
    """Where signed events go, and how they are signed.

    ``header``, ``prefix`` and ``encoding`` are for ``hmac``: where the signature of the body stands, and how it looks.
    """

    url: str
    signature: Name = "standard"
    secret: str = "{webhook_secret}"
    header: Annotated[str, AfterValidator(header_name)] = "X-Signature"
    prefix: Annotated[str, AfterValidator(one_line)] = ""
    encoding: Literal["hex", "base64"] = "hex"

    @property
    def scheme(self) -> Scheme:
        """How they are signed."""
        return Scheme(self.signature, self.header, self.prefix, self.encoding)

    @model_validator(mode="after")
    def _fits_the_scheme(self) -> Self:
        odd = {"header", "prefix", "encoding"} & self.model_fields_set
        if odd and self.signature != "hmac":
            raise ValueError(f"{', '.join(sorted(odd))} is for signature hmac; {self.signature!r} has its own")
        if "{" not in self.secret:
            try:
                self.scheme.check_secret(self.secret)
            except ValueError as error:
                raise ValueError(f"secret: {error}, or {{webhook_secret}}") from None
        return self


class Consumer(Signed):
    """Role consumer: a webhook endpoint.

    ``event`` is what comes in: a shipped payload, or a JSON file; ``delivered`` and ``bounced`` are what the provider
    tells of a mail. ``schedule``: after how many seconds each the provider sends an event again that was not
    acknowledged; after the last one it is dead.
    """

    event: str = "message.received"
    delivered: str | None = None
    bounced: str | None = None
    schedule: list[Seconds] = [0.05, 0.1, 0.2, 0.4, 0.8]
    _says: frozenset[str] = PrivateAttr(default=frozenset({"event_id", "message_id"}))

    @property
    def says(self) -> frozenset[str]:
        """The placeholders of its event."""
        return self._says

    @property
    def tells_messages_apart(self) -> bool:
        """Whether an event says which message it is about, whatever its own id."""
        return bool(self.says & {"message_id", "operation"})

    def read(self, folder: Path) -> None:
        """Read the payloads, and note what an event says; :class:`BadFileError` for one that cannot be used."""
        for name in filter(None, (self.event, self.delivered, self.bounced)):
            template = webhooks.payload(name, relative_to=folder)
            if name == self.event:
                self._says = webhooks.names(template)

    def payload_of(self, tells: str) -> str | None:
        """Return the payload of an event: of a message (``tells`` is empty), or of what became of a mail."""
        if not tells:
            return self.event
        own: str | None = self.delivered if tells == "delivered" else self.bounced
        # What ships has one shape for all; whose messages look otherwise expects other events as well.
        return own or (f"email.{tells}" if self.event == Consumer.model_fields["event"].default else None)


class Webhooks(Signed):
    """Role api: where the mail provider's own events go, for reconciliation."""

    signature: Name = "none"
