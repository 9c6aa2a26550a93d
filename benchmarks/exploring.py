"""How soon is a second mail seen: by exploring, by bursts at the same instant, and by asyncio.gather over httpx.

The target's race is 50 microseconds wide (:mod:`benchmarks.narrow_window`). Each way is given the same target, started
anew in each round, and goes on until its first duplicate, or until it has tried :data:`MOST` schedules.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median

import httpx

from benchmarks.measure import Aim, Row, by_round
from sendtwice.harness.bench import Bench
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.explore.events import Event
from sendtwice.harness.explore.explorer import Explorer, Settings
from sendtwice.harness.explore.result import Counterexample
from sendtwice.harness.explore.stage import Stage
from sendtwice.harness.scenario import parse
from sendtwice.harness.target import Target, load

#: Sends in a burst: a caller and its retry, or a crowd. And the schedules after which a way gives up.
SENDS, MOST = (2, 20), 300
_TARGET = """
[target]
name = "narrow-window"
[target.api]
url = "http://127.0.0.1:{{port}}"
[[target.process]]
name = "redis"
command = ["redis-server", "--port", "{{port}}", "--bind", "127.0.0.1", "--save", ""]
ready = "tcp"
[[target.process]]
name = "target"
command = ["{{python}}", "{program}"]
env = {{ PORT = "{{port}}", MAIL_PROVIDER_URL = "{{provider_url}}", STORE = "{store}" }}
ready = "/"
[target.store.cache]
upstream = "127.0.0.1:{{port.redis}}"
"""

#: A way returns how many schedules it tried, and how many seconds that took; ``MOST`` and more found nothing.
Way = Callable[[Stage], Awaitable[tuple[int, float]]]


def run(*, quick: bool) -> list[Row]:
    """Measure, and return the rows."""
    what = "first duplicate, race of 50 us"
    if shutil.which("redis-server") is None:
        return [Row(what, "-", "redis-server is not installed")]
    return asyncio.run(_run(what, rounds=1 if quick else 5))


async def _run(what: str, *, rounds: int) -> list[Row]:
    ways: dict[str, Way] = {"exploring": _explored}
    for sends in SENDS:
        ways[f"bursts of {sends}"] = partial(_bursts, sends)
        ways[f"gather of {sends}"] = partial(_gathered, sends)
    tried: dict[str, list[int]] = {name: [] for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        # Only who holds the wire to the store is given it: it makes the window wider.
        held = _target(Path(folder) / "held.toml", "{store.cache}")
        direct = _target(Path(folder) / "direct.toml", "127.0.0.1:{port.redis}")
        contract = effective_contract(held, Path(folder), None)
        for _ in range(rounds):
            for name, way in ways.items():
                target = held if way is _explored else direct
                stage = Stage(Bench(target.target, contract, Path(folder), Path(folder) / "output"))
                schedules, took = await way(stage)
                tried[name].append(schedules)
                seconds[name].append(took)
    shown = {name: _shown(name, tried[name], seconds[name]) for name in ways}
    ours, aim = shown["exploring"], Aim(1, at_most=True)
    return [
        Row(what, ours, shown[other], by_round(seconds["exploring"], seconds[other]), aim) for other in list(ways)[1:]
    ]


def _target(file: Path, store: str) -> Target:
    program = Path(__file__).with_name("narrow_window.py")
    file.write_text(_TARGET.format(program=program, store=store), encoding="utf-8")
    return load(str(file))[0]


def _shown(name: str, tried: list[int], seconds: list[float]) -> str:
    without = sum(count >= MOST for count in tried)
    none = f", {without} of {len(tried)} times none" if without else ""
    return f"{name}: {median(tried):g} ({min(tried)}..{max(tried)}) schedules, {median(seconds):.1f} s{none}"


async def _explored(stage: Stage) -> tuple[int, float]:
    """Explore until the first counterexample has happened again and is reported."""
    begun = 0.0
    found: list[tuple[int, float]] = []

    def heard(event: Event) -> None:
        if isinstance(event, Counterexample) and not found:
            found.append((stage.count, stage.bench.recorder.now() - begun))
            raise _FoundError

    explorer = Explorer(stage, Settings(deeds=1), [heard])
    with contextlib.suppress(_FoundError):
        await explorer.run()
    return found[0] if found else (MOST, stage.bench.recorder.now())


class _FoundError(Exception):
    """The first duplicate is there: no more need be played."""


async def _bursts(sends: int, stage: Stage) -> tuple[int, float]:
    """Let bursts leave at the same instant until one is delivered twice."""
    steps = f"[{{parallel: {{as: mail, count: {sends}}}}}]"
    burst = parse(f"{{id: burst, title: At the same instant, role: api, steps: {steps}}}")
    return await _until_doubled(stage, lambda: stage.play(burst))


async def _gathered(sends: int, stage: Stage) -> tuple[int, float]:
    """Do what most people write, with connections that are kept."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=sends, keepalive_expiry=None)
    async with httpx.AsyncClient(trust_env=False, limits=limits, timeout=60) as client:

        async def burst() -> None:
            token = secrets.token_hex(8)
            mail = {"from": "a@example.test", "to": [f"{token}@example.test"], "subject": token, "text": token}
            url, headers = f"{stage.bench.url}/emails", {"Idempotency-Key": token}
            await asyncio.gather(*(client.post(url, json=mail, headers=headers) for _ in range(sends)))

        return await _until_doubled(stage, burst)


async def _until_doubled(stage: Stage, burst: Callable[[], Awaitable[object]]) -> tuple[int, float]:
    await stage.start()
    try:
        ledger = stage.bench.provider.ledger
        begun = time.monotonic()
        for number in range(1, MOST + 1):
            before = ledger.commits
            await burst()
            if ledger.commits > before + 1:
                return number, time.monotonic() - begun
        return MOST, time.monotonic() - begun
    finally:
        await stage.stop()
