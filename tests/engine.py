"""A container engine for tests, and an image to build on; nothing is pulled.

The engine that answers already is used. Where none does and the tests run as root, one is started: all workers of a run
share it, and it ends when the last of them does, however that ends. Its base image is this machine's Python with the
packages that sendtwice needs, in the places that the official image has them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from tests.support import missing, require

#: What an image of sendtwice is made with.
_PACKAGES = ("pip", "hatchling", "click", "h11", "httpx", "pydantic", "pyyaml")
_PROGRAMS = ("sh", "mkdir", "chown", "cat")
#: Of the standard library, what no test needs.
_LEFT_OUT = ("test", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip", "site-packages")
_WHY = "targets in containers"

# Runs the engine until no worker holds the lock any more; the kernel lets go of a dead one's.
_KEEPER = """
import fcntl, os, shutil, subprocess, sys
if os.fork():
    os._exit(0)
lock, folder, *command = sys.argv[1:]
engine = subprocess.Popen(command, stdin=subprocess.DEVNULL)
fcntl.flock(open(lock), fcntl.LOCK_EX)
engine.terminate()
engine.wait()
mounts = [line.split()[1] for line in open("/proc/mounts")]
subprocess.run(["umount", "--", *(place for place in reversed(mounts) if place.startswith(folder + "/"))], check=False)
shutil.rmtree(folder, ignore_errors=True)
"""


def docker(*arguments: str, check: bool = True, given: bytes | None = None) -> str:
    """Run the docker command and return what it printed."""
    run = subprocess.run(["docker", *arguments], input=given, capture_output=True, check=False)
    assert not check or run.returncode == 0, run.stderr.decode()
    return run.stdout.decode().strip()


def answers() -> bool:
    """Whether an engine answers."""
    return bool(docker("version", "--format", "{{.Server.Version}}", check=False))


@contextlib.contextmanager
def running(folder: Path) -> Iterator[None]:
    """Let an engine answer; ``folder`` is shared by all workers of a run."""
    require("docker", _WHY)
    if sys.platform != "linux":
        missing("docker", "the image of these tests is made of a Linux machine's Python")
    if not answers():
        _may_start()
        lock, socket = folder / "engine.lock", folder / "docker.sock"
        os.environ["DOCKER_HOST"] = f"unix://{socket}"
        try:
            with lock.open("w") as held:
                fcntl.flock(held, fcntl.LOCK_SH)
                with alone(folder, "start"):
                    if not answers():
                        _start(folder, lock, socket)
                yield
        finally:
            del os.environ["DOCKER_HOST"]
    else:
        yield


def _may_start() -> None:
    require("dockerd", _WHY)
    if os.geteuid() != 0:
        missing("docker", "no engine answers, and only root can start one")


def _start(folder: Path, lock: Path, socket: Path) -> None:
    state = folder / "engine"
    state.mkdir(exist_ok=True)
    places = ["--data-root", state / "data", "--exec-root", state / "exec", "--pidfile", state / "pid"]
    plain = ["--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none"]
    command = ["dockerd", *plain, "--host", f"unix://{socket}", *places]
    with (folder / "engine.log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-c", _KEEPER, str(lock), str(state), *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=True,
        )
    deadline = time.monotonic() + 30
    while not answers():
        assert time.monotonic() < deadline, (folder / "engine.log").read_text()
        time.sleep(0.05)  # the engine tells nobody that it is up


@contextlib.contextmanager
def alone(folder: Path, name: str) -> Iterator[None]:
    """Let one worker at a time do something: the others find it done."""
    with (folder / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def base_image() -> str:
    """Return the name of an image with Python, pip and the packages; it is made once for each engine."""
    packages = _closure(_PACKAGES)
    contents = [sys.version, *(f"{one.metadata['Name']} {one.version}" for one in packages), Path(__file__).read_text()]
    name = f"sendtwice-test-base:{hashlib.sha256(repr(contents).encode()).hexdigest()[:12]}"
    if not docker("images", "--quiet", name):
        python = ["--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin", "--change", 'CMD ["python"]']
        docker("import", *python, "-", name, given=_machine(packages))
    return name


def _closure(names: Sequence[str]) -> list[importlib.metadata.Distribution]:
    """Return packages with all that they need."""
    found: dict[str, importlib.metadata.Distribution] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        if name.lower() in found:
            continue
        package = found[name.lower()] = importlib.metadata.distribution(name)
        needs = (Requirement(text) for text in package.requires or ())
        wanted += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return [found[name] for name in sorted(found)]


def _machine(packages: Sequence[importlib.metadata.Distribution]) -> bytes:
    """Return the files of an image as a tar."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    here, there = Path(sysconfig.get_path("stdlib")), f"usr/local/lib/{version}"
    files: dict[str, Path] = {f"usr/local/bin/{version}": Path(sys.executable).resolve()}
    for path in _walk(here):
        files[f"{there}/{path.relative_to(here)}"] = path
    for package in packages:
        for file in package.files or ():
            path = Path(str(package.locate_file(file)))
            if ".." not in file.parts and path.is_file():
                files[f"{there}/site-packages/{file}"] = path
    for program in _PROGRAMS:
        files[f"bin/{program}"] = Path(str(shutil.which(program))).resolve()
    files |= _libraries([path for path in files.values() if ".so" in path.name or os.access(path, os.X_OK)])
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in ("tmp", "etc", "root"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(folder)
        for name in ("python", "python3"):
            link = tarfile.TarInfo(f"usr/local/bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, version
            tar.addfile(link)
        for name, path in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = path.stat().st_size, 0o755 if os.access(path, os.X_OK) else 0o644
            entry.mtime = int(path.stat().st_mtime)  # so that what was compiled is not compiled again
            with path.open("rb") as content:
                tar.addfile(entry, content)
    return buffer.getvalue()


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in _LEFT_OUT or path.name.startswith("config-") or path.suffix == ".a" or ".opt-" in path.name:
            continue
        if path.is_dir():
            yield from _walk(path)
        elif path.is_file():
            yield path


def _libraries(programs: Sequence[Path]) -> dict[str, Path]:
    """Return the shared libraries that programs are linked with, the loader among them."""
    run = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    paths = {word for line in run.stdout.splitlines() for word in line.split() if word.startswith("/")}
    return {path.lstrip("/"): Path(path) for path in paths if not path.endswith(":") and Path(path).is_file()}
