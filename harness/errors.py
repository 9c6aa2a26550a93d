"""Errors of the harness itself: its work could not be done (exit 4)."""

from __future__ import annotations


class HarnessError(Exception):
    """One line for the user: what could not be done, and the remedy."""


class TargetDiedError(HarnessError):
    """The target ended by itself."""


class ScenarioError(Exception):
    """A scenario cannot go on (an await ran into its deadline): it becomes inconclusive."""
