"""The search: which plan is played next, what is believed, and when it is over.

First the plan without faults, twice: what crossed the wires in both plays are the points. Then every deed at every
point; what a deed brings forth (the target's own second try, what it asks its store on a retry) is a point of the
second round, in which every plan of the first is followed by one more deed. Two plans of the first round that looked
alike from outside left the target in the same state, so only one of them is followed.

What breaks a promise is played again before it is believed, and then made smaller.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sendtwice.harness import side_by_side
from sendtwice.harness.bench import unheld
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.explore import deeds, points
from sendtwice.harness.explore.coverage import State
from sendtwice.harness.explore.deeds import ORDER, How
from sendtwice.harness.explore.events import Ended, Event, PassEnded, Progress, Started, Subscriber
from sendtwice.harness.explore.pace import Pace
from sendtwice.harness.explore.plans import Move, Plan, Writer
from sendtwice.harness.explore.points import Point
from sendtwice.harness.explore.result import AGAIN, Counterexample, Result
from sendtwice.harness.explore.smaller import smaller
from sendtwice.harness.explore.stage import Played, Stage
from sendtwice.harness.judge import Finding
from sendtwice.harness.needs import missing
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.target import Known

#: So many plans are played before late mails are watched for, and their histories forgotten.
ROUND = 500
_UNFIRED = "never fired"
_ANSWERED_ALREADY = "the target answered while the message was held, so no other attempt could meet it in flight"
#: How often a plan is played again whose fault was not met.
_MORE = 2


@dataclass(frozen=True, slots=True)
class Settings:
    """One exploration's choices: ``budget`` and ``watch`` in seconds, ``deeds`` one or two, ``jobs`` side by side."""

    budget: float | None = None
    deeds: int = 2
    jobs: int = 16
    watch: float = 1.0
    reports: Path | None = None  # where counterexamples are saved
    known: tuple[Known, ...] = ()  # deviations that the target file accepts


