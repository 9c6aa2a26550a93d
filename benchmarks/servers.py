"""The servers that are measured, each in a process of its own: started, asked whether they counted, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RIVALS = HERE / "rivals"
#: Seconds until a server must be there.
DEADLINE = 30.0


class MissingRivalError(Exception):
    """What a row is compared with is not installed."""


@dataclass(slots=True)
class Server:
    """A server that runs, and what a send to it looks like."""

    process: subprocess.Popen[bytes]
    port: int
    head: str = ""
    counted: Callable[[], int] | None = None  # how many sends it says there were
    sent: int = 0
    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)  # CPU seconds of the server for each send

    def cpu(self) -> float:
        """Return the seconds of CPU that its process has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def ours(command: list[str], *, path: str, keys: bool) -> Iterator[Server]:
    """A fake provider of ours, on which one fault lies that never fires."""
    with _announced(command) as (process, port):
        edge = call(port, "/_sendtwice/health")["edge"]
        fault = {"crossing": f"{edge}.response", "fault": "reset", "to": "nobody@example.test"}
        call(port, "/_sendtwice/faults", fault)
        yield Server(process, port, _head(path, keys=keys), lambda: int(call(port, "/_sendtwice/deliveries")["count"]))


@contextlib.contextmanager
def arrivals(burst: int) -> Iterator[Server]:
    """The server that notes when requests arrive, ``burst`` at a time."""
    with _announced(["benchmarks.arrival_server", str(burst)]) as (process, port):
        yield Server(process, port)


@contextlib.contextmanager
def uvicorn(parser: str) -> Iterator[Server]:
    """A bare ASGI application on uvicorn, with asyncio's own loop and one of its two parsers."""
    python = RIVALS / ".venv/bin/python"
    if not python.exists():
        raise MissingRivalError("uvicorn is not installed; run benchmarks/install.sh")
    port = _free_port()
    command = [
        *(str(python), "-m", "uvicorn", "bare_app:app", "--app-dir", str(HERE), "--port", str(port)),
        *("--loop", "asyncio", "--http", parser, "--ws", "none", "--lifespan", "off"),
        *("--no-access-log", "--log-level", "warning"),
    ]
    with _process(command) as process:
        _listening(process, port)
        yield Server(process, port, _head("/emails", keys=True))


@contextlib.contextmanager
def mountebank() -> Iterator[Server]:
    """An imposter of mountebank that answers 200 and counts: one stub, requests recorded, nothing logged."""
    program = RIVALS / "node_modules/.bin/mb"
    if not program.exists():
        raise MissingRivalError("mountebank is not installed; run benchmarks/install.sh (it needs npm)")
    port, own = _free_port(), _free_port()
    command = [str(program), "start", "--port", str(own), "--localOnly", "--nologfile", "--loglevel", "error"]
    # It writes a file with the number of its process, and deletes whatever lies there when it ends.
    with tempfile.TemporaryDirectory() as folder, _process([*command, "--pidfile", f"{folder}/mb.pid"]) as process:
        _listening(process, own)
        # It ends each connection unless told otherwise, which no load client should be asked to bear.
        headers = {"Content-Type": "application/json", "Connection": "keep-alive"}
        answer = {"statusCode": 200, "headers": headers, "body": '{"id":"0b5e1d2c-1111-4222-8333-444455556666"}'}
        stub = {"responses": [{"is": answer}]}
        imposter = {"port": port, "protocol": "http", "recordRequests": True, "stubs": [stub]}
        call(own, "/imposters", imposter)
        yield Server(
            process,
            port,
            _head("/emails", keys=True),
            lambda: int(call(own, f"/imposters/{port}")["numberOfRequests"]),
        )


def call(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    """Ask a server of this machine something over HTTP, or tell it."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=DEADLINE) as response:
        return json.load(response)


def _head(path: str, *, keys: bool) -> str:
    """Return the head of a send, as a common client writes it, up to the length of its body."""
    lines = [
        f"POST {path} HTTP/1.1",
        "host: 127.0.0.1",
        "accept: */*",
        "accept-encoding: gzip, deflate",
        "connection: keep-alive",
        "user-agent: benchmark/1",
        "authorization: Bearer one",
        "content-type: application/json",
        *(["idempotency-key: {key}"] if keys else []),
    ]
    return "".join(f"{line}\r\n" for line in lines)


@contextlib.contextmanager
def _announced(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A module of ours that prints where it listens when it is ready."""
    with _process([sys.executable, "-m", *command]) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(command)} ended before it was ready")
        yield process, int(json.loads(line)["url"].rpartition(":")[2])


@contextlib.contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=HERE.parent)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _listening(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a program that announces nothing can be connected to."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not listen within {DEADLINE:g} s")
