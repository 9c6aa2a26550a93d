"""A stage for as long as one likes: plans are judged, forgotten, and found again when a mail comes late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.ledger import Mail
from sendtwice.harness import finish
from sendtwice.harness.attribution import Content, Identity
from sendtwice.harness.bench import Bench
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.explore import explorer
from sendtwice.harness.explore.coverage import State
from sendtwice.harness.explore.explorer import Explorer, Settings
from sendtwice.harness.explore.stage import Played, Stage
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import Judgement
from sendtwice.harness.scenario import Scenario, parse
from sendtwice.harness.target import TargetBody, load
from tests.support import ROOT

SOUND, FLAWED = ROOT / "tests/sound/one-at-a-time", ROOT / "tests/flawed/check-then-send"
PLAN = """
id: a.plan
title: a plan
role: api
steps:
- send: {as: first}
"""


def stage_of(folder: Path, tmp_path: Path, kind: type[Stage] = Stage, **timing: float) -> Any:
    target, path = load(str(folder / "target.toml"))
    body = target.target.model_copy(update={"timing": target.target.timing.model_copy(update=timing)})
    return kind(Bench(body, effective_contract(target, path.parent), path.parent, tmp_path))


class Remembering(Stage):
    """Looks after each round at what is remembered."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.left: list[dict[str, int]] = []
        self.seen = 0

    async def play(self, scenario: Scenario) -> Played:
        played = await super().play(scenario)
        self.seen += len(played.history)
        return played

    async def watch(self, seconds: float) -> Sequence[str]:
        late = await super().watch(seconds)
        bench, provider = self.bench, self.bench.provider
        remembered = {
            "events": bench.recorder.events,
            "operations": bench.attribution._by_uid,
            "recipients": bench.attribution._by_recipient,
            "contents": bench.attribution._by_content,
            "deliveries": provider.ledger.deliveries,
            "attempts": provider.control.attempts.log,
            "attempts without an answer": provider.control.attempts._open,
            "connections of the provider": provider.endpoint._connections,
            "in flight": provider.endpoint._in_flight,
            "connections with commits": bench.announced.wires,
            "attempts of clients": bench.announced._attempts,
            "faults at the provider": provider.faults._armed,
            "faults at the stores": bench.store_faults._armed,
            "being played": bench.playing,
            "judged": self._judged_away,
        }
        self.left.append({name: len(what) for name, what in remembered.items() if what})
        return late


@pytest.mark.timeout(300)
@pytest.mark.parametrize("folder", [SOUND, FLAWED], ids=lambda folder: folder.name)
def test_after_a_round_nothing_of_it_is_remembered(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explorer, "ROUND", 12)
    monkeypatch.setattr(finish, "FINISH_IN_DOUBT", 0.1)
    stage: Remembering = stage_of(folder, tmp_path, Remembering, grace=0.05)
    result = asyncio.run(Explorer(stage, Settings(deeds=1, watch=0.05)).run())
    assert result.error is None
    assert stage.seen > 500
    assert len(stage.left) >= 3
    assert stage.left == [{}] * len(stage.left)
    if folder is SOUND:
        # One request after the other: whoever is met waits, and each window holds.
        assert {cell.state for cell in result.coverage.cells.values()} == {State.HELD, State.NOT_APPLICABLE}
        assert result.exit_code == 0


def test_a_plan_is_played_under_a_name_of_its_own_and_kept_until_it_is_forgotten(tmp_path: Path) -> None:
    async def play() -> None:
        stage = stage_of(FLAWED, tmp_path)
        await stage.start()
        try:
            one, other = [await stage.play(parse(PLAN)) for _ in range(2)]
            assert [one.scenario.id, other.scenario.id] == ["a.plan.1", "a.plan.2"]
            assert one.shows
            assert one.broken == ()
            assert one.seconds > 0
            assert {event.scenario for event in one.history} == {"a.plan.1"}
            assert stage.judged(one.scenario).history == one.history
            stage.forget(one)
            assert stage.judged(one.scenario).history == ()
            assert await stage.watch(0.0) == []
            assert stage.judged(other.scenario).history == other.history
        finally:
            await stage.stop()

    asyncio.run(play())


def unstarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage whose target is not there: only what its provider gets is seen."""
    body = TargetBody.model_validate({"api": {"url": "http://127.0.0.1:{port}"}})

    async def nothing(self: Stage, scenario: Scenario) -> None:
        return

    monkeypatch.setattr(Stage, "_play", nothing)
    return Stage(Bench(body, contracts.load("universal"), tmp_path, tmp_path))


def test_a_late_mail_finds_its_plan_until_the_round_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = unstarted(tmp_path, monkeypatch)
    bench = stage.bench

    def mail(recipient: str) -> Mail:
        return Mail("a@sendtwice.test", (f"{recipient}@sendtwice.test",), "Receipt", "Thank you")

    plans = {name: parse(PLAN).model_copy(update={"id": name}) for name in ("plan.1", "plan.2", "plan.3")}
    for name, recipient in zip(plans, ("raaaaaaaaaaa", "rbbbbbbbbbbb", "rcccccccccccc"[:12]), strict=True):
        bench.attribution.add(Identity(name, "first", recipient, Content(f"s{recipient[1:]}", f"t{recipient[1:]}")))
    bench.provider.ledger.commit(mail("raaaaaaaaaaa"))
    for name in ("plan.1", "plan.2"):
        stage.forget(Played(plans[name], Judgement()))

    async def late() -> Sequence[str]:
        asyncio.get_running_loop().call_soon(bench.provider.ledger.commit, mail("rbbbbbbbbbbb"))
        return await stage.watch(0.05)

    assert asyncio.run(late()) == ["plan.2"]
    # What is over is a stray now; what is not yet judged is still known.
    bench.provider.ledger.commit(mail("rbbbbbbbbbbb"))
    bench.provider.ledger.commit(mail("rcccccccccccc"[:12]))
    assert [event.kind for event in bench.recorder.of(None)] == [Kind.STRAY]
    assert [event.kind for event in bench.recorder.of("plan.3")] == [Kind.DELIVERY]
    assert asyncio.run(stage.watch(0.0)) == []


@pytest.mark.parametrize("died", ["start", "canary"])
def test_what_cannot_be_played_on_is_stopped(died: str, tmp_path: Path) -> None:
    stopped: list[int] = []

    class Broken(Stage):
        async def _canary(self) -> str | None:
            return "the canary did not arrive" if died == "canary" else await super()._canary()

    body = TargetBody.model_validate(
        {
            "api": {"url": "http://127.0.0.1:{port}"},
            "start": {
                "command": ["{python}", "-c", "raise SystemExit(3)"]
                if died == "start"
                else ["{python}", "-m", "http.server", "{port}", "--bind", "127.0.0.1"],
            },
        }
    )

    async def play() -> None:
        bench = Bench(body, contracts.load("universal"), tmp_path, tmp_path)
        stop = bench.stop

        async def noted() -> None:
            stopped.append(1)
            await stop()

        bench.stop = noted  # type: ignore[method-assign]
        with pytest.raises(HarnessError, match="canary" if died == "canary" else "ended with status 3"):
            await Broken(bench).start()

    asyncio.run(play())
    assert stopped == [1]


def test_a_plan_that_is_broken_off_leaves_the_next_one_a_target(tmp_path: Path) -> None:
    async def play() -> None:
        stage = stage_of(FLAWED, tmp_path)
        await stage.start()
        try:
            crashed = parse(PLAN + "- crash: target\n- send: {as: second}\n")
            playing = asyncio.ensure_future(stage.play(crashed))
            while not any(event.kind is Kind.CRASH for event in stage.bench.recorder.events):
                await asyncio.sleep(0.01)
            playing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await playing
            played = await stage.play(parse(PLAN))
            assert played.shows
            (ended,) = [event for event in played.history if event.kind is Kind.ENDED]
            assert ended.data["outcome"] == "answered"
        finally:
            await stage.stop()

    asyncio.run(play())
