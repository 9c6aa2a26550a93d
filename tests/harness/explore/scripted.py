"""A stage on which nothing runs: what a plan shows is written in a script, and time passes as it says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.bench import Bench
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.explore.events import Event
from sendtwice.harness.explore.explorer import Explorer, Settings
from sendtwice.harness.explore.result import Result
from sendtwice.harness.explore.stage import Played, Stage
from sendtwice.harness.history import Event as Seen
from sendtwice.harness.history import Kind, Recorder
from sendtwice.harness.judge import Finding, Judgement
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.steps import SendStep
from sendtwice.harness.target import TargetBody
from tests.harness.explore.wires import Wires

RULE = "at-most-once"
FINE = Judgement()


def broken(*rules: str) -> Judgement:
    """The judge's words on a history that breaks these rules, or the usual one."""
    said = "first: 2 mails were delivered where one is allowed"
    return Judgement(
        tuple(Finding(rule, Level.MUST, said, "claim the key first", (1,), "first") for rule in rules or (RULE,))
    )


class Clock(Recorder):
    """A recorder whose time stands still."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def now(self) -> float:
        return self.time


def usual(scenario: Scenario, *, status: int = 200, stores: bool = False) -> list[Seen]:
    """What a target shows that hands over once, and answers each attempt; a fault fires before it is asked."""
    wires = Wires()
    for step in scenario.steps:
        if not isinstance(step, SendStep):
            continue
        name = step.send.name
        operation = step.send.op or "first"
        wires.begin(name, operation)
        for _ in step.send.at:
            wires.note(Kind.FIRED, operation, name)
        wires.ask(name)
        if stores:
            wires.query("cache", "GET ?", "(nil) for GET ?")
        if name == "first":
            wires.hand_over()
        wires.end(name, status=status)
    return wires.events


@dataclass
class Script:
    """What is to be seen. `judges` gets a scenario and how often its plan was played before, and so do the others."""

    judges: Callable[[Scenario, int], Judgement] = lambda scenario, before: FINE
    shows: Callable[[Scenario, int], Sequence[Seen]] = lambda scenario, before: usual(scenario)
    takes: Callable[[Scenario], float] = lambda scenario: 0.0
    late: Callable[[int], Sequence[str]] = lambda watch: ()  # titles that a watch finds more mails of
    judges_late: Callable[[Scenario], Judgement] = lambda scenario: FINE  # after a watch
    fails: Callable[[Scenario, int], str | None] = lambda scenario, before: None
    starts: str | None = None  # why the target does not


class ScriptedStage(Stage):
    """Plays what is written."""

    def __init__(self, script: Script, folder: Path, *, contract: str = "universal", **target: Any) -> None:
        given = {"api": {"url": "http://127.0.0.1:{port}"}, "start": {"command": ["target"]}, **target}
        super().__init__(Bench(TargetBody.model_validate(given), contracts.load(contract), folder, folder / "logs"))
        self.bench.recorder = self.clock = Clock()
        self.script = script
        self.titles: list[str] = []  # of all that was played
        self.together: list[int] = []  # how many were being played when each began
        self.names: dict[str, str] = {}  # of this round, and their titles
        self.watched: list[float] = []
        self.started = self.stopped = 0
        self.kept: set[str] = set()
        self._before: Counter[str] = Counter()
        self._playing = 0

    async def start(self) -> None:
        self.started += 1
        if self.script.starts is not None:
            raise HarnessError(self.script.starts)

    async def play(self, scenario: Scenario) -> Played:
        before = self._before[scenario.title]
        self._before[scenario.title] += 1
        self.titles.append(scenario.title)
        self._playing += 1
        self.together.append(self._playing)
        try:
            await asyncio.sleep(0)
            self.clock.time += self.script.takes(scenario) / self._playing
            failure = self.script.fails(scenario, before)
            if failure is not None:
                raise HarnessError(failure)
        finally:
            self._playing -= 1
        self.count += 1
        named = scenario.model_copy(update={"id": f"{scenario.id}.{self.count}"})
        self.names[named.id] = scenario.title
        self.kept.add(named.id)
        return Played(named, self.script.judges(scenario, before), tuple(self.script.shows(scenario, before)))

    def judged(self, scenario: Scenario, *, seconds: float = 0.0) -> Played:
        return Played(scenario, self.script.judges_late(scenario), tuple(usual(scenario)), seconds)

    def forget(self, played: Played) -> None:
        self.kept.discard(played.scenario.id)

    async def watch(self, seconds: float) -> Sequence[str]:
        self.watched.append(seconds)
        titles = self.script.late(len(self.watched))
        late = [name for name, title in self.names.items() if title in titles and name not in self.kept]
        self.names.clear()
        return late

    async def stop(self) -> None:
        self.stopped += 1


@dataclass
class Explored:
    """An exploration of a script: what it came to, and all that was told."""

    result: Result
    stage: ScriptedStage
    told: list[Event] = field(default_factory=list)

    def all(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]


def explored(
    script: Script, folder: Path, *, contract: str = "universal", target: Any = None, **settings: Any
) -> Explored:
    """Explore a script to its end."""
    stage = ScriptedStage(script, folder, contract=contract, **(target or {}))
    told: list[Event] = []
    given = {"deeds": 1, "reports": folder, **settings}
    result = asyncio.run(Explorer(stage, Settings(**given), [told.append]).run())
    return Explored(result, stage, told)
