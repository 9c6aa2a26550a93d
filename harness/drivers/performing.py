"""How a target of role client is asked to perform an operation, and how it says what became of it.

One function a way: a program that is run, a worker that is told to over HTTP, a function of this process. Where that
only puts a job on a queue, its outcome is asked for until there is one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from sendtwice.harness import calls, placeholders, programs
from sendtwice.harness.errors import HarnessError, ScenarioError
from sendtwice.harness.judge.classes import parsed, pointer
from sendtwice.harness.launch.commands import Commands, environment
from sendtwice.harness.operations import Operation
from sendtwice.harness.target_roles import Client, Outcome

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench

#: Seconds between two questions for a job's outcome: nothing tells when it has changed.
_PAUSE, _LONGEST = 0.02, 0.25


@dataclass(frozen=True, slots=True)
class Ended:
    """What a target says became of an operation.

    ``told`` is one of the words of the target file, ``undeclared``, or None where nothing was said; ``status`` is what
    it was read from; ``lost``: whoever would have said it was killed.
    """

    told: str | None
    status: int | None = None
    lost: bool = False


async def perform(bench: Bench, operation: Operation) -> Ended:
    """Ask for an operation, and return what is said of it; :class:`TimeoutError` when it does not end in time."""
    settings = bench.target.client
    assert settings is not None
    values = {
        **bench.values,
        "python": sys.executable,
        "folder": str(bench.folder),
        "operation": operation.id,
        "to": operation.to,
        "subject": operation.subject,
        "text": operation.text,
        "from": operation.sender,
    }
    async with asyncio.timeout(settings.timeout):
        if settings.in_process:
            return await _here(bench, operation)
        ended = await (_run if settings.command else _request)(bench, settings, values)
        if settings.queued and not ended.lost and ended.told in ("sent", "unknown"):
            return await _outcome(bench, settings.outcome, values)
        return ended


async def _here(bench: Bench, operation: Operation) -> Ended:
    assert bench.perform is not None
    return Ended(await bench.perform(operation))


async def _run(bench: Bench, settings: Client, values: Mapping[str, Any]) -> Ended:
    status = await run(bench, settings.command, settings.env, values)
    return Ended(None, lost=True) if status is None else Ended(settings.says(status) or "undeclared", status)


async def run(bench: Bench, command: list[str], env: Mapping[str, str], values: Mapping[str, Any]) -> int | None:
    """Run a program of the target with the operation in its environment; None when it was killed meanwhile."""
    runs = bench.launcher
    assert isinstance(runs, Commands)
    values = {**values, "state": runs.state}
    given = {
        **{name.upper(): str(values[name]) for name in ("operation", "to", "subject", "text", "from")},
        "API_URL": bench.values["api_url"],
        **{name: placeholders.fill_text(text, values) for name, text in env.items()},
    }
    filled = [placeholders.fill_text(part, values) for part in command]
    return await runs.run(filled, environment(given), bench.folder, timeout=None)


async def _request(bench: Bench, settings: Client, values: Mapping[str, Any]) -> Ended:
    """Tell a worker that runs; one that is killed meanwhile says nothing."""
    assert settings.url is not None
    body = json.dumps(placeholders.fill(settings.body, values)).encode()
    try:
        port = next(bench.turns)
        status, _ = await _asked(bench, settings.url, settings.method, settings.headers, body, values, port=port)
    except ScenarioError:
        # Its connection ended without an answer; whether that was our doing is in the history.
        return Ended(None, lost=True)
    return Ended(settings.says(status) or "undeclared", status)


async def _asked(
    bench: Bench,
    url: str,
    method: str,
    headers: Mapping[str, str],
    body: bytes,
    values: Mapping[str, Any],
    *,
    port: int | None = None,
) -> tuple[int, bytes]:
    quoted = {name: quote(str(value), safe="") for name, value in values.items()}
    # What the harness itself fills in is part of the address; what a scenario fills in is a value there.
    own = {name: value for name, value in bench.values.items() if name in quoted}
    filled = placeholders.fill_text(url, {**quoted, **own, "port": str(port or bench.launcher.ports()[0])})
    parts = urlsplit(filled)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    limit = bench.target.client.timeout if bench.target.client is not None else 60.0
    return await calls.request(bench, f"{parts.scheme}://{parts.netloc}", method, path, headers, body, timeout=limit)


async def _outcome(bench: Bench, settings: Outcome | None, values: Mapping[str, Any]) -> Ended:
    """Ask how a job ended until it has; nobody can be asked where the target file does not say how."""
    if settings is None:
        return Ended(None)
    words = {said: word for word in ("sent", "not_sent", "unknown") for said in getattr(settings, word)}
    pause = _PAUSE
    while True:
        told = words.get(await _state(bench, settings, values))
        if told is not None:
            return Ended(told)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST)


async def _state(bench: Bench, settings: Outcome, values: Mapping[str, Any]) -> str:
    if settings.url is not None:
        try:
            status, body = await _asked(bench, settings.url, "GET", settings.headers, b"", values)
        except ScenarioError:
            return ""  # it is dead, or not yet there again
        found = pointer(parsed(body.decode("utf-8", "replace")), settings.at) if 200 <= status < 300 else None
        return "" if found is None else str(found)
    command = [placeholders.fill_text(part, {**values, "state": _state_of(bench)}) for part in settings.command]
    limit = bench.target.client.timeout if bench.target.client is not None else 60.0
    try:
        return (await programs.printed(command, bench.folder, timeout=limit)).out.strip()
    except programs.NotStartedError as error:
        raise HarnessError(
            f"the command {command[0]!r} cannot be started ({error}); mend target.client.outcome.command"
        ) from None


def _state_of(bench: Bench) -> str:
    return bench.launcher.state if isinstance(bench.launcher, Commands) else ""
