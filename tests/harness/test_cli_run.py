"""Runs as a user makes them: real targets, real processes, real signals."""

import json
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from sendtwice.harness.schemas import schema
from tests.support import ROOT

SENDTWICE = [sys.executable, "-m", "sendtwice.harness.cli"]
FLAWED, SOUND = ROOT / "tests/flawed/check-then-send", ROOT / "tests/sound/queued-202"


def call(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*SENDTWICE, *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def copied(folder: Path, tmp_path: Path, *added: str, **replaced: str) -> Path:
    """A target of its own in tmp_path/targets/x, with lines added to its file."""
    place = tmp_path / "targets" / "x"
    shutil.copytree(folder, place)
    (tmp_path / "targets_common").symlink_to(ROOT / "tests/targets_common")
    path = place / "target.toml"
    text = path.read_text()
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text("\n".join([text, *added]))
    return path


@pytest.mark.slow
def test_a_failing_run_says_all_and_its_last_line_repeats_it(tmp_path: Path) -> None:
    target = str(FLAWED / "target.toml")
    chosen = ["--scenario", "send.concurrent", "--scenario", "send.repeat"]
    run = call("run", target, *chosen, "--json", "r.json", "--junit", "r.xml", cwd=tmp_path)
    assert run.returncode == 1, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0].startswith("2 scenarios against check-then-send (api, contract resend), about ")
    assert any(line.startswith("✓ send.repeat") for line in lines)
    assert "\x1b" not in run.stdout
    assert run.stderr == ""

    data = json.loads((tmp_path / "r.json").read_text())
    jsonschema_rs.validator_for(schema("result")).validate(data)
    assert {s["id"]: s["verdict"] for s in data["scenarios"]} == {
        "send.concurrent": "failed",
        "send.repeat": "passed",
    }
    assert ET.parse(tmp_path / "r.xml").find("testsuite/testcase/failure") is not None
    saved = next(s["replay"] for s in data["scenarios"] if s["verdict"] == "failed")
    history = (tmp_path / saved).with_name("send.concurrent.history.jsonl").read_text()
    seqs = {json.loads(line)["seq"] for line in history.splitlines()}
    assert set(data["scenarios"][0]["findings"][0]["events"]) <= seqs

    program, *arguments = shlex.split(lines[-1])
    assert program == "sendtwice"
    assert arguments[0] == "replay"
    again = call(*arguments, cwd=tmp_path)
    assert again.returncode == 1
    assert again.stdout.startswith("1 scenario against check-then-send")
    # Without a target it is the one that it failed on.
    alone = call("replay", arguments[1], "-q", cwd=tmp_path)
    assert alone.returncode == 1, alone.stderr
    # A replay is not the last run.
    rerun = call("run", target, "--last-failed", cwd=tmp_path)
    assert rerun.stdout.startswith("1 scenario against check-then-send")


