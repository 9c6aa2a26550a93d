"""A running target to play plans on, one after another or side by side, for as long as one likes.

A session is given its scenarios beforehand; a search does not know its next plan before it has the verdict on the
last. The history of a plan that was judged is forgotten, so that a search of many thousands costs no more memory than
one of a few. Its operations are remembered until the watch at the end of a round: a mail that comes late still finds
its plan, which is then played again by itself and watched for longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness import canary
from sendtwice.harness.bench import Bench
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge import Finding, Judgement, judge
from sendtwice.harness.runner import Play
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.steps import CrashStep, StopStep


@dataclass(frozen=True, slots=True)
class Played:
    """A plan under the name that it was played by, what was seen, and what the judge says of it."""

    scenario: Scenario
    judgement: Judgement
    history: tuple[Event, ...] = ()
    seconds: float = 0.0

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that a sound target cannot have."""
        return tuple(f for f in self.judgement.findings if f.level is Level.MUST)

    @property
    def shows(self) -> bool:
        """Whether a pass means anything: every fault fired, and what was meant to overlap did."""
        return not (self.judgement.voids or self.judgement.absent)


class Stage:
    """A target that was started for playing."""

    def __init__(self, bench: Bench) -> None:
        """Nothing is started yet."""
        self.bench = bench
        self.count = 0
        self._judged_away: set[str] = set()  # plans of this round whose history is forgotten

    async def start(self) -> None:
        """Start the target and send the canary; :class:`HarnessError` when nothing should be played here."""
        try:
            await self.bench.start()
            complaint = await self._canary()
        except BaseException:
            await self.bench.stop()
            raise
        if complaint is not None:
            await self.bench.stop()
            raise HarnessError(complaint)

    async def _canary(self) -> str | None:
        role, recorder = self.bench.target.role, self.bench.recorder
        await self._play(canary.plain_mail("canary", role))
        self.bench.learn("canary")
        strays = [e for e in recorder.of(None) if e.kind is Kind.STRAY]
        complaint = canary.complaint(recorder.of("canary"), strays, role, self.bench.counting.uncounted)
        if complaint is None:
            await self.bench.counting.check_impartial()
        return complaint

    async def play(self, scenario: Scenario) -> Played:
        """Play a plan under a name of its own, and judge it; what was recorded of it stays until it is forgotten."""
        self.count += 1
        named = scenario.model_copy(update={"id": f"{scenario.id}.{self.count}"})
        started = self.bench.recorder.now()
        try:
            await self._play(named)
        finally:
            # A plan that came to its end between the two must not leave the next one without a target.
            for step in named.steps:
                if isinstance(step, CrashStep | StopStep):
                    await self.bench.launcher.restart(step.crash if isinstance(step, CrashStep) else step.stop)
        return self.judged(named, seconds=self.bench.recorder.now() - started)

    def judged(self, scenario: Scenario, *, seconds: float = 0.0) -> Played:
        """Judge what was recorded of a plan so far."""
        bench = self.bench
        events = tuple(bench.recorder.of(scenario.id))
        judgement = judge(
            bench.contract,
            events,
            role=bench.target.role,
            approval=bench.approval,
            lease=bench.target.timing.lease,
            max_attempts=bench.target.max_attempts,
            attempt_timeout=bench.target.timing.attempt_timeout,
        )
        return Played(scenario, judgement, events, seconds)

    def forget(self, played: Played) -> None:
        """Forget what was recorded of a plan that is judged."""
        self.bench.recorder.forget(played.scenario.id)
        self._judged_away.add(played.scenario.id)

    async def watch(self, seconds: float) -> Sequence[str]:
        """Wait for what may come late, send a sentinel, end the round; return the forgotten plans that had more."""
        # Nothing can be awaited here but time: the question is whether something will not happen.
        await self.bench.provider.ledger.wait(lambda: False, timeout=seconds)
        await self._play(canary.plain_mail("sentinel", self.bench.target.role))
        await self.bench.counting.everything()
        recorder = self.bench.recorder
        late = [name for name in self._judged_away if any(e.kind is Kind.DELIVERY for e in recorder.of(name))]
        for name in (*self._judged_away, "canary", "sentinel", None):
            recorder.forget(name)
        self.bench.attribution.forget({*self._judged_away, "canary", "sentinel"})
        self.bench.forget()
        self._judged_away.clear()
        return late

    async def stop(self) -> None:
        """End the target and its provider."""
        await self.bench.stop()

    async def _play(self, scenario: Scenario) -> None:
        self.bench.playing.add(scenario.id)
        try:
            await Play(self.bench, scenario).run()
            self.bench.check_alive()
        finally:
            self.bench.playing.discard(scenario.id)
