"""One scenario after another on a bench that stays open: where drawn, enumerated and shrunk plans are played.

A session starts a target for a list that it knows beforehand. A search does not know its next plan before it has the
verdict on the last one. The history goes on from plan to plan, as in a session: each has keys, operations and
recipients of its own, and a mail that comes late still finds the plan that it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness import canary
from sendtwice.harness.bench import Bench
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import Finding, Judgement, judge
from sendtwice.harness.runner import Play
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.steps import CrashStep


@dataclass(frozen=True, slots=True)
class Played:
    """A plan under the name that it was played by, and what the judge says of it."""

    scenario: Scenario
    judgement: Judgement

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that a sound target cannot have."""
        return tuple(f for f in self.judgement.findings if f.level is Level.MUST)

    @property
    def shows(self) -> bool:
        """Whether a pass means anything: every fault fired, and what was meant to overlap did."""
        return not (self.judgement.voids or self.judgement.absent)


class Playground:
    """A running target to play on."""

    def __init__(self, bench: Bench) -> None:
        """Nothing is started yet."""
        self.bench = bench
        self.played: list[Played] = []

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
        strays = [e for e in recorder.of(None) if e.kind is Kind.STRAY]
        return canary.complaint(recorder.of("canary"), strays, role)

    async def play(self, scenario: Scenario) -> Played:
        """Play a plan under a name of its own, and judge it."""
        named = scenario.model_copy(update={"id": f"{scenario.id}.{len(self.played) + 1}"})
        try:
            await self._play(named)
        finally:
            # A plan that came to its end between the two must not leave the next one without a target.
            for step in named.steps:
                if isinstance(step, CrashStep):
                    await self.bench.launcher.restart(step.crash)
        played = Played(named, self._judged(named))
        self.played.append(played)
        return played

    async def watch(self, seconds: float) -> list[Played]:
        """Wait for what may come late, send a sentinel, and return the plans that look worse than before."""
        # Nothing can be awaited here but time: the question is whether something will not happen.
        await self.bench.provider.ledger.wait(lambda: False, timeout=seconds)
        await self._play(canary.plain_mail("sentinel", self.bench.target.role))
        again = [Played(before.scenario, self._judged(before.scenario)) for before in self.played]
        worse = [after for before, after in zip(self.played, again, strict=True) if after.broken and not before.broken]
        self.played = again
        return worse

    async def stop(self) -> None:
        """End the target and its provider."""
        await self.bench.stop()

    async def _play(self, scenario: Scenario) -> None:
        self.bench.current = scenario.id
        try:
            await Play(self.bench, scenario).run()
            self.bench.check_alive()
        finally:
            self.bench.current = None

    def _judged(self, scenario: Scenario) -> Judgement:
        bench = self.bench
        return judge(
            bench.contract,
            bench.recorder.of(scenario.id),
            role=bench.target.role,
            approval=bench.approval,
            lease=bench.target.timing.lease,
        )
