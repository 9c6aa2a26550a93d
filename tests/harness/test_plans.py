"""Plans drawn at random: an emulated contract keeps them all, and flawed implementations are found out by some.

Each target is one real process (and is killed in a few plans), which stays up from plan to plan. Every run plays the
same plans; ``SENDTWICE_PLANS=2000`` plays so many others for each contract, from a seed that is printed, and that
``SENDTWICE_PLANS_SEED`` gives again. A plan that breaks a promise is made smaller and shown as a scenario file.
"""

from __future__ import annotations

import asyncio
import os
import random
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings

from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness import finish
from sendtwice.harness.bench import Bench
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.explore.stage import Played, Stage
from sendtwice.harness.needs import missing
from sendtwice.harness.report.saved import as_document
from sendtwice.harness.scenario import Scenario, parse
from sendtwice.harness.target import TargetBody, load
from tests.harness.plans import plans
from tests.support import ROOT, require

EMULATED = sorted((ROOT / "tests" / "emulated").glob("*.toml"))
MANY = int(os.environ.get("SENDTWICE_PLANS", "0"))
SEED = int(os.environ.get("SENDTWICE_PLANS_SEED") or random.randrange(2**32))
USUAL = 8
#: Plans after which a target is started afresh: a history that grows for ever makes every later plan slower.
FRESH_AFTER = 300
#: Plays that go into making a broken plan smaller, and how often it is played again before it is believed.
SMALLER, AGAIN = 120, 5
#: Flaws that show in what plans are made of, and how many plans may pass until one does.
FLAWED = (
    "answers-before-sending",
    "batch-repeats-send",
    "bricks-the-key",
    "check-then-send",
    "conflict-spoils-the-key",
    "crashes-on-race",
    "dedupes-content",
    "frees-on-hang-up",
    "hashes-the-date",
    "new-id-on-replay",
    "no-fingerprint",
    "one-space-for-all",
    "queue-drops",
    "resends-blindly",
    "sends-other-body",
    "stores-refusals",
)
UNTIL_FOUND = 250


