"""Runs a program of the target's own to its end, for what it does or prints: a clock moved, a count, an outcome.

The programs that are themselves under test are run in :mod:`~sendtwice.harness.launch`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class NotStartedError(Exception):
    """A program could not be started; its text says why, in a few words."""


@dataclass(frozen=True, slots=True)
class Printed:
    """How a program ended, and what it wrote."""

    status: int
    out: str
    err: str


async def printed(command: Sequence[str], folder: Path, *, timeout: float) -> Printed:
    """Run a program in a folder, and return what it wrote; it and all that it started are gone afterwards.

    ``timeout``: seconds. Raises :class:`NotStartedError`, and :class:`TimeoutError` when it does not end in time.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise NotStartedError((error.strerror or str(error)).lower()) from None
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return Printed(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
