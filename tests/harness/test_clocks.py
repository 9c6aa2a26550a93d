"""The target's clock: moved in real programs, found out where it does not move, and gone afterwards."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness import clocks, session
from sendtwice.harness.bench import Bench
from sendtwice.harness.clocks import library
from sendtwice.harness.clocks import needs as clock_needs
from sendtwice.harness.clocks.faketime import FakeTime
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.errors import ScenarioError
from sendtwice.harness.history import Kind
from sendtwice.harness.result import RunResult, ScenarioResult, Verdict
from sendtwice.harness.scenario import parse
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.steps import Advance
from sendtwice.harness.target import TargetBody, load
from tests.harness.histories import contract_named
from tests.servers import a_postgresql, free_port
from tests.support import ROOT, missing, require

DAY = 86_400.0

#: Tells the time in several ways, and by how much it was asked to move it.
PYTHON = """
import ctypes, http.server, json, os, pathlib, subprocess, sys, threading, time
from email.utils import formatdate

OFFSET = float(os.environ.get("OFFSET", "0"))
asked, kernel = [], "kernel" in sys.argv

class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

def asked_of_the_kernel():
    found = Timespec()
    ctypes.CDLL(None).syscall(228, 0, ctypes.byref(found))
    return found.seconds

def now():
    return (asked_of_the_kernel() if kernel else time.time()) + OFFSET + sum(asked)

class Handler(http.server.BaseHTTPRequestHandler):
    def date_time_string(self, timestamp=None):
        return formatdate(now(), usegmt=True)
    def do_GET(self):
        started = time.monotonic()
        time.sleep(0.01)
        threading.Event().wait(0.01)
        child = subprocess.run(["date", "+%s"], stdout=subprocess.PIPE).stdout if self.path == "/child" else b"0"
        self.reply(200, {"now": now(), "asked": asked, "took": time.monotonic() - started, "child": int(child)})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/refuse":
            return self.reply(403, {})
        asked.append(body["advance"])
        self.reply(200, {})
    def reply(self, status, data):
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
NODE = """
require("http").createServer((request, response) => {
  const started = process.hrtime.bigint()
  setTimeout(() => {
    const took = Number(process.hrtime.bigint() - started) / 1e9
    response.end(JSON.stringify({now: Date.now() / 1000, took}))
  }, 20)
}).listen(process.env.PORT, "127.0.0.1")
"""
COMMAND = '"{python}", "-I", "-S", "clocked.py"'
TARGET = """
[target]
[target.api]
url = "http://127.0.0.1:{port}"
[target.start]
command = [COMMAND]
env = { PORT = "{port}"TOLD }
ready = "/"
MORE
[target.clock]
CLOCK
[target.timing]
answers_within = 5
"""


@contextlib.asynccontextmanager
async def running(folder: Path, clock: str, *, command: str = COMMAND, more: str = "") -> AsyncIterator[Bench]:
    told = ', OFFSET = "{clock_offset}"' if "restart" in clock else ""
    text = TARGET.replace("COMMAND", command).replace("MORE", more).replace("CLOCK", clock).replace("TOLD", told)
    target, path = written(folder, text)
    bench = Bench(target.target, effective_contract(target, folder), path.parent, folder / "logs")
    try:
        await bench.start()
        yield bench
    finally:
        await bench.stop()


def written(folder: Path, text: str) -> Any:
    (folder / "clocked.py").write_text(PYTHON)
    (folder / "clocked.js").write_text(NODE)
    (folder / "target.toml").write_text(text)
    return load(str(folder / "target.toml"))


async def move(bench: Bench, seconds: float) -> None:
    await clocks.advance(bench, Advance(by=seconds), "s")


async def told(url: str, path: str = "/") -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        with urllib.request.urlopen(url + path, timeout=10) as answer:
            dated = parsedate_to_datetime(answer.headers["Date"]).timestamp()
            return {**json.load(answer), "date": dated}

    return await asyncio.to_thread(ask)


def ahead(clock: float) -> float:
    """Return by how many whole days a clock is ahead of ours."""
    return round((clock - time.time()) / DAY, 2)


