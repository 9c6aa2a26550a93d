"""The shared memory that libfaketime wants, made before the process that uses it and removed after it.

By itself it makes a semaphore and a page for each process, named by the process's number: they outlive a process that
is killed, stop a later one that gets the same number, and cannot be opened once the user has changed. Where its
environment names them, it makes none.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import struct
from pathlib import Path

_PLACE = Path("/dev/shm")  # noqa: S108  # where POSIX semaphores and shared memory are on Linux
_PAGE = 4096


class Shared:
    """One semaphore and one page, for one start of one process and all of its children."""

    def __init__(self) -> None:
        """Make both; where that is not possible, the library makes its own."""
        self.value: str | None = None
        token = secrets.token_hex(6)
        self._semaphore, self._page = f"sendtwice_sem_{token}", f"sendtwice_shm_{token}"
        self._files = (_PLACE / f"sem.{self._semaphore}", _PLACE / self._page)
        if not _semaphore(self._semaphore):
            return
        try:
            # No ticks so far, and no clock has its time of the start yet.
            self._files[1].write_bytes((bytes(16) + struct.pack("qq", 0, -1) * (_PAGE // 16))[:_PAGE])
            # A target that gives up its rights, as a store of root's does, is still to have its clock.
            for file in self._files:
                file.chmod(0o666 if os.geteuid() == 0 else 0o600)
        except OSError:
            self.close()
            return
        self.value = f"/{self._semaphore} /{self._page}"

    def close(self) -> None:
        """Remove both; who has them open keeps them."""
        for file in self._files:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)


def _semaphore(name: str) -> bool:
    """Make a semaphore that is free."""
    libc = ctypes.CDLL(None)
    try:
        make, close = libc.sem_open, libc.sem_close
    except AttributeError:
        return False
    make.restype = ctypes.c_void_p
    made = make(f"/{name}".encode(), os.O_CREAT | os.O_EXCL, 0o600, 1)
    if not made:
        return False
    close(ctypes.c_void_p(made))
    return (_PLACE / f"sem.{name}").exists()
