"""Who got how many mails: a group's commits by the people whom it was for.

Only a group's total can be judged, for its operations have equal content; and a person's count, for a mail to two
people may be sent as two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sendtwice.harness.judge.commits import Commit


@dataclass(slots=True)
class Operation:
    """One logical effect, with the operations of equal content as its group."""

    name: str
    recipients: list[str]
    group: str
    content: str = ""


class Post:
    """The mails of a history, by group and person."""

    def __init__(self, groups: Mapping[str, Sequence[Operation]], commits: Mapping[str, Sequence[Commit]]) -> None:
        """Nothing is counted yet."""
        self._groups, self._commits = groups, commits
        self._served: dict[str, dict[str, int]] = {}

    def _declared(self, group: str) -> list[str]:
        return [recipient for operation in self._groups.get(group, ()) for recipient in operation.recipients]

    def person(self, group: str, address: str) -> str:
        """Return the recipient whom a delivered address means: targets fold case, add tags, or use one of their own."""
        written = address.casefold()
        local = written.rpartition("@")[0] or written
        best = ""
        for declared in self._declared(group):
            if declared.casefold() == written:
                return declared
            token = declared.casefold().rpartition("@")[0]
            if token and token in local and len(token) > len(best.rpartition("@")[0]):
                best = declared
        return best or written

    def meant_by(self, address: str) -> list[str]:
        """Return the groups that have a recipient whom an address may mean."""
        return [group for group in self._groups if self.person(group, address) in self._declared(group)]

    def served(self, group: str) -> dict[str, int]:
        """Return how many mails each recipient of a group got."""
        known = self._served.get(group)
        if known is None:
            known = self._served[group] = self._count(group)
        return known

    def _count(self, group: str) -> dict[str, int]:
        declared = set(self._declared(group))
        counts = dict.fromkeys(declared, 0)
        for commit in self._commits.get(group, ()):
            for recipient in {self.person(group, address) for address in commit.recipients}:
                counts[recipient] = counts.get(recipient, 0) + 1
        others = {r: n for r, n in counts.items() if r not in declared}
        if others and not any(counts[r] for r in declared):
            return others  # a target that writes to an address of its own
        # A copy to the house's archive is nobody's second mail.
        return {r: n for r, n in counts.items() if r in declared}
