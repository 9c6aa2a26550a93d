"""Which scenarios a run plays: globs and tags over the catalogue, and the nearest names if none fits."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from sendtwice.harness.nearest import nearest
from sendtwice.harness.scenario import Scenario


class SelectionError(Exception):
    """A choice that fits nothing. Its text is one line and names what is near."""


def select(
    scenarios: Sequence[Scenario],
    *,
    role: str,
    names: Sequence[str] = (),
    tags: Sequence[str] = (),
    excluded: Sequence[str] = (),
) -> list[Scenario]:
    """Return the scenarios of a role that fit any name, any tag, and no exclusion; empty choices mean all."""
    ids = [scenario.id for scenario in scenarios]
    for option, globs in (("--scenario", names), ("--exclude", excluded)):
        for glob in globs:
            if not fnmatch.filter(ids, glob):
                raise SelectionError(f"{option} {glob!r} fits no scenario; {nearest(glob, ids)}")
    known_tags = sorted({tag for scenario in scenarios for tag in tags_of(scenario)})
    for tag in tags:
        if not fnmatch.filter(known_tags, tag):
            raise SelectionError(f"--tag {tag!r} fits no scenario; {nearest(tag, known_tags)}")
    chosen = [
        scenario
        for scenario in scenarios
        if (not names or _fits([scenario.id], names))
        and (not tags or _fits(tags_of(scenario), tags))
        and not _fits([scenario.id], excluded)
    ]
    mine = [scenario for scenario in chosen if scenario.role == role]
    if not mine and chosen:
        other = chosen[0]
        raise SelectionError(
            f"{other.id} is for role {other.role} and the target has role {role}; choose scenarios of role "
            f"{role} (sendtwice scenarios lists them)"
        )
    if not mine:
        raise SelectionError(
            "no scenario is left; take away one of --scenario, --tag, --smoke and --exclude"
            if names or tags or excluded
            else "the catalogue is empty; install sendtwice again"
        )
    return mine


def tags_of(scenario: Scenario) -> list[str]:
    """Return a scenario's tags; its family is one of them."""
    return list(dict.fromkeys([scenario.family, *scenario.tags]))


def _fits(names: Sequence[str], globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for name in names for glob in globs)
