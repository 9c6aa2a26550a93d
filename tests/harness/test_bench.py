"""What a bench learns of its target in fair weather: how long it takes, and whether its stores' wires are used."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.harness.bench import Bench
from sendtwice.harness.history import Kind, Recorder
from sendtwice.harness.target import TargetBody
from tests.support import ROOT


def bench(tmp_path: Path, **timing: float) -> Bench:
    target = TargetBody.model_validate({"api": {"url": "http://127.0.0.1:1"}, "timing": timing})
    return Bench(target, contracts.load("universal"), tmp_path, tmp_path)


class Clocked(Recorder):
    """A recorder whose time is set."""

    time = 0.0

    def now(self) -> float:
        return self.time


def played(of: Bench, seconds: float) -> None:
    recorder = of.recorder = Clocked()
    for kind, at in ((Kind.ATTEMPT, 1.0), (Kind.ENDED, 1.0 + seconds)):
        recorder.time = at
        recorder.record(kind, scenario="canary", operation="mail", attempt="mail")
    of.learn("canary")


@pytest.mark.parametrize(
    ("timing", "seconds", "grace"),
    [
        ({}, 0.01, 0.3),
        ({}, 0.5, 2.0),  # a slow target is not a waiting one
        ({"answers_within": 1.5}, 0.5, 1.5),
        ({"grace": 0.1}, 0.5, 0.1),  # its owner knows better
    ],
)
def test_an_attempt_is_given_several_times_what_the_target_usually_takes(
    timing: dict[str, float], seconds: float, grace: float, tmp_path: Path
) -> None:
    of = bench(tmp_path, **timing)
    played(of, seconds)
    assert of.grace == pytest.approx(grace)
    played(of, 0.001)  # the longest counts
    assert of.grace == pytest.approx(grace)


def test_a_store_that_nothing_goes_through_is_named_and_shows_nothing(tmp_path: Path) -> None:
    place = tmp_path / "targets" / "x"
    shutil.copytree(ROOT / "tests/flawed/check-then-send", place)
    (tmp_path / "targets_common").symlink_to(ROOT / "tests/targets_common")
    words = "nothing of the target went through store 'cache': let it use {store.cache}"
    with socket.create_server(("127.0.0.1", 0)) as store:
        file = place / "target.toml"
        line = f'\n[target.store.cache]\nupstream = "127.0.0.1:{store.getsockname()[1]}"\n'
        file.write_text(file.read_text() + line)

        def call(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "sendtwice.harness.cli", *arguments]
            return subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)

        checked = call("check", str(file))
        assert words in checked.stdout
        explored = call("explore", str(file), "--faults", "1")
        assert (explored.returncode, words in explored.stdout) == (4, True)
        ran = call("run", str(file), "--scenario", "outcome.store-down-at-claim", "--json", "-")
        (scenario,) = json.loads(ran.stdout)["scenarios"]
    result: dict[str, Any] = scenario
    assert (result["verdict"], words in result["reason"]) == ("skipped", True)
