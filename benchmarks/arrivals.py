"""How close together do sends arrive that are sent at the same instant: our caller, and httpx with asyncio.gather."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from statistics import median

import httpx

from benchmarks import servers
from benchmarks.measure import Aim, Row, by_round
from sendtwice.harness.drivers.caller import Caller, Flight
from sendtwice.harness.history import Recorder
from sendtwice.harness.requests import Built

SENDS = 20
_BODY = json.dumps({"from": "a@example.test", "to": ["b@example.test"], "subject": "s", "text": "t" * 200}).encode()
_HEADERS = {"Content-Type": "application/json", "Idempotency-Key": "the-same-key"}


def run(*, quick: bool) -> list[Row]:
    """Measure, and return the rows."""
    with servers.arrivals(SENDS) as server:
        return asyncio.run(_run(server, rounds=7 if quick else 51))


async def _run(server: servers.Server, *, rounds: int) -> list[Row]:
    url = f"http://127.0.0.1:{server.port}"
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=SENDS, keepalive_expiry=None)
    async with httpx.AsyncClient(base_url=url, trust_env=False, limits=limits) as kept:
        await _gather(kept)  # it has its connections from here on
        await asyncio.to_thread(servers.call, server.port, "/arrivals")

        async def anew() -> None:
            async with httpx.AsyncClient(base_url=url, trust_env=False, limits=limits) as client:
                await _gather(client)

        ways: dict[str, Callable[[], Awaitable[None]]] = {
            "ours": lambda: _ours(url),
            "kept": lambda: _gather(kept),
            "anew": anew,
        }
        spreads: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, send in ways.items():
                await send()
                seen = await asyncio.to_thread(servers.call, server.port, "/arrivals")
                assert seen["count"] == SENDS, f"{name}: {seen['count']} of {SENDS} requests arrived"
                spreads[name].append(seen["microseconds"])
    shown = {name: f"{median(values):,.0f} us" for name, values in spreads.items()}
    what = f"{SENDS} sends at once, first to last arrival"
    return [
        Row(
            what,
            shown["ours"],
            f"httpx, connections kept {shown['kept']}",
            by_round(spreads["ours"], spreads["kept"]),
            Aim(0.2, at_most=True),
        ),
        Row(
            what,
            shown["ours"],
            f"httpx, connecting {shown['anew']}",
            by_round(spreads["ours"], spreads["anew"]),
            Aim(0.2, at_most=True),
        ),
    ]


async def _ours(url: str) -> None:
    caller = Caller(Recorder(), timeout=servers.DEADLINE)
    headers = list(_HEADERS.items())
    built = Built(method="POST", url=f"{url}/emails", target="/emails", headers=headers, body=_BODY, content="c")
    flights = [Flight(f"a{n}", built, "burst", "op", built.url) for n in range(SENDS)]
    await caller.prepare_all(flights)
    caller.fire(flights)
    await asyncio.gather(*map(caller.finish, flights))
    ends = {flight.outcome for flight in flights}
    assert ends == {"answered"}, f"some attempts ended otherwise: {ends}"


async def _gather(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(
        *(client.post("/emails", content=_BODY, headers=_HEADERS) for _ in range(SENDS)),
    )
    assert all(answer.status_code == 200 for answer in answers)