def refusal(caught: pytest.ExceptionInfo[ScenarioError]) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


def faketime() -> None:
    if library.complaint(None) is not None:
        missing("faketime", "the clock of whole processes is moved with it")


# === How far ========================================================================================================


def test_a_claim_of_seconds_is_found_by_its_name() -> None:
    contract = contract_named("novu")
    assert clocks.claimed(contract, "lease.lasts") == 300
    assert clocks.claimed(contract, "retention.from") is None, "it is no number"
    assert clocks.claimed(contract, "retention.at_lest") is None, "there is none of that name"


def test_a_lease_is_the_contracts_or_else_the_target_files() -> None:
    silent, says = contract_named("postfleet"), contract_named("novu")
    target = TargetBody.model_validate({"api": {"url": "http://127.0.0.1:1"}, "timing": {"lease": 7}})
    step = Advance(by="lease.lasts", plus=1)
    assert clocks.seconds_of(step, silent, target) == 8
    assert clocks.seconds_of(step, says, target) == 301
    assert clocks.seconds_of(Advance(by="retention.at_least"), contract_named("universal"), target) is None


def test_without_a_clock_a_short_time_is_waited_out_and_a_long_one_is_not(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, 'kind = "none"') as bench:
            before = time.monotonic()
            await move(bench, 0.3)
            assert time.monotonic() - before >= 0.3
            (event,) = bench.recorder.of("s")
            assert (event.kind, event.data) == (Kind.ADVANCED, {"seconds": 0.0, "waited": 0.3})
            with pytest.raises(ScenarioError) as caught:
                await move(bench, DAY)
            assert refusal(caught) == "the target's clock cannot be moved, and 86400 s are too long to wait"

    asyncio.run(play())


# === A hook of its own ==============================================================================================


def test_each_instance_is_asked_and_one_that_was_restarted_is_asked_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, 'url = "http://127.0.0.1:{port}/clock"', more="replicas = 2") as bench:
            await move(bench, DAY)
            await move(bench, 60)
            assert [(await told(url))["asked"] for url in bench.urls] == [[DAY, 60], [DAY, 60]]
            await bench.launcher.crash("target.2")
            await bench.launcher.restart("target.2")
            await bench.clock.restarted(bench, "target.2")
            assert [(await told(url))["asked"] for url in bench.urls] == [[DAY, 60], [DAY + 60]]
            totals = [event.data["total"] for event in bench.recorder.of("s")]
            assert totals == [DAY, DAY + 60]

    asyncio.run(play())


def test_one_that_keeps_its_time_is_not_asked_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, 'url = "http://127.0.0.1:{port}/clock"\nkeeps = true') as bench:
            await move(bench, DAY)
            await bench.clock.restarted(bench, "target")
            assert (await told(bench.url))["asked"] == [DAY]

    asyncio.run(play())


def test_a_hook_that_refuses_ends_the_scenario_and_nothing_was_moved(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, 'url = "http://127.0.0.1:{port}/refuse"') as bench:
            with pytest.raises(ScenarioError) as caught:
                await move(bench, DAY)
            assert "the target's clock could not be moved" in refusal(caught)
            assert "/refuse answered 403" in refusal(caught)
            assert (bench.clock_offset, bench.recorder.of("s")) == (0.0, [])

    asyncio.run(play())


def commanded(program: str) -> str:
    return f"kind = \"command\"\ncommand = ['{{python}}', '-I', '-S', '-c', '''{program}''', '{{seconds}}', '{{port}}']"


