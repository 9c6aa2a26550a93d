"""Targets as local processes: each in its own process group, on a free port, with its output kept.

A process is asked to end as a service manager does it (SIGTERM to itself), and killed, paused and resumed with all of
its family, which neither sees it nor can refuse. The replicas of one process share ``{state}`` and have a port each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from sendtwice.harness import placeholders
from sendtwice.harness.errors import HarnessError, ScenarioError
from sendtwice.harness.launch import family
from sendtwice.harness.launch.readiness import last_words, until_ready
from sendtwice.harness.target_running import Start, front_of


class Surroundings(Protocol):
    """What a process is given beside its own environment: a clock that can be moved."""

    def environment(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment in which a process is started."""

    def started(self, name: str, pids: Iterable[int]) -> None:
        """Learn that it is ready, as these processes."""


class Nothing:
    """No surroundings."""

    def environment(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
        """Leave it as it is."""
        del name, command
        return dict(env)

    def started(self, name: str, pids: Iterable[int]) -> None:
        """Note nothing."""


#: Below the ports that Linux and others give to whoever asks for any: nobody gets one of these by chance, while the
#: process that it is for has not yet started.
_OURS = range(15_000, 32_000)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now, and that nobody is given who does not ask for it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in (*random.sample(_OURS, 20), 0):
        with socket.socket(family) as sock, contextlib.suppress(OSError):
            sock.bind((host, port))
            return int(sock.getsockname()[1])
    raise HarnessError(f"no port of {host} is free; end what listens there")


@dataclass(slots=True)
class _Running:
    """One process of the target, over its restarts."""

    name: str
    replica: int
    spec: Start
    port: int
    state: Path
    log: Path
    mark: str
    process: asyncio.subprocess.Process | None = None
    expected_to_run: bool = False
    output: IO[bytes] | None = None
    last_probe: str = "nothing answered"

    def signal(self, number: signal.Signals) -> None:
        """Signal it and its family, if it runs."""
        if self.process is not None and self.process.returncode is None:
            family.send(number, self.process.pid, self.mark)


@dataclass(slots=True)
class Processes:
    """All processes of a target. ``dying`` is entered while one is killed: what it had sent on is taken no more."""

    specs: Sequence[Start]
    folder: Path
    values: Mapping[str, str]
    logs: Path
    front_port: int | None = None  # where the process that answers requests listens, if the target file says so
    front_tls: ssl.SSLContext | None = None  # it speaks TLS
    surroundings: Surroundings = field(default_factory=Nothing)
    dying: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    can_crash: bool = True
    _running: dict[str, _Running] = field(default_factory=dict)
    _scratch: str | None = None

    def __post_init__(self) -> None:
        """Give each process its port and its place for state before any starts: they may name each other."""
        self._scratch = tempfile.mkdtemp(prefix="sendtwice-")
        self.logs.mkdir(parents=True, exist_ok=True)
        for spec in self.specs:
            state = Path(self._scratch) / f"{spec.name}.state"  # replicas share it
            for replica in range(1, spec.replicas + 1):
                name = spec.name if spec.replicas == 1 else f"{spec.name}.{replica}"
                port = self.front_port if self.front_port is not None and spec is front_of(self.specs) else free_port()
                log = self.logs / f"{name}.log"
                log.write_bytes(b"")  # an earlier run's words are not this one's
                mark = f"{Path(self._scratch).name}.{name}"
                self._running[name] = _Running(name, replica, spec, port, state, log, mark)

    @property
    def state(self) -> str:
        """The file in which the process that answers requests may keep its state."""
        front = front_of(self.specs)
        return str(Path(self._scratch or "") / f"{front.name if front is not None else 'target'}.state")

    def ports(self, name: str | None = None) -> list[int]:
        """Return the ports of a process's replicas; by default of the process that answers requests."""
        front = front_of(self.specs)
        wanted = name or (front.name if front is not None else "target")
        return [one.port for one in self._named(wanted)]

    @property
    def addresses(self) -> dict[str, str]:
        """The placeholders ``{port.NAME}`` of all processes; a process's own name stands for its first replica."""
        firsts = {spec.name: self.ports(spec.name)[0] for spec in self.specs}
        found = {**firsts, **{one.name: one.port for one in self._running.values()}}
        return {f"port.{name}": str(port) for name, port in found.items()}

    async def start(self) -> None:
        """Start all, in the order of the target file."""
        for running in self._running.values():
            await self._start(running)

    def _named(self, name: str) -> list[_Running]:
        """A replica by its own name, all replicas by their process's, and everything as ``target``.

        ``target.2`` is the second instance of whatever answers requests.
        """
        everything = list(self._running.values())
        if name in self._running:
            return [self._running[name]]
        found = [one for one in everything if one.spec.name == name]
        if found or name == "target":
            return found or everything
        front = [one for one in everything if one.spec is front_of(self.specs) and name == f"target.{one.replica}"]
        if front:
            return front
        raise ScenarioError(f"the target has no process {name!r}; it has: {', '.join(self._running)}")

    async def crash(self, name: str) -> None:
        """SIGKILL to the whole family, then wait until the kernel has closed its sockets."""
        for running in self._named(name):
            await self._kill(running)

    async def terminate(self, name: str) -> None:
        """SIGTERM to the process itself, as a service manager does it."""
        for running in self._named(name):
            running.expected_to_run = False
            if running.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    running.process.terminate()

    async def restart(self, name: str) -> bool:
        """Start again on the same port with the same state; one that does not end in its time is killed."""
        down = [running for running in self._named(name) if not running.expected_to_run]
        willingly = all(await asyncio.gather(*map(self._ends, down)))
        async with self.dying():
            for running in down:
                await self._kill(running)  # the children of one that has ended as well
        for running in down:
            await self._start(running)
        return willingly

    async def _ends(self, running: _Running) -> bool:
        """Wait for the end of a process that was asked to end; whether it came in its time."""
        if running.process is None:
            return True
        running.signal(signal.SIGCONT)  # one that sleeps does not hear
        try:
            async with asyncio.timeout(running.spec.stop_timeout):
                await running.process.wait()
        except TimeoutError:
            return False
        return True

    async def pause(self, name: str) -> None:
        """SIGSTOP to the whole family."""
        for running in self._named(name):
            running.signal(signal.SIGSTOP)

    async def resume(self, name: str) -> None:
        """SIGCONT to the whole family."""
        for running in self._named(name):
            running.signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Kill every family and remove the scratch folder."""
        await asyncio.gather(*map(self._kill, self._running.values()))
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def died(self) -> str | None:
        """Return how a process ended by itself."""
        for running in self._running.values():
            process = running.process
            if running.expected_to_run and process is not None and process.returncode is not None:
                return f"{_how(running)} by itself{last_words(running.log)}"
        return None

    async def _start(self, running: _Running) -> None:
        spec = running.spec
        values = {
            **self.values,
            **self.addresses,
            "port": str(running.port),
            "replica": str(running.replica),
            "state": str(running.state),
            "python": sys.executable,
            "folder": str(self.folder),
        }
        try:
            command = [placeholders.fill_text(part, values) for part in spec.command]
            given = {name: placeholders.fill_text(text, values) for name, text in spec.env.items()}
        except placeholders.MissingEnvironmentError as error:
            raise HarnessError(f"{self._place}: {error}") from None
        env = {**os.environ, **given, family.MARK: running.mark}
        if spec.clock:
            env = self.surroundings.environment(running.name, command, env)
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
                f"the target's command {command[0]!r} cannot be started ({reason}); mend {self._place}.command"
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
                if spec.clock:
                    self.surroundings.started(running.name, family.members(process.pid, running.mark))
                return
            if exit_.done() or process.returncode is not None:
                running.expected_to_run = False
                raise HarnessError(f"{_how(running)} before it was ready{last_words(running.log)}")
            what = spec.ready or "tcp"
            raise HarnessError(
                f"{_name(running)} was not ready on port {running.port} within {spec.timeout:g} s (waited for {what}; "
                f"{running.last_probe}: see {self._place}.ready){last_words(running.log)}"
            )
        finally:
            probe.cancel()
            exit_.cancel()

    async def _probe(self, running: _Running) -> None:
        """Return when the process answers as ``ready`` says."""
        tls = self.front_tls if running.spec is front_of(self.specs) else None
        url = f"{'https' if tls else 'http'}://127.0.0.1:{running.port}"

        def told(answer: str) -> None:
            running.last_probe = answer

        await until_ready(url, running.spec.ready, tls=tls, told=told)

    @property
    def _place(self) -> str:
        """Where the target file says how its processes are started."""
        return "target.start" if len(self.specs) == 1 else "target.process"

    async def _kill(self, running: _Running) -> None:
        running.expected_to_run = False
        process = running.process
        if process is None:
            return
        await family.kill(process.pid, running.mark)
        await process.wait()
        running.process = None


def _how(running: _Running) -> str:
    code = running.process.returncode if running.process else None
    ended = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
    return f"{_name(running)} {ended}"


def _name(running: _Running) -> str:
    return "the target" if running.name == "target" else f"the target's process {running.name!r}"
