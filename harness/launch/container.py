"""Targets as containers: of an image, of a folder that is built, or of a service in a compose file.

Killed, paused and started again through the engine, it is the same container all along, so that its file system keeps
what a crash left there. The kernel ends all processes of a container before the engine calls it ended, and with them
their sockets: what the dead had sent is told from what comes later, as with a process.

On the host's network a container is on this machine's loopback address as a process is, and each fault reaches it as
it was made. On a network of its own the engine's proxy stands between the callers and the target: it passes on bytes,
but takes a connection before the target has it, and makes a FIN of an RST. The way to the provider is direct there too:
the provider listens on the network's gateway, an address of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sendtwice.harness import placeholders
from sendtwice.harness.errors import HarnessError, ScenarioError
from sendtwice.harness.launch import compose, images, owned
from sendtwice.harness.launch.engine import Engine
from sendtwice.harness.launch.follow import Follower
from sendtwice.harness.launch.networks import Network
from sendtwice.harness.launch.process import free_port
from sendtwice.harness.launch.readiness import last_words, until_ready
from sendtwice.harness.target_running import Container

#: The target itself, in names of processes.
TARGET = "target"
#: How long the engine may take to end a container that was killed.
_KILLED = 30.0
#: What the engine calls a container that has ended.
_OVER = {"exited", "dead", "removing"}


@dataclass(slots=True)
class _Running:
    """One container, over its restarts."""

    name: str
    container: Any
    log: Path
    follower: Follower | None = None
    expected_to_run: bool = False


class Containers:
    """The target's container, and those that compose started with it."""

    can_crash = True

    def __init__(self, spec: Container, name: str, folder: Path, logs: Path, engine: Engine) -> None:
        """``name`` is the target's, ``folder`` the target file's; nothing starts yet."""
        self.spec, self.name, self.folder, self.logs, self.engine = spec, name, folder, logs, engine
        self.network = Network(spec, engine)
        self.run = owned.run_name()
        self.logs.mkdir(parents=True, exist_ok=True)
        self._values: Mapping[str, str] = {}
        self._tls: ssl.SSLContext | None = None
        self._published = free_port() if spec.port is None or spec.network != "host" else spec.port
        self._running: dict[str, list[_Running]] = {}
        self._last_probe = "nothing answered"

    @classmethod
    async def prepare(cls, spec: Container, name: str, folder: Path, logs: Path) -> Containers:
        """Find the engine, and rid it of what killed runs have left there."""
        engine = await Engine.connect()
        try:
            engine.must_be_here()
            await engine.ask(
                lambda: owned.remove_dead(engine.client), "what an earlier run left cannot be removed ({})"
            )
        except BaseException:
            await engine.close()
            raise
        return cls(spec, name, folder, logs, engine)

    def reached(self, values: Mapping[str, str], port: int | None, tls: ssl.SSLContext | None) -> None:
        """Take what its environment is filled with, and how its URL says that it is reached: a port of its own, TLS."""
        self._values, self._tls = values, tls
        if port is not None:
            self._published = port

    # -- life ----------------------------------------------------------------------------------------------------------

    def ports(self, name: str | None = None) -> list[int]:
        """Return the port of this machine where the target answers."""
        del name
        return [self._published]

    async def start(self) -> None:
        """Start the container, or all that compose starts, and wait until the target is ready."""
        spec = self.spec
        log = self._log(TARGET)
        if spec.compose is not None:
            await self._compose_up()
        else:
            container = await self._created()
            self._running[TARGET] = [_Running(TARGET, container, log)]
            await self._begin(self._running[TARGET][0])
        for running in self._running[TARGET]:
            await self._ready(running)

    async def _created(self) -> Any:
        spec, engine = self.spec, self.engine
        if spec.build is not None:
            image = await images.built(
                engine,
                self.folder / spec.build,
                dockerfile=spec.dockerfile,
                args=spec.args,
                name=self.name,
                log=self.logs / f"{TARGET}.build.log",
            )
        else:
            image = await images.pulled(engine, str(spec.image))
        inside = self._published if self.network.of_host else spec.port or images.exposed(image)
        env, command = self._filled(inside)
        options: dict[str, Any] = {"network": spec.network}
        if not self.network.of_host:
            options["ports"] = {f"{inside}/tcp": ("127.0.0.1", self._published)}
            options["extra_hosts"] = self.network.hosts
        return await engine.ask(
            lambda: engine.client.containers.create(
                image.id, command, name=self.run, environment=env, labels={owned.RUN: self.run}, detach=True, **options
            ),
            "the target's container cannot be made ({}); see target.container",
        )

    async def _compose_up(self) -> None:
        spec, engine = self.spec, self.engine
        assert spec.compose is not None
        assert spec.service is not None
        inside = self._published if self.network.of_host else spec.port
        env, command = self._filled(inside)
        await compose.up(
            self.folder / spec.compose,
            spec.service,
            run=self.run,
            env=env,
            arguments=command,
            published=None if self.network.of_host or inside is None else (self._published, inside),
            network=spec.network,
            hosts=self.network.hosts,
            log=self.logs / f"{TARGET}.compose.log",
        )
        found = await engine.ask(
            lambda: owned.containers_of(engine.client, self.run), "the containers of compose cannot be listed ({})"
        )
        for service, containers in found.items():
            name = TARGET if service == spec.service else service
            self._running[name] = [_Running(name, one, self._log(name)) for one in containers]
        for running in self._all():
            self._follow(running)
            running.expected_to_run = running.name == TARGET  # another may have been started to do one thing

    def _filled(self, inside: int | None) -> tuple[dict[str, str], list[str] | None]:
        """Return the environment and the command; within the container, its port is the one it should listen on."""
        values = {
            **self._values,
            "port": str(inside if inside is not None else self._published),
            "replica": "1",
            "state": "/tmp/sendtwice.state",  # noqa: S108  # the container's own, which it keeps
        }
        try:
            env = {name: placeholders.fill_text(value, values) for name, value in self.spec.env.items()}
            given = self.spec.command
            command = None if given is None else [placeholders.fill_text(part, values) for part in given]
        except placeholders.MissingEnvironmentError as error:
            raise HarnessError(f"target.container: {error}") from None
        return env, command

    def _log(self, name: str) -> Path:
        log = self.logs / f"{name}.log"
        log.write_bytes(b"")  # an earlier run's words are not this one's
        return log

    async def stop(self) -> None:
        """Remove everything that was made, also by what was under way when the run was cancelled."""
        engine = self.engine
        for running in self._all():
            running.expected_to_run = False
        try:
            await engine.settled()
            await engine.ask(
                lambda: owned.remove(engine.client, self.run),
                f"the target's containers cannot be removed ({{}}); find them with: docker ps -a -f label={owned.RUN}",
            )
            for running in self._all():
                if running.follower is not None:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_KILLED):
                            await running.follower.ended.wait()
        finally:
            await engine.close()

    def died(self) -> str | None:
        """Return how the target's container ended by itself."""
        for running in self._all():
            if running.expected_to_run and running.follower is not None and running.follower.ended.is_set():
                return f"{_how(running)} by itself{last_words(running.log)}"
        return None

    # -- what a scenario does to it ------------------------------------------------------------------------------------

    async def crash(self, name: str) -> None:
        """SIGKILL to all processes of a container, and wait until it has ended."""
        for running in self._named(name):
            await self._kill(running)

    async def terminate(self, name: str) -> None:
        """Ask a container to end, by the signal that its image wants for that; go on at once."""
        for running in self._named(name):
            running.expected_to_run = False
            wanted = running.container.attrs["Config"].get("StopSignal") or "SIGTERM"
            await self._tell(running, running.container.kill, _OVER, signal=wanted)

    async def restart(self, name: str) -> bool:
        """Start the same container again; one that does not end in its time is killed."""
        willingly = True
        for running in self._named(name):
            if running.expected_to_run:
                continue
            if running.follower is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.spec.stop_timeout):
                        await running.follower.ended.wait()
                willingly &= running.follower.ended.is_set()
                await self._kill(running)
            await self._begin(running)
            if running.name == TARGET:
                await self._ready(running)
        return willingly

    async def pause(self, name: str) -> None:
        """Freeze all processes of a container, which neither see nor can refuse it."""
        for running in self._named(name):
            await self._tell(running, running.container.pause, {*_OVER, "paused"})

    async def resume(self, name: str) -> None:
        """Thaw them."""
        for running in self._named(name):
            await self._tell(running, running.container.unpause, {*_OVER, "running"})

    def _all(self) -> list[_Running]:
        return [running for some in self._running.values() for running in some]

    def _named(self, name: str) -> list[_Running]:
        """The target, or a service of the compose file."""
        name = TARGET if name == self.spec.service else name
        if name not in self._running:
            raise ScenarioError(f"the target has no container {name!r}; it has: {', '.join(self._running)}")
        return self._running[name]

    async def _tell(self, running: _Running, call: Any, well: set[str], **how: str) -> None:
        """Do something to a container; a refusal is well when it is in one of these states already."""
        container = running.container

        def tell() -> None:
            try:
                call(**how)
            except self.engine.errors:
                container.reload()
                if container.status not in well:
                    raise

        await self.engine.ask(tell, f"the engine refused to touch the container {container.short_id} ({{}})")

    async def _begin(self, running: _Running) -> None:
        await self.engine.ask(
            running.container.start, "the target's container cannot be started ({}); see target.container"
        )
        running.expected_to_run = True
        self._follow(running)

    def _follow(self, running: _Running) -> None:
        written = running.follower.written if running.follower is not None else 0
        running.follower = Follower(running.container, running.log, written)

    async def _kill(self, running: _Running) -> None:
        running.expected_to_run = False
        if running.follower is None or running.follower.ended.is_set():
            return
        await self._tell(running, running.container.kill, _OVER)
        try:
            async with asyncio.timeout(_KILLED):
                await running.follower.ended.wait()
        except TimeoutError:
            raise HarnessError(
                f"the engine did not end the container {running.container.short_id} within {_KILLED:g} s"
            ) from None

    async def _ready(self, running: _Running) -> None:
        spec, follower = self.spec, running.follower
        assert follower is not None
        scheme = "https" if self._tls else "http"

        def told(words: str) -> None:
            self._last_probe = words

        probe = asyncio.ensure_future(
            until_ready(
                f"{scheme}://{self.engine.host}:{self._published}",
                spec.ready,
                tls=self._tls,
                proxied=not self.network.of_host,
                told=told,
            )
        )
        exit_ = asyncio.ensure_future(follower.ended.wait())
        try:
            await asyncio.wait({exit_, probe}, timeout=spec.timeout, return_when=asyncio.FIRST_COMPLETED)
            if probe.done() and probe.exception() is None and not follower.ended.is_set():
                return
            running.expected_to_run = False
            if follower.ended.is_set():
                raise HarnessError(f"{_how(running)} before it was ready{last_words(running.log)}")
            raise HarnessError(
                f"the target was not ready on port {self._published} within {spec.timeout:g} s (waited for "
                f"{spec.ready or 'tcp'}; {self._last_probe}: see target.container.ready){last_words(running.log)}"
            )
        finally:
            probe.cancel()
            exit_.cancel()


def _how(running: _Running) -> str:
    name = "the target's container" if running.name == TARGET else f"the container of {running.name!r}"
    follower = running.follower
    if follower is None or follower.lost is not None:
        return f"{name} was lost sight of ({follower.lost if follower else 'it never ran'}), and so may have ended"
    starved = " for lack of memory" if follower.starved else ""
    return f"{name} ended with status {follower.status}{starved}"
