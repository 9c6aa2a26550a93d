"""The container engine: found as testcontainers finds it, asked in threads, and every refusal of it one line.

Its calls cannot be broken off, so a run that is cancelled waits for the one that is under way before it removes what
it made: a container that is created a moment later would be nobody's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sendtwice.harness.errors import HarnessError
from sendtwice.harness.launch.readiness import last_words
from sendtwice.harness.remote import is_loopback

T = TypeVar("T")

_MISSING = "the target runs in a container, and testcontainers is not installed; pip install 'sendtwice[docker]'"
#: How long a command that is asked to end may take for it.
_ENDING = 10.0


class Engine:
    """A container engine that answers."""

    def __init__(self, client: Any, host: str, errors: tuple[type[Exception], ...]) -> None:
        """``host``: where the ports are that it publishes."""
        self.client, self.host, self.errors = client, host, errors
        self.stopping = threading.Event()
        self._asked: set[asyncio.Future[Any]] = set()

    @classmethod
    async def connect(cls) -> Engine:
        """Return the engine that ``docker`` would use; :class:`HarnessError` when there is none."""
        try:
            import docker.errors  # type: ignore[import-untyped]  # noqa: PLC0415
            import requests.exceptions  # noqa: PLC0415
            from testcontainers.core import docker_client  # noqa: PLC0415
        except ImportError:
            raise HarnessError(_MISSING) from None
        errors = (docker.errors.DockerException, requests.exceptions.RequestException)
        place = docker_client.get_docker_host() or "unix:///var/run/docker.sock"
        try:
            _knock(place)
            found = await asyncio.to_thread(docker_client.DockerClient)
        except (OSError, *errors) as error:
            raise HarnessError(f"no container engine answers at {place} ({_why(error)})") from None
        host = found.host()
        return cls(found.client, "127.0.0.1" if host == "localhost" else host, errors)

    async def ask(self, call: Callable[[], T], failing: str) -> T:
        """Ask the engine; ``failing`` begins the error message, and may have the reason at ``{}``."""
        asked = asyncio.ensure_future(asyncio.to_thread(call))
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        try:
            return await asyncio.shield(asked)
        except self.errors as error:
            raise HarnessError(failing.replace("{}", words(error), 1)) from None

    def must_be_here(self) -> None:
        """Raise :class:`HarnessError` when it is on another machine."""
        if not is_loopback(f"http://{self.host}"):
            raise HarnessError(
                f"the container engine is on {self.host}, where the target's port would be out of reach; run sendtwice "
                "there, or start the target yourself and leave [target.container] out"
            )

    async def settled(self) -> None:
        """Wait for what it was asked last, and ask nothing long any more."""
        self.stopping.set()
        await asyncio.gather(*self._asked, return_exceptions=True)

    async def close(self) -> None:
        """Ask nothing any more."""
        await self.settled()
        self.client.close()


def words(error: BaseException | str) -> str:
    """Return an engine's reason in one line; what matters is at its end."""
    given = getattr(error, "explanation", None) or error
    text = " ".join((given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)).split())
    return text if len(text) <= 240 else f"...{text[-240:]}"


def _knock(place: str) -> None:
    """Connect to a socket file and part: a plain OSError says more than what a client makes of it."""
    if place.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.connect(place.removeprefix("unix://"))


def _why(error: BaseException) -> str:
    """Return why nobody answers, and what to do."""
    if isinstance(error, PermissionError):
        return "permission denied; let this user use it: the group docker"
    if isinstance(error, FileNotFoundError):
        return "nothing is there; start it, or set DOCKER_HOST"
    reason = "connection refused" if "refused" in str(error) else words(error)
    return f"{reason}; start it, or set DOCKER_HOST"


async def command(
    line: Sequence[str], *, folder: Path, log: Path, failing: str, env: dict[str, str] | None = None
) -> None:
    """Run a command to its end, its output in ``log``; :class:`HarnessError` when it fails."""
    if shutil.which(line[0]) is None:
        raise HarnessError(f"{failing}: the command {line[0]!r} is not installed; install it")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *line,
            cwd=folder,
            env={**os.environ, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C is ours to pass on
        )
    try:
        status = await process.wait()
    finally:
        await _end(process)
    if status != 0:
        raise HarnessError(f"{failing} (status {status}{last_words(log)}); all of it is in {log}")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let a command that is cancelled put its own house in order first."""
    if process.returncode is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ENDING):
                await process.wait()
                return


def slug(name: str) -> str:
    """Return a name in letters that image names may have."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "target"
