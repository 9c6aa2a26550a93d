"""A process that dies at the n-th boundary: right before or after a commit, or around a hand-over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sendtwice.fake_provider.emulator.store import Store
from sendtwice.fake_provider.emulator.upstream import Outcome
from sendtwice.fake_provider.ledger import Mail
from tests.fake_provider.kit import Scripted


class Death(BaseException):
    """The process is gone. Not an Exception: nothing may catch it."""


class Life:
    """Ends at the n-th boundary, and then every boundary is after the end."""

    def __init__(self, boundaries: float) -> None:
        self.left = boundaries

    def boundary(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Death


class MortalStore(Store):
    """Dies right before or right after a commit."""

    def __init__(self, path: Path, life: Life) -> None:
        super().__init__(path)
        self.life = life

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with super()._transaction():
            yield
            self.life.boundary()
        self.life.boundary()


class MortalUpstream:
    """A provider that lives on; the process may die before its request, or before it has read the answer."""

    def __init__(self, real: Scripted, life: Life) -> None:
        self.real, self.life = real, life
        self.deduplicates, self.remembers = real.deduplicates, real.remembers
        self.immediate = False

    async def send(self, mail: Mail, key: str) -> Outcome:
        self.life.boundary()
        outcome = await self.real.send(mail, key)
        self.life.boundary()
        return outcome

    async def start(self) -> None: ...

    async def stop(self) -> None: ...
