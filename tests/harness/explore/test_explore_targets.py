"""Real targets, explored with one fault: sound ones are gone through to the end, naive ones are caught on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sendtwice.fake_provider.faults import Place
from sendtwice.harness.bench import Bench
from sendtwice.harness.clocks import library
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.explore.coverage import State
from sendtwice.harness.explore.deeds import How
from sendtwice.harness.explore.events import Event
from sendtwice.harness.explore.explorer import Explorer, Settings
from sendtwice.harness.explore.plans import in_store
from sendtwice.harness.explore.result import Counterexample, Result
from sendtwice.harness.explore.stage import Stage
from sendtwice.harness.fault_specs import STORE
from sendtwice.harness.target import load
from tests.harness.test_implementations import FOLDER, load_or_skip
from tests.support import ROOT, missing

EMULATED = ROOT / "tests" / "emulated"


class UntilFound(Explorer):
    """Goes on until something was found: the rest is the same."""

    def _enough(self) -> bool:
        return bool(self.result.broken)


def explore(
    file: Path, tmp_path: Path, *, deeds: int = 1, until_found: bool = False
) -> tuple[Explorer, Result, list[Event]]:
    """Explore a target; one in which nothing may be found is not given more than a short grace period."""
    target, path = load(str(file))
    body = target.target
    if not until_found:
        body = body.model_copy(update={"timing": body.timing.model_copy(update={"grace": 0.05})})
    stage = Stage(Bench(body, effective_contract(target, path.parent), path.parent, tmp_path))
    told: list[Event] = []
    settings = Settings(deeds=deeds, watch=0.1, reports=tmp_path)
    explorer = (UntilFound if until_found else Explorer)(stage, settings, [told.append])
    return explorer, asyncio.run(explorer.run()), told


def found_nothing(result: Result) -> None:
    assert result.error is None
    assert [(str(example.plan), example.finding.message) for example in result.broken] == []
    assert [str(plan) for plan in result.doubted] == []
    assert result.complete == (True, False)
    assert result.exit_code == 0
    # Every fault was met where it was to be: a window that was not reached would not be one that held.
    unsaid = {str(move): cell for move, cell in result.coverage.cells.items() if cell.state is not State.HELD}
    assert {cell.state for cell in unsaid.values()} <= {State.NOT_APPLICABLE}, unsaid
    assert result.coverage.unstable == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["rasket", "postfleet", "pylota"])
def test_an_emulated_contract_holds_in_every_window(name: str, tmp_path: Path) -> None:
    explorer, result, _ = explore(EMULATED / f"{name}.toml", tmp_path)
    found_nothing(result)
    assert explorer.writer.queued is (name != "postfleet")
    held = {move.deed.how for move, cell in result.coverage.cells.items() if cell.state is State.HELD}
    alike = {How.FAULT, How.CRASH, How.PAUSE, How.PREEMPT, How.PREEMPT_OTHER}
    # Where the answer comes first, nobody is there to hang up any more.
    assert held == (alike if explorer.writer.queued else alike | {How.HANG_UP})
    assert {move.point.attempt for move in result.coverage.cells} == {"first", "again", "other"}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("file", ["redis-lease/replicas.toml", "postgres-operations/target.toml"])
def test_the_good_twin_of_a_store_holds_in_every_window(file: str, tmp_path: Path) -> None:
    target, _ = load_or_skip(FOLDER / file)
    clock = target.target.clock
    complaint = library.complaint(None) if clock is not None and clock.kind == "faketime" else None
    if complaint is not None:
        missing("faketime", complaint)
    _, result, _ = explore(FOLDER / file, tmp_path)
    found_nothing(result)
    stores = [move for move, cell in result.coverage.cells.items() if cell.state is State.HELD and move.point.store]
    assert {move.point.place for move in stores} == {Place.STORE_REQUEST, Place.STORE_RESPONSE}
    assert {move.point.attempt for move in stores} == {"first", "again", "other"}
    alone = target.target.replicas == 1
    assert {move.deed.how for move in stores} == set(How) - ({How.CRASH_ONE} if alone else set())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["redis-naive", "postgres-naive"])
def test_the_naive_twin_is_caught_on_the_first_pass_at_a_message_to_its_store(name: str, tmp_path: Path) -> None:
    load_or_skip(FOLDER / name / "target.toml")
    _, result, told = explore(FOLDER / name / "target.toml", tmp_path, deeds=2, until_found=True)
    assert result.error is None
    assert result.exit_code == 1
    first = next(event for event in told if isinstance(event, Counterexample))
    assert (first.finding.rule, in_store(first.plan), len(first.plan.moves)) == ("at-most-once", True, 1)
    smallest = next(one for one in result.smallest if one.finding.rule == "at-most-once")
    (move,) = smallest.plan.moves
    assert move.point.place in STORE
    assert move.point.message is not None
    assert smallest.again > 0
    assert smallest.replay == str(tmp_path / "explore.at-most-once.yaml")
    (held,) = (spec for step in smallest.scenario.steps for spec in getattr(getattr(step, "send", None), "at", ()))
    assert (held.store, held.message) == (move.point.store, move.point.message)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("lease-lets-two-send", How.PAST_LEASE),
        ("resends-blindly", How.FAULT),
        ("frees-on-hang-up", How.HANG_UP),
        ("store-after-send", How.CRASH),
        ("crashes-on-race", How.PREEMPT),
    ],
)
def test_a_flaw_is_found_by_the_deed_that_it_falls_for(name: str, how: How, tmp_path: Path) -> None:
    _, result, _ = explore(ROOT / "tests" / "flawed" / name / "target.toml", tmp_path, until_found=True)
    assert result.error is None
    assert how in {example.plan.moves[0].deed.how for example in result.broken}
    assert result.exit_code == 1
