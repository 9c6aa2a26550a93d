"""Targets that cannot be judged: one clear line, the right status, and nothing left behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

SENDTWICE = [sys.executable, "-m", "sendtwice.harness.cli"]

FILE = """
[target]
name = "bad"
[target.api]
url = "http://127.0.0.1:{port}"
[target.api.request]
path = "/send"
key = "body:/ref"
body = { to = "{to}", title = "{subject}", text = "{text}" }
[target.api.answer]
id = "/data/id"
[target.start]
command = ["PYTHON", "app.py", "MODE"]
env = { PORT = "{port}", PROVIDER = "{provider_url}" }
ready = "/up"
timeout = SECONDS
[target.provider]
dialect = "generic"
"""

# A mailer of sockets, so that it can answer whatever it likes. It hands the mail over, then answers as MODE says.
APP = r"""
import json, os, signal, socket, subprocess, sys, threading, time, urllib.request

mode = sys.argv[1]
if mode == "dies-early":
    sys.exit("no database")
if mode in ("never-ready", "ignores-signals"):
    if mode == "ignores-signals":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(600)
if mode == "leaves-a-child":
    subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"])
if mode == "megabytes":
    print("x" * 5_000_000, flush=True)

ID = b'{"data": {"id": "m1"}}'
CREATED = b"HTTP/1.1 201 Created\r\nConnection: close\r\n"

def whole(body):
    return CREATED + b"Content-Length: %d\r\n\r\n" % len(body) + body

ANSWERS = {
    "garbage": b"\x00\x01 SSH-2.0-nope\r\n\r\n",
    "no-answer": b"",
    "bad-length": CREATED + b"Content-Length: abc\r\n\r\n" + ID,
    "bad-chunk": CREATED + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + ID,
    "short-body": CREATED + b"Content-Length: 500\r\n\r\n" + ID,
    "deep-json": whole(b"[" * 100_000 + b"]" * 100_000),
    "no-length": CREATED + b"\r\n" + ID,
    "http10": b"HTTP/1.0 201 Created\r\n\r\n" + ID,
    "chunked": CREATED + b"Transfer-Encoding: chunked\r\n\r\n16;a=b\r\n" + ID + b"\r\n0\r\nX: y\r\n\r\n",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n" + whole(ID),
    "no-content": b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    "10-mb": whole(ID[:-1] + b', "pad": "' + b"x" * 10_000_000 + b'"}'),
    "other-id": whole(b'{"message": "m1"}'),
    "unauthorized": b"HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
}

