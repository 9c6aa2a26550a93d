"""What is done to a target itself: pause, resume and crash, of a process that counts and has a mail on its way."""

from __future__ import annotations

import asyncio
import mmap
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sendtwice.fake_provider.faults import Armed, Fault, Place, Verb
from sendtwice.fake_provider.provider import FakeProvider
from sendtwice.harness.doctor.rows import LONGEST, Row, Seen, WrongError, deadline, probed, times
from sendtwice.harness.launch.process import Processes
from sendtwice.harness.target_running import Start

#: Seconds for a signal to reach a process that runs, and then without a count.
_REACHED, _STILL = 0.005, 0.08
#: It sends one mail and counts on while it waits for the answer, in a child of its own too.
_PROGRAM = """
import mmap, os, socket, sys, threading
port, provider, counters = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
listening = socket.create_server(("127.0.0.1", port))
with open(counters, "r+b") as file:
    shared = mmap.mmap(file.fileno(), 16)
def count(place):
    number = 0
    while True:
        number += 1
        shared[place:place + 8] = number.to_bytes(8, "little")
if os.fork() == 0:
    count(8)
body = b'{"from": "a@example.test", "to": ["b@example.test"], "subject": "s", "text": "t"}'
provided = socket.create_connection(("127.0.0.1", provider))
provided.sendall(b"POST /emails HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
threading.Thread(target=provided.recv, args=(1,), daemon=True).start()
count(0)
"""


@dataclass
class _Target:
    """A running target: its counters, and its mail that is held on the way."""

    processes: Processes
    counters: mmap.mmap
    fake: FakeProvider
    held: Armed

    def counted(self) -> tuple[int, int]:
        """Return how far the process and its child have counted."""
        both = self.counters[:]
        return int.from_bytes(both[:8], "little"), int.from_bytes(both[8:], "little")

    async def goes_on(self, since: tuple[int, int]) -> bool:
        """Whether both count on from there."""
        until = time.monotonic() + LONGEST / 2
        while time.monotonic() < until:
            if all(now != then for now, then in zip(self.counted(), since, strict=True)):
                return True
            await asyncio.sleep(0.001)  # nobody tells that a counter has moved
        return False

    async def stands_still(self) -> bool:
        """Whether neither counts on, for longer than a processor keeps one waiting that runs."""
        await asyncio.sleep(_REACHED)
        since = self.counted()
        await asyncio.sleep(_STILL)
        return self.counted() == since


@asynccontextmanager
async def _target() -> AsyncIterator[_Target]:
    fake = FakeProvider("generic")
    await fake.start()
    with tempfile.TemporaryDirectory(prefix="sendtwice-doctor-") as scratch:
        folder = Path(scratch)
        counters = folder / "counters"
        counters.write_bytes(bytes(16))
        command = ["{python}", "-S", "-E", "-c", _PROGRAM, "{port}", str(fake.port), str(counters)]
        processes = Processes([Start(command=command, ready="tcp")], folder, {}, folder)
        held = fake.faults.arm(Fault(Place.PROVIDER_REQUEST, Verb.HOLD))
        try:
            async with deadline():
                await processes.start()
                await held.reached.wait()
            with counters.open("r+b") as file:
                yield _Target(processes, mmap.mmap(file.fileno(), 16), fake, held)
        finally:
            await processes.stop()
            await fake.stop()


async def _pause(target: _Target) -> Seen:
    if not await target.goes_on(target.counted()):
        raise WrongError("the process does not run before it is paused")
    await target.processes.pause("target")
    still = await target.stands_still()
    return Seen(
        f"the process and its child {'stand still' if still else 'count on'}", "the process and its child stand still"
    )


async def _resume(target: _Target) -> Seen:
    since = target.counted()
    await target.processes.resume("target")
    on = await target.goes_on(since)
    return Seen(
        f"the process and its child {'count on' if on else 'stand still'}", "the process and its child count on"
    )


async def _crash(target: _Target) -> Seen:
    async with target.fake.endpoint.callers_die():
        await target.processes.crash("target")
    still = await target.stands_still()
    target.held.gate.set()
    await target.fake.endpoint.idle()
    gone = "both are gone" if still else "one of them counts on"
    return Seen(f"{gone}; what it had sent is discarded, {times(target.fake.ledger.commits)}", _CRASHED)


_CRASHED = f"both are gone; what it had sent is discarded, {times(0)}"


async def on_the_target() -> list[Row]:
    """Look at what is done to a process."""
    probes: tuple[tuple[str, Callable[[_Target], Awaitable[Seen]]], ...] = (
        ("pause (SIGSTOP)", _pause),
        ("resume (SIGCONT)", _resume),
        ("crash (SIGKILL)", _crash),
    )
    async with _target() as target:
        return [await probed("target", what, partial(probe, target)) for what, probe in probes]
