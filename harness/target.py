"""The implementation under test: how to reach it, start it, and hand it its mail provider.

A target file (TOML) is read into :class:`Target`; :func:`effective_contract` lays its ``[target.api.request]`` and
``[target.api.answer]`` over the contract that it names, so that everything later reads one contract.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.contracts.model import AnswerShape
from sendtwice.fake_provider.documents import BadFileError, Document, load_toml, read_text, validate
from sendtwice.harness import placeholders

DEFAULT_FILE = "sendtwice.toml"


class Strict(BaseModel):
    """A part of a target file: an unknown key in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Sender(Strict):
    """Who sends: headers of its own, and values for the templates."""

    headers: dict[str, str] = {}
    values: dict[str, str] = {}


class ApiRequest(Strict):
    """How a send is asked for, where it differs from the contract."""

    method: str | None = None
    path: str | None = None
    key: str | None = None
    headers: dict[str, str] | None = None
    recipient: str = "{token}@sendtwice.test"
    body: dict[str, Any] | None = None

    @field_validator("recipient")
    @classmethod
    def _has_token(cls, given: str) -> str:
        if "{token}" not in given.partition("@")[0]:
            raise ValueError(f"{given!r} has no {{token}} before the @; a mail is recognised by it")
        return given


class ApiAnswer(Strict):
    """How answers look, where they differ from the contract."""

    id: str | None = None
    accepted: list[int] | None = None


class Api(Strict):
    """Role api: a send API."""

    url: str
    headers: dict[str, str] = {}
    allow_remote: bool = False
    verify_tls: bool | str = True
    senders: dict[str, Sender] = {}
    request: ApiRequest = ApiRequest()
    answer: ApiAnswer = ApiAnswer()


class CallOf(Strict):
    """One call that a scenario may make."""

    method: str = "POST"
    path: str
    headers: dict[str, str] = {}
    body: dict[str, Any] | None = None


class Client(Strict):
    """Role client: code that calls a send API, run for each operation."""

    command: list[str] = Field(min_length=1)
    env: dict[str, str] = {}
    timeout: float = 60
    told: dict[Literal["sent", "not_sent", "unknown"], list[int]] = {
        "sent": [0],
        "not_sent": [1],
        "unknown": [75],
    }


class Consumer(Strict):
    """Role consumer: a webhook endpoint."""

    url: str
    signature: Literal["standard", "none"] = "standard"
    secret: str = "{webhook_secret}"
    event: str = "message.received"


class Start(Strict):
    """How a process of the target is started."""

    name: str = "target"
    command: list[str] = Field(min_length=1)
    env: dict[str, str] = {}
    ready: str | None = None
    timeout: float = Field(default=20, gt=0)
    keeps_state: bool = True


class Provider(Strict):
    """How the target hands over its mail."""

    dialect: str = "generic"
    bind: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    advertise: str | None = None


class Timing(Strict):
    """Seconds that only the target's owner knows; unknown ones are left out."""

    answers_within: float = Field(default=10, gt=0)
    delivers_within: float = Field(default=10, gt=0)
    retries_for: float | None = Field(default=None, ge=0)
    provider_timeout: float | None = None
    lease: float | None = None
    grace: float = Field(default=0.3, gt=0)


class TargetBody(Strict):
    """``[target]``."""

    name: str = "target"
    role: Literal["api", "client", "consumer"] = "api"
    contract: str = "universal"
    capabilities: list[str] = []
    api: Api | None = None
    client: Client | None = None
    consumer: Consumer | None = None
    calls: dict[str, CallOf] = {}
    start: Start | None = None
    process: list[Start] = []
    provider: Provider = Provider()
    timing: Timing = Timing()

    @model_validator(mode="after")
    def _has_its_role(self) -> Self:
        if getattr(self, self.role) is None:
            raise ValueError(f"role is {self.role!r} but there is no [target.{self.role}] table; add it")
        if self.start is not None and self.process:
            raise ValueError("give either [target.start] or [[target.process]], not both")
        names = [process.name for process in self.process]
        if len(set(names)) != len(names):
            raise ValueError("two [[target.process]] have the same name; give each its own")
        return self

    @property
    def processes(self) -> list[Start]:
        """All processes to start; empty when the target already runs."""
        return [self.start] if self.start else self.process


class Known(Strict):
    """An accepted deviation: listed, and does not fail the run."""

    scenario: str
    rule: str
    reason: str
    until: dt.date | None = None


class Target(Strict):
    """A target file."""

    target: TargetBody
    known: list[Known] = []

    @field_validator("known", mode="before")
    @classmethod
    def _list(cls, given: Any) -> Any:
        return given