def test_a_program_is_given_the_seconds_and_where_the_target_is(tmp_path: Path) -> None:
    async def play() -> None:
        program = "import sys; open('moved', 'a').write(' '.join(sys.argv[1:]) + ';')"
        async with running(tmp_path, commanded(program)) as bench:
            await move(bench, DAY)
            await move(bench, 0.5)
            await bench.clock.restarted(bench, "target")  # all of it has lost its time
            port = bench.values["port"]
            assert (tmp_path / "moved").read_text() == f"86400 {port};0.5 {port};86400.5 {port};"

    asyncio.run(play())


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; print('x', flush=True); sys.exit('no rights')", "ended with status 1; its last words: no rights"),
        ("raise SystemExit(3)", "ended with status 3; it wrote nothing"),
        ("import signal; signal.pause()", "did not end within 0.4 s (target.timing.answers_within)"),
    ],
)
def test_a_program_that_fails_is_told_in_one_line(program: str, words: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, commanded(program)) as bench:
            object.__setattr__(bench.target.timing, "answers_within", 0.4 if "pause" in program else 5)
            with pytest.raises(ScenarioError) as caught:
                await move(bench, DAY)
            assert refusal(caught).startswith("the target's clock could not be moved: ")
            assert refusal(caught).endswith(words)
            assert bench.clock_offset == 0

    asyncio.run(play())


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, 'kind = "command"\ncommand = ["no-such-program"]') as bench:
            with pytest.raises(ScenarioError, match=r"'no-such-program' cannot be started .*target\.clock\.command"):
                await move(bench, DAY)

    asyncio.run(play())


# === Started again with another time ================================================================================


def test_a_restart_is_told_the_seconds_since_the_first_start(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, 'kind = "restart"') as bench:
            await move(bench, DAY)
            await move(bench, DAY)
            assert ahead((await told(bench.url))["now"]) == 2
            kinds = [event.kind for event in bench.recorder.of("s")]
            assert kinds == [Kind.STOP, Kind.RESTART, Kind.ADVANCED] * 2

    asyncio.run(play())


# === libfaketime ====================================================================================================


def test_a_python_program_lives_in_another_time_and_its_waits_last_as_long(tmp_path: Path) -> None:
    faketime()

    async def play() -> None:
        async with running(tmp_path, 'kind = "faketime"') as bench:
            assert ahead((await told(bench.url))["now"]) == 0
            await move(bench, 30 * DAY)
            seen = await told(bench.url, "/child")
            assert [ahead(seen[name]) for name in ("now", "date", "child")] == [30, 30, 30]
            assert 0.02 <= seen["took"] < 20, "a sleep is neither skipped nor endless"
            await move(bench, DAY / 2)
            await bench.launcher.crash("target")
            await bench.launcher.restart("target")
            assert ahead((await told(bench.url))["now"]) == 30.5, "what starts later has the time of the others"
            assert await bench.clock.doubt(bench) is None
            assert bench.signing_time > time.time() + 30 * DAY

    asyncio.run(play())


def test_a_node_program_lives_in_another_time(tmp_path: Path) -> None:
    faketime()
    require("node", "this target is written in JavaScript")

    async def play() -> None:
        async with running(tmp_path, 'kind = "faketime"', command='"node", "clocked.js"') as bench:
            await move(bench, 30 * DAY)
            seen = await told(bench.url)
            assert [ahead(seen["now"]), ahead(seen["date"])] == [30, 30]
            assert 0.019 <= seen["took"] < 20

    asyncio.run(play())


def test_a_process_may_be_left_out(tmp_path: Path) -> None:
    faketime()

    async def play() -> None:
        async with running(tmp_path, 'kind = "faketime"', more="clock = false") as bench:
            await bench.clock.move(bench, "s", 1)
            assert ahead((await told(bench.url))["now"]) == 0

    asyncio.run(play())


def test_a_program_that_asks_the_kernel_itself_is_found_out(tmp_path: Path) -> None:
    """As programs in Go do: the library is there, and the answers' Date stays behind."""
    faketime()
    if os.uname().machine != "x86_64":
        missing("faketime", "the number of a system call is another one here")

    async def play() -> None:
        async with running(tmp_path, 'kind = "faketime"', command=f'{COMMAND}, "kernel"') as bench:
            with pytest.raises(ScenarioError) as caught:
                await move(bench, DAY)
            assert refusal(caught).startswith("its clock did not move: the Date of its answers stayed behind")
            assert await bench.clock.doubt(bench) is not None
            assert bench.clock_offset == 0

    asyncio.run(play())


