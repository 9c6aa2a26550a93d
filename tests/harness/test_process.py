"""Targets as local processes: killed, paused, asked to end and started again with all of their family."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness.errors import HarnessError, ScenarioError
from sendtwice.harness.launch import family
from sendtwice.harness.launch.process import Processes
from sendtwice.harness.target import load
from sendtwice.harness.target_running import Start
from tests.support import require

#: Answers with its number, its process and those of its children. The words after it say what it is like.
PROGRAM = """
import http.server, json, os, pathlib, signal, subprocess, sys, threading

words = sys.argv[1:]
state, children = pathlib.Path(os.environ["STATE"]), []
if "child" in words:
    children.append(subprocess.Popen(["sleep", "60"]).pid)
if "loner" in words:
    children.append(subprocess.Popen(["sleep", "60"], start_new_session=True).pid)
if "orphan" in words:
    # Its parent is gone at once, and its group is its own.
    shell = subprocess.run(["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE)
    children.append(int(shell.stdout))
if "refuses" in words:
    print("no port for me", flush=True)
    sys.exit(3)
if "silent" in words:
    signal.pause()

def ends(*_):
    with state.open("a") as file:
        file.write("b")
    os._exit(0)

signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in words else ends)
with state.open("a") as file:
    file.write("s")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/die":
            print("boom", flush=True)
            os._exit(7)
        told = {"replica": os.environ.get("REPLICA"), "pid": os.getpid(), "children": children,
                "state": state.read_text()}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


def start(*words: str, **given: Any) -> Start:
    env = {"PORT": "{port}", "STATE": "{state}", "REPLICA": "{replica}"}
    settings = {"command": ["{python}", "-I", "-S", "-c", PROGRAM, *words], "env": env, "ready": "/", **given}
    return Start.model_validate(settings)


@contextlib.asynccontextmanager
async def running(folder: Path, *specs: Start) -> AsyncIterator[Processes]:
    """Start these; at the end nothing of them may be left, however it ended."""
    processes = Processes(specs, folder, {}, folder / "logs")
    scratch = Path(str(processes._scratch))
    try:
        await processes.start()
        yield processes
    finally:
        await processes.stop()
        assert left(scratch) == ([], False)


def left(scratch: Path) -> tuple[list[int], bool]:
    """The living processes of one target, whose environment says so whatever they became, and whether its folder is."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if f"{family.MARK}={scratch.name}.".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found, scratch.exists()


async def told(port: int, path: str = "/") -> dict[str, Any]:
    def ask() -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return json.load(answer)

    return dict(await asyncio.to_thread(ask))


def state_of(pid: int) -> str:
    """Return what the kernel says of a process: S, R, T (stopped), Z, or nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


async def becomes(pid: int, states: str) -> bool:
    """Whether a process is in one of these states soon: a signal is delivered when its process is next scheduled."""
    for _ in range(500):
        if (state_of(pid) or "-") in states:
            return True
        await asyncio.sleep(0.01)
    return False


# === Killing ========================================================================================================


def test_a_crash_takes_the_whole_family_and_a_restart_has_its_port_and_state(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, start("child", "loner", "orphan")) as processes:
            (port,) = processes.ports()
            before = await told(port)
            family_of = [before["pid"], *before["children"]]
            assert len(family_of) == 4
            assert len({os.getpgid(pid) for pid in family_of}) == 3
            await processes.crash("target")
            assert {state_of(pid) for pid in family_of} <= {"", "Z"}, "whoever inherits them may reap late"
            assert processes.died() is None, "it was killed: it did not die by itself"
            with pytest.raises(OSError, match="refused"):
                await told(port)
            assert await processes.restart("target")
            after = await told(port)
            assert after["pid"] != before["pid"]
            assert after["state"] == "ss", "it has what the first one wrote"

    asyncio.run(play())


def test_one_replica_is_killed_and_the_others_go_on(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, start(replicas=2)) as processes:
            first, second = processes.ports()
            seen = [await told(port) for port in (first, second)]
            assert [one["replica"] for one in seen] == ["1", "2"]
            assert seen[0]["state"] == "ss", "they share what they keep"
            assert processes.addresses == {
                "port.target": str(first), "port.target.1": str(first), "port.target.2": str(second)
            }  # fmt: skip
            await processes.crash("target.2")
            assert (await told(first))["pid"] == seen[0]["pid"]
            with pytest.raises(OSError, match="refused"):
                await told(second)
            assert await processes.restart("target.2")
            assert (await told(second))["pid"] != seen[1]["pid"]
            await processes.crash("target")
            for port in (first, second):
                with pytest.raises(OSError, match="refused"):
                    await told(port)

    asyncio.run(play())


def test_processes_are_called_by_their_names(tmp_path: Path) -> None:
    web, worker = start(name="web", replicas=2), start(name="worker", replicas=2)
    processes = Processes([web, worker], tmp_path, {}, tmp_path)

    def names(called: str) -> list[str]:
        return [one.name for one in processes._named(called)]

    assert names("worker") == ["worker.1", "worker.2"]
    assert names("worker.2") == ["worker.2"]
    assert names("target.2") == ["web.2"], "of whatever answers requests"
    assert names("target") == ["web.1", "web.2", "worker.1", "worker.2"]
    with pytest.raises(ScenarioError, match=r"no process 'target\.3'; it has: web\.1, web\.2, worker\.1, worker\.2"):
        names("target.3")
    asyncio.run(processes.stop())


# === Asking it to end ===============================================================================================


def test_one_that_is_asked_to_end_ends_willingly_and_keeps_its_state(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, start("child")) as processes:
            (port,) = processes.ports()
            before = await told(port)
            await processes.terminate("target")
            assert await processes.restart("target") is True
            after = await told(port)
            assert after["state"] == "sbs"
            assert await becomes(before["children"][0], "-Z"), "what it left behind is not left"
            assert processes.died() is None

    asyncio.run(play())


def test_one_that_does_not_end_in_its_time_is_killed_and_that_is_told(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, start("deaf", stop_timeout=0.1)) as processes:
            (port,) = processes.ports()
            before = await told(port)
            await processes.terminate("target")
            assert await processes.restart("target") is False
            after = await told(port)
            assert (after["pid"] != before["pid"], after["state"]) == (True, "ss")

    asyncio.run(play())


def test_one_that_sleeps_is_woken_to_end(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, start()) as processes:
            await processes.pause("target")
            await processes.terminate("target")
            assert await processes.restart("target") is True
            assert (await told(processes.ports()[0]))["state"] == "sbs"

    asyncio.run(play())


def test_what_runs_is_not_started_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, start(replicas=2)) as processes:
            first, second = processes.ports()
            before = [(await told(port))["pid"] for port in (first, second)]
            await processes.crash("target.1")
            await processes.restart("target")
            after = [(await told(port))["pid"] for port in (first, second)]
            assert [a == b for a, b in zip(before, after, strict=True)] == [False, True]

    asyncio.run(play())


