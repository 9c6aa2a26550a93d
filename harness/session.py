"""A whole run: canary, scenarios, and the watch at its end that makes "never twice" final.

What must happen is awaited while a scenario is played. What must never happen is provisional until the end of the
run: then the target's own retries are waited out, a last sentinel mail is sent, and every scenario is judged again
on everything that was seen, late deliveries included.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import fnmatch
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import sendtwice
from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import Contract, Level
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness import bench, canary, mails, side_by_side
from sendtwice.harness.bench import Bench
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.events import (
    RunEnded,
    RunStarted,
    ScenarioEnded,
    ScenarioReopened,
    ScenarioStarted,
    Subscriber,
    Watching,
)
from sendtwice.harness.fault_specs import STORE, FaultSpec
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import Finding, judge
from sendtwice.harness.judge.facts import Facts
from sendtwice.harness.launch import MakeLauncher
from sendtwice.harness.mails import Mails
from sendtwice.harness.needs import missing, unplayable
from sendtwice.harness.operations import Perform
from sendtwice.harness.result import RunResult, ScenarioResult, Verdict
from sendtwice.harness.runner import Play
from sendtwice.harness.scenario import Scenario, under
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import Known, Target
from sendtwice.harness.target_checks import check_remote

#: A scenario's usual time, for the estimate in the first line; one with a restart takes longer.
_USUAL, _RESTART = 0.15, 0.9
#: What may be found of a target only because it had other things to do; found alone, it counts.
_HURRIED = {"progress", "no-lost-send"}


class Session:
    """One run on one target."""

    def __init__(
        self,
        target: Target,
        target_path: Path,
        scenarios: Sequence[Scenario],
        settings: RunSettings,
        subscribers: Sequence[Subscriber] = (),
        *,
        perform: Perform | None = None,
        launcher: MakeLauncher | None = None,
    ) -> None:
        """Read the contract; nothing is started.

        ``perform`` is a target of role client in this process; ``launcher`` makes what serves one of another role.
        """
        self.target, self.path, self.settings = target, target_path, settings
        self.subscribers = subscribers
        folder = target_path.parent
        self.contract: Contract = effective_contract(target, folder, settings.contract)
        check_remote(target, target_path, settings.allow_remote)
        broken = unplayable(target.target, folder)
        if broken is not None:
            raise BadFileError(str(target_path), broken)
        self.started = dt.datetime.now(dt.UTC)
        self.bench = Bench(target.target, self.contract, folder, settings.output, perform, launcher=launcher)
        if target.target.mails == "varied":
            self.bench.mails = Mails(settings.seed)
        self.chosen: list[Scenario] = []
        self.skipped: list[ScenarioResult] = []
        for scenario in under(self.contract, scenarios):
            needs = missing(scenario, target.target, self.contract)
            if not needs:
                self.chosen.append(scenario)
            else:
                self.skipped.append(
                    ScenarioResult(scenario.id, scenario.title, Verdict.SKIPPED, needs[0], tuple(needs))
                )
        self.results: dict[str, ScenarioResult] = {}
        self.seconds: dict[str, float] = {}
        self.ended_at: dict[str, float] = {}
        self.observed: dict[str, str] = {}
        self.aside: dict[str, str] = {}  # what was played beside others, showed nothing, and was played again

    # -- the run -----------------------------------------------------------------------------------------------------

    async def run(self) -> RunResult:
        """Play everything; errors of the harness end in the result, never in a traceback."""
        error: str | None = None
        watched = 0.0
        try:
            try:
                await self.bench.start()
                await self.canary()
                await self.try_mails()
                self._leave_out_unheld_stores()
                await self._play_all()
                watched = await self._watch()
            finally:
                await self.bench.stop()
        except HarnessError as failed:
            error = str(failed)
        except asyncio.CancelledError:
            self._tell(RunEnded(self._result("interrupted", watched)))
            raise
        self._judge_again()
        result = self._result(error, watched)
        self._tell(RunEnded(result))
        return result

    def _tell(self, event: object) -> None:
        for subscriber in self.subscribers:
            subscriber(event)  # type: ignore[arg-type]

    async def canary(self) -> None:
        """Send one plain mail before anything else; :class:`HarnessError` when it does not arrive as it should."""
        role = self.bench.target.role
        await self._played(canary.plain_mail("canary", role))
        self.bench.check_alive()
        events = self.bench.recorder.of("canary")
        strays = [e for e in self.bench.recorder.of(None) if e.kind is Kind.STRAY]
        complaint = canary.complaint(events, strays, role, self.bench.counting.uncounted)
        self.bench.learn("canary")
        if complaint is not None:
            kept = f" (in {self.settings.output})" if "output" in complaint and self.bench.target.started else ""
            raise HarnessError(complaint + kept)
        await self.bench.counting.check_impartial()

    async def try_mails(self) -> None:
        """Send one mail of each kind, where they are varied, and leave out what the target does not take."""
        varied = self.bench.mails
        if varied is None:
            return
        trials = {k: canary.plain_mail(mails.trial_of(k), self.bench.target.role) for k in varied.kinds()}
        strays = self.bench.announced.strays
        try:
            await side_by_side.play([*trials.values()], self._played, jobs=self.settings.jobs, stop=self._time_is_up)
        except* HarnessError as group:
            raise group.exceptions[0] from None
        self.bench.check_alive()
        strange = self.bench.announced.strays > strays
        for kind, trial in trials.items():
            if not canary.taken(self.bench.recorder.of(trial.id), told=not strange):
                varied.left_out.add(kind)
        if varied.left_out:
            names = ", ".join(sorted(varied.left_out))
            self.observed["mails"] = f"left out, for the target does not take them: {names}"

    def _leave_out_unheld_stores(self) -> None:
        """Skip what holds the wire of a store that the target does not use."""
        for scenario in list(self.chosen):
            reason = next((r for spec, _ in side_by_side.faults_of(scenario) if (r := self._unheld(spec))), None)
            if reason is not None:
                self.chosen.remove(scenario)
                self.skipped.append(ScenarioResult(scenario.id, scenario.title, Verdict.SKIPPED, reason, (reason,)))

    def _unheld(self, spec: FaultSpec) -> str | None:
        unused = self.bench.unused_stores
        if spec.crossing not in STORE or not unused:
            return None
        if spec.store not in unused and (spec.store is not None or len(unused) < len(self.bench.stores)):
            return None
        return bench.unheld(spec.store or unused[0])

    async def _play_all(self) -> None:
        together, alone = side_by_side.split(self.chosen, jobs=self.settings.jobs)
        restarts = sum("restart" in type(step).model_fields for scenario in alone for step in scenario.steps)
        expected = _USUAL * (len(together) / self.settings.jobs + len(alone)) + _RESTART * restarts
        watch = self._watch_for()
        self._tell(
            RunStarted(
                self.target.target.name,
                self.target.target.role,
                self.contract.name,
                tuple(self.chosen),
                tuple(self.skipped),
                expected + watch,
            )
        )
        try:
            await side_by_side.play(together, self._beside_others, jobs=self.settings.jobs, stop=self._enough)
        except* HarnessError as group:
            raise group.exceptions[0] from None
        for scenario in [*(one for one in together if one.id not in self.results), *alone]:
            if self._enough():
                break
            await self._by_itself(scenario)
        if self._time_is_up():
            self.skipped += [
                ScenarioResult(scenario.id, scenario.title, Verdict.SKIPPED, "the time limit was reached")
                for scenario in self.chosen
                if scenario.id not in self.results
            ]

    async def _beside_others(self, scenario: Scenario) -> None:
        """Play a scenario beside others; one that shows nothing may only have been in the way, and is played again."""
        self._begin(scenario)
        await self._played(scenario)
        result = self._judged(scenario)
        self.bench.check_alive()
        hurried = {finding.rule for finding in result.broken} <= _HURRIED
        if result.verdict in (Verdict.PASSED, Verdict.KNOWN) or (result.verdict is Verdict.FAILED and not hurried):
            self._end(result)
            return
        aside = f"{scenario.id}#beside-others"
        self.bench.recorder.set_aside(scenario.id, aside)
        self.bench.attribution.set_aside(scenario.id, aside)
        self.aside[scenario.id] = aside

    async def _by_itself(self, scenario: Scenario) -> None:
        self._begin(scenario)
        await self._played(scenario)
        self._end(self._judged(scenario))
        self.bench.check_alive()

    def _begin(self, scenario: Scenario) -> None:
        self._tell(ScenarioStarted(scenario, len(self.results) + 1, len(self.chosen)))

    def _end(self, result: ScenarioResult) -> None:
        self.results[result.id] = result
        self._tell(ScenarioEnded(result))

    def _enough(self) -> bool:
        """Whether nothing more is played."""
        failed = any(result.verdict is Verdict.FAILED for result in self.results.values())
        return self._time_is_up() or (self.settings.fail_fast and failed)

    def _time_is_up(self) -> bool:
        limit = self.settings.time_limit
        return limit is not None and self.bench.recorder.now() > limit

    async def _played(self, scenario: Scenario) -> None:
        self.bench.playing.add(scenario.id)
        started = self.bench.recorder.now()
        play = Play(self.bench, scenario)
        limit = self.settings.time_limit
        try:
            async with asyncio.timeout(None if limit is None else max(0.1, limit - started)):
                await play.run()
        except TimeoutError:
            play.record(Kind.VOID, reason="the time limit was reached while it was played")
        self.ended_at[scenario.id] = self.bench.recorder.now()
        self.seconds[scenario.id] = self.ended_at[scenario.id] - started
        self.bench.playing.discard(scenario.id)

    def _watch_for(self) -> float:
        declared = self.target.target.timing.retries_for
        seconds = declared if declared is not None else self.settings.watch
        if self.settings.time_limit is not None:
            seconds = min(seconds, max(0.0, self.settings.time_limit - self.bench.recorder.now()))
        return seconds

    async def _watch(self) -> float:
        """Wait out the target's own retries, then send a sentinel: what it overtook is late indeed."""
        seconds = self._watch_for()
        self._tell(Watching(seconds))
        started = self.bench.recorder.now()
        # Nothing can be awaited here but time: the question is whether something will not happen.
        await self.bench.provider.ledger.wait(lambda: False, timeout=seconds)
        self.bench.check_alive()
        await self._played(canary.plain_mail("sentinel", self.bench.target.role))
        await self.bench.counting.everything()
        return self.bench.recorder.now() - started

    # -- judging -----------------------------------------------------------------------------------------------------

    def _judged(self, scenario: Scenario, name: str | None = None) -> ScenarioResult:
        """Judge a scenario by what was recorded of it; ``name`` where that was set aside."""
        name = name or scenario.id
        events = self.bench.recorder.of(name)
        target = self.target.target
        judgement = judge(
            self.contract,
            events,
            role=target.role,
            approval=self.bench.approval,
            lease=target.timing.lease,
            max_attempts=target.max_attempts,
            attempt_timeout=target.timing.attempt_timeout,
        )
        self.observed.update(judgement.observed)
        findings = tuple(self._marked(scenario.id, f) for f in judgement.findings)
        facts = self.bench.facts(name)
        failed = [f for f in findings if f.level is Level.MUST and f.known is None]
        known = [f.known for f in findings if f.known is not None]
        unmet = self._unmet(scenario.id, findings) if self.settings.strict_known else None
        verdict, reason = Verdict.PASSED, None
        if failed:
            verdict, reason = Verdict.FAILED, failed[0].message
        elif unmet is not None:
            verdict, reason = Verdict.FAILED, unmet
        elif judgement.absent:
            verdict, reason = Verdict.SKIPPED, judgement.absent[0]
        elif judgement.voids:
            verdict, reason = Verdict.INCONCLUSIVE, judgement.voids[0]
        elif known:
            verdict, reason = Verdict.KNOWN, known[0]
        replay = None
        if verdict is Verdict.FAILED:
            replay = str(self.settings.replay_path(scenario.id))
        return ScenarioResult(
            scenario.id,
            scenario.title,
            verdict,
            reason,
            seconds=self.seconds.get(scenario.id, 0.0),
            watched=self.bench.recorder.now() - self.ended_at.get(scenario.id, self.bench.recorder.now()),
            deliveries={", ".join(op.name for op in ops): facts.count(group) for group, ops in facts.groups.items()},
            answers=_answers(facts),
            findings=findings,
            replay=replay,
            history=tuple(events),
        )

    def _marked(self, scenario: str, finding: Finding) -> Finding:
        """Return a finding with the reason for which the target file accepts it, if it does."""
        accepted = next((k for k in self.target.known if self._accepts(k, scenario, finding)), None)
        return finding if accepted is None else replace(finding, known=accepted.reason)

    def _unmet(self, scenario: str, findings: Sequence[Finding]) -> str | None:
        """Return why a known deviation of this scenario should be taken out of the target file: it did not happen."""
        for known in self.target.known:
            if fnmatch.fnmatchcase(scenario, known.scenario) and not any(f.rule == known.rule for f in findings):
                return f"the known deviation {known.rule} did not happen; take it out of the target file"
        return None

    def _accepts(self, known: Known, scenario: str, finding: Finding) -> bool:
        in_time = known.until is None or known.until >= self.started.date()
        return in_time and known.rule == finding.rule and fnmatch.fnmatchcase(scenario, known.scenario)

    def _judge_again(self) -> None:
        """Judge every scenario on all that was seen; a late delivery reopens it."""
        for scenario in self.chosen:
            before = self.results.get(scenario.id)
            if before is None:
                continue
            after = self._judged(scenario)
            late = self._judged(scenario, self.aside[scenario.id]) if scenario.id in self.aside else after
            if late.verdict is Verdict.FAILED and not {finding.rule for finding in late.broken} <= _HURRIED:
                after = late
            self.results[scenario.id] = after
            if after.verdict is not before.verdict:
                self._tell(ScenarioReopened(before, after))

    def _result(self, error: str | None, watched: float) -> RunResult:
        return RunResult(
            version=sendtwice.__version__,
            target=self.target.target.name,
            role=self.target.target.role,
            contract=self.contract.name,
            contract_sha256=contracts.sha256(self.contract),
            seed=self.settings.seed,
            started=self.started.isoformat(timespec="seconds"),
            seconds=self.bench.recorder.now(),
            scenarios=tuple(self.results[s.id] for s in self.chosen if s.id in self.results) + tuple(self.skipped),
            strays=self.bench.announced.strays,
            watched=watched,
            retries_declared=self.target.target.timing.retries_for is not None,
            observed=self.observed,
            error=error,
        )


def _answers(facts: Facts) -> dict[str, list[str]]:
    return {a.name: sorted(c.value for c in a.classes) if a.answered else [a.outcome] for a in facts.attempts}


async def run(
    target: Target,
    target_path: Path,
    scenarios: Sequence[Scenario],
    settings: RunSettings,
    subscribers: Sequence[Subscriber] = (),
    *,
    perform: Perform | None = None,
    launcher: MakeLauncher | None = None,
) -> RunResult:
    """Play scenarios against a target and judge what happened; ``perform``, ``launcher``: one in this process."""
    played = Session(target, target_path, scenarios, settings, subscribers, perform=perform, launcher=launcher)
    return await played.run()
