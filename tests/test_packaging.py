"""The wheel: all under one name, with data and types, beside a project that has its own `harness`."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from tests.support import ROOT

FOLDERS = ("fake_provider", "harness", "scenarios")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore")


def run(*command: str | Path, cwd: Path, ok: bool = True) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is ok, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


class Built(NamedTuple):
    source: Path
    wheel: Path
    sdist: Path
    wheel_from_sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Both distributions, built from a copy of the sources, so that nothing is written into the checkout."""
    source = tmp_path_factory.mktemp("source")
    for folder in (*FOLDERS, "sendtwice"):
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        if (ROOT / file).exists():
            shutil.copy(ROOT / file, source / file)
    # What an import leaves behind must not be shipped.
    (source / "harness" / "__pycache__").mkdir()
    (source / "harness" / "__pycache__" / "left.cpython-311.pyc").write_bytes(b"")

    build = [sys.executable, "-m", "build", "--no-isolation"]
    run(*build, "--wheel", "--outdir", "direct", cwd=source)
    run(*build, "--outdir", "both", cwd=source)
    (wheel,) = (source / "direct").glob("*.whl")
    (sdist,) = (source / "both").glob("*.tar.gz")
    (wheel_from_sdist,) = (source / "both").glob("*.whl")
    return Built(source, wheel, sdist, wheel_from_sdist)


