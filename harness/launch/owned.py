"""What a run has made in the container engine, and how it is found and removed again.

Everything carries the run's name: containers in a label, what compose makes in its project's name. The name says which
process the run is (its number, its start, and the machine and the namespace in which that number counts), so that the
next run can tell what a killed one has left behind from what another run is using now.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sendtwice.harness.errors import HarnessError

RUN = "sendtwice.run"
PROJECT = "com.docker.compose.project"
SERVICE = "com.docker.compose.service"
#: Seconds until a container that does not go is complained of.
_PATIENCE = 30.0
_NAME = re.compile(r"sendtwice-(\d+)-(\d+)-([0-9a-f]{8})-[0-9a-f]{6}")


def run_name() -> str:
    """Return a name for what this process is about to start."""
    pid = os.getpid()
    return f"sendtwice-{pid}-{_started(pid)}-{_place()}-{secrets.token_hex(3)}"


def is_dead(run: str) -> bool:
    """Whether the process that gave this name has surely ended; never true for another machine's."""
    match = _NAME.fullmatch(run)
    if match is None or match[3] != _place():
        return False
    pid = int(match[1])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return str(_started(pid)) != match[2]


def _started(pid: int) -> int:
    """Return when a process started, in the kernel's ticks; 0 where the kernel does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("latin-1")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def _place() -> str:
    """Return what tells this machine, since it was started, and this namespace of process numbers from others."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts = [
            Path("/proc/sys/kernel/random/boot_id").read_text("latin-1"),
            str(Path("/proc/self/ns/pid").readlink()),
        ]
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:8]


def remove_dead(client: Any) -> list[str]:
    """Remove what runs that were killed have left behind, and return their names."""
    dead = sorted(run for run in _runs(client) if is_dead(run))
    for run in dead:
        remove(client, run)
    return dead


def remove(client: Any, run: str) -> None:
    """Remove all containers of a run, and the networks, volumes and images that compose made for it.

    Until none is left: what the engine was asked for just before may come late.
    """
    until = time.monotonic() + _PATIENCE
    while containers := [*_containers(client, f"{RUN}={run}"), *_containers(client, f"{PROJECT}={run}")]:
        if time.monotonic() > until:
            left = ", ".join(container.short_id for container in containers)
            raise HarnessError(f"the container {left} could not be removed; remove it with: docker rm -f -v {left}")
        for container in containers:
            with _gone_is_well():
                container.remove(force=True, v=True)
    of_project = {"label": f"{PROJECT}={run}"}
    for network in client.networks.list(filters=of_project):
        with _gone_is_well():
            network.remove()
    for volume in client.volumes.list(filters=of_project):
        with _gone_is_well():
            volume.remove(force=True)
    # Only images that compose named after the project: one with a name of its own is its owner's.
    for image in client.images.list(filters={"reference": f"{run}*"}):
        with _gone_is_well():
            client.images.remove(image.id, force=True)


def containers_of(client: Any, project: str) -> dict[str, list[Any]]:
    """Return the containers of a compose project by their services."""
    found: dict[str, list[Any]] = {}
    for container in client.containers.list(all=True, ignore_removed=True, filters={"label": f"{PROJECT}={project}"}):
        found.setdefault(container.labels[SERVICE], []).append(container)
    return found


def _containers(client: Any, label: str) -> list[Any]:
    found: list[Any] = client.containers.list(all=True, sparse=True, ignore_removed=True, filters={"label": label})
    return found


def _runs(client: Any) -> set[str]:
    """Return the names of all runs that have something in this engine."""

    def labels() -> Iterator[dict[str, str]]:
        for label in (RUN, PROJECT):
            for container in _containers(client, label):
                yield container.attrs.get("Labels") or {}
        for some in (client.networks, client.volumes):
            for one in some.list(filters={"label": PROJECT}):
                yield one.attrs.get("Labels") or {}

    named = {one.get(label, "") for one in labels() for label in (RUN, PROJECT)}
    return {run for run in named if _NAME.fullmatch(run)}


@contextlib.contextmanager
def _gone_is_well() -> Iterator[None]:
    """Let pass that something is gone already, or is just being removed."""
    import docker.errors  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        yield
    except docker.errors.APIError as error:
        if error.status_code not in (404, 409):
            raise
