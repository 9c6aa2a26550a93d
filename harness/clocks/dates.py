"""The time of day as a target shows it: the ``Date`` of its answers."""

from __future__ import annotations

import asyncio
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import h11

from sendtwice.harness.drivers.wire import Wire, serialise
from sendtwice.harness.target_running import front_of

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench

#: A target that answers one request at a time may not answer this one now.
_ASKING = 0.5
#: Servers write a date that they made up to a second ago.
_STALE, _PAUSE = 1.6, 0.05


async def ahead(bench: Bench) -> float | None:
    """Return how many seconds a target's clock is ahead of ours; None when it cannot be seen now."""
    if not bench.url or bench.driver is None:
        return None
    front = front_of(bench.target.processes)
    path = front.ready if front is not None and front.ready not in (None, "tcp", "started") else "/"
    try:
        async with asyncio.timeout(_ASKING):
            wire = await Wire.open(bench.url, timeout=_ASKING, tls=bench.driver.tls)
            try:
                host = bench.url.partition("://")[2].partition("/")[0]
                await wire.write(serialise("GET", path or "/", host, [], b""))
                answer = await wire.answer("GET")
            finally:
                wire.close()
    except (OSError, EOFError, h11.RemoteProtocolError):
        return None
    written = next((value for name, value in answer.headers.items() if name.lower() == "date"), None)
    try:
        return None if written is None else parsedate_to_datetime(written).timestamp() - time.time()
    except ValueError:
        return None


async def moved(bench: Bench, *, at_least: float) -> bool | None:
    """Whether a target's clock is so far ahead, or will be when its server makes a new date; None: it is not seen."""
    until = time.monotonic() + _STALE
    while (seen := await ahead(bench)) is not None and seen < at_least:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(_PAUSE)  # there is no event for a date
    return None if seen is None else True
