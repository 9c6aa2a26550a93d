"""Clocks that are moved by a hook of the target's own: a request, or a program."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sendtwice.harness import placeholders, programs
from sendtwice.harness.calls import request
from sendtwice.harness.clocks.still import OFFSET, WHOLE, Still, written
from sendtwice.harness.errors import ScenarioError
from sendtwice.harness.target_running import TargetClock

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench


class _Hook(Still):
    """A clock that a restarted target may have lost."""

    async def move(self, bench: Bench, scenario: str, seconds: float) -> None:
        """Use the hook."""
        del scenario
        bench.values[OFFSET] = written(bench.clock_offset + seconds)
        await self._use(bench, _settings(bench), seconds, WHOLE)

    async def restarted(self, bench: Bench, name: str) -> None:
        """Use it again for all that was moved so far."""
        settings = _settings(bench)
        if bench.clock_offset and not settings.keeps:
            await self._use(bench, settings, bench.clock_offset, name)

    async def _use(self, bench: Bench, settings: TargetClock, seconds: float, name: str) -> None:
        raise NotImplementedError


class Asked(_Hook):
    """The target is asked by a request, each of its instances where the url has a ``{port}``."""

    async def _use(self, bench: Bench, settings: TargetClock, seconds: float, name: str) -> None:
        body = json.dumps(_numbered(settings.body, seconds)).encode()
        for address in _addresses(bench, settings.url, name):
            url = urlsplit(address)
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            origin = f"{url.scheme}://{url.netloc}"
            status, _ = await request(bench, origin, settings.method, path, settings.headers, body)
            if not 200 <= status < 300:
                raise ScenarioError(
                    f"the target's clock could not be moved: {settings.method} {settings.url} answered {status}"
                )


class Commanded(_Hook):
    """A program moves it; the target file says which."""

    async def _use(self, bench: Bench, settings: TargetClock, seconds: float, name: str) -> None:
        if name != WHOLE:
            return  # a program moves the clock of all, and the others have kept theirs
        values = {**bench.values, "seconds": written(seconds), "python": sys.executable, "folder": str(bench.folder)}
        command = [placeholders.fill_text(part, values) for part in settings.command]
        limit = bench.target.timing.answers_within
        complaint = f"the target's clock could not be moved: {command[0]!r}"
        try:
            ended = await programs.printed(command, bench.folder, timeout=limit)
        except programs.NotStartedError as error:
            raise ScenarioError(f"{complaint} cannot be started ({error}); mend target.clock.command") from None
        except TimeoutError:
            raise ScenarioError(f"{complaint} did not end within {limit:g} s (target.timing.answers_within)") from None
        if ended.status:
            lines = [line.strip() for line in (ended.err or ended.out).splitlines() if line.strip()]
            words = f"; its last words: {lines[-1][:200]}" if lines else "; it wrote nothing"
            raise ScenarioError(f"{complaint} ended with status {ended.status}{words}")


def _addresses(bench: Bench, url: str, name: str) -> list[str]:
    """Return where the clocks of a process are moved: each instance has one of its own where ``{port}`` stands."""
    if "{port}" not in url:
        mine = name == WHOLE or f"{{port.{name}}}" in url
        return [bench.fill(url)] if mine else []
    ports = [port for port in bench.launcher.ports() if name == WHOLE or port in bench.launcher.ports(name)]
    return [bench.fill(url.replace("{port}", str(port))) for port in ports]


def _settings(bench: Bench) -> TargetClock:
    assert bench.target.clock is not None
    return bench.target.clock


def _numbered(template: Any, seconds: float) -> Any:
    """Fill ``{seconds}`` as a number where it stands alone."""
    if template == "{seconds}":
        return seconds
    if isinstance(template, dict):
        return {name: _numbered(item, seconds) for name, item in template.items()}
    return placeholders.fill(template, {"seconds": f"{seconds:g}"})
