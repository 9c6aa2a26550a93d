"""The implementation under test: how to reach it, start it, and hand it its mail provider.

A target file (TOML) is read into :class:`Target`; :mod:`effective` lays its ``[target.api.request]`` and
``[target.api.answer]`` over the contract that it names, so that everything later reads one contract.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from sendtwice.fake_provider.contracts.model import HEADER_NAME, Status, key_place
from sendtwice.fake_provider.documents import BadFileError, Document, load_toml, validate
from sendtwice.harness import target_checks
from sendtwice.harness.target_checks import is_loopback

__all__ = ["Target", "find_file", "is_loopback", "load"]

DEFAULT_FILE = "sendtwice.toml"

#: Seconds, up to a day: nobody waits longer for a test, and infinity is a slip.
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Some = Annotated[Seconds, Field(gt=0)]


def _one_line(given: str) -> str:
    if any(ord(c) < 32 or ord(c) == 127 for c in given):
        raise ValueError(f"{given!r} has a line break or a control character; take it out")
    return given


def _path(given: str) -> str:
    if " " in _one_line(given) or not given.startswith("/"):
        raise ValueError(f"{given!r} is no path; write one that starts with / and has %20 for a space")
    return given


def _pointer(given: str) -> str:
    if not given.startswith("/"):
        raise ValueError(f"{given!r} is no JSON Pointer; write /{given.removeprefix('$.').replace('.', '/')}")
    return given


def _headers(given: dict[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if not HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no header name; write letters, digits and -")
        _one_line(value)
    return given


def _environment(given: dict[str, str]) -> dict[str, str]:
    for name in given:
        if not name or "=" in name:
            raise ValueError(f"{name!r} is no name of an environment variable; take the = out")
    return given


UrlPath = Annotated[str, AfterValidator(_path)]
Pointer = Annotated[str, AfterValidator(_pointer)]
Headers = Annotated[dict[str, str], AfterValidator(_headers)]
Environment = Annotated[dict[str, str], AfterValidator(_environment)]


class Strict(BaseModel):
    """A part of a target file: an unknown key in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


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


class Client(Strict):
    """Role client: code that calls a send API, run for each operation."""

    command: list[str] = Field(min_length=1)
    env: Environment = {}
    timeout: Some = 60
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
    env: Environment = {}
    ready: str | None = None
    timeout: Some = 20
    keeps_state: bool = True


class Provider(Strict):
    """How the target hands over its mail."""

    dialect: str = "generic"
    bind: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    advertise: str | None = None


class Timing(Strict):
    """Seconds that only the target's owner knows; unknown ones are left out."""

    answers_within: Some = 10
    delivers_within: Some = 10
    retries_for: Seconds | None = None
    provider_timeout: Seconds | None = None
    lease: Seconds | None = None
    grace: Some = 0.3


class TargetClock(Strict):
    """How the target's clock is moved: a request of its own, with the seconds at ``{seconds}``.

    ``keeps``: whether a restarted target still has the time that it was moved to; otherwise it is moved again.
    """

    kind: Literal["http", "none"] = "http"
    url: str = ""
    method: str = Field(default="POST", pattern=r"^[A-Z]+$")
    headers: Headers = {}
    body: dict[str, Any] = {"advance": "{seconds}"}
    keeps: bool = False

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if self.kind == "http" and not self.url:
            raise ValueError("the clock is moved by a request: give its url, or kind = 'none'")
        return self


class Webhooks(Strict):
    """Role api: where the mail provider's own events go, for reconciliation."""

    url: str
    signature: Literal["standard", "none"] = "none"
    secret: str = "{webhook_secret}"


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
    clock: TargetClock | None = None
    webhooks: Webhooks | None = None

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
    _file: str = PrivateAttr(default="target")

    @property
    def file(self) -> str:
        """How the user named the file, for messages; a target from ``--url`` has none."""
        return self._file

    def read_from(self, file: str) -> Self:
        """Remember the file, and return this target."""
        self._file = file
        return self


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
    if pyproject.exists() and "sendtwice" in load_toml(pyproject).data.get("tool", {}):
        return pyproject, True
    raise BadFileError(DEFAULT_FILE, "there is none here and no [tool.sendtwice] in pyproject.toml; name a target file")


def load(given: str | None) -> tuple[Target, Path]:
    """Read a target file; its mistakes are :class:`BadFileError` of one line."""
    path, is_pyproject = find_file(given)
    document = load_toml(path)
    if is_pyproject:
        document = Document(document.path, document.data.get("tool", {}).get("sendtwice", {}))
    target = validate(Target, document).read_from(document.path)
    target_checks.check(target, document)
    return target, path.resolve()