def test_a_program_that_has_not_loaded_the_library_is_found_out(tmp_path: Path) -> None:
    faketime()

    async def play() -> None:
        command = f'"env", "-u", "LD_PRELOAD", {COMMAND}'
        async with running(tmp_path, 'kind = "faketime"', command=command) as bench:
            with pytest.raises(ScenarioError) as caught:
                await move(bench, DAY)
            assert refusal(caught).startswith("its clock did not move: process 'target' has not loaded libfaketime")

    asyncio.run(play())


def test_one_that_was_busy_when_it_was_moved_is_looked_at_later(tmp_path: Path) -> None:
    faketime()
    if os.uname().machine != "x86_64":
        missing("faketime", "the number of a system call is another one here")

    async def play(kind: str) -> str | None:
        async with running(tmp_path, 'kind = "faketime"', command=f'{COMMAND}, "{kind}"') as bench:
            await bench.launcher.pause("target")
            await move(bench, DAY)
            await bench.launcher.resume("target")
            return await bench.clock.doubt(bench)

    assert asyncio.run(play("plain")) is None
    doubt = asyncio.run(play("kernel"))
    assert doubt is not None
    assert doubt.startswith("its clock did not move")


def test_a_clock_that_stayed_accuses_nobody(tmp_path: Path) -> None:
    """A sound target that never looks at our clock: "it never forgets" would be untrue."""
    faketime()
    result = retention(tmp_path, '"env", "-u", "LD_PRELOAD", "{python}", "mailer.py"')
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reason is not None
    assert "has not loaded libfaketime" in result.reason
    assert result.findings == ()


#: The time of day from the kernel, past the C library.
FROM_THE_KERNEL = """
import ctypes, time
class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]
def from_the_kernel(found=Timespec(), call=ctypes.CDLL(None).syscall):
    call(228, 0, ctypes.byref(found))
    return found.seconds + found.nanoseconds / 1e9
time.time = from_the_kernel
"""


@pytest.mark.parametrize("asleep", [False, True])
def test_a_clock_that_is_found_out_later_accuses_nobody_either(asleep: bool, tmp_path: Path) -> None:
    """One that sleeps cannot be looked at when it is moved: what was played after that must not count."""
    faketime()
    if os.uname().machine != "x86_64":
        missing("faketime", "the number of a system call is another one here")
    result = retention(tmp_path, '"{python}", "mailer.py"', top=FROM_THE_KERNEL, asleep=asleep)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert (result.reason or "").startswith("its clock did not move: the Date of its answers stayed behind")
    assert [kind for kind in (e.kind for e in result.history) if kind is Kind.ADVANCED] == [Kind.ADVANCED] * asleep
    assert result.findings == ()


@pytest.mark.parametrize("asleep", [False, True])
def test_a_key_ends_by_a_clock_that_was_moved(asleep: bool, tmp_path: Path) -> None:
    faketime()
    result = retention(tmp_path, '"{python}", "mailer.py"', asleep=asleep)
    assert (result.verdict, result.reason) == (Verdict.PASSED, None)
    assert list(result.deliveries.values()) == [2], "the key is forgotten, and the same mail is a new one"


def retention(folder: Path, command: str, *, top: str = "", asleep: bool = False) -> ScenarioResult:
    """Play the end of a key's life against the careful mailer, by libfaketime; ``asleep`` when it is moved."""
    common = ROOT / "tests" / "targets_common"
    (folder / "mailer.py").write_text(
        f"import sys\nsys.path.insert(0, {str(common)!r})\n{top}\nfrom vendors import Rasket\nRasket().serve()\n"
    )
    (folder / "target.toml").write_text(
        '[target]\ncontract = "rasket"\n[target.api]\nurl = "http://127.0.0.1:{port}"\n'
        'headers = { Authorization = "Bearer main" }\n'
        f'[target.clock]\nkind = "faketime"\n[target.start]\ncommand = [{command}]\nready = "/healthz"\n'
        'env = { PORT = "{port}", MAIL_PROVIDER_URL = "{provider_url}", STATE = "{state}" }\n'
        "[target.timing]\ndelivers_within = 1\n"
    )
    target, path = load(str(folder / "target.toml"))
    move = "{advance: {by: retention.at_most, plus: 60}}"
    move = f"{{pause: target}}, {move}, {{resume: target}}" if asleep else move
    scenario = parse(
        f"{{id: own.after, title: t, role: api, steps: [{{send: {{as: first}}}}, settle, {move}, "
        "{send: {as: renewed, op: renewed, like: first}}, {send: {as: again, like: renewed}}]}"
    )
    settings = RunSettings(reports=folder / "reports", watch=0.1)
    result: RunResult = asyncio.run(session.run(target, path, [scenario], settings))
    assert result.error is None
    return result.scenarios[0]