def find_file(given: str | None) -> tuple[Path, bool]:
    """Return the target file to read, and whether it is a pyproject.toml."""
    if given is not None:
        path = Path(given)
        if path.is_dir():
            path = path / DEFAULT_FILE
        return path, path.name == "pyproject.toml"
    if Path(DEFAULT_FILE).exists():
        return Path(DEFAULT_FILE), False
    pyproject = Path("pyproject.toml")
    if pyproject.exists():
        try:
            if "sendtwice" in tomllib.loads(read_text(pyproject)).get("tool", {}):
                return pyproject, True
        except tomllib.TOMLDecodeError as error:
            raise BadFileError("pyproject.toml", f"is not valid TOML ({error}); mend it there") from None
    raise BadFileError(DEFAULT_FILE, "there is none here and no [tool.sendtwice] in pyproject.toml; name a target file")


def load(given: str | None) -> tuple[Target, Path]:
    """Read a target file; its mistakes are :class:`BadFileError` of one line."""
    path, is_pyproject = find_file(given)
    document = load_toml(path)
    if is_pyproject:
        document = Document(document.path, document.data.get("tool", {}).get("sendtwice", {}))
    target = validate(Target, document)
    _check_placeholders(target, document)
    return target, path.resolve()


def effective_contract(target: Target, folder: Path, name: str | None = None) -> Contract:
    """Return the contract with the target's own request and answers laid over it."""
    contract = contracts.load(name or target.target.contract, relative_to=folder)
    api = target.target.api
    if api is None:
        return contract
    request, answer = api.request, api.answer
    changed: dict[str, Any] = {
        name: value for name in ("method", "path", "headers", "body") if (value := getattr(request, name)) is not None
    }
    update: dict[str, Any] = {}
    if changed:
        update["request"] = contract.request.model_copy(update=changed)
    if request.key is not None:
        update["key"] = contracts.model.Key.model_validate(
            {**contract.key.model_dump(by_alias=True), "at": request.key}
        )
    if answer.id is not None or answer.accepted is not None:
        update["answers"] = {**contract.answers, **dict(_laid_over(contract, answer))}
    return contract.model_copy(update=update)


def _laid_over(contract: Contract, answer: ApiAnswer) -> Iterator[tuple[AnswerClass, list[AnswerShape]]]:
    for kind in (AnswerClass.ACCEPTED, AnswerClass.REPLAYED):
        shapes = []
        for shape in contract.shapes(kind):
            statuses = shape.status
            if answer.accepted is not None:
                own = [] if kind is AnswerClass.ACCEPTED else shape.status
                statuses = [*own, *(status for status in answer.accepted if status not in own)]
            shapes.append(shape.model_copy(update={"status": statuses, "id": answer.id or shape.id}))
        yield kind, shapes


def is_loopback(url: str) -> bool:
    """Whether a URL stays on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_placeholders(target: Target, document: Document) -> None:
    body = target.target
    at_start = set(placeholders.AT_START) | {f"port.{p.name}" for p in body.processes}
    per_request = set(placeholders.PER_REQUEST)
    if body.api is not None:
        for sender in body.api.senders.values():
            per_request |= sender.values.keys()
    places: list[tuple[str, Any, set[str]]] = []
    for i, process in enumerate(body.processes):
        where = "target.start" if body.start else f"target.process.{i}"
        places += [(f"{where}.env", process.env, at_start), (f"{where}.command", process.command, at_start)]
    if body.api is not None:
        api = body.api
        places += [
            ("target.api.url", api.url, at_start),
            ("target.api.headers", api.headers, at_start | per_request),
            ("target.api.request.recipient", api.request.recipient, {"token"}),
            ("target.api.request.body", api.request.body, per_request),
            ("target.api.request.path", api.request.path, per_request),
        ]
        for name, sender in api.senders.items():
            places.append((f"target.api.senders.{name}", sender.headers, at_start | per_request))
    if body.client is not None:
        places += [
            ("target.client.command", body.client.command, at_start | per_request),
            ("target.client.env", body.client.env, at_start | per_request),
        ]
    if body.consumer is not None:
        places += [
            ("target.consumer.url", body.consumer.url, at_start),
            ("target.consumer.secret", body.consumer.secret, at_start),
        ]
    for where, template, known in places:
        try:
            placeholders.check(template, frozenset(known))
        except placeholders.UnknownPlaceholderError as error:
            raise BadFileError(document.path, str(error), where=where) from None
    for name in body.api.senders if body.api else {}:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
            raise BadFileError(document.path, f"{name!r} is no name; use a-z, 0-9 and -", where="target.api.senders")