class Installed(NamedTuple):
    python: Path
    project: Path


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in its own environment, and a project that has packages of the folders' names."""
    base = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", base / "venv", cwd=base)
    python = base / "venv" / "bin" / "python"
    run(
        *(sys.executable, "-m", "pip", "--python", python),
        *("install", "-qq", "--no-deps", "--no-index", built.wheel),
        cwd=base,
    )
    # The dependencies come from the environment that runs the tests. The .pth files in there are not read, so
    # the checkout stays out of sight.
    purelib = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=base).strip()
    (Path(purelib) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    project = base / "project"
    for package in (*FOLDERS, "tests"):
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").write_text("MINE = True\n")
    return Installed(python, project)


def contents(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def test_the_wheel_installs_one_name(built: Built) -> None:
    tops = {name.split("/")[0] for name in contents(built.wheel)}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"sendtwice"}


def test_the_wheel_holds_every_source_and_data_file_once(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = wheel.namelist()
    here = {
        f"sendtwice/{path.relative_to(built.source)}"
        for folder in FOLDERS
        for path in (built.source / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert len(names) == len(set(names))
    assert {name for name in names if ".dist-info/" not in name} == {
        "sendtwice/__init__.py",
        "sendtwice/py.typed",
        *here,
    }


@pytest.mark.parametrize("folder", ["fake_provider/contracts", "scenarios"])
def test_the_data_files_are_shipped(built: Built, folder: str) -> None:
    data = sorted((built.source / folder).rglob("*.yaml"))
    shipped = contents(built.wheel)

    assert data
    for path in data:
        assert shipped[f"sendtwice/{path.relative_to(built.source)}"] == path.read_bytes()


def test_the_sdist_builds_the_same_wheel(built: Built) -> None:
    assert contents(built.wheel_from_sdist) == contents(built.wheel)


def test_the_sdist_holds_no_links_and_nothing_twice(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        members = sdist.getmembers()

    assert not [m.name for m in members if m.issym() or m.islnk()]
    assert not [m.name for m in members for folder in FOLDERS if f"/sendtwice/{folder}" in m.name]


def test_a_project_keeps_its_own_packages(installed: Installed) -> None:
    lines = run(
        installed.python,
        "-c",
        "import fake_provider, harness, scenarios, tests\n"
        "import sendtwice.fake_provider, sendtwice.harness, sendtwice.scenarios\n"
        "for module in fake_provider, harness, scenarios, tests:\n"
        "    print(module.MINE, module.__file__)\n"
        "for module in sendtwice.fake_provider, sendtwice.harness, sendtwice.scenarios:\n"
        "    print(hasattr(module, 'MINE'), module.__file__)\n",
        cwd=installed.project,
    ).splitlines()

    own, ours = lines[:4], lines[4:]
    assert all(line.startswith(f"True {installed.project}/") for line in own), own
    assert all(line.startswith("False ") and "/site-packages/sendtwice/" in line for line in ours), ours


def test_every_module_of_the_wheel_can_be_imported(installed: Installed) -> None:
    out = run(
        installed.python,
        "-c",
        "import importlib, pkgutil, sendtwice\n"
        "for found in pkgutil.walk_packages(sendtwice.__path__, 'sendtwice.'):\n"
        "    if not found.name.endswith('__main__'):\n"
        "        importlib.import_module(found.name)\n"
        "print(sendtwice.__version__)\n",
        cwd=installed.project,
    )

    assert out.strip().count(".") == 2


def test_a_strict_consumer_finds_the_types(installed: Installed) -> None:
    (installed.project / "good.py").write_text(
        "import sendtwice\n\nversion: str = sendtwice.__version__\n\n\n"
        "def twice(api: sendtwice.SendApi, op: sendtwice.Operation) -> bool:\n"
        "    api.lose('client.response', attempt=1, to=op.to)\n"
        "    return api.deliveries == len(api.mails) and api.keys[0] == op.id\n"
    )
    (installed.project / "bad.py").write_text("import sendtwice\n\nversion: int = sendtwice.__version__\n")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed.python)]

    assert "Success" in run(*mypy, "good.py", cwd=installed.project)
    assert "[assignment]" in run(*mypy, "bad.py", cwd=installed.project, ok=False)


_MAILER = """
import uuid

import httpx


def send_receipt(client, order_id, to, flawed):
    mail = {"from": "shop@x.test", "to": [to], "subject": f"Order {order_id}", "text": "Thank you."}
    for _ in range(3):
        key = str(uuid.uuid4()) if flawed else f"receipt-{order_id}"
        headers = {"Authorization": "Bearer re_123", "Idempotency-Key": key}
        try:
            answer = client.post("/emails", json=mail, headers=headers)
        except httpx.TransportError:
            continue
        return answer.raise_for_status().json()["id"]
"""
_TEST = """
import httpx
import pytest
from mailer import send_receipt

pytestmark = [pytest.mark.sendtwice(contract="resend"), pytest.mark.parametrize("flawed", [False, True])]


@pytest.mark.parametrize("way", ["sockets", "in-process"])
def test_by_hand(send_api, way, flawed):
    transport = send_api.transport if way == "in-process" else None
    send_api.lose("client.response", attempt=1)
    with httpx.Client(base_url=send_api.url, transport=transport) as client:
        send_receipt(client, "1042", "a@x.test", flawed)
    assert send_api.deliveries == 1


@pytest.mark.sendtwice(scenarios="client.response-lost")
def test_scenarios(sendtwice, flawed):
    @sendtwice.operate
    def _(op):
        with httpx.Client(base_url=sendtwice.url) as client:
            send_receipt(client, op.id, op.to, flawed)
"""


def test_ten_lines_of_pytest_in_a_fresh_project_catch_a_lost_answer(installed: Installed, tmp_path: Path) -> None:
    (installed.project / "mailer.py").write_text(_MAILER)
    (installed.project / "test_receipts.py").write_text(_TEST)
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # what else is installed here takes seconds
    report = tmp_path / "report.xml"
    command = [installed.python, "-m", "pytest", "-q", "-p", "sendtwice", f"--junitxml={report}", "test_receipts.py"]
    done = subprocess.run(
        [*map(str, command)], cwd=installed.project, env=environment, capture_output=True, text=True, check=False
    )

    cases = {case.attrib["name"]: case for case in ET.parse(report).iter("testcase")}
    assert len(cases) == 6, done.stdout
    for name, case in cases.items():
        failure = case.find("failure")
        assert case.find("error") is None, done.stdout
        assert (failure is not None) is ("True" in name), done.stdout
        text = "" if failure is None else str(failure.text)
        assert failure is None or "2 mails were delivered" in text or "assert 2 == 1" in text
    in_process = next(case for name, case in cases.items() if "True" in name and "in-process" in name)
    assert float(in_process.attrib["time"]) < 1
