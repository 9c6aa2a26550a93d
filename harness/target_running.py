"""How a target runs: its processes or its container, its stores, and how its clock is moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from sendtwice.harness.target_parts import Environment, Headers, Some, Strict


class Start(Strict):
    """How a process of the target is started, ``replicas`` times; ``stop_timeout`` seconds are its to end by itself.

    ``clock``: whether it is moved with the target's clock, where that is faketime. ``ready``: a path that answers 2xx
    when it is up, ``tcp``, or ``started`` for a worker that listens nowhere.
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
