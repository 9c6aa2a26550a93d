"""Whether a target answers yet, and what it said last: the same for a process and for a container."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from sendtwice.harness.drivers.wire import Wire, serialise

#: How long one probe may take, and the pause after one that failed (there is no event to await).
PROBE, PAUSE = 2.0, 0.02
#: A proxy takes a connection before the target listens, and ends it when it finds nobody: within this time.
PROXY = 0.3


async def until_ready(
    url: str,
    ready: str | None,
    *,
    tls: ssl.SSLContext | None = None,
    proxied: bool = False,
    told: Callable[[str], None] = lambda _: None,
) -> None:
    """Return when ``url`` answers as ``ready`` says: a path that answers 2xx, or ``tcp``.

    ``started``: a worker that listens nowhere is ready as soon as it runs.
    ``proxied``: what listens there is not the target itself. ``told`` hears of every answer that is not yet the one.
    """
    if ready == "started":
        return
    host = url.partition("://")[2]
    while True:
        try:
            async with asyncio.timeout(PROBE):
                wire = await Wire.open(url, timeout=PROBE, tls=tls)
                try:
                    if ready is None or ready == "tcp":
                        if not proxied or not await _ends(wire):
                            return
                        raise ConnectionResetError
                    await wire.write(serialise("GET", ready, host, [], b""))
                    answer = await wire.answer("GET")
                    if 200 <= answer.status < 300:
                        return
                    told(f"its last answer was {answer.status}")
                finally:
                    wire.close()
        except Exception:  # noqa: BLE001, S110  # anything but a 2xx means "not yet"; the deadline tells
            pass
        await asyncio.sleep(PAUSE)


async def _ends(wire: Wire) -> bool:
    """Whether a connection is ended by the other side at once."""
    try:
        async with asyncio.timeout(PROXY):
            return not await wire.reader.read(1)
    except TimeoutError:
        return False


def last_words(log: Path) -> str:
    """Return the last line that a target wrote, for an error message."""
    try:
        lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return f"; its last words: {lines[-1][:200]}" if lines else "; it wrote nothing"