def test_a_saved_failure_can_be_played_on_another_target(tmp_path: Path) -> None:
    call("run", str(FLAWED / "target.toml"), "--scenario", "send.concurrent", cwd=tmp_path)
    saved = next(tmp_path.glob("reports/*/send.concurrent.yaml"))
    run = call("replay", str(saved), str(SOUND / "target.toml"), cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "queued-202" in run.stdout.splitlines()[0]


def test_a_sound_target_passes(tmp_path: Path) -> None:
    run = call("run", str(SOUND / "target.toml"), "--scenario", "send.repeat", "--report", "out", cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines()[-1].startswith("passed: 1 passed in ")
    assert not (tmp_path / "reports").exists()


def test_the_result_goes_to_standard_output_for_a_program(tmp_path: Path) -> None:
    run = call("run", str(SOUND / "target.toml"), "--scenario", "send.repeat", "--json", "-", cwd=tmp_path)
    assert json.loads(run.stdout)["verdict"] == "passed"
    assert "1 passed" in run.stderr


def test_known_deviations_are_listed_and_fail_nothing(tmp_path: Path) -> None:
    target = copied(FLAWED, tmp_path)
    chosen = ["--scenario", "send.concurrent"]
    run = call("run", str(target), *chosen, "--write-known", str(target), cwd=tmp_path)
    assert run.returncode == 1
    again = call("run", str(target), *chosen, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Known deviations, accepted by the target file" in again.stdout


@pytest.mark.slow
def test_with_all_required_a_skip_fails_the_run(tmp_path: Path) -> None:
    chosen = ["--scenario", "scope.other-tenant", "--scenario", "send.repeat"]
    target = str(FLAWED / "target.toml")
    assert call("run", target, *chosen, cwd=tmp_path).returncode == 0
    run = call("run", target, *chosen, "--require-all", "--json", "r.json", cwd=tmp_path)
    assert run.returncode == 1
    assert "skipped, and all are required: no sender 'other-tenant'" in run.stdout
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "failed"
    # The last run's failures include it.
    again = call("run", target, "--last-failed", cwd=tmp_path)
    assert "scope.other-tenant" in again.stdout


def test_no_secret_is_left_anywhere(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    target = copied(
        FLAWED,
        tmp_path,
        **{"[target.api]": '[target.api]\nheaders = { Authorization = "Bearer {env:MY_TOKEN}" }'},
    )
    chosen = ["--scenario", "send.concurrent", "-v", "--json", "r.json", "--junit", "r.xml"]
    run = call("run", str(target), *chosen, cwd=tmp_path, env={"MY_TOKEN": secret})
    assert run.returncode == 1, run.stderr
    assert secret not in run.stdout + run.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file() and "targets" not in path.parts[-3]]
    assert any(path.name.endswith(".history.jsonl") and '"***"' in path.read_text() for path in written)
    for path in written:
        assert secret not in path.read_text(errors="replace"), path


def test_a_target_that_does_not_start_is_exit_4_and_so_are_its_files(tmp_path: Path) -> None:
    target = copied(FLAWED, tmp_path, **{'"mailer.py"': '"-c", "raise SystemExit(3)"'})
    run = call("run", str(target), "--json", "r.json", "--junit", "r.xml", cwd=tmp_path)
    assert run.returncode == 4
    assert "Traceback" not in run.stdout + run.stderr
    assert "sendtwice could not do its work" in run.stdout
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "error"
    assert ET.parse(tmp_path / "r.xml").find("testsuite/testcase/error") is not None


def test_a_target_elsewhere_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    run = call("run", "--url", "http://mail.example.test", "--json", "r.json", cwd=tmp_path)
    assert run.returncode == 2
    assert "--allow-remote" in run.stderr
    assert run.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_check_says_what_would_be_skipped(tmp_path: Path) -> None:
    run = call("check", str(FLAWED / "target.toml"), cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "the canary arrived" in run.stdout
    assert "add [target.api.senders.other-tenant]" in run.stdout


# -- signals, pipes, terminals ----------------------------------------------------------------------------


def processes_in(folder: Path) -> list[str]:
    """The command lines of all processes that work in a folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cwd").resolve() == folder.resolve():
                found.append((place / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="/proc is missing: it finds processes left behind")
@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, "sendtwice: interrupted"), (signal.SIGTERM, 143, "sendtwice: ended by a signal")],
)
def test_a_signal_ends_the_run_in_one_line_and_leaves_no_process(
    number: signal.Signals, status: int, said: str, tmp_path: Path
) -> None:
    target = copied(SOUND, tmp_path, **{"[target.timing]": "[target.timing]\nretries_for = 60"})
    run = subprocess.Popen(
        [*SENDTWICE, "run", str(target), "--scenario", "send.repeat"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    while not run.stdout.readline().startswith("✓ send.repeat"):
        assert run.poll() is None
    assert processes_in(target.parent)
    run.send_signal(number)
    _, stderr = run.communicate(timeout=20)
    assert run.returncode == status
    assert stderr.strip() == said
    assert processes_in(target.parent) == []


def test_a_reader_that_goes_away_changes_neither_the_run_nor_its_status(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [*SENDTWICE, "run", str(FLAWED / "target.toml"), "--scenario", "send.concurrent", "--json", "r.json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    assert run.stderr.read() == ""
    run.stderr.close()
    assert run.wait(20) == 1
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "failed"


def test_a_command_whose_reader_has_seen_enough_ends_without_a_word(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [*SENDTWICE, "schema", "target"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    assert run.stderr.read() == ""
    run.stderr.close()
    assert run.wait(20) == 0


def on_a_terminal(arguments: Sequence[str], cwd: Path) -> tuple[int, str]:
    master, slave = pty.openpty()
    run = subprocess.Popen(
        [*SENDTWICE, *arguments], cwd=cwd, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"}
    )
    os.close(slave)
    parts = []
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(master)
    return run.wait(20), b"".join(parts).decode()


def test_a_terminal_sees_progress_and_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    status, text = on_a_terminal(["run", str(SOUND / "target.toml"), "--scenario", "send.repeat"], tmp_path)
    assert status == 0, text
    assert "1/1  send.repeat" in text
    assert "\x1b[32m✓\x1b[0m send.repeat" in text
    assert (
        "\x1b[32m"
        not in on_a_terminal(
            ["run", str(SOUND / "target.toml"), "--scenario", "send.repeat", "--color", "never"], tmp_path
        )[1]
    )


# -- the rest ---------------------------------------------------------------------------------------------


def test_a_contract_is_served(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [*SENDTWICE, "serve", "--contract", "rasket", "--port", "0", "--state", "state.db"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    line: dict[str, Any] = json.loads(run.stdout.readline())
    assert line["ready"] is True
    assert line["contract"] == "rasket"
    run.send_signal(signal.SIGINT)
    _, stderr = run.communicate(timeout=20)
    assert run.returncode == 0
    assert stderr == ""


def test_little_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, sendtwice.harness.cli as c; "
        "print([m for m in ('pydantic', 'yaml', 'httpx', 'asyncio.base_events', 'h11') if m in sys.modules])"
    )
    started = time.monotonic()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert time.monotonic() - started < 5
    loaded = set(run.stdout.strip("[]\n").replace("'", "").split(", "))
    assert not loaded & {"pydantic", "yaml", "httpx", "h11"}
