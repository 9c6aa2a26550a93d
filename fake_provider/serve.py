"""A contract served to other processes: the send API with faults, for any language.

``python -m sendtwice.fake_provider.serve --contract rasket --port 0`` prints one line of JSON when it is
ready::

    {"ready": true, "url": "http://127.0.0.1:40123", "contract": "rasket", "control": ".../_sendtwice/"}

With ``--webhook-url`` the API's own events go there; a secret that was not given is made, and told in the same line.

Killed at any instant and started again on the same ``--state``, it keeps its contract.  It is started and
killed many times in a run, so nothing is loaded that a start does not need; the HTTP client comes after the
line above.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from sendtwice.fake_provider import contracts, dialects
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.emulator.outbox import SCHEDULE
from sendtwice.fake_provider.emulator.upstream import HttpUpstream
from sendtwice.fake_provider.provider import FakeProvider

_LONGEST = 604_800.0
Ready = Callable[[dict[str, Any]], None]


def announce(line: dict[str, Any]) -> None:
    """Print the line that says where it listens."""
    print(json.dumps(line), flush=True)  # noqa: T201  # it is what the program is read for


async def serve(
    contract_name: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8025,
    state: Path | str | None = None,
    upstream_url: str | None = None,
    upstream_dialect: str = "generic",
    upstream_timeout: float = 5.0,
    webhook_url: str | None = None,
    webhook_secret: str | None = None,
    webhook_schedule: str | Sequence[float] | None = None,
    ready: Ready = announce,
) -> None:
    """Serve a contract until cancelled, SIGTERM or SIGINT.

    Mail goes to ``upstream_url`` and events to ``webhook_url`` if given; ``webhook_schedule`` may be text: ``0.1,1,5``.
    """
    upstream = None
    if upstream_url is not None:
        _check_address(upstream_url)
        dialect = dialects.load(upstream_dialect)
        upstream = HttpUpstream(upstream_url, dialect.contract, timeout=upstream_timeout)
    provider = FakeProvider(
        contracts.load(contract_name),
        edge="client",
        state=state or ":memory:",
        upstream=upstream,
        webhook_url=webhook_url,
        webhook_secret=webhook_secret,
        webhook_schedule=_seconds(webhook_schedule),
    )
    told: dict[str, Any] = {"contract": provider.contract.name}
    if webhook_url is not None and webhook_secret is None:
        told["webhook_secret"] = provider.webhook_secret  # nobody could verify anything otherwise
    later = ("httpx",) if upstream is not None else ()
    await stand(provider, host, port, told, ready=ready, later=later)


class Server(Protocol):
    """What can be stood up."""

    @property
    def url(self) -> str:
        """Where it listens."""

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; OSError when that cannot be."""

    async def stop(self) -> None:
        """Let go of everything, whether it was started or not."""


async def stand(
    server: Server,
    host: str,
    port: int,
    told: dict[str, Any],
    *,
    ready: Ready,
    later: Sequence[str] = (),
) -> None:
    """Start a server, say where it listens and ``told``, and serve until cancelled, SIGTERM or SIGINT.

    Modules that are not needed at once are loaded ``later``.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
    try:
        await server.start(host, port)
    except OSError as error:
        await server.stop()
        # The loop puts a sentence of its own into strerror.
        reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        message = f"cannot be listened on ({reason}); choose another --port, or 0 for a free one"
        raise BadFileError(f"{host}:{port}", message) from None
    try:
        ready({"ready": True, "url": server.url, **told, "control": f"{server.url}/_sendtwice/"})
        for module in later:
            await loop.run_in_executor(None, importlib.import_module, module)
        await stopped.wait()
    finally:
        await server.stop()


def _check_address(url: str) -> None:
    try:
        given = urlsplit(url)
        usable = given.scheme in ("http", "https") and bool(given.hostname) and given.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadFileError("--upstream", f"{url!r} is no http address; write http://127.0.0.1:8025")


def _seconds(schedule: str | Sequence[float] | None) -> tuple[float, ...]:
    """Read a schedule; an empty one means that nothing is sent again."""
    if schedule is None:
        return SCHEDULE
    given = [part.strip() for part in schedule.split(",") if part.strip()] if isinstance(schedule, str) else schedule
    try:
        found = tuple(float(part) for part in given)
    except ValueError:
        found = (math.nan,)
    if not all(0 <= seconds <= _LONGEST for seconds in found):
        message = f"{schedule!r} is no list of seconds from 0 to {_LONGEST:g}; write 0.1,1,5"
        raise BadFileError("--webhook-schedule", message)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run it from a command line; every flag is an environment variable too."""
    parser = argparse.ArgumentParser(prog="sendtwice.fake_provider.serve", description="Serve a contract.")
    for name, default, kind, text in (
        ("contract", None, str, "a shipped contract, or a file"),
        ("host", "127.0.0.1", str, "the address to listen on"),
        ("port", "8025", int, "the port to listen on; 0 for a free one"),
        ("state", None, str, "a file that keeps the state; in memory if left out"),
        ("upstream", None, str, "where mail goes; into the own ledger if left out"),
        ("upstream-dialect", "generic", str, "how mail is handed over there"),
        ("upstream-timeout", "5", float, "seconds until a hand-over without an answer is unknown"),
        ("webhook-url", None, str, "where the API's own events go; nowhere if left out"),
        ("webhook-secret", None, str, "what they are signed with (whsec_...); made and told if left out"),
        ("webhook-schedule", None, str, "seconds from one attempt to the next, after failures"),
    ):
        preset = os.environ.get(f"SENDTWICE_{name.upper().replace('-', '_')}", default)
        required = name == "contract" and preset is None
        parser.add_argument(f"--{name}", default=preset, type=kind, help=text, required=required)
    given = parser.parse_args(arguments)
    try:
        asyncio.run(
            serve(
                given.contract,
                host=given.host,
                port=given.port,
                state=given.state,
                upstream_url=given.upstream,
                upstream_dialect=given.upstream_dialect,
                upstream_timeout=given.upstream_timeout,
                webhook_url=given.webhook_url,
                webhook_secret=given.webhook_secret,
                webhook_schedule=given.webhook_schedule,
            )
        )
    except BadFileError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
