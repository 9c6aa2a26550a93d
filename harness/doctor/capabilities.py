"""What this machine has: what is not there is no fault of anybody's, and says what cannot be done without it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sendtwice.fake_provider.sockets import unsent
from sendtwice.harness.clocks import library
from sendtwice.harness.doctor.peers import End, RawPeer, RawServer
from sendtwice.harness.doctor.rows import Row, State

_WHERE = "this machine"
#: Seconds for a program to say its version.
_PATIENCE = 10.0
#: Where a program is that no PATH names.
_POSTGRES = "/usr/lib/postgresql/*/bin/postgres"
_DAY = 86_400.0
#: Fewer open files are too few for a crowd of connections.
_FILES = 1024


def _here(what: str, seen: str) -> Row:
    return Row(_WHERE, what, State.OK, seen)


def _missing(what: str, why: str) -> Row:
    return Row(_WHERE, what, State.MISSING, why)


async def _said(*command: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Return a program's exit status, or -1 when it does not come to one, and the first line of what it says."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=None if env is None else {**os.environ, **env},
        )
    except OSError as error:
        return -1, (error.strerror or str(error)).lower()
    try:
        async with asyncio.timeout(_PATIENCE):
            output, _ = await process.communicate()
    except TimeoutError:
        return -1, f"no answer within {_PATIENCE:g} s"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return process.returncode or 0, lines[0].strip() if lines else "it said nothing"


async def _program(what: str, path: str | None, *arguments: str, needed: str) -> Row:
    if path is None:
        return _missing(what, f"not found; {needed}")
    code, said = await _said(path, *arguments)
    return _here(what, f"{said} ({path})") if code == 0 else _missing(what, f"{path}: {said}; {needed}")


async def _docker_daemon() -> Row:
    docker = shutil.which("docker")
    needed = "needed for targets in containers"
    if docker is None:
        return _missing("docker daemon", f"there is no client to ask it; {needed}")
    code, said = await _said(docker, "version", "--format", "{{.Server.Version}}")
    if code == 0:
        return _here("docker daemon", said)
    return _missing("docker daemon", f"{said.rstrip('.')}; {needed}")


async def _libfaketime() -> Row:
    """Whether it is there, and really moves the clock of a Python child."""
    what, needed = "libfaketime", "needed to move a target's clock with [target.clock] kind = 'faketime'"
    complaint = library.complaint(None)
    found = library.find(None)
    if complaint is not None or found is None:
        return _missing(what, f"{complaint}; {needed}")
    with tempfile.TemporaryDirectory(prefix="sendtwice-doctor-") as folder:
        env = library.settings(found, _a_day_on(Path(folder)), monotonic=False)
        code, said = await _said(sys.executable, "-S", "-E", "-c", "import time; print(time.time())", env=env)
    moved = float(said) - time.time() if code == 0 and said.replace(".", "", 1).isdigit() else 0.0
    if abs(moved - _DAY) > _PATIENCE:
        return _missing(what, f"{found} is there, and does not move the clock of a Python child; {needed}")
    return _here(what, f"moves the clock of a Python child ({found})")


def _a_day_on(folder: Path) -> Path:
    offset = folder / "offset"
    offset.write_text(f"+{_DAY:.0f}\n", encoding="ascii")
    return offset


async def _ends() -> Row:
    """Whether the two ends of a connection can be told apart: all other probes stand on that."""
    what = "SO_LINGER"
    seen = []
    async with RawServer() as server:
        for end in (RawPeer.close, RawPeer.reset):
            peer = await RawPeer.to(server.port)
            end(await server.accepted())
            seen.append(await peer.over())
            peer.close()
    if seen == [End.FIN, End.RST]:
        return _here(what, "a close is a FIN, and with a linger of zero it is an RST")
    return _missing(
        what, f"a close is seen as {seen[0]} and with a linger of zero as {seen[1]}; no fault can be trusted"
    )


async def _flushes() -> Row:
    """Whether the kernel tells what the peer has not acknowledged: an RST must not overtake what was sent."""
    async with RawServer() as server:
        peer = await RawPeer.to(server.port)
        other = await server.accepted()
        size = 0
        with contextlib.suppress(BlockingIOError):
            while True:  # until both buffers are full, for nobody reads
                size += peer.sock.send(b"x" * 65536)
        waiting = unsent(peer.sock)
        await other.until(lambda data: len(data) == size)
        done = unsent(peer.sock)
        peer.close()
    if waiting and not done:
        return _here("SIOCOUTQ", "tells how much the other side has not taken")
    why = "does not tell how much the other side has not taken; the bytes before an RST may be fewer than a cut says"
    return _missing("SIOCOUTQ", why)


async def _ipv6() -> Row:
    try:
        async with RawServer("::1") as server:
            peer = await RawPeer.to(server.port, "::1")
            await server.accepted()
            peer.close()
    except OSError as error:
        return _missing(
            "IPv6 loopback", f"::1 cannot be used ({(error.strerror or str(error)).partition(' (')[0].lower()})"
        )
    return _here("IPv6 loopback", "::1 can be listened on and reached")


async def _python() -> Row:
    return _here("Python", f"{platform.python_version()} {platform.python_implementation()} ({sys.executable})")


async def _platform() -> Row:
    return _here("platform", f"{platform.platform()}, {os.cpu_count()} processors")


async def _files() -> Row:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    told = f"{_limit(soft)} (up to {_limit(hard)})"
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        return _missing("open files", f"{told}; crowds of connections need {_FILES}: ulimit -n {_FILES}")
    return _here("open files", told)


def _limit(number: int) -> str:
    return "unlimited" if number == resource.RLIM_INFINITY else str(number)


async def clock() -> Row:
    """Say how fine the clock is, and how late a sleep ends; to be asked when nothing else goes on."""
    info = time.get_clock_info("monotonic")
    steps = []
    for _ in range(50):
        begun = time.monotonic()
        while (now := time.monotonic()) == begun:
            pass
        steps.append(now - begun)
    begun = time.monotonic()
    await asyncio.sleep(0.001)
    late = time.monotonic() - begun - 0.001
    told = f"{info.implementation}, steps of {min(steps) * 1e9:.0f} ns; a sleep of 1 ms ends {late * 1e3:.1f} ms late"
    return _here("clock", told)


def _postgres() -> str | None:
    found = max((str(path) for path in Path("/").glob(_POSTGRES[1:])), default=None)
    return shutil.which("postgres") or found


async def _node() -> Row:
    return await _program("node", shutil.which("node"), "--version", needed="needed for targets written for it")


async def _redis() -> Row:
    needed = "needed for targets that keep their keys in Redis and start it"
    return await _program("redis-server", shutil.which("redis-server"), "--version", needed=needed)


async def _postgresql() -> Row:
    needed = "needed for targets that keep their keys in PostgreSQL and start it"
    return await _program("postgres", _postgres(), "--version", needed=needed)


async def _docker() -> Row:
    return await _program("docker", shutil.which("docker"), "--version", needed="needed for targets in containers")


async def _openssl() -> Row:
    return await _program("openssl", shutil.which("openssl"), "version", needed="needed for sendtwice proxy --tls")


_ALL: tuple[Callable[[], Awaitable[Row]], ...] = (
    *(_python, _platform, _files, _ends, _flushes, _ipv6),
    *(_libfaketime, _docker, _docker_daemon, _node, _redis, _postgresql, _openssl),
)


async def of_this_machine() -> list[Row]:
    """Look at what is here."""
    return list(await asyncio.gather(*(_unharmed(look) for look in _ALL)))


async def _unharmed(look: Callable[[], Awaitable[Row]]) -> Row:
    try:
        return await look()
    except (OSError, ValueError) as error:
        return _missing(look.__name__.strip("_"), " ".join(str(error).split()))
