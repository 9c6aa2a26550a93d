"""The table of what the vendors' pages state names claims and scenarios that there are."""

from __future__ import annotations

import re

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts.model import as_claims
from tests.support import ROOT

TEXT = (ROOT / "scenarios" / "STATEMENTS.md").read_text("utf-8")
PAGES = dict(re.findall(r"^## (\w+):.*?\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
SCENARIOS = {path.stem for path in (ROOT / "scenarios").glob("*/*.yaml")}


def rows(page: str) -> list[list[str]]:
    """The rows of three cells: statement, claim, scenario."""
    cells = [[cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in PAGES[page].splitlines()]
    return [row for row in cells if len(row) == 3 and row[0] not in ("statement", "---")]


@pytest.mark.parametrize("page", PAGES)
def test_every_statement_names_a_scenario_that_there_is_or_says_that_none_is_yet(page: str) -> None:
    named = rows(page)
    assert len(named) > 20
    for statement, _, scenario in named:
        found = re.findall(r"`([a-z.-]+\.[a-z0-9.-]+)`( \?)?", scenario)
        assert found or "?" in scenario, statement
        assert [name for name, open_ in found if not open_ and name not in SCENARIOS] == [], statement


@pytest.mark.parametrize("page", PAGES)
def test_every_statement_names_a_claim_that_its_contract_has(page: str) -> None:
    own = contracts.load(page.lower())
    events = contracts.load("rasket-events")
    for statement, claim, _ in rows(page):
        if claim.startswith("role "):
            continue
        contract = events if claim.startswith("`rasket-events`") else own
        claims = set(as_claims(contract))
        named = [name for name in re.findall(r"`([a-z_.*-]+)`", claim) if name != "rasket-events"]
        assert named, statement
        prefix = ""
        for name in named:
            full = f"{prefix}{name}" if name.startswith(".") else name
            prefix = full.rpartition(".")[0]
            assert known(contract, claims, full), f"{statement}: {full}"


def known(contract: contracts.Contract, claims: set[str], name: str) -> bool:
    """Whether a contract says something under this name."""
    group, _, rest = name.partition(".")
    if group == "routes":
        return rest.startswith("*") or rest in contract.routes
    if group == "answers":
        return rest in contract.answers
    if rest == "*" or not rest:
        return name in claims or getattr(contract, group) is not None
    return name in claims or hasattr(getattr(contract, group, None), rest)