# === Pausing ========================================================================================================


def test_a_pause_stops_the_whole_family_and_a_resume_wakes_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, start("child", "loner", "orphan")) as processes:
            (port,) = processes.ports()
            seen = await told(port)
            family_of = [seen["pid"], *seen["children"]]
            await processes.pause("target")
            assert all([await becomes(pid, "T") for pid in family_of])
            asked = asyncio.ensure_future(told(port))
            assert not (await asyncio.wait({asked}, timeout=0.2))[0], "it takes a connection and answers nothing"
            await processes.resume("target")
            assert (await asked)["pid"] == seen["pid"]
            assert all([await becomes(pid, "SRD") for pid in family_of])

    asyncio.run(play())


def test_one_replica_sleeps_and_the_other_answers(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, start(replicas=2)) as processes:
            first, second = processes.ports()
            pid = (await told(second))["pid"]
            await processes.pause("target.2")
            assert await becomes(pid, "T")
            assert (await told(first))["replica"] == "1"
            await processes.crash("target.2")  # a sleeper can be killed
            assert state_of(pid) == ""

    asyncio.run(play())


# === Failures =======================================================================================================


def test_one_that_ends_by_itself_is_named_with_its_last_words(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, start(replicas=2)) as processes:
            assert processes.died() is None
            with pytest.raises(OSError):  # it ends in the middle of the answer
                await told(processes.ports()[1], "/die")
            one = processes._running["target.2"].process
            assert one is not None
            await one.wait()
            words = "the target's process 'target.2' ended with status 7 by itself; its last words: boom"
            assert processes.died() == words

    asyncio.run(play())


def failure(folder: Path, *specs: Start) -> str:
    async def play() -> None:
        async with running(folder, *specs):
            pass

    with pytest.raises(HarnessError) as caught:
        asyncio.run(play())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_target_that_does_not_start_is_told_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    missing = Start.model_validate({"command": ["no-such-program"]})
    assert "'no-such-program' cannot be started (no such file or directory); mend target.start.command" in failure(
        tmp_path, missing
    )
    words = failure(tmp_path, start(name="web"), start("refuses", name="worker"))
    assert words == (
        "the target's process 'worker' ended with status 3 before it was ready; its last words: no port for me"
    )
    words = failure(tmp_path, start("silent", "loner", timeout=0.6))
    assert "was not ready on port" in words
    assert "within 0.6 s (waited for /; nothing answered: see target.start.ready); it wrote nothing" in words


def test_instances_need_a_port_each(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text(
        '[target]\n[target.api]\nurl = "http://127.0.0.1:8080"\n[target.start]\ncommand = ["x"]\nreplicas = 2\n'
    )
    with pytest.raises(BadFileError) as caught:
        load(str(path))
    assert str(caught.value) == (
        f"{path}: target.api.url: 'http://127.0.0.1:8080' is one address for 2 instances, which have a port each; "
        "write http://127.0.0.1:{port}"
    )


# === Who belongs to a process =======================================================================================


def test_a_name_with_brackets_and_blanks_in_it_confuses_nobody(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 1 (b"
    shutil.copy(require("sleep", "a program to copy"), odd)
    with subprocess.Popen([odd, "60"], start_new_session=True) as process:
        try:
            assert family.members(process.pid, "nobody's") == {process.pid}
        finally:
            process.kill()


def test_who_waits_to_be_reaped_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", ""], start_new_session=True) as process:
        handle = os.pidfd_open(process.pid)
        os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOWAIT)
        os.close(handle)
        assert state_of(process.pid) == "Z"
        assert family.members(process.pid, "nobody's") == set()


def test_another_targets_mark_is_another_family() -> None:
    env = {**os.environ, family.MARK: "one.target.10"}
    with subprocess.Popen(["sleep", "60"], env=env, start_new_session=True) as process:
        try:
            assert process.pid in family.members(os.getpgid(0) + 4_000_000, "one.target.10")
            assert process.pid not in family.members(os.getpgid(0) + 4_000_000, "one.target.1")
            family.send(signal.SIGSTOP, 4_100_000, "one.target.1")
            assert state_of(process.pid) != "T"
        finally:
            process.kill()