def serve(wire):
    head = wire.makefile("rb")
    first, length = head.readline(), 0
    while (line := head.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    if first.startswith(b"GET"):
        status = b"404" if mode == "other-ready-path" else b"200"
        wire.sendall(b"HTTP/1.1 " + status + b" X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    else:
        mail = json.loads(head.read(length))
        if mode not in ("elsewhere", "unauthorized"):
            body = {"from": "a@b.test", "to": [mail["to"]], "subject": mail["title"], "text": mail["text"]}
            asked = urllib.request.Request(os.environ["PROVIDER"] + "/emails", json.dumps(body).encode())
            asked.add_header("Content-Type", "application/json")
            urllib.request.urlopen(asked).read()
        wire.sendall(ANSWERS.get(mode, whole(ID)))
    wire.shutdown(socket.SHUT_WR)
    wire.close()
    if mode == "dies-after-canary" and not first.startswith(b"GET"):
        os._exit(5)

with socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=50) as server:
    while True:
        threading.Thread(target=serve, args=server.accept()[:1]).start()
"""


class Place:
    """A target in a folder of its own; what it leaves in its processes and in its temporary folder can be seen."""

    def __init__(self, folder: Path, mode: str, *, seconds: float = 10) -> None:
        self.folder = folder / "a b"
        self.temporary = folder / "t"
        self.mark = f"SENDTWICE_TEST_PLACE={folder}"
        self.folder.mkdir()
        self.temporary.mkdir()
        (self.folder / "app.py").write_text(APP)
        file = FILE.replace("PYTHON", sys.executable).replace("MODE", mode).replace("SECONDS", str(seconds))
        (self.folder / "sendtwice.toml").write_text(file)

    @property
    def env(self) -> dict[str, str]:
        name, _, value = self.mark.partition("=")
        return {**os.environ, name: value, "TMPDIR": str(self.temporary)}

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*SENDTWICE, *arguments],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def call(self, *arguments: str) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            try:
                out, err = process.communicate(timeout=40)
            finally:
                process.kill()
        return process.returncode, out, err

    def left(self) -> list[str]:
        """What still runs or lies about, after a moment for the kernel to reap."""
        until = time.monotonic() + 1
        while (found := self._left()) and time.monotonic() < until:
            time.sleep(0.02)
        return found

    def _left(self) -> list[str]:
        found = [path.name for path in self.temporary.iterdir()]
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


def one_line(err: str) -> str:
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("sendtwice: ")
    assert "internal error" not in lines[0]
    return lines[0]


@pytest.mark.parametrize(
    ("mode", "seconds", "said"),
    [
        ("never-ready", 0.5, "was not ready on port"),
        ("ignores-signals", 0.5, "was not ready on port"),
        ("dies-early", 10, "its last words: no database"),
        ("unauthorized", 10, "the canary was refused with 401"),
        ("other-ready-path", 0.5, "404"),
        ("garbage", 10, "the canary"),
        ("no-answer", 10, "the canary"),
        ("bad-length", 10, "the canary"),
        ("bad-chunk", 10, "the canary"),
        ("short-body", 10, "the canary"),
    ],
)
def test_a_target_that_cannot_be_judged_is_an_error_in_one_line(
    tmp_path: Path, mode: str, seconds: float, said: str
) -> None:
    place = Place(tmp_path, mode, seconds=seconds)
    code, out, err = place.call("check")
    assert place.left() == []
    assert (code, out) == (4, ""), out + err
    assert said in one_line(err)


@pytest.mark.slow
def test_a_canary_that_is_accepted_and_does_not_arrive_stops_everything(tmp_path: Path) -> None:
    place = Place(tmp_path, "elsewhere")
    code, out, err = place.call("check")
    assert (code, out) == (4, "")
    assert "did not reach the fake provider; the target may be using a real provider" in one_line(err)
    assert place.left() == []


@pytest.mark.parametrize(
    "mode",
    [
        *("no-length", "http10", "chunked", "continue", "no-content", "10-mb", "megabytes", "leaves-a-child"),
        "deep-json",
    ],
)
def test_an_odd_answer_is_an_answer(tmp_path: Path, mode: str) -> None:
    place = Place(tmp_path, mode)
    code, out, err = place.call("check")
    assert (code, err) == (0, "")
    assert "the canary arrived" in out
    assert place.left() == []


def test_check_says_that_the_answer_has_no_id_where_the_file_says(tmp_path: Path) -> None:
    code, out, err = Place(tmp_path, "other-id").call("check")
    assert code == 0
    assert "/data/id" in out + err


def test_a_target_that_dies_after_the_canary_is_an_error(tmp_path: Path) -> None:
    place = Place(tmp_path, "dies-after-canary")
    code, out, _ = place.call("run", "--scenario", "send.repeat")
    assert code == 4
    assert "the target ended with status 5 by itself" in out.replace("\n", " ")
    assert place.left() == []


def test_the_last_words_are_those_of_this_run(tmp_path: Path) -> None:
    place = Place(tmp_path, "dies-early")
    place.call("check")
    path = place.folder / "sendtwice.toml"
    path.write_text(path.read_text().replace("dies-early", "never-ready").replace("timeout = 10", "timeout = 0.5"))
    _, _, err = place.call("check")
    assert "no database" not in err


def test_a_started_target_may_have_a_fixed_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    place = Place(tmp_path, "sound", seconds=3)
    path = place.folder / "sendtwice.toml"
    path.write_text(path.read_text().replace("{port}", str(port)))
    code, _, err = place.call("check")
    assert (code, err) == (0, "")
    assert place.left() == []


@pytest.mark.parametrize(("sign", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("arguments", [("check",), ("run", "--smoke")])
def test_an_interrupted_wait_for_a_stubborn_target_leaves_nothing(
    tmp_path: Path, sign: signal.Signals, status: int, arguments: tuple[str, ...]
) -> None:
    place = Place(tmp_path, "ignores-signals")
    with place.start(*arguments) as process:
        until = time.monotonic() + 10
        while not any("app.py" in line for line in place._left()) and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.2)
        process.send_signal(sign)
        _, err = process.communicate(timeout=20)
    assert process.returncode == status
    one_line(err)
    assert place.left() == []


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_ended_demo_leaves_nothing(tmp_path: Path, sign: signal.Signals) -> None:
    place = Place(tmp_path, "sound")
    with place.start("demo") as process:
        until = time.monotonic() + 15
        while not any("serve" in line for line in place._left()) and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(sign)
        process.communicate(timeout=20)
    left = place.left()
    for found in Path("/proc").glob("[0-9]*"):
        try:
            if place.mark.encode() in (found / "environ").read_bytes().split(b"\0"):
                os.kill(int(found.name), signal.SIGKILL)
        except OSError:
            continue
    assert left == []
    assert process.returncode == 128 + sign


def test_a_closed_output_is_no_traceback(tmp_path: Path) -> None:
    place = Place(tmp_path, "sound")
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *SENDTWICE, "scenarios"],
        cwd=place.folder,
        env=place.env,
        stderr=subprocess.PIPE,
        text=True,
        timeout=20,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
