"""Real datastores for tests: a Redis and a PostgreSQL of the test run's own, on free ports, with scratch folders.

The fixtures `redis_server` and `postgresql` (see `conftest.py`) start one of each for a worker of the test run, when
the first test asks for it. Tests share it: each takes keys or a database of its own (`Postgresql.database`). A test
that stops, pauses or breaks a server takes one for itself with `a_redis()` or `a_postgresql()`.

Servers end with the test run, also when that is killed: the kernel tells them (`setpriv --pdeathsig`).
"""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support import require

_READY_WITHIN = 60.0
_numbers = itertools.count(1)


@dataclass
class Server:
    """A server that runs: where it listens, and its process."""

    host: str
    port: int
    process: subprocess.Popen[str]
    log: deque[str] = field(default_factory=lambda: deque(maxlen=200))

    @property
    def address(self) -> str:
        """`HOST:PORT`, as a target file wants it."""
        return f"{self.host}:{self.port}"

    def pause(self) -> None:
        """Stop it for a while: it takes connections (the kernel does) and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)


@dataclass
class Redis(Server):
    """A Redis without a disk."""

    @property
    def url(self) -> str:
        return f"redis://{self.address}/0"

    def cli(self, *command: str, through: str | None = None) -> str:
        """What `redis-cli` prints for one command, sent directly or `through` another `HOST:PORT`."""
        host, port = (through or self.address).rsplit(":", 1)
        program = [require("redis-cli", "it asks the Redis"), "-h", host, "-p", port, *command]
        return subprocess.run(program, capture_output=True, text=True, timeout=20, check=False).stdout.strip()


@dataclass
class Postgresql(Server):
    """A PostgreSQL that trusts everyone, as the user `postgres`."""

    user: str = "postgres"

    def url(self, database: str = "postgres", *, through: str | None = None) -> str:
        return f"postgresql://{self.user}@{through or self.address}/{database}"

    def sql(self, *statements: str, database: str = "postgres", through: str | None = None, check: bool = True) -> str:
        """What `psql` prints for statements (tuples only), each sent as one simple query."""
        given = [part for statement in statements for part in ("-c", statement)]
        ran = self.psql(*given, database=database, through=through)
        if check and ran.returncode:
            raise AssertionError(f"psql: {ran.stderr.strip()}")
        return ran.stdout.strip()

    def psql(
        self, *arguments: str, database: str = "postgres", through: str | None = None, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `psql`, with `given` as its input."""
        program = [require("psql", "it asks the PostgreSQL"), "-XAtq", "-v", "ON_ERROR_STOP=1", *arguments]
        return subprocess.run(
            [*program, self.url(database, through=through)],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            input=given or "",
            env={**os.environ, "PGSSLMODE": "disable", "PGGSSENCMODE": "disable"},
        )

    @contextlib.contextmanager
    def database(self, *statements: str) -> Iterator[str]:
        """A new database's name; the statements make its tables."""
        name = f"t{os.getpid()}_{next(_numbers)}"
        self.sql(f"CREATE DATABASE {name} STRATEGY file_copy")
        try:
            if statements:
                self.sql(*statements, database=name)
            yield name
        finally:
            self.sql(f"DROP DATABASE {name} WITH (FORCE)")


_S = TypeVar("_S", bound=Server)


@contextlib.contextmanager
def a_redis(*, port: int | None = None, options: Sequence[str] = ()) -> Iterator[Redis]:
    """A Redis of one's own, on a free port or a given one."""
    program = require("redis-server", "a Redis is needed")
    with _scratch() as folder, contextlib.ExitStack() as stack:

        def command(at: int) -> list[str]:
            settings = ["--bind", "127.0.0.1", "--port", str(at), "--save", "", "--appendonly", "no"]
            return [program, *settings, "--dir", str(folder), *options]

        yield stack.enter_context(
            _started(Redis, command, "Ready to accept connections", None, port, end=signal.SIGKILL)
        )


@contextlib.contextmanager
def a_postgresql(*, port: int | None = None, options: Sequence[str] = ()) -> Iterator[Postgresql]:
    """A PostgreSQL of one's own, on a free port or a given one; `options` are settings: `max_connections=5`."""
    server = require("postgres", "a PostgreSQL is needed")
    initdb = require("initdb", "a PostgreSQL is needed")
    user = _other_user()
    with _scratch(user) as folder, contextlib.ExitStack() as stack:
        data = folder / "data"
        made = subprocess.run(
            [initdb, "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
             "--no-instructions"],
            capture_output=True, text=True, check=False, cwd=folder, **_as(user),
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        # Nothing of it must outlast the test, so nothing need reach the disk.
        quick = ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=16MB"]
        quick += ["listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "max_connections=60", *options]
        settings = [part for setting in quick for part in ("-c", setting)]

        def command(at: int) -> list[str]:
            return [server, "-D", str(data), "-p", str(at), *settings]

        # SIGQUIT: it ends at once, and takes its children with it.
        ready = "database system is ready to accept connections"
        yield stack.enter_context(_started(Postgresql, command, ready, user, port, end=signal.SIGQUIT))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    """The Redis that the tests of this worker share."""
    with a_redis() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    """The PostgreSQL that the tests of this worker share."""
    with a_postgresql() as server:
        yield server


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _started(
    kind: type[_S], command: Callable[[int], list[str]], ready: str, user: str | None, port: int | None, *, end: int
) -> Iterator[_S]:
    """Start a server, and wait for the line by which it says that it is ready."""
    for left in reversed(range(5)):
        at = port or free_port()
        process = subprocess.Popen(
            [*_dies_with_us(end), *command(at)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C in a terminal is for the test run, which then ends it
            **_as(user),
        )
        server = kind("127.0.0.1", at, process)
        up = threading.Event()
        reader = threading.Thread(target=_follow, args=(process, server.log, ready, up), daemon=True)
        reader.start()
        try:
            up.wait(_READY_WITHIN)
            if process.poll() is None and ready in "\n".join(server.log):
                yield server
                return
            if port is not None or left == 0:  # else somebody may have taken the port in between
                raise AssertionError(f"{command(at)[0]} did not start: " + "\n".join(server.log))
        finally:
            process.send_signal(signal.SIGCONT)
            process.send_signal(end)
            process.wait(20)
            reader.join(20)
            if process.stdout is not None:
                process.stdout.close()


def _follow(process: subprocess.Popen[str], log: deque[str], ready: str, up: threading.Event) -> None:
    """Read what a server prints, for as long as it lives: a full pipe would stop it."""
    assert process.stdout is not None
    for line in process.stdout:
        log.append(line.rstrip())
        if ready in line:
            up.set()
    up.set()


def _dies_with_us(end: int) -> list[str]:
    """How a program is started that ends when the test run does, however that ends."""
    program = shutil.which("setpriv")
    return [] if program is None else [program, "--pdeathsig", signal.Signals(end).name.removeprefix("SIG")]


def _as(user: str | None) -> dict[str, Any]:
    """The arguments of Popen for another user."""
    return {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def _other_user() -> str | None:
    """Whom to run PostgreSQL as: it refuses to run as root."""
    if os.getuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextlib.contextmanager
def _scratch(user: str | None = None) -> Iterator[Path]:
    """A folder of its own for a server, and for a user."""
    # Short: the path of a Unix socket in it has 107 characters at most.
    folder = Path(tempfile.mkdtemp(prefix="sendtwice-"))
    if user is not None:
        shutil.chown(folder, user, pwd.getpwnam(user).pw_gid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
