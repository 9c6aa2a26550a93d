"""A target that a compose file describes: its service is started with all that it depends on.

The file stays as it is. What the harness needs is laid over it in a second file: the environment, the port, and no
restart by the engine, so that a death is seen. The project has a name of its own, beside any that runs already.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sendtwice.harness.errors import HarnessError
from sendtwice.harness.launch.engine import command
from sendtwice.harness.launch.owned import RUN


async def up(
    file: Path,
    service: str,
    *,
    run: str,
    env: Mapping[str, str],
    arguments: Sequence[str] | None,
    published: tuple[int, int] | None,
    network: str,
    hosts: Mapping[str, str],
    log: Path,
) -> None:
    """Start a service and what it depends on, as project ``run``; return when compose has started them.

    ``published``: a port of this machine, and the service's own that is reached through it.
    """
    theirs = _read(file)
    services = theirs.get("services")
    if isinstance(services, dict) and "include" not in theirs and service not in services:
        raise HarnessError(f"target.container.service: {file.name} has no {service!r}; it has: {', '.join(services)}")
    ours: dict[str, Any] = {"environment": {name: _plain(value) for name, value in env.items()}}
    ours |= {"labels": {RUN: run}, "restart": "no"}
    if arguments is not None:
        ours["command"] = [_plain(argument) for argument in arguments]
    if network == "host":
        ours["network_mode"] = "host"
    elif hosts:
        ours["extra_hosts"] = [f"{name}:{address}" for name, address in hosts.items()]
    if published is not None:
        ours["ports"] = [f"127.0.0.1:{published[0]}:{published[1]}"]
    version = {"version": theirs["version"]} if "version" in theirs else {}
    with tempfile.TemporaryDirectory(prefix="sendtwice-") as scratch:
        over = Path(scratch) / "sendtwice.yaml"
        over.write_text(yaml.safe_dump({**version, "services": {service: ours}}), "utf-8")
        line = [*await _compose(), "--project-name", run, "--file", str(file), "--file", str(over)]
        # Without this the folder of the first file is where its paths start; said, because two are given.
        line += ["--project-directory", str(file.parent), "up", "--detach", "--build", service]
        failing = f"target.container.compose: {file.name} cannot be started"
        await command(line, folder=file.parent, log=log, failing=failing, env=dict(env))


async def _compose() -> list[str]:
    """Return the command line of compose: docker's own, or the older program."""
    for line in (["docker", "compose"], ["docker-compose"]):
        try:
            process = await asyncio.create_subprocess_exec(
                *line,
                "version",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError:
            continue
        if await process.wait() == 0:
            return line
    raise HarnessError("target.container.compose: there is no compose here; install docker's compose plugin")


def _read(file: Path) -> dict[str, Any]:
    """Return a compose file as far as it is plain YAML: compose itself says what is wrong with it."""
    try:
        data = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return data if isinstance(data, dict) else {}


def _plain(value: str) -> str:
    """Return a text that compose takes as it is."""
    return value.replace("$", "$$")
