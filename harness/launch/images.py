"""Where a container's image comes from: it is here, it is pulled, or it is built."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sendtwice.harness.errors import HarnessError
from sendtwice.harness.launch.engine import Engine, command, slug, words


async def pulled(engine: Engine, name: str) -> Any:
    """Return an image by its name; it is pulled when it is not here."""
    import docker.errors  # type: ignore[import-untyped]  # noqa: PLC0415

    def find() -> Any:
        try:
            return engine.client.images.get(name)
        except docker.errors.ImageNotFound:
            _pull(engine, name)
        return engine.client.images.get(name)

    return await engine.ask(
        find,
        f"the image {name!r} is not here and cannot be pulled ({{}}); build it, or mend target.container.image",
    )


def _pull(engine: Engine, name: str) -> None:
    import docker.errors  # noqa: PLC0415
    import docker.utils  # type: ignore[import-untyped]  # noqa: PLC0415

    repository, tag = docker.utils.parse_repository_tag(name)
    refused = None
    for step in engine.client.api.pull(repository, tag=tag or "latest", stream=True, decode=True):
        if engine.stopping.is_set():
            break
        refused = step.get("error") or refused
    if refused is not None:
        raise docker.errors.DockerException(words(refused))


async def built(
    engine: Engine,
    folder: Path,
    *,
    dockerfile: str | None,
    args: Mapping[str, str],
    name: str,
    log: Path,
) -> Any:
    """Build a folder with the ``docker`` command, whose cache makes the next build short, and return the image.

    Not through the engine's interface: that has the old builder only, to which many a Dockerfile is unknown.
    """
    tag = f"sendtwice/{slug(name)}"
    with tempfile.TemporaryDirectory(prefix="sendtwice-") as scratch:
        noted = Path(scratch) / "image"
        line = ["docker", "build", "--force-rm", "--iidfile", str(noted), "--tag", tag]
        if dockerfile is not None:
            line += ["--file", str(folder / dockerfile)]
        for argument, value in args.items():
            line += ["--build-arg", f"{argument}={value}"]
        await command([*line, "."], folder=folder, log=log, failing="target.container.build: it cannot be built")
        image = noted.read_text("utf-8").strip()
    if not image:
        raise HarnessError(f"target.container.build: docker told no image; see {log}")
    return await engine.ask(lambda: engine.client.images.get(image), "the image that was built is gone ({})")


def exposed(image: Any) -> int:
    """Return the one port that an image declares; :class:`HarnessError` when it is not one."""
    ports = {name.partition("/")[0] for name in image.attrs["Config"].get("ExposedPorts") or {} if "udp" not in name}
    if len(ports) != 1:
        has = f"the image declares {', '.join(sorted(ports))}" if ports else "the image declares none"
        raise HarnessError(f"target.container.port is missing, and {has}; say where the target listens")
    return int(ports.pop())
