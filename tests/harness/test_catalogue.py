"""The shipped scenarios, as data."""

import pytest

from sendtwice.harness.scenario import FOLDER, Scenario, catalogue

CATALOGUE = catalogue()

#: Ids are API: they are never renamed once released. New ones are added here.
PROMISED = [
    "client.conflict",
    "client.response-lost",
    "key.case",
    "key.duplicated-header",
    "key.empty",
    "key.max",
    "key.missing",
    "key.odd-characters",
    "key.too-long",
    "scope.other-mailbox",
    "scope.other-path",
    "scope.other-tenant",
    "send.burst",
    "send.concurrent",
    "send.crash-after-accept",
    "send.crash-after-answer",
    "send.crash-before-accept",
    "send.crash-queued-behind",
    "send.crash-while-queued",
    "send.hang-up",
    "send.in-flight-other-body",
    "send.no-key-twice",
    "send.other-body",
    "send.other-recipient",
    "send.other-subject",
    "send.provider-busy-then-well",
    "send.provider-refuses",
    "send.provider-silent",
    "send.refused-then-fixed",
    "send.reordered-fields",
    "send.repeat",
    "send.request-lost",
    "send.response-cut",
    "send.response-lost",
    "send.same-content-two-keys",
    "send.two-recipients",
    "send.unknown-outcome",
    "webhook.ack-lost",
    "webhook.twice",
    "webhook.two-messages-same-body",
]


def test_every_promised_id_is_there() -> None:
    assert sorted(PROMISED) == [scenario.id for scenario in CATALOGUE]


@pytest.mark.parametrize("scenario", CATALOGUE, ids=lambda s: s.id)
def test_a_scenario_says_why_it_exists_and_where_it_comes_from(scenario: Scenario) -> None:
    assert scenario.why.strip()
    assert scenario.source.strip()


def test_a_file_is_named_for_its_scenario_and_lies_in_its_family() -> None:
    for path in FOLDER.rglob("*.yaml"):
        scenario = next(s for s in CATALOGUE if s.id == path.stem)
        assert path.parent.name == scenario.family


def test_smoke_is_the_windows_of_the_seeds_and_nothing_else() -> None:
    for scenario in CATALOGUE:
        assert ("smoke" in scenario.tags) == any(tag.startswith("seed:") for tag in scenario.tags), scenario.id
