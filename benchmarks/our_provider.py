"""A fake provider in a process of its own, for the load client. Prints the line that the served emulator prints too."""

from __future__ import annotations

import asyncio
import json
import sys

from sendtwice.fake_provider.provider import FakeProvider


async def main(dialect: str) -> None:
    """Serve ``dialect`` until killed."""
    provider = FakeProvider(dialect)
    await provider.start()
    print(json.dumps({"ready": True, "url": provider.url}), flush=True)  # noqa: T201
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
