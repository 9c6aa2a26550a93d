"""Targets as local processes: each in its own process group, on a free port, with its output kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import ssl
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from sendtwice.harness import placeholders
from sendtwice.harness.drivers.wire import Wire, serialise
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.target import Start

#: How long a readiness probe may take, and the pause after one that was refused (there is no event to await).
_PROBE, _PAUSE = 2.0, 0.02


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])


@dataclass(slots=True)
class _Running:
    """One process of the target, over its restarts."""

    spec: Start
    port: int
    state: Path
    log: Path
    process: asyncio.subprocess.Process | None = None
    expected_to_run: bool = False
    output: IO[bytes] | None = None
    last_probe: str = "nothing answered"


@dataclass(slots=True)
class Processes:
    """All processes of a target."""

    specs: Sequence[Start]
    folder: Path
    values: Mapping[str, str]
    logs: Path
    first_port: int | None = None  # where the first process listens, if the target file says so
    first_tls: ssl.SSLContext | None = None  # it speaks TLS
    can_crash: bool = True
    _running: dict[str, _Running] = field(default_factory=dict)
    _scratch: str | None = None

    def __post_init__(self) -> None:
        """Give each process its port and its place for state before any starts: they may name each other."""
        self._scratch = tempfile.mkdtemp(prefix="sendtwice-")
        self.logs.mkdir(parents=True, exist_ok=True)
        for i, spec in enumerate(self.specs):
            state = Path(self._scratch) / f"{spec.name}.state"
            port = self.first_port if self.first_port is not None and i == 0 else free_port()
            log = self.logs / f"{spec.name}.log"
            log.write_bytes(b"")  # an earlier run's words are not this one's
            self._running[spec.name] = _Running(spec, port, state, log)

    def port(self, name: str | None = None) -> int:
        """Return the port of a process; of the first one by default."""
        return self._running[name or self.specs[0].name].port

    async def start(self) -> None:
        """Start all, in the order of the target file."""
        for running in self._running.values():
            await self._start(running)

    def _named(self, name: str) -> list[_Running]:
        return list(self._running.values()) if name == "target" and name not in self._running else [self._running[name]]

    async def crash(self, name: str) -> None:
        """SIGKILL to the whole group, then wait until the kernel has closed its sockets."""
        for running in self._named(name):
            await self._kill(running)

    async def restart(self, name: str) -> None:
        """Start again on the same port with the same state."""
        for running in self._named(name):
            if not running.expected_to_run:
                await self._start(running)

    async def stop(self) -> None:
        """Kill every group and remove the scratch folder."""
        for running in self._running.values():
            await self._kill(running)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def died(self) -> str | None:
        """Return how a process ended by itself."""
        for running in self._running.values():
            process = running.process
            if running.expected_to_run and process is not None and process.returncode is not None:
                return f"{_how(running)} by itself{_tail(running.log)}"
        return None

    async def _start(self, running: _Running) -> None:
        spec = running.spec
        others = {f"port.{name}": str(other.port) for name, other in self._running.items()}
        values = {
            **self.values,
            **others,
            "port": str(running.port),
            "state": str(running.state),
            "python": sys.executable,
            "folder": str(self.folder),
        }
        try:
            command = [placeholders.fill_text(part, values) for part in spec.command]
            env = {**os.environ, **{k: placeholders.fill_text(v, values) for k, v in spec.env.items()}}
        except placeholders.MissingEnvironmentError as error:
            raise HarnessError(f"target.start: {error}") from None
        running.output = running.log.open("ab")
        try:
            running.process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self.folder,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=running.output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise HarnessError(
                f"the target's command {command[0]!r} cannot be started ({reason}); mend target.start.command"
            ) from None
        finally:
            running.output.close()
        running.expected_to_run = True
        await self._ready(running)

    async def _ready(self, running: _Running) -> None:
        spec, process = running.spec, running.process
        assert process is not None
        exit_ = asyncio.ensure_future(process.wait())
        probe = asyncio.ensure_future(self._probe(running))
        try:
            await asyncio.wait({exit_, probe}, timeout=spec.timeout, return_when=asyncio.FIRST_COMPLETED)
            if probe.done() and probe.exception() is None and process.returncode is None:
                return
            if exit_.done() or process.returncode is not None:
                running.expected_to_run = False
                raise HarnessError(f"{_how(running)} before it was ready{_tail(running.log)}")
            what = spec.ready or "tcp"
            raise HarnessError(
                f"the target was not ready on port {running.port} within {spec.timeout:g} s (waited for {what}; "
                f"{running.last_probe}: see target.start.ready){_tail(running.log)}"
            )
        finally:
            probe.cancel()
            exit_.cancel()

    async def _probe(self, running: _Running) -> None:
        """Return when the process answers as ``ready`` says."""
        path = running.spec.ready
        tls = self.first_tls if running.spec is self.specs[0] else None
        url = f"{'https' if tls else 'http'}://127.0.0.1:{running.port}"
        while True:
            try:
                async with asyncio.timeout(_PROBE):
                    wire = await Wire.open(url, timeout=_PROBE, tls=tls)
                    try:
                        if path is None or path == "tcp":
                            return
                        await wire.write(serialise("GET", path, f"127.0.0.1:{running.port}", [], b""))
                        answer = await wire.answer("GET")
                        if 200 <= answer.status < 300:
                            return
                        running.last_probe = f"its last answer was {answer.status}"
                    finally:
                        wire.close()
            except Exception:  # noqa: BLE001, S110  # anything but a 2xx means "not yet"; the deadline tells
                pass
            await asyncio.sleep(_PAUSE)

    async def _kill(self, running: _Running) -> None:
        running.expected_to_run = False
        process = running.process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        running.process = None


def _how(running: _Running) -> str:
    code = running.process.returncode if running.process else None
    ended = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
    name = "the target" if running.spec.name == "target" else f"the target's process {running.spec.name!r}"
    return f"{name} {ended}"


def _tail(log: Path) -> str:
    """Return the last line that a process wrote, for an error message."""
    try:
        lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return f"; its last words: {lines[-1][:200]}" if lines else "; it wrote nothing"