# --- what it makes, and what it can do with a store -----------------------------------------------------------------


@pytest.fixture
def moved() -> Iterator[FakeTime]:
    faketime()
    clock = FakeTime(monotonic=False, library=None)
    yield clock
    clock.close()


def shared_by(env: dict[str, str]) -> list[Path]:
    semaphore, page = env["FAKETIME_SHARED"].split()
    return [Path("/dev/shm", f"sem.{semaphore[1:]}"), Path("/dev/shm", page[1:])]


def test_what_it_makes_for_a_start_is_gone_at_the_next_one_and_at_the_end(moved: FakeTime) -> None:
    first = moved.environment("target", ["x"], {})
    second = moved.environment("target", ["x"], {})
    other = moved.environment("target.2", ["x"], {})
    assert [path.exists() for path in shared_by(first)] == [False, False]
    kept = [*shared_by(second), *shared_by(other), Path(second["FAKETIME_TIMESTAMP_FILE"])]
    assert all(path.exists() for path in kept)
    moved.close()
    assert not any(path.exists() for path in [*kept, kept[-1].parent])


def test_a_killed_process_leaves_no_shared_memory(moved: FakeTime) -> None:
    def segments() -> set[str]:
        return {path.name for path in Path("/dev/shm").iterdir() if "faketime" in path.name}

    before = segments()
    env = moved.environment("target", ["sleep", "60"], os.environ)
    with subprocess.Popen(["sleep", "60"], env=env) as process:
        process.send_signal(signal.SIGKILL)
    moved.close()
    assert not {name for name in segments() - before if str(process.pid) in name}


def test_what_a_process_preloads_by_itself_comes_after(moved: FakeTime) -> None:
    env = moved.environment("target", ["x"], {"LD_PRELOAD": "/own.so", "FAKETIME": "-1d", "HOME": "/h"})
    assert env["LD_PRELOAD"].endswith(":/own.so")
    assert ("FAKETIME" in env, env["HOME"]) == (False, "/h"), "it would outrank the file"


def test_a_redis_forgets_by_a_clock_that_was_moved(moved: FakeTime, tmp_path: Path) -> None:
    program = require("redis-server", "a Redis is needed")
    client = require("redis-cli", "it asks the Redis")
    command = [program, "--bind", "127.0.0.1", "--port", str(free_port()), "--save", "", "--dir", str(tmp_path)]

    def cli(*words: str) -> str:
        asked = subprocess.run([client, "-p", command[4], *words], capture_output=True, text=True, timeout=10)  # noqa: PLW1510
        return asked.stdout.strip()

    env = moved.environment("redis", command, os.environ)
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert any("Ready to accept" in line for line in server.stdout)
            moved.started("redis", [server.pid])
            assert moved._unmoved is None
            cli("SET", "lease", "owner", "EX", "100")
            moved._write(90)
            assert int(cli("TTL", "lease")) <= 10
            assert cli("GET", "lease") == "owner"
            moved._write(101)
            assert cli("GET", "lease") == ""
        finally:
            server.kill()


def test_a_postgresql_lives_in_another_time(moved: FakeTime) -> None:
    """Its backends have sessions of their own, and it runs as another user when the tests run as root."""
    env = moved.environment("postgres", ["postgres"], {})
    changed = {name: value for name, value in env.items() if name.startswith(("FAKETIME", "LD_"))}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changed.items():
            patch.setenv(name, value)
        started = a_postgresql()
        server = started.__enter__()
    try:
        before = float(server.sql("SELECT extract(epoch FROM now())"))
        moved._write(30 * DAY)
        assert ahead(before) == 0
        assert ahead(float(server.sql("SELECT extract(epoch FROM now())"))) == 30
    finally:
        started.__exit__(None, None, None)


