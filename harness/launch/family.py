"""Who belongs to a process: its group, its descendants, and those of them that went their own way.

A group is signalled by one call, but a child may have left it: PostgreSQL gives each of its backends a session of its
own, and a daemon has no parent any more. Descendants are found by their parents, and orphans by a mark that every
process of a target has in its environment. Both are read from ``/proc``; where there is none, the group is all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")
#: The variable by which an orphan is known. Its value says whose it is.
MARK = "_SENDTWICE_PROCESS"
#: Seconds after which a killed process is not waited for any more: it hangs in the kernel.
_DEAD = 2.0


def members(leader: int, mark: str) -> set[int]:
    """Return the living processes of a family, without those that wait to be reaped.

    ``leader`` leads the group and may be gone; ``mark`` is the value of :data:`MARK` that it was given.
    """
    children: dict[int, set[int]] = defaultdict(set)
    alive: set[int] = set()
    found: set[int] = set()
    for pid in _processes():
        try:
            # The name in the second field may have blanks and brackets in it.
            state, parent, group = (
                (_PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
            )
        except (OSError, ValueError):
            continue  # it has ended
        children[int(parent)].add(pid)
        if state not in "ZX":
            alive.add(pid)
            if int(group) == leader or _marked(pid, mark):
                found.add(pid)
    heirs = [leader, *found]
    while heirs:
        mine = children[heirs.pop()] - found
        found |= mine
        heirs += mine
    return (found | {leader}) & alive


def send(number: signal.Signals, leader: int, mark: str) -> None:
    """Signal a whole family: the group at once, then whoever is not in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    for pid in members(leader, mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != leader:
                os.kill(pid, number)


async def kill(leader: int, mark: str) -> None:
    """SIGKILL a whole family, and wait until all but the leader, whom its parent reaps, are gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DEAD):
            while left := members(leader, mark) - {leader}:  # one of them may just have made another
                for pid in left:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                await asyncio.gather(*map(_ended, left))


async def _ended(pid: int) -> None:
    """Return when a process that is no child of ours has ended."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return  # it has already; or this kernel has no such handles, and the next look finds it
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _processes() -> list[int]:
    try:
        return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _marked(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # another user's
