"""Who meets whom under a key: equal keys, one scope, one record that is still remembered; and the same request or not.

Each question has two sides. *Surely* (:meth:`Keyring.shares_key`) is what an accusation needs; *maybe*
(:meth:`Keyring.may_share_key`) is what an excuse needs, and it is wider wherever the contract leaves something open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum, auto
from functools import cached_property

from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness.judge.attempt import Attempt

#: Seconds by which a ceiling must be past before a key is surely forgotten.
MARGIN = 1.0


class Kin(Enum):
    """Whether two requests under one key are the same one; ``EITHER`` where the contract does not say."""

    SAME = auto()
    OTHER = auto()
    EITHER = auto()


class Memory(Enum):
    """Whether the record that one attempt left is still there for a later one."""

    KEPT = auto()
    MAYBE = auto()
    FORGOTTEN = auto()


class Keyring:
    """The attempts of a history by their keys."""

    def __init__(
        self,
        contract: Contract,
        attempts: Iterable[Attempt],
        *,
        moved: bool,
        end: float = 0.0,
        doubtful: bool = False,
        busy: Callable[[Attempt, int], float] = lambda _, __: 0.0,
    ) -> None:
        """``moved``: whether the target's clock was ever moved; without that a key is never near its end.

        ``end``: the time of the history's last event, on the target's clock; ``doubtful``: whether that clock may have
        stood still, so that nothing is surely forgotten; ``busy``: when something last happened
        at the provider to an attempt's mail, before an event.
        """
        self.contract, self._moved, self._end, self._busy = contract, moved, end, busy
        self._doubtful = doubtful
        self._by_key: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            if attempt.key is not None:
                self._by_key[attempt.folded].append(attempt)
        case = contract.key.case
        self._folds, self._may_fold = case.says("folded"), case.permits("folded")
        self._scope_judged = contract.scope.judged

    def of(self, attempt: Attempt) -> list[Attempt]:
        """Return every attempt whose key may be the same as this one's, itself included."""
        return self._by_key[attempt.folded] if attempt.key is not None else []

    def shares_key(self, a: Attempt, b: Attempt) -> bool:
        """Whether two attempts surely meet under one key."""
        return self.one_key(a, b) and self.memory(a, b) is Memory.KEPT

    def one_key(self, a: Attempt, b: Attempt) -> bool:
        """Whether two attempts surely have one key, be it remembered or not."""
        return _equal(a, b, folded=self._folds) and not a.key_problem and not b.key_problem and self._one_scope(a, b)

    def may_share_key(self, a: Attempt, b: Attempt) -> bool:
        """Whether they may: surely, or because the contract does not say what a scope, a good key or a time is."""
        if not _equal(a, b, folded=self._may_fold) or self.memory(a, b) is Memory.FORGOTTEN:
            return False
        return self._one_scope(a, b) or not self._scope_judged or self._scope_of(a) != self._scope_of(b)

    def _scope_of(self, attempt: Attempt) -> list[str] | None:
        own = self.contract.routes[attempt.route].scope if attempt.route in self.contract.routes else None
        return own if own is not None else list(self.contract.scope.value or [])

    def _one_scope(self, a: Attempt, b: Attempt) -> bool:
        if a.scope == b.scope and a.path == b.path and a.query == b.query and a.batch == b.batch:
            return True
        mine, yours = _parts(a), _parts(b)
        if a.batch != b.batch and self._space_is_separate():
            return False
        if not self.contract.scope.judged:
            return mine == yours
        scope = self._scope_of(a)
        if scope != self._scope_of(b):
            return mine == yours  # each route has a scope of its own: nobody says whether they meet
        return all(mine.get(part) == yours.get(part) for part in scope or ())

    def _space_is_separate(self) -> bool:
        batch = self.contract.batch
        return batch is not None and batch.key_space.says("separate")

    # -- how long a key is remembered --------------------------------------------------------------------------

    def memory(self, a: Attempt, b: Attempt) -> Memory:
        """Whether the record that the earlier of two left is there for the later."""
        if not self._moved:
            return Memory.KEPT
        first, second = sorted((a, b), key=lambda attempt: attempt.start)
        if not self._one_record(first, second):
            return Memory.MAYBE  # whether they have one record at all, nobody says
        (forgotten, open_), (forgotten_then, open_then) = self._epochs[first], self._epochs[second]
        if forgotten_then > forgotten:
            return Memory.FORGOTTEN
        return Memory.MAYBE if open_then > open_ else Memory.KEPT

    def forgotten(self, attempt: Attempt) -> list[Attempt]:
        """Return the earlier attempts under this key whose record is surely gone."""
        return [
            a
            for a in self.of(attempt)
            if self._moved
            and a.before(attempt)
            and self.one_key(a, attempt)
            and self.memory(a, attempt) is Memory.FORGOTTEN
        ]

    @cached_property
    def _epochs(self) -> dict[Attempt, tuple[int, int]]:
        """Return for each attempt how often its key was surely, and how often it may have been, forgotten before it."""
        found: dict[Attempt, tuple[int, int]] = {}
        for attempts in self._records():
            forgotten = open_ = 0
            epoch: list[Attempt] = []
            recent: list[Attempt] = []  # since the key may last have begun anew
            for attempt in attempts:
                match self._boundary(epoch, recent, attempt):
                    case Memory.FORGOTTEN:
                        forgotten, epoch, recent = forgotten + 1, [], []
                    case Memory.MAYBE:
                        open_, recent = open_ + 1, []
                epoch.append(attempt)
                recent.append(attempt)
                found[attempt] = (forgotten, open_)
        return found

    def _one_record(self, a: Attempt, b: Attempt) -> bool:
        return _equal(a, b, folded=self._folds) and self._one_scope(a, b)

    def _records(self) -> list[list[Attempt]]:
        """Return the attempts that surely have one record, one after another: each key has its own in each scope."""
        found: list[list[Attempt]] = []
        for attempts in self._by_key.values():
            records: list[list[Attempt]] = []
            for attempt in attempts:
                record = next((known for known in records if self._one_record(known[0], attempt)), None)
                if record is None:
                    records.append([attempt])
                else:
                    record.append(attempt)
            found += records
        return found

    def _boundary(self, epoch: list[Attempt], recent: list[Attempt], attempt: Attempt) -> Memory:
        """Whether the record of an epoch is still there for an attempt: by its age, at most and at least."""
        if not epoch:
            return Memory.KEPT
        retention = self.contract.retention
        floor, ceiling = retention.at_least, retention.at_most
        # One that is still on its way may arrive at any time until it ends.
        flying = [attempt, *(a for a in epoch if not a.before(attempt))]
        latest = max(self._end if a.over is None else a.over for a in flying)
        oldest = latest - min(a.began for a in epoch)
        if floor.judged and oldest < (floor.value or 0) and not retention.start.says("first-sent"):
            return Memory.KEPT
        if oldest < MARGIN:
            return Memory.KEPT
        # The count begins at the latest with the last thing that happened under the key; while one runs, or has no
        # definite outcome, it may not have begun.
        done = [a for a in recent if a.succeeded and a.over is not None]
        running = any(not a.answered and not a.never_arrived for a in epoch)
        if not ceiling.judged or not done or running or self._doubtful:
            return Memory.MAYBE
        early = retention.start.value if retention.start.judged else None
        counted = done[:1] if early in ("first-receipt", "first-success", "completion") else done
        last = max(a.over or a.began for a in counted)
        if early != "first-receipt":  # a queue completes later than it answers
            last = max(last, *(self._busy(a, attempt.start) for a in counted))
        youngest = attempt.began - last
        return Memory.FORGOTTEN if youngest > (ceiling.value or 0) + MARGIN else Memory.MAYBE

    # -- the same request or not -------------------------------------------------------------------------------

    def kin(self, a: Attempt, b: Attempt) -> Kin:
        """Whether the contract calls two requests the same one."""
        if a.content != b.content or a.invalid != b.invalid or a.partly_invalid != b.partly_invalid:
            return Kin.OTHER
        parts = self.contract.fingerprint.parts
        listed = parts.value or []
        either = False
        for differs, part in (
            (a.path != b.path, "path"),
            (a.query != b.query, "query"),
            (a.content_type != b.content_type, "content-type"),
        ):
            if differs and parts.judged and part in listed:
                return Kin.OTHER
            either = either or (differs and not parts.judged)
        if a.form != b.form:
            if parts.judged and "raw" in listed:
                return Kin.OTHER
            claims = [self.contract.equivalence(form) for form in (a.form, b.form) if form is not None]
            if any(claim.says("different") for claim in claims):
                return Kin.OTHER
            either = either or not all(claim.says("same") for claim in claims)
        return Kin.EITHER if either else Kin.SAME


def _parts(attempt: Attempt) -> dict[str, str]:
    return {**attempt.scope, "path": attempt.path, "query": attempt.query or ""}


def _equal(a: Attempt, b: Attempt, *, folded: bool) -> bool:
    if a.key is None or b.key is None:
        return False
    return a.folded == b.folded if folded else a.key == b.key
