"""The shipped scenarios, as data."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness.drivers.api import DIFFERS
from sendtwice.harness.needs import missing
from sendtwice.harness.scenario import FOLDER, Scenario, catalogue, under
from sendtwice.harness.steps import CallStep
from sendtwice.harness.target import TargetBody

CATALOGUE = catalogue()

#: Ids are API: they are never renamed once released. New ones are added to this file.
PROMISED = (Path(__file__).parent / "scenario_ids.txt").read_text().split()

#: What no shipped contract and no target can play yet, and why.
NOT_YET = {
    "batch.item-order": "does not say: batch.item_order",
    "fingerprint.empty-fields": "does not say: fingerprint.empty_fields",
    "fingerprint.excluded": "does not say: fingerprint.excluded",
    "fingerprint.number-form": "the request has no number",
    "fingerprint.query": "not query",
    "key.blank": "the capability 'fresh-state' is not declared",
    "key.min": "the capability 'fresh-state' is not declared",
    "key.reserved-names": "the capability 'fresh-state' is not declared",
    "key.quoted-repeat": "does not say: key.form",
    "send.smtp-closed-after-dot": "the capability 'smtp' is not declared",
    "send.smtp-dot-unanswered": "the capability 'smtp' is not declared",
}


def test_every_promised_id_is_there() -> None:
    assert sorted(PROMISED) == [scenario.id for scenario in CATALOGUE]


@pytest.mark.parametrize("scenario", CATALOGUE, ids=lambda s: s.id)
def test_a_scenario_says_why_it_exists_and_where_it_comes_from(scenario: Scenario) -> None:
    assert scenario.title.strip()
    assert scenario.why.strip()
    assert scenario.source.strip()


def test_a_file_is_named_for_its_scenario_and_lies_in_its_family() -> None:
    for path in FOLDER.rglob("*.yaml"):
        scenario = next(s for s in CATALOGUE if s.id == path.stem)
        assert path.parent.name == scenario.family


def test_no_two_scenarios_are_the_same_window() -> None:
    seen: dict[str, str] = {}
    for scenario in CATALOGUE:
        window = scenario.model_dump_json(include={"role", "needs", "each", "steps", "expect"})
        assert window not in seen, f"{scenario.id} and {seen[window]}"
        seen[window] = scenario.id


def test_smoke_is_the_windows_of_the_seeds_and_nothing_else() -> None:
    for scenario in CATALOGUE:
        assert ("smoke" in scenario.tags) == any(tag.startswith("seed:") for tag in scenario.tags), scenario.id
    assert {tag for s in CATALOGUE for tag in s.tags if tag.startswith("seed:")} >= {
        f"seed:{n}" for n in (1, 2, 3, 4, 5, 7)
    }


@pytest.mark.parametrize("scenario", CATALOGUE, ids=lambda s: s.id)
def test_what_kills_the_target_or_moves_its_clock_is_tagged_so(scenario: Scenario) -> None:
    done = {name for step in scenario.steps for name in type(step).model_fields}
    assert ("crash" in scenario.tags) == ("crash" in done)
    assert ("clock" in scenario.tags) == ("advance" in done)


@pytest.mark.parametrize("scenario", [s for s in CATALOGUE if s.role == "api"], ids=lambda s: s.id)
def test_a_scenario_asks_for_nothing_that_only_some_contracts_promise(scenario: Scenario) -> None:
    # The judge holds the contract's own promises against a target; a scenario makes the window, whoever plays it.
    assert scenario.expect.empty


@pytest.mark.parametrize("scenario", [s for s in CATALOGUE if s.role == "api"], ids=lambda s: s.id)
def test_a_target_with_everything_plays_it_under_some_shipped_contract(scenario: Scenario) -> None:
    reasons = [reasons for contract in shipped() for reasons in lacking(scenario, contract)]

    nearest = min(reasons, key=len)
    if scenario.id in NOT_YET:
        assert any(NOT_YET[scenario.id] in reason for reason in nearest)
    else:
        assert nearest == []


def test_every_scenario_that_a_statement_of_a_vendor_names_is_there() -> None:
    named = list(stated())
    assert len(named) > 50
    assert {name for name, planned in named if not planned} <= set(PROMISED)
    # What is still to come says so with a question mark, and only that.
    assert {name for name, planned in named if planned} & set(PROMISED) == set()


def stated() -> Iterator[tuple[str, bool]]:
    """Return the ids in the last column of the tables of STATEMENTS.md, and whether each is marked as planned."""
    for line in (FOLDER / "STATEMENTS.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3:
            for name, planned in re.findall(r"`([a-z-]+\.[a-z0-9-]+)`( \?)?", cells[2]):
                yield name, bool(planned)


@cache
def shipped() -> list[Contract]:
    return [contracts.load(name) for name in contracts.names()]


def lacking(scenario: Scenario, contract: Contract) -> list[list[str]]:
    """Why a target that has every sender, call and process cannot play a scenario under a contract, for each route."""
    senders = {
        name: {"headers": {"Authorization": f"Bearer {name}"}, "values": {"from": f"{name}@example.test"}}
        for name in (*DIFFERS, "other-mailbox", "needs-approval")
    }
    target = TargetBody.model_validate(
        {
            "contract": contract.name,
            "capabilities": ["approval"],
            "api": {"url": "http://127.0.0.1:1", "senders": senders},
            "calls": {step.call.name: {"path": "/x"} for step in scenario.steps if isinstance(step, CallStep)},
            "start": {"command": ["x"], "replicas": 2},
            "store": {"db": {"upstream": "127.0.0.1:1"}},
            "clock": {"kind": "command", "command": ["x"]},  # it moves a target that sleeps as well
            "webhooks": {"url": "http://127.0.0.1:1/hooks"},
        }
    )
    return [missing(played, target, contract) for played in under(contract, [scenario])]
