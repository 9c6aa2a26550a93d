"""The implementation under test: how to reach it, start it, and hand it its mail provider.

A target file (TOML) is read into :class:`Target`; :mod:`effective` lays its ``[target.api.request]`` and
``[target.api.answer]`` over the contract that it names, so that everything later reads one contract.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from sendtwice.fake_provider.documents import BadFileError, Document, load_toml, validate
from sendtwice.harness import target_checks
from sendtwice.harness.remote import is_loopback
from sendtwice.harness.target_parts import Headers, Seconds, Some, Strict, as_pointer
from sendtwice.harness.target_roles import Api, CallOf, Client, Consumer, Webhooks
from sendtwice.harness.target_running import Container, Start, Store, TargetClock, front_of

__all__ = ["Target", "find_file", "is_loopback", "load"]

DEFAULT_FILE = "sendtwice.toml"


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
    attempt_timeout: Some | None = None  # role client: it gives up on an attempt that is not answered for so long


def _whole_or_pointer(given: str) -> str:
    return given if given == "" else as_pointer(given)


class Effects(Strict):
    """Where effects are counted, when mail cannot go to the fake provider: by an HTTP resource, a query or a program.

    Each is asked by what it says of the operation, such as ``{to}``, or ``:to`` in a query. ``count`` is a JSON Pointer
    to a number, or to a list whose length counts; empty is the whole answer. ``timeout``: seconds for one count.
    """

    http: str | None = None
    headers: Headers = {}
    count: Annotated[str, AfterValidator(_whole_or_pointer)] = ""
    sql: str | None = None
    database: str | None = None
    command: Annotated[list[str], Field(min_length=1)] | None = None
    timeout: Some = 5

    @model_validator(mode="after")
    def _counts_in_one_way(self) -> Self:
        given = [name for name in ("http", "sql", "command") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"effects are counted by one of http, sql and command, not {found}")
        if (self.sql is None) != (self.database is None):
            raise ValueError("sql and database belong together: the query, and where it is asked (sqlite:///app.db)")
        if self.http is None and (self.headers or self.count):
            raise ValueError("headers and count are for http; take them out")
        return self


class TargetBody(Strict):
    """``[target]``."""

    name: str = "target"
    role: Literal["api", "client", "consumer"] = "api"
    contract: str = "universal"
    mails: Literal["plain", "varied"] = "plain"
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
    effects: Effects | None = None

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
    def max_attempts(self) -> int | None:
        """How often a caller tries an operation at most, where its target file says so."""
        return self.client.max_attempts if self.client is not None else None

    @property
    def can_be_killed(self) -> bool:
        """Whether it can be killed and asked again: started by the harness, or a command that is run anew."""
        return self.started or (self.role == "client" and self.client is not None and bool(self.client.command))

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