# === What a clock must be able to ===================================================================================

PAUSED = """
id: own.paused
title: t
role: api
steps:
  - send: {as: first, at: {provider.request: hold}}
  - pause: target
  - advance: {by: 600}
  - resume: target
  - release: first
  - await: first
"""
RESTING = "{id: own.resting, title: t, role: api, steps: [{send: {as: first}}, {advance: {by: 600}}]}"
SHORT = "{id: own.short, title: t, role: api, steps: [{send: {as: first}}, {advance: {by: 2}}]}"
FLYING = """
id: own.flying
title: t
role: api
steps:
  - send: {as: first, at: {provider.request: hold}}
  - advance: {by: 600}
  - release: first
  - await: first
  - advance: {by: 600}
"""
RESTARTED = {"kind": "restart"}
HTTP = {"url": "http://127.0.0.1:1/clock"}


@pytest.mark.parametrize(
    ("scenario", "clock", "words"),
    [
        (RESTING, None, ["the target's clock cannot be moved: add [target.clock]"]),
        (RESTING, {"kind": "none"}, ["the target's clock cannot be moved: add [target.clock]"]),
        (SHORT, None, []),
        (RESTING, HTTP, []),
        (FLYING, HTTP, []),
        (PAUSED, HTTP, ["a target that sleeps cannot be asked to move its clock"]),
        (PAUSED, {"kind": "command", "command": ["x"]}, []),
        (RESTING, RESTARTED, []),
        (FLYING, RESTARTED, ["its clock is moved by a restart, which would end what is in flight then"]),
        (PAUSED, RESTARTED, ["its clock is moved by a restart, which would end what is in flight then"]),
    ],
)
def test_a_clock_that_cannot_be_moved_as_a_scenario_asks_skips_it(
    scenario: str, clock: dict[str, Any] | None, words: list[str]
) -> None:
    assert [reason.split(": target")[0].split(";")[0] for reason in reasons(scenario, clock)] == words


def reasons(scenario: str, clock: dict[str, Any] | None, **more: Any) -> Sequence[str]:
    start = {"command": ["x", "{clock_offset}"], **more}
    target = TargetBody.model_validate({"api": {"url": "http://127.0.0.1:1"}, "start": start, "clock": clock})
    return list(clock_needs.missing(parse(scenario), target, contract_named("universal")))


def test_a_restart_moves_only_what_is_told_the_time_and_keeps_its_state() -> None:
    assert "put {clock_offset} into target.start.env or command" in reasons(RESTING, RESTARTED, command=["x"])[0]
    assert "target.start.keeps_state is false" in reasons(RESTING, RESTARTED, keeps_state=False)[0]


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reasons(RESTING, {"kind": "faketime", "library": "/no/such.so"}) == [
        "target.clock.library: there is no /no/such.so"
    ]
    monkeypatch.setattr(library, "_FOLDERS", ())
    assert reasons(RESTING, {"kind": "faketime"}) == ["libfaketime is not installed: apt install faketime"]
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "needs Linux" in reasons(RESTING, {"kind": "faketime"})[0]


def test_what_already_runs_cannot_be_given_a_library() -> None:
    target = TargetBody.model_validate({"api": {"url": "http://127.0.0.1:1"}, "clock": {"kind": "faketime"}})
    found = list(clock_needs.missing(parse(RESTING), target, contract_named("universal")))
    assert found == ["a clock of kind faketime moves what [target.start] starts, and nothing is started"]


def test_a_clients_program_is_started_for_each_operation(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text(
        '[target]\nrole = "client"\n[target.client]\ncommand = ["x"]\n[target.clock]\nkind = "faketime"\n'
    )  # fmt: skip
    with pytest.raises(BadFileError) as caught:
        load(str(path))
    assert str(caught.value) == (
        f"{path}: target.clock.kind: 'faketime' moves the clock of a process here; a client's program is started for "
        "each operation, and its clock is moved by restart, http or command"
    )
