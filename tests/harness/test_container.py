"""Targets in containers, on a real engine: started, killed, frozen, and gone afterwards."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness import dry_run
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.launch import owned
from sendtwice.harness.launch.container import Containers
from sendtwice.harness.launch.engine import Engine
from sendtwice.harness.launch.networks import Network
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import Provider, load
from sendtwice.harness.target_running import Container
from tests import engine as engines
from tests.engine import docker
from tests.support import ROOT, missing, require

SENDTWICE = [sys.executable, "-m", "sendtwice.harness.cli"]

#: Answers with how often it was started, which a file of its own tells it; `end` ends it.
PROGRAM = """
import http.server, os, pathlib, signal, sys

starts = pathlib.Path("/starts")
count = len(starts.read_text()) + 1 if starts.exists() else 1
starts.write_text("x" * count)
print("start", count, flush=True)
if "polite" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/end":
            print("this is the end", flush=True)
            os._exit(3)
        self.send_response(404 if self.path == "/never" else 200)
        self.send_header("Content-Length", "1")
        self.end_headers()
        self.wfile.write(str(count).encode())

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer((sys.argv[2], int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of all workers, while an engine answers."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with engines.running(folder):
        yield folder


@pytest.fixture(scope="session")
def base(shared: Path) -> str:
    with engines.alone(shared, "base"):
        return engines.base_image()


@pytest.fixture(scope="session")
def served(shared: Path, base: str) -> str:
    """The image of `sendtwice serve`."""
    name = "sendtwice-test-serve"
    offline = [f"BASE={base}", "PIP_NO_INDEX=1", "PIP_NO_BUILD_ISOLATION=0"]
    with engines.alone(shared, "served"):
        if not (shared / "served.done").exists():
            args = [part for one in offline for part in ("--build-arg", one)]
            docker("build", "--file", str(ROOT / "fake_provider/Dockerfile"), "--tag", name, *args, str(ROOT))
            (shared / "served.done").touch()
    return name


def sendtwice(*arguments: str, cwd: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*SENDTWICE, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def played(target: Path, *scenarios: str) -> tuple[int, dict[str, Any]]:
    """Run scenarios as a user does, see that nothing is left behind, and return the status and the result."""
    chosen = [part for name in scenarios for part in ("--scenario", name)]
    run = sendtwice("run", target.name, *chosen, "--json", "result.json", cwd=target.parent)
    _, told = run.communicate(timeout=100)
    assert (target.parent / "result.json").exists(), told
    assert left_by(run.pid) == []
    return run.returncode, json.loads((target.parent / "result.json").read_text())


def left_by(pid: int) -> list[str]:
    """What a run that this process was has left in the engine."""
    name = f"sendtwice-{pid}-"
    return [
        line
        for kind in (["ps", "--all"], ["volume", "ls"], ["network", "ls"], ["images", "--format", "{{.Repository}}"])
        for line in docker(*kind).splitlines()
        if name in line
    ]


def target_file(folder: Path, container: str, contract: str = "rasket", **more: str) -> Path:
    path = folder / "target.toml"
    tables = "\n".join(f"[target.{name}]\n{lines}" for name, lines in more.items() if name != "top")
    path.write_text(
        f"""
        [target]
        name = "contained"
        contract = "{contract}"
        [target.api]
        url = "http://127.0.0.1:{{port}}"
        headers = {{ Authorization = "Bearer main" }}
        [target.api.senders.main]
        values = {{ mailbox = "mb_1", id = "example" }}
        [target.container]
        {container}
        [target.timing]
        retries_for = 0
        {tables}
        """
    )
    return path


EMULATED = (
    'command = ["serve", "--contract", "rasket", "--host", "{host}", "--port", "{{port}}", "--state", "{{state}}", '
    '"--upstream", "{{provider_url}}"]\nready = "/healthz"'
)


def verdicts(result: dict[str, Any]) -> dict[str, str]:
    return {one["id"]: one["verdict"] for one in result["scenarios"] if one["verdict"] != "skipped"}


# -- whole runs -------------------------------------------------------------------------------------------------------


def test_the_emulator_in_a_container_keeps_its_contract_when_it_is_killed(served: str, tmp_path: Path) -> None:
    command = EMULATED.format(host="127.0.0.1")
    target = target_file(tmp_path, f'image = "{served}"\nnetwork = "host"\n{command}')
    crashes = ("send.crash-before-accept", "send.crash-after-accept", "send.crash-after-answer")
    status, result = played(target, *crashes)
    assert (status, verdicts(result)) == (0, dict.fromkeys(crashes, "passed"))
    log = next((tmp_path / "reports").glob("*/output/target.log"))
    assert log.read_text().count('"ready": true') == 1 + len(crashes)


def test_a_flawed_program_is_built_and_caught(base: str, tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    shutil.copy(ROOT / "tests/flawed/forgets-on-restart/mailer.py", app)
    shutil.copy(ROOT / "tests/targets_common/plumbing.py", app)
    (app / "Mailer.dockerfile").write_text(
        'ARG BASE\nFROM ${BASE}\nCOPY *.py /app/\nCMD ["python", "/app/mailer.py"]\n'
    )
    target = target_file(
        tmp_path,
        f"""
        build = "app"
        dockerfile = "Mailer.dockerfile"
        args = {{ BASE = "{base}" }}
        network = "host"
        env = {{ PORT = "{{port}}", MAIL_PROVIDER_URL = "{{provider_url}}" }}
        ready = "/healthz"
        """,
        contract="resend",
    )
    status, result = played(target, "send.crash-after-answer")
    assert (status, verdicts(result)) == (1, {"send.crash-after-answer": "failed"})
    assert "at-most-once" in {finding["rule"] for finding in result["scenarios"][0]["findings"]}


def test_on_a_network_of_its_own_it_finds_the_provider_and_is_found(served: str, tmp_path: Path) -> None:
    network = f"sendtwice-test-{os.getpid()}"
    made = subprocess.run(["docker", "network", "create", network], capture_output=True, text=True, check=False)
    if made.returncode:
        missing("bridge", f"the engine makes no network here ({made.stderr.strip()})")
    try:
        command = EMULATED.format(host="0.0.0.0")
        # The port is the one that the image declares.
        target = target_file(tmp_path, f'image = "{served}"\nnetwork = "{network}"\n{command}')
        crashes = ("send.crash-after-accept", "send.crash-before-accept")
        status, result = played(target, *crashes)
    finally:
        docker("network", "rm", network)
    assert (status, verdicts(result)) == (0, dict.fromkeys(crashes, "passed"))


def test_a_service_of_a_compose_file_is_the_target_and_the_others_live_on(served: str, tmp_path: Path) -> None:
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        require("docker-compose", "targets that a compose file describes")
    (tmp_path / "compose.yaml").write_text(
        f"""
        services:
          mailer: {{ image: {served}, depends_on: [other], environment: {{ COST: "$$5" }} }}
          other: {{ image: {served}, network_mode: host, volumes: ["data:/data"], command: [serve, --port, "0",
                   --contract, "$CONTRACT"] }}
        volumes: {{ data: }}
        """
    )
    command = EMULATED.format(host="127.0.0.1")
    target = target_file(
        tmp_path,
        f'compose = "compose.yaml"\nservice = "mailer"\nnetwork = "host"\nenv = {{ CONTRACT = "resend" }}\n{command}',
    )
    status, result = played(target, "send.crash-after-accept")
    assert (status, verdicts(result)) == (0, {"send.crash-after-accept": "passed"})
    logs = next((tmp_path / "reports").glob("*/output"))
    assert (logs / "target.log").read_text().count('"contract": "rasket"') == 2
    assert (logs / "other.log").read_text().count('"contract": "resend"') == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_no_container(number: signal.Signals, status: int, served: str, tmp_path: Path) -> None:
    command = EMULATED.format(host="127.0.0.1")
    container = f'image = "{served}"\nnetwork = "host"\n{command}'
    target = target_file(tmp_path, container.replace("/healthz", "/never"))
    run = sendtwice("run", target.name, "--scenario", "send.repeat", cwd=tmp_path)
    wait_for_start(run)
    run.send_signal(number)
    run.communicate(timeout=30)
    assert run.returncode == status
    assert left_by(run.pid) == []


def wait_for_start(run: "subprocess.Popen[str]") -> None:
    """Wait until a run has started its container."""
    events = ["docker", "events", "--since", "0", "--filter", "event=start", "--format", "{{.Actor.Attributes.name}}"]
    with subprocess.Popen(events, stdout=subprocess.PIPE, text=True) as seen:
        assert seen.stdout is not None
        while f"sendtwice-{run.pid}-" not in seen.stdout.readline():
            assert run.poll() is None
        seen.terminate()


# -- what a run does to a container -----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def launched(folder: Path, base: str, *words: str, **more: Any) -> AsyncIterator[Containers]:
    spec = {
        "image": base,
        "network": "host",
        "command": ["python", "-c", PROGRAM, "{port}", "127.0.0.1", *words],
        "ready": "/",
        **more,
    }
    containers = await Containers.prepare(Container(**spec), "mailer", folder, folder / "logs")
    try:
        await containers.network.provider_place(Provider())
        containers.reached({}, None, None)
        await containers.start()
        yield containers
    finally:
        await containers.stop()


async def asked(containers: Containers, path: str = "/", timeout: float = 10) -> bytes:
    def get() -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{containers.ports()[0]}{path}", timeout=timeout) as answer:
            body: bytes = answer.read()
            return body

    return await asyncio.to_thread(get)


async def dead(containers: Containers) -> str:
    async with asyncio.timeout(10):
        while (words := containers.died()) is None:
            await asyncio.sleep(0.01)
    return words


def test_it_is_the_same_container_after_a_crash_and_its_words_are_kept_once(base: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with launched(tmp_path, base) as containers:
            assert await asked(containers) == b"1"
            await containers.crash("target")
            with pytest.raises(OSError, match="refused"):
                await asked(containers)
            assert containers.died() is None
            assert await containers.restart("target")
            assert await asked(containers) == b"2"
            await containers.crash("target")
            await containers.crash("target")  # it is dead already
            assert await containers.restart("target")
            assert await containers.restart("target")  # it runs already
            assert await asked(containers) == b"3"
            assert docker("ps", "--all", "--quiet", "--filter", f"name={containers.run}").count("\n") == 0
        assert (tmp_path / "logs/target.log").read_text().splitlines() == ["start 1", "start 2", "start 3"]

    asyncio.run(main())


def test_a_frozen_container_answers_nothing_until_it_is_thawed_and_can_be_killed(base: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with launched(tmp_path, base) as containers:
            await containers.pause("target")
            await containers.pause("target")  # it is frozen already
            answer = asyncio.ensure_future(asked(containers))
            assert not (await asyncio.wait({answer}, timeout=0.3))[0]
            await containers.resume("target")
            await containers.resume("target")
            assert await answer == b"1"
            await containers.pause("target")
            await containers.crash("target")
            assert await containers.restart("target")
            assert await asked(containers) == b"2"

    asyncio.run(main())


@pytest.mark.parametrize(("word", "willingly"), [("polite", True), ("deaf", False)])
def test_one_that_is_asked_to_end_and_does_not_is_killed_in_the_end(
    word: str, willingly: bool, base: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with launched(tmp_path, base, word, stop_timeout=0.3 if word == "deaf" else 10) as containers:
            await containers.terminate("target")
            assert await containers.restart("target") is willingly
            assert await asked(containers) == b"2"

    asyncio.run(main())


def test_a_container_that_ends_by_itself_is_told_with_its_last_words(base: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with launched(tmp_path, base) as containers:
            with pytest.raises(OSError):
                await asked(containers, "/end")
            words = await dead(containers)
            assert words == "the target's container ended with status 3 by itself; its last words: this is the end"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"image": "127.0.0.1:1/none:1"}, "the image '127.0.0.1:1/none:1' is not here and cannot be pulled \\("),
        (
            {"command": ["nonsense"]},
            r'the target.s container cannot be started \(.*"nonsense": executable file not found',
        ),
        (
            {"command": ["python", "-c", "print('oh no'); raise SystemExit(7)"]},
            "ended with status 7 before it was ready; its",
        ),
        (
            {"ready": "/never", "timeout": 1.5},
            r"was not ready on port \d+ within 1.5 s \(waited for /never; .*: see target.container.ready",
        ),
        ({"network": "nowhere"}, "target.container.network: the engine has no network 'nowhere'; it has: .*host.*"),
        ({"env": {"X": "{env:SENDTWICE_NOT_SET}"}}, "target.container: the environment variable SENDTWICE_NOT_SET is"),
    ],
)
def test_what_keeps_a_container_from_running_is_said_in_one_line(
    more: dict[str, Any], said: str, base: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with launched(tmp_path, base, **more):
            raise AssertionError

    with pytest.raises(HarnessError, match=said) as told:
        asyncio.run(main())
    assert "\n" not in str(told.value)
    assert left_by(os.getpid()) == []


def test_a_build_that_fails_says_where_its_words_are(base: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\nRUN echo no such thing && exit 9\n")
    with pytest.raises(
        HarnessError, match=r"target.container.build: it cannot be built \(status 9; its last words: .*"
    ):
        asyncio.run(started(tmp_path, build="."))
    assert "no such thing" in (tmp_path / "logs/target.build.log").read_text()
    assert "no such thing" not in docker("ps", "--all", "--no-trunc")


async def started(folder: Path, **spec: Any) -> None:
    async with launched(folder, "", **{"image": None, **spec}):
        pass


def test_a_service_that_the_compose_file_lacks_is_named(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {web: {image: x}, db: {image: y}}")
    with pytest.raises(HarnessError, match=r"target.container.service: compose.yaml has no 'app'; it has: web, db"):
        asyncio.run(started(tmp_path, compose="compose.yaml", service="app"))


# -- what killed runs leave -------------------------------------------------------------------------------------------


def test_what_a_killed_run_has_left_goes_with_the_next_one(base: str, tmp_path: Path) -> None:
    command = json.dumps(["python", "-c", PROGRAM, "{port}", "127.0.0.1"])
    target = target_file(tmp_path, f'image = "{base}"\nnetwork = "host"\ncommand = {command}\nready = "/never"')
    killed = sendtwice("run", target.name, cwd=tmp_path)
    wait_for_start(killed)
    killed.kill()
    killed.communicate()
    living = owned.run_name()
    docker("create", "--label", f"{owned.RUN}={living}", "--name", living, base)
    try:

        async def main() -> None:
            async with launched(tmp_path, base):
                assert left_by(killed.pid) == []

        asyncio.run(main())
        assert docker("ps", "--all", "--quiet", "--filter", f"name={living}")
    finally:
        docker("rm", "--force", living)


def test_a_run_is_dead_when_its_process_has_ended_or_is_another_one_now() -> None:
    name = owned.run_name()
    assert not owned.is_dead(name)
    ended = subprocess.run(
        [sys.executable, "-c", PRINT_NAME], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert owned.is_dead(ended)
    sendtwice_, pid, began, place, end = name.split("-")
    assert owned.is_dead("-".join((sendtwice_, pid, str(int(began) + 1), place, end)))  # its number is used again
    assert not owned.is_dead("-".join((sendtwice_, ended.split("-")[1], began, "0" * 8, end)))  # on another machine
    assert not owned.is_dead("somebody-elses")


#: For another process.
PRINT_NAME = "from sendtwice.harness.launch import owned; print(owned.run_name())"


# -- the image of sendtwice itself ------------------------------------------------------------------------------------


def test_the_image_of_serve_is_nobodys_and_healthy(served: str, shared: Path) -> None:
    config = json.loads(docker("inspect", served))[0]["Config"]
    assert config["User"] == "10001:10001"
    assert list(config["ExposedPorts"]) == ["8025/tcp"]
    assert config["Entrypoint"] == ["sendtwice"]
    assert config["Cmd"][:3] == ["serve", "--host", "0.0.0.0"]
    kind, *healthy = config["Healthcheck"]["Test"]
    assert kind == "CMD"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    name = f"sendtwice-test-serve-{os.getpid()}"
    options = ["--detach", "--rm", "--network", "host", "--name", name, "--env", f"SENDTWICE_PORT={port}"]
    docker("run", *options, served, "serve", "--contract", "resend", "--state", "/data/state.db")
    try:
        with subprocess.Popen(["docker", "logs", "--follow", name], stdout=subprocess.PIPE, text=True) as said:
            assert said.stdout is not None
            assert json.loads(said.stdout.readline())["ready"]
            said.terminate()
        docker("exec", name, *healthy)
        docker("exec", "--env", "SENDTWICE_PORT=1", name, "sh", "-c", '! $0 "$@" 2>/dev/null', *healthy)
        assert docker("exec", name, "sh", "-c", "test -w /data/state.db && ! test -w /usr/local && echo well") == "well"
    finally:
        docker("rm", "--force", name)


# -- without an engine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("unix:///nowhere/docker.sock", "nothing is there; start it, or set DOCKER_HOST"),
        ("tcp://127.0.0.1:1", "connection refused; start it, or set DOCKER_HOST"),
    ],
)
def test_an_engine_that_does_not_answer_is_named(
    place: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", place)
    with pytest.raises(HarnessError) as told:
        asyncio.run(Containers.prepare(Container(image="x"), "mailer", tmp_path, tmp_path))
    assert str(told.value) == f"no container engine answers at {place} ({said})"


def test_without_an_engine_a_run_could_not_do_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    run = sendtwice("check", target_file(tmp_path, 'image = "x"').name, cwd=tmp_path)
    told, wrong = run.communicate(timeout=30)
    assert (run.returncode, told) == (4, "")
    place = "unix:///nowhere/docker.sock"
    said = f"sendtwice: no container engine answers at {place} (nothing is there; start it, or set DOCKER_HOST)"
    assert wrong.splitlines() == [said]


def test_testcontainers_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "testcontainers.core", None)
    with pytest.raises(HarnessError, match=r"testcontainers is not installed; pip install 'sendtwice\[docker\]'"):
        asyncio.run(Containers.prepare(Container(image="x"), "mailer", tmp_path, tmp_path))


def test_an_engine_on_another_machine_is_refused() -> None:
    Engine(None, "127.0.0.1", ()).must_be_here()
    with pytest.raises(HarnessError, match=r"the container engine is on 192.0.2.7, .* leave \[target.container\] out"):
        Engine(None, "192.0.2.7", ()).must_be_here()


@pytest.mark.parametrize(
    ("container", "said"),
    [
        ("", "target.container: a container comes from one of: image, build, compose"),
        ('image = "x"\nbuild = "."', "target.container: a container comes from one of: image, build, compose"),
        ('image = "x"\nnetwork = "none"', "target.container: on network none a container can be reached by nobody"),
        ('compose = "x"\nservice = "y"\nnetwork = "z"', "target.container: the compose file says which networks"),
        ('image = "x"\ndockerfile = "y"', "target.container: dockerfile and args are for build, the folder"),
        (
            'build = "nowhere"',
            "target.container.build: 'nowhere' does not exist; its path starts at this file's folder",
        ),
        ('compose = "c.yaml"\nservice = "x"', "target.container.compose: 'c.yaml' does not exist"),
        ('compose = "target.toml"\nservice = "x"', "target.container.port: is missing; say where the service listens"),
        ('compose = "target.toml"', "target.container: compose and service belong together"),
        ('image = "x"\nenv = { A = "{python}" }', "target.container.env: unknown placeholder {python}"),
        (
            'image = "x"\n[target.clock]\nkind = "faketime"',
            "target.clock.kind: 'faketime' moves the clock of a process",
        ),
    ],
)
def test_mistakes_in_the_file_are_found_before_anything_is_started(container: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadFileError) as told:
        load(str(target_file(tmp_path, container)))
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("container", "said"),
    [
        ('image = "shop:1"\nnetwork = "host"', "starts: a container of shop:1, on the network of this machine"),
        ('build = "."', "starts: a container built of ., on network bridge"),
        (
            'compose = "target.toml"\nservice = "app"\nport = 80',
            "starts: the service app of target.toml and what it depends on, in containers, on network bridge",
        ),
    ],
)
def test_a_dry_run_says_what_it_would_start(container: str, said: str, tmp_path: Path) -> None:
    target, path = load(str(target_file(tmp_path, container)))
    told = list(dry_run.lines(target, effective_contract(target, path.parent, None), [], RunSettings()))
    assert said in told
    assert "starts: nothing; the target must already run" not in told


# -- where the provider is --------------------------------------------------------------------------------------------


class _Network:
    """What the engine says of a network."""

    def __init__(self, name: str, **config: str) -> None:
        self.name, self.id, self.attrs = name, name, {"IPAM": {"Config": [config]}}


@pytest.mark.parametrize(
    ("network", "provider", "place", "store"),
    [
        ("host", {}, ("127.0.0.1", None), "127.0.0.1:1"),
        ("bridge", {}, ("127.0.0.9", None), "127.0.0.9:1"),  # the gateway is this machine's
        ("bridge", {"advertise": "mail.test:{port}"}, ("127.0.0.9", "mail.test:{port}"), "127.0.0.9:1"),
        ("bridge", {"bind": "0.0.0.0"}, ("0.0.0.0", "host.docker.internal:{port}"), "127.0.0.9:1"),
        # The engine runs in a virtual machine.
        ("far", {}, ("127.0.0.1", "host.docker.internal:{port}"), "host.docker.internal:1"),
        ("subnet", {}, ("127.0.0.1", None), "127.0.0.1:1"),  # no gateway is said: the first address
    ],
)
def test_the_provider_and_the_stores_wires_are_where_the_container_can_reach_them(
    network: str, provider: dict[str, str], place: tuple[str, str | None], store: str
) -> None:
    class Networks:
        @staticmethod
        def list(names: list[str]) -> list[_Network]:
            known = {
                "bridge": _Network("bridge", Gateway="127.0.0.9"),
                "far": _Network("far", Gateway="192.0.2.77"),
                "subnet": _Network("subnet", Subnet="127.0.0.0/8"),
            }
            return [known[name] for name in names]

    async def main() -> None:
        engine = Engine(SimpleNamespace(networks=Networks), "127.0.0.1", ())
        found = Network(Container(image="x", network=network), engine)
        assert await found.provider_place(Provider(**provider)) == place  # type: ignore[arg-type]
        assert found.seen(f"{found.here}:1") == store

    asyncio.run(main())
