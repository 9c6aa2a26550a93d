"""The wires between a target and its provider: which hand-overs are open, and whether anything was ever wrong there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge.storms import PATIENT

_FOR_EVER = float("inf")


def _cuts_off(event: Event) -> bool:
    """Whether a fault ended a hand-over without an answer."""
    return str(event.data["place"]).startswith("provider.") and event.data["verb"] not in PATIENT


class Wires:
    """The hand-overs of a history, by the group that their mail belongs to."""

    def __init__(self, events: Sequence[Event], group_of: Callable[[str], str], *, calm: bool) -> None:
        """``calm``: nothing happened to the target as a whole."""
        self._calm = calm
        self._stormy: set[str] = set()
        #: The event of each hand-over, and of the answer that was sent to it.
        self._hand_overs: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self._broken: dict[str, list[int]] = defaultdict(list)
        open_: dict[tuple[str, int | None], int] = {}
        for event in events:
            if event.operation is None:
                continue
            group = group_of(event.operation)
            if event.kind in (Kind.FIRED, Kind.DISCARDED):
                self._stormy.add(group)
                if event.kind is Kind.DISCARDED or _cuts_off(event):
                    self._broken[group].append(event.seq)
            elif event.kind is Kind.PROVIDER_REQUEST:
                open_[group, event.connection] = len(self._hand_overs[group])
                self._hand_overs[group].append((event.seq, _FOR_EVER))
            elif event.kind is Kind.PROVIDER_RESPONSE:
                sent = bool(event.data.get("sent"))
                if not sent or not 200 <= int(event.data.get("status") or 200) < 300:
                    self._stormy.add(group)
                if not sent:
                    self._broken[group].append(event.seq)
                place = open_.pop((group, event.connection), None) if sent else None
                if place is not None:
                    self._hand_overs[group][place] = (self._hand_overs[group][place][0], event.seq)

    def pending(self, group: str, *, since: int, until: int) -> int:
        """Return how many hand-overs of a group had begun after ``since`` and not been answered by ``until``."""
        return sum(since < begun <= until < answered for begun, answered in self._hand_overs.get(group, ()))

    def open_during(self, group: str, *, since: int, start: int, end: int) -> bool:
        """Whether a hand-over that had begun after ``since`` surely stood unanswered from ``start`` to ``end``."""
        if any(since < seq < end for seq in self._broken.get(group, ())):
            return False
        return any(since < begun < start and answered > end for begun, answered in self._hand_overs.get(group, ()))

    def calm(self, groups: Iterable[str]) -> bool:
        """Whether nothing ever happened to some groups but that their mails were handed over and taken."""
        return self._calm and self._stormy.isdisjoint(groups)
