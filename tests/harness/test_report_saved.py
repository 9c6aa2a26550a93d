"""A saved failure is the scenario that was played: written and read again it is the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sendtwice.harness import scenario
from sendtwice.harness.report.saved import write_saved
from sendtwice.harness.scenario import Scenario, catalogue
from tests.harness.stories import failed

OWN = """
id: client.own
title: t
role: client
steps:
  - operate: {as: first, at: {client.request: {answer: 503, retry_after: {date: 2}, nth: 2}}}
  - operate: {as: second, at: {client.response: {answer: 308, location: other, retry_after: 0.5}}}
  - operate: {as: third, at: [{crossing: client.response, garble: half}, {crossing: client.response, drip: 1, nth: 2}]}
  - hold: {crossing: client.response, close: after-answer, of: third}
"""


@pytest.mark.parametrize("played", [*catalogue(), scenario.parse(OWN)], ids=lambda played: played.id)
def test_what_is_saved_is_what_was_played(played: Scenario, tmp_path: Path) -> None:
    path = tmp_path / "saved.yaml"
    write_saved(path, played, None, failed(), 1)
    again = scenario.load(path)
    assert (again.steps, again.expect, again.role) == (played.steps, played.expect, played.role)