class FoundError(AssertionError):
    """A plan after which the judge has something to say."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """These targets do at once what they will ever do: a retry that is told to wait need not go on for long."""
    impatient(monkeypatch)


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "FINISH_IN_DOUBT", 0.1)
    monkeypatch.setattr(finish, "FINISH_FOR", 0.6)


@dataclass
class Ground:
    """A target that plans are played on, one by one, by a test that is not asynchronous."""

    target_file: Path
    logs: Path
    loop: asyncio.Runner
    sound: bool = True
    target: TargetBody = field(init=False)
    contract: Contract = field(init=False)
    stage: Stage | None = None
    played: list[Played] = field(default_factory=list)  # on this stage
    plays: int = 0
    shown: int = 0

    def __post_init__(self) -> None:
        target, path = load(str(self.target_file))
        self.target, self.contract = target.target, effective_contract(target, path.parent)
        if not self.sound:
            # What is lost is awaited in every plan that loses something.
            timing = self.target.timing.model_copy(update={"delivers_within": 1.0})
            self.target = self.target.model_copy(update={"timing": timing})
        if any(process.command[0] == "node" for process in self.target.processes):
            require("node", "this target is written in JavaScript")

    def play(self, plan: Scenario) -> Played:
        """Play one plan, on a fresh target when this one has had enough."""
        if self.stage is not None and len(self.played) >= FRESH_AFTER:
            self.end()
        if self.stage is None:
            self.stage = Stage(Bench(self.target, self.contract, self.target_file.parent, self.logs))
            self.loop.run(self.stage.start())
        self.plays += 1
        try:
            played = self.loop.run(self.stage.play(plan))
        except HarnessError as error:
            self.loop.run(self.stage.stop())
            self.stage, self.played = None, []
            raise AssertionError(f"{error}; it was playing:\n{written(plan)}") from error
        self.played.append(played)
        self.shown += played.shows
        return played

    def end(self) -> None:
        """See what comes late, and end the target."""
        if self.stage is None:
            return
        stage, self.stage = self.stage, None
        before, self.played = self.played, []
        late: list[Played] = []
        try:
            if self.sound:
                self.loop.run(stage.watch(0.3))
                again = [stage.judged(played.scenario) for played in before]
                late = [new for old, new in zip(before, again, strict=True) if new.broken and not old.broken]
        finally:
            self.loop.run(stage.stop())
        assert not late, "something came late:\n" + "\n".join(told(played) for played in late)


@contextmanager
def ground(target_file: Path, logs: Path, *, sound: bool = True) -> Iterator[Ground]:
    with asyncio.Runner() as loop:
        played_on = Ground(target_file, logs, loop, sound)
        try:
            yield played_on
        finally:
            played_on.end()


def written(plan: Scenario) -> str:
    """Return a plan as a scenario file."""
    text: str = yaml.safe_dump(_plain(as_document(plan)), sort_keys=False, allow_unicode=True, width=110)
    return text


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _plain(item) for name, item in data.items()}
    return [_plain(item) for item in data] if isinstance(data, list | tuple) else data


def told(played: Played) -> str:
    findings = [f"# {f.level.value} {f.rule} {f.operation or ''}: {f.message}" for f in played.judgement.findings]
    return "\n".join([written(played.scenario), *findings])


def search(
    on: Ground, plays: int, wanted: Callable[[Played], bool], *, repeatable: bool = True, shrink: bool = True
) -> tuple[Played | None, int]:
    """Draw plans until one shows what is wanted; return the smallest such, and after how many it was first found."""
    found: list[Played] = []
    first = 0

    @settings(
        max_examples=plays,
        deadline=None,
        database=None,
        derandomize=repeatable,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(plan=plans(on.target, on.contract))
    def draw(plan: Scenario) -> None:
        nonlocal first
        if found and on.plays >= first + SMALLER:
            return
        played = on.play(plan)
        if wanted(played):
            first = first or on.plays
            found.append(played)
            raise FoundError

    try:
        draw() if repeatable else seed(SEED)(draw)()
    except BaseException:  # what was found, or Hypothesis' complaint that it does not show each time
        if not found:
            raise
    return min(found, key=lambda played: len(written(played.scenario)), default=None), first


def broken(played: Played) -> bool:
    return bool(played.broken)


@pytest.mark.parametrize("target_file", EMULATED, ids=lambda path: path.stem)
@pytest.mark.timeout(0 if MANY else 120)
def test_no_plan_finds_anything_at_an_emulated_contract(target_file: Path, tmp_path: Path) -> None:
    with ground(target_file, tmp_path) as on:
        found, after = search(on, MANY or USUAL, broken, repeatable=not MANY)
        if found is not None:
            again = sum(broken(on.play(found.scenario)) for _ in range(AGAIN))
            pytest.fail(
                f"found after {after} plans; this one showed it again in {again} of {AGAIN} plays"
                f"{f' (seed {SEED})' if MANY else ''}\n{told(found)}",
                pytrace=False,
            )
        assert on.shown > on.plays / 3, f"only {on.shown} of {on.plays} plans could have shown anything"
        print(f"{on.plays} plans, {on.shown} conclusive, seed {SEED if MANY else 'fixed'}")  # noqa: T201  # pytest -s shows it


@pytest.mark.parametrize("name", FLAWED)
def test_some_plan_finds_the_flaw(name: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    folder = ROOT / "tests" / "flawed" / name
    rule = tomllib.loads((folder / "flaw.toml").read_text("utf-8"))["rule"]
    with ground(folder / "target.toml", tmp_path, sound=False) as on:
        found, after = search(on, UNTIL_FOUND, lambda played: rule in {f.rule for f in played.broken}, shrink=False)
        assert found is not None, f"{on.plays} plans showed nothing of {rule}"
        record_property("plans", after)
        print(f"{name}: {rule} after {after} plans\n{told(found)}")  # noqa: T201  # pytest -s shows it


@pytest.mark.parametrize("target_file", EMULATED, ids=lambda path: path.stem)
def test_whatever_is_drawn_is_a_scenario_file_that_its_target_can_play(target_file: Path) -> None:
    target, path = load(str(target_file))
    contract = effective_contract(target, path.parent)

    @settings(max_examples=40, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(plan=plans(target.target, contract))
    def draw(plan: Scenario) -> None:
        assert parse(written(plan)) == plan
        assert missing(plan, target.target, contract) == []

    draw()
