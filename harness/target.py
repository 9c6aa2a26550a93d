"""The implementation under test: how to reach it, start it, and hand it its mail provider.

A target file (TOML) is read into :class:`Target`; :mod:`effective` lays its ``[target.api.request]`` and
``[target.api.answer]`` over the contract that it names, so that everything later reads one contract.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from sendtwice.fake_provider.contracts.model import HEADER_NAME, Status, key_place
from sendtwice.fake_provider.documents import BadFileError, Document, load_toml, validate
from sendtwice.harness import target_checks
from sendtwice.harness.remote import is_loopback

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
    """How a process of the target is started, ``replicas`` times; ``stop_timeout`` seconds are its to end by itself.

    ``clock``: whether it is moved with the target's clock, where that is faketime.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] = "target"
    command: list[str] = Field(min_length=1)
    env: Environment = {}
    ready: str | None = None
    timeout: Some = 20
    stop_timeout: Some = 10
    keeps_state: bool = True
    replicas: int = Field(default=1, ge=1, le=9)
    clock: bool = True

    @property
    def described(self) -> str:
        """What is started, in words."""
        return " ".join(self.command) + (f", {self.replicas} times" if self.replicas > 1 else "")


def front_of(processes: Sequence[Start]) -> Start | None:
    """Return the process that answers requests, is killed and is paused: the one named ``target``, or the first."""
    return next((one for one in processes if one.name == "target"), processes[0] if processes else None)


class Container(Strict):
    """The target in a container: an ``image``, a folder to ``build``, or a ``compose`` file and its ``service``.

    ``port`` is where it listens in its own network; with ``network = "host"`` it is given ``{port}`` like a process.
    ``dockerfile`` lies in the folder, and ``args`` are the build's arguments.
    """

    image: str | None = None
    build: str | None = None
    dockerfile: str | None = None
    args: Environment = {}
    compose: str | None = None
    service: str | None = None
    command: list[str] | None = None
    env: Environment = {}
    port: int | None = Field(default=None, ge=1, le=65535)
    network: str = "bridge"
    ready: str | None = None
    timeout: Some = 60
    stop_timeout: Some = 10
    keeps_state: bool = True

    @model_validator(mode="after")
    def _comes_from_somewhere(self) -> Self:
        if sum(one is not None for one in (self.image, self.build, self.compose)) != 1:
            raise ValueError("a container comes from one of: image, build, compose")
        if (self.compose is None) != (self.service is None):
            raise ValueError("compose and service belong together: service is the target's name in the compose file")
        if self.network == "none":
            raise ValueError("on network none a container can be reached by nobody; name another network")
        if self.compose is not None and self.network not in ("bridge", "host"):
            raise ValueError("the compose file says which networks its services are on; leave network out, or say host")
        if self.build is None and (self.dockerfile is not None or self.args):
            raise ValueError("dockerfile and args are for build, the folder that an image is built of")
        return self

    @property
    def described(self) -> str:
        """What is started, in words."""
        if self.compose is not None:
            what = f"the service {self.service} of {self.compose} and what it depends on, in containers"
        else:
            what = f"a container of {self.image}" if self.image is not None else f"a container built of {self.build}"
        return f"{what}, on {'the network of this machine' if self.network == 'host' else f'network {self.network}'}"


class Store(Strict):
    """A datastore of the target, reached through the harness at ``{store.NAME}`` instead of ``upstream``.

    ``protocol``: whose messages are counted; by default it is known from the first bytes, and ``raw`` counts segments.
    """

    upstream: str
    protocol: Literal["auto", "postgresql", "redis", "mysql", "raw"] = "auto"

    @field_validator("upstream")
    @classmethod
    def _has_a_port(cls, given: str) -> str:
        if given.startswith(("/", "unix:", "./")):
            raise ValueError(f"{given!r} is a Unix socket, which cannot be held; let the store listen on TCP as well")
        host, colon, port = given.rpartition(":")
        if not colon or not host or "/" in host or not (port.startswith("{") or _is_port(port)):
            raise ValueError(f"{given!r} is no address; write 127.0.0.1:5432, or a host's name and its port")
        return given


def _is_port(given: str) -> bool:
    return given.isascii() and given.isdecimal() and 0 < int(given) < 65_536


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
    """How the target's clock is moved.

    ``http`` is a request of its own and ``command`` a program, both with the seconds at ``{seconds}``; ``faketime``
    starts its processes under libfaketime; ``restart`` starts them again with ``{clock_offset}``, the seconds since
    they were first started. ``keeps``: whether a restarted target still has the time that it was moved to by a request
    or a command; otherwise it is moved again. ``monotonic``: whether libfaketime moves the monotonic clock as well.
    """

    kind: Literal["http", "command", "faketime", "restart", "none"] = "http"
    url: str = ""
    method: str = Field(default="POST", pattern=r"^[A-Z]+$")
    headers: Headers = {}
    body: dict[str, Any] = {"advance": "{seconds}"}
    command: list[str] = []
    keeps: bool = False
    monotonic: bool = False
    library: str | None = None

    @model_validator(mode="after")
    def _has_its_means(self) -> Self:
        if self.kind == "http" and not self.url:
            raise ValueError("the clock is moved by a request: give its url, or another kind")
        if self.kind == "command" and not self.command:
            raise ValueError("the clock is moved by a program: give its command, or another kind")
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
    container: Container | None = None
    store: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], Store] = {}
    provider: Provider = Provider()
    timing: Timing = Timing()
    clock: TargetClock | None = None
    webhooks: Webhooks | None = None

    @model_validator(mode="after")
    def _has_its_role(self) -> Self:
        if getattr(self, self.role) is None:
            raise ValueError(f"role is {self.role!r} but there is no [target.{self.role}] table; add it")
        ways = {
            "[target.start]": self.start,
            "[[target.process]]": self.process,
            "[target.container]": self.container,
        }
        given = [name for name, way in ways.items() if way]
        if len(given) > 1:
            raise ValueError(f"give either {' or '.join(given)}, not both")
        names = [process.name for process in self.process]
        if len(set(names)) != len(names):
            raise ValueError("two [[target.process]] have the same name; give each its own")
        return self

    @property
    def processes(self) -> list[Start]:
        """All processes to start; empty when the target already runs, or runs in a container."""
        return [self.start] if self.start else self.process

    @property
    def started(self) -> bool:
        """Whether it is started, and so can be killed, stopped and paused, by the harness."""
        return bool(self.processes) or self.container is not None

    @property
    def instances(self) -> str:
        """In what it was started, where that is more than one process for each of its commands; else empty."""
        if self.container is not None:
            return self.container.described
        several = [one for one in self.processes if one.replicas > 1]
        return ", ".join(f"{one.replicas} instances of {one.name}" for one in several)

    @property
    def keeps_state(self) -> bool:
        """Whether it has its state again after a restart."""
        return all(one.keeps_state for one in self.processes) and (self.container is None or self.container.keeps_state)

    @property
    def replicas(self) -> int:
        """How many instances of it answer requests."""
        front = front_of(self.processes)
        return front.replicas if front is not None else 1


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