class Explorer:
    """One exploration of one target."""

    def __init__(self, stage: Stage, settings: Settings, subscribers: Sequence[Subscriber] = ()) -> None:
        """Nothing is started yet."""
        self.stage, self.settings, self._subscribers = stage, settings, subscribers
        self.writer = Writer(stage.bench.target, stage.bench.contract)
        self.result = Result()
        self._followed: dict[object, tuple[Plan, tuple[Point, ...]]] = {}  # by trace: what the second pass goes on from
        self._pace = Pace(settings.jobs)

    async def run(self) -> Result:
        """Explore; errors of the harness end in the result."""
        try:
            await self.stage.start()
            try:
                await self._explore()
            finally:
                self.result.seconds = self.stage.bench.recorder.now()
                self._name_smallest()
                await self.stage.stop()
        except HarnessError as failed:
            self.result.error = str(failed)
        except asyncio.CancelledError:
            self.result.error = "interrupted"
            self._tell(Ended(self.result))
            raise
        self._tell(Ended(self.result))
        return self.result

    async def _explore(self) -> None:
        found = await self._points()
        if not self.result.broken:
            todo = self._written([Plan((Move(point, deed),)) for point in found for deed in deeds.at(point)])
            self._tell(Started(tuple(found), len(todo)))
            await self._pass(todo, 1)
        if self.settings.deeds > 1 and not self.result.broken and self.result.complete[0]:
            await self._pass(self._written(self._pairs()), 2)
        await self._make_smaller()

    async def _points(self) -> list[Point]:
        """Play the plan without faults, and return what crossed the wires each time."""
        plays: list[Played] = []
        for _ in range(3):
            plain = self.writer.scenario(Plan(), 0)
            played = await self.stage.play(plain)
            if self._broken(played):
                await self._doubt(Plan(), plain, played)
            self.stage.bench.learn(played.scenario.id)
            self.stage.forget(played)
            if self.result.broken:
                return []
            if not plays:  # the first one only tells how the target works
                self.writer = replace(self.writer, queued=points.queued(played.history))
            plays.append(played)
        for played in plays[1:]:
            if not played.shows:
                reason = [*played.judgement.absent, *played.judgement.voids][0]
                raise HarnessError(f"the plan without faults shows nothing, so there is nothing to explore: {reason}")
        for store in self.stage.bench.unused_stores:
            raise HarnessError(unheld(store))
        first, second = (points.found(played.history) for played in plays[1:])
        self.result.coverage.unstable = [p for p in dict.fromkeys([*first, *second]) if (p in first) != (p in second)]
        return [p for p in dict.fromkeys(first) if p in second and p.attempt in self.writer.attempts]

    def _pairs(self) -> Iterator[Plan]:
        """Every plan of the first pass that held, with one more deed at a point that comes after its own."""
        seen: set[frozenset[Move]] = set()
        for plan, after in self._followed.values():
            for point in after:
                # One message meets one fault.
                if point.attempt not in self.writer.attempts or any(move.point == point for move in plan.moves):
                    continue
                for deed in deeds.at(point):
                    pair = Plan((*plan.moves, Move(point, deed)))
                    moves = frozenset(pair.moves)
                    if len(moves) == len(pair.moves) and moves not in seen:
                        seen.add(moves)
                        yield pair

    def _written(self, plans: Iterable[Plan]) -> list[tuple[Plan, Scenario]]:
        """Return the plans that can be played here, and note each, in the table's order."""
        todo: list[tuple[Plan, Scenario]] = []
        target, contract = self.stage.bench.target, self.stage.bench.contract
        for number, plan in enumerate(plans, 1):
            reason = next((why for move in plan.moves if (why := self.writer.unfit(move))), None)
            if reason is None:
                scenario = self.writer.scenario(plan, number)
                reason = next(iter(missing(scenario, target, contract)), None)
                if reason is None:
                    todo.append((plan, scenario))
            state = State.NOT_PLAYED if reason is None else State.NOT_APPLICABLE
            self.result.coverage.put(plan.moves, state, reason)
        return sorted(todo, key=lambda one: max(ORDER.index(move.deed.how) for move in one[0].moves))

    # -- a pass ------------------------------------------------------------------------------------------------------

    async def _pass(self, todo: Sequence[tuple[Plan, Scenario]], number: int) -> None:
        # Whose a message to a store is, nobody knows of plans that are played side by side; what follows must know.
        alone = bool(self.stage.bench.target.store) and number < self.settings.deeds
        jobs = 1 if alone else self.settings.jobs
        self._pace.begin(side_by_side.split([scenario for _, scenario in todo], jobs=jobs))
        for start in range(0, len(todo), ROUND):
            await self._round(todo[start : start + ROUND], jobs)
            if self._enough():
                break
        complete = self.result.coverage.complete if number == 1 else self.result.coverage.all_played
        self.result.complete = (complete, False) if number == 1 else (self.result.complete[0], complete)
        self._tell(PassEnded(number, self.result.coverage))

    async def _round(self, todo: Sequence[tuple[Plan, Scenario]], jobs: int) -> None:
        """Play some plans side by side, and one by one what cannot be, or showed nothing so."""
        plans = {scenario.id: plan for plan, scenario in todo}
        suspects: list[tuple[Scenario, Played]] = []
        doubtful: list[Scenario] = []
        names: dict[str, Scenario] = {}

        async def one(scenario: Scenario, *, alone: bool) -> None:
            plan = plans[scenario.id]
            started = self.stage.bench.recorder.now()
            try:
                played = await self.stage.play(scenario)
                names[played.scenario.id] = scenario
                for _ in range(_MORE if alone else 0):
                    if not _unreached(played) or self._broken(played) or self._enough():
                        break
                    # What crosses the wires may differ a little from play to play.
                    self.stage.forget(played)
                    played = await self.stage.play(scenario)
                    names[played.scenario.id] = scenario
            except HarnessError as failed:
                beside = "" if alone else ", among others"
                raise HarnessError(f"{failed}; this was being played{beside}: {plan}") from None
            self._pace.played(self.stage.bench.recorder.now() - started, alone=alone)
            if self._broken(played):
                suspects.append((scenario, played))
                return
            self.stage.forget(played)
            if not played.shows and not alone:
                self._pace.again()
                doubtful.append(scenario)
                return
            self._settled(plan, played, alone=alone)

        async def doubt(*, alone: bool) -> None:
            for scenario, played in suspects:
                state, reason = await self._doubt(plans[scenario.id], scenario, played)
                self._ended(plans[scenario.id], state, reason, alone=alone)
            suspects.clear()

        async def by_itself(some: Sequence[Scenario]) -> None:
            for scenario in some:
                if self._enough():
                    break
                await one(scenario, alone=True)
                await doubt(alone=True)

        together, lonely = side_by_side.split([scenario for _, scenario in todo], jobs=jobs)
        # A race at the store is what most are looking for.
        races = [scenario for scenario in lonely if _is_race(plans[scenario.id])]
        await by_itself(races)
        try:
            await side_by_side.play(together, lambda s: one(s, alone=False), jobs=jobs, stop=self._enough)
        except* HarnessError as group:
            raise group.exceptions[0] from None
        await doubt(alone=False)
        await by_itself([*doubtful, *(scenario for scenario in lonely if not _is_race(plans[scenario.id]))])
        for name in await self.stage.watch(self.settings.watch):
            if name in names:
                await self._reopened(plans[names[name].id], names[name])

    def _settled(self, plan: Plan, played: Played, *, alone: bool) -> None:
        """Note what came of a plan that broke nothing."""
        voids = [*played.judgement.absent, *played.judgement.voids]
        if played.shows:
            state = State.HELD
            if len(plan.moves) < self.settings.deeds:
                self._follow(plan, played)
        elif _unreached(played):
            state = State.NOT_REACHED
        elif played.judgement.absent:
            # The message was held, and its attempt answered before another could meet it.
            past_lease = any(move.deed.how is How.PAST_LEASE for move in plan.moves)
            state = State.HELD if past_lease else State.NOT_APPLICABLE
            voids = [] if past_lease else [_ANSWERED_ALREADY]
        else:
            state = State.INCONCLUSIVE
        self._ended(plan, state, voids[0] if voids else None, alone=alone)

    def _follow(self, plan: Plan, played: Played) -> None:
        """Go on from a plan in the second pass; of those that look alike, from the one after which more comes."""
        after = tuple(dict.fromkeys(points.found(played.history, since=points.touched(played.history))))
        trace = points.trace(played.history)
        if trace not in self._followed or len(self._followed[trace][1]) < len(after):
            self._followed[trace] = (plan, after)

    def _ended(self, plan: Plan, state: State, reason: str | None, *, alone: bool) -> None:
        self.result.plans += 1
        self.result.coverage.put(plan.moves, state, reason)
        self._pace.done(alone=alone)
        self._tell(Progress(plan, state, self.result.plans, self._pace.left, self._pace.seconds))

    async def _reopened(self, plan: Plan, scenario: Scenario) -> None:
        """Play a plan again that had a late mail, and watch it for longer."""
        if plan in (*self.result.doubted, *(example.plan for example in self.result.broken)):
            return
        played = await self._patiently(scenario)
        if self._broken(played):
            state, reason = await self._doubt(plan, scenario, played, late=True)
            self.result.coverage.put(plan.moves, state, reason)

    async def _patiently(self, scenario: Scenario) -> Played:
        """Play a plan, and judge it when what may come late has come."""
        played = await self.stage.play(scenario)
        await self.stage.watch(self.settings.watch)
        played = self.stage.judged(played.scenario, seconds=played.seconds)
        self.stage.forget(played)
        return played

    # -- what is believed --------------------------------------------------------------------------------------------

    async def _doubt(self, plan: Plan, scenario: Scenario, played: Played, *, late: bool = False) -> tuple[State, str]:
        """Play a plan that broke a promise again: what does not happen again is not reported."""
        play = self._patiently if late else self.stage.play
        rule = self._broken(played)[0].rule
        again = [await play(scenario) for _ in range(AGAIN)]
        same = [one for one in again if any(found.rule == rule for found in one.broken)]
        for one in (played, *again):
            self.stage.forget(one)
        if not same:
            self.result.doubted.append(plan)
            return State.INCONCLUSIVE, f"{rule} was broken once, and not in {AGAIN} more plays"
        finding = next(found for found in same[0].broken if found.rule == rule)
        example = Counterexample(plan, scenario, same[0], finding, len(same))
        self.result.broken.append(example)
        self._tell(example)
        return State.BROKEN, finding.message

    async def _make_smaller(self) -> None:
        """Leave out of the plainest counterexample of each rule what it does not need."""
        for example in self.result.smallest:
            rule = example.finding.rule
            scenario, shown = await smaller(self.stage, example.scenario, example.played, rule)
            finding = next(found for found in shown.broken if found.rule == rule)
            place = self.result.broken.index(example)
            self.result.broken[place] = replace(example, scenario=scenario, played=shown, finding=finding)

    def _name_smallest(self) -> None:
        """Say where the plainest counterexample of each rule is saved."""
        for example in self.result.smallest:
            scenario = example.scenario.model_copy(update={"id": f"explore.{example.finding.rule}"})
            replay = str(self.settings.reports / f"{scenario.id}.yaml") if self.settings.reports else None
            place = self.result.broken.index(example)
            self.result.broken[place] = replace(example, scenario=scenario, replay=replay)

    def _broken(self, played: Played) -> list[Finding]:
        """Return what a plan broke and the target file does not accept."""
        return [
            found for found in played.broken if not any(self._accepts(known, found) for known in self.settings.known)
        ]

    def _accepts(self, known: Known, found: Finding) -> bool:
        in_time = known.until is None or known.until >= dt.datetime.now(dt.UTC).date()
        return in_time and known.rule == found.rule and fnmatch.fnmatchcase(f"explore.{found.rule}", known.scenario)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _enough(self) -> bool:
        budget = self.settings.budget
        return budget is not None and self.stage.bench.recorder.now() > budget

    def _tell(self, event: Event) -> None:
        for subscriber in self._subscribers:
            subscriber(event)


def _is_race(plan: Plan) -> bool:
    return all(move.deed.how in (How.PREEMPT, How.PREEMPT_OTHER) for move in plan.moves)


def _unreached(played: Played) -> bool:
    return any(_UNFIRED in reason for reason in played.judgement.voids)
