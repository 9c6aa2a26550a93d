"""Effects that are counted elsewhere (``[target.effects]``): where a target's mail cannot come to the fake provider.

What is asked is always the same: how many effects are there for this recipient, this subject, this text? Three can
answer: an HTTP resource, a query to a database, a program. Each is a :class:`Probe`; it knows nothing of scenarios,
and only reads. :class:`~sendtwice.harness.effects.counting.Counting` asks it at the right moments, and turns each
increase into the deliveries that everything else reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sendtwice.harness.effects.command import CommandProbe
from sendtwice.harness.effects.http import HttpProbe
from sendtwice.harness.effects.sql import SqlProbe

if TYPE_CHECKING:
    from sendtwice.harness.target import Effects

__all__ = ["Probe", "probe_of"]


class Probe(Protocol):
    """Counts the effects of one operation."""

    @property
    def described(self) -> str:
        """Where the count comes from, in words and without secrets."""

    @property
    def names(self) -> frozenset[str]:
        """What of an operation it asks by: what differs in none of these cannot be told apart."""

    async def count(self, values: Mapping[str, str]) -> int:
        """Return the number of effects; :class:`ProbeError` when there is none to be had."""


def probe_of(settings: Effects, folder: Path) -> Probe:
    """Return what the target file says that counts; ``folder`` is the file's."""
    if settings.http is not None:
        return HttpProbe(settings)
    if settings.sql is not None:
        return SqlProbe(settings, folder)
    return CommandProbe(settings, folder)
