"""Accepted sends per second: the fake provider and the served emulator, and servers that do less or the same.

All of them get the same bytes from the same load client, one after the other in each round.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median

from benchmarks import load, servers
from benchmarks.measure import Aim, Row, by_round
from benchmarks.servers import MissingRivalError, Server

CONNECTIONS = 10
#: A mail of about a kilobyte.
_BODY = json.dumps(
    {
        "from": "shop@example.test",
        "to": ["ana@example.test"],
        "subject": "Receipt of order 1042",
        "text": "Thank you for your order. " * 35,
    }
)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A line of the table: two servers, by name."""

    what: str
    ours: str
    other: str
    aim: Aim | None = None


_H11, _HTTPTOOLS, _MOUNTEBANK = "uvicorn (h11)", "uvicorn (httptools)", "mountebank"
_GENERIC, _RESEND, _MEMORY, _FILE = "generic", "resend", "rasket in memory", "rasket in a file"
_PAIRS = (
    *(
        _Pair(f"sends a second, {what}", ours, other, Aim(limit))
        for ours, what in ((_GENERIC, "dialect generic"), (_RESEND, "dialect resend with keys"))
        for other, limit in ((_H11, 1), (_HTTPTOOLS, 1), (_MOUNTEBANK, 3))
    ),
    _Pair("sends a second, serve rasket with keys, in memory", _MEMORY, _H11),
    _Pair("sends a second, serve rasket with keys, in a file", _FILE, _H11),
)


def run(*, quick: bool) -> list[Row]:
    """Measure, and return the rows."""
    rounds, sends = (3, 400) if quick else (7, 3000)
    missing: dict[str, str] = {}
    running: dict[str, Server] = {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        for name, starting in _starting(folder).items():
            try:
                running[name] = stack.enter_context(starting)
            except MissingRivalError as error:
                missing[name] = str(error)
        for server in running.values():
            _load(server, sends, "warm")
            server.rates.clear()
            server.costs.clear()
        for number in range(rounds):
            for server in running.values():
                _load(server, sends, f"round-{number}")
        for server in running.values():
            _check_count(server)
    return [_row(pair, running, missing) for pair in _PAIRS]


def _starting(folder: str) -> dict[str, AbstractContextManager[Server]]:
    provider, serve = "benchmarks.our_provider", ["sendtwice.harness.cli", "serve", "--contract", "rasket"]
    serve += ["--port", "0"]
    return {
        _GENERIC: servers.ours([provider, "generic"], path="/emails", keys=False),
        _RESEND: servers.ours([provider, "resend"], path="/emails", keys=True),
        _MEMORY: servers.ours(serve, path="/v1/emails", keys=True),
        _FILE: servers.ours([*serve, "--state", f"{folder}/state.db"], path="/v1/emails", keys=True),
        _H11: servers.uvicorn("h11"),
        _HTTPTOOLS: servers.uvicorn("httptools"),
        _MOUNTEBANK: servers.mountebank(),
    }


def _load(server: Server, sends: int, keys: str) -> None:
    plan = load.Plan(server.port, sends, CONNECTIONS, server.head, _BODY, keys)
    before = server.cpu()
    client = subprocess.run(
        [sys.executable, load.__file__], input=load.as_input(plan), stdout=subprocess.PIPE, check=True
    )
    used = server.cpu() - before
    told = json.loads(client.stdout)
    assert told["statuses"] == {"200": sends}, f"not every send was accepted: {told['statuses']}"
    server.sent += sends
    server.rates.append(sends / told["seconds"])
    server.costs.append(used / sends)


def _check_count(server: Server) -> None:
    """A server that counts must have counted each send, and one of ours must have delivered each."""
    if server.counted is not None and (counted := server.counted()) != server.sent:
        raise RuntimeError(f"{server.process.args!r} counted {counted} of {server.sent} sends")


def _row(pair: _Pair, running: dict[str, Server], missing: dict[str, str]) -> Row:
    if pair.other in missing:
        return Row(pair.what, _shown(running[pair.ours]), missing[pair.other], aim=pair.aim)
    ours, other = running[pair.ours], running[pair.other]
    return Row(pair.what, _shown(ours), f"{pair.other} {_shown(other)}", by_round(ours.rates, other.rates), pair.aim)


def _shown(server: Server) -> str:
    return f"{median(server.rates):,.0f} ({median(server.costs) * 1e6:.0f} us)"
