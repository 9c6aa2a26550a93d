"""Whole workflows: the reference workers of ``tests/implementations`` survive a crash at every boundary.

Mail in, webhook, job, operation table, send: one worker in Python and one in Node, each on a store that is embedded and
on PostgreSQL, as a client that is asked for operations (answered when they end, or queued and asked for the outcome),
and as a consumer of webhooks. The files named ``client`` and ``consumer`` play all scenarios of their role. The others
differ from them in the store, in the way of asking or in the API, so they play what kills, stops, pauses or doubles a
worker, and one scenario for each end of an operation; ``WHOLE_MATRIX=1`` plays everything for all. Their flawed twins
are in ``tests/flawed/worker-*``.
"""

import asyncio
import contextlib
import http.client
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness import session
from sendtwice.harness.clocks import library
from sendtwice.harness.launch.readiness import until_ready
from sendtwice.harness.result import Verdict
from sendtwice.harness.scenario import Scenario, catalogue, parse
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load
from tests.servers import free_port
from tests.support import ROOT, missing, require

FOLDER = ROOT / "tests" / "implementations"
PYTHON, NODE = FOLDER / "mail-worker-python", FOLDER / "mail-worker-node"
FILES = sorted([*PYTHON.glob("*.toml"), *NODE.glob("*.toml")])
WHOLE = os.environ.get("WHOLE_MATRIX") == "1"
#: Tags of what befalls a worker as a whole.
WHOLE_WORKER = {"crash", "stop"}
DOUBLED = {"client.two-workers", "client.rewritten", "webhook.at-once", "webhook.many-at-once", "webhook.two-workers"}
ENDS = {
    "client.asked-again",
    "client.conflict",
    "client.pending",
    "client.refused",
    "client.response-lost",
    "client.still-in-progress",
    "client.unknown-outcome",
    "webhook.twice",
}
#: Messages to and from its store at which a worker is killed: the first are those of the webhook's transaction, then
#: come the job's, the operation's, and those around the send. What it looks up meanwhile is counted with them.
MESSAGES = range(1, 41) if os.environ.get("WHOLE_MATRIX") == "1" else (3, 8, 14, 22)

pytestmark = pytest.mark.timeout(300)


def asks_for(file: Path) -> None:
    """Skip where a target file cannot be played here."""
    if file.parent == NODE:
        require("node", "this worker is written in JavaScript")
    if file.stem.endswith("-postgres"):
        require("postgres", "this worker keeps its operations there")
        if not (file.parent / ".installed").exists():
            missing(file.parent.name, "it is not installed; run tests/implementations/install.sh")
    clock = load(str(file))[0].target.clock
    if clock is not None and library.complaint(clock.library) is not None:
        missing("faketime", "this target's clock is moved with it")


def plays(file: Path, scenario: Scenario, role: str) -> bool:
    if scenario.role != role:
        return False
    everything = WHOLE or file.stem in ("client", "consumer")
    return everything or bool(WHOLE_WORKER & {*scenario.tags}) or scenario.id in DOUBLED | ENDS


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_reference_worker_passes_all_that_applies_to_it(file: Path, tmp_path: Path) -> None:
    asks_for(file)
    target, path = load(str(file))
    scenarios = [one for one in catalogue() if plays(file, one, target.target.role)]

    result = asyncio.run(session.run(target, path, scenarios, RunSettings(reports=tmp_path, watch=0.3, jobs=16)))

    assert result.error is None
    assert [(s.id, f.rule, f.message) for s in result.scenarios for f in s.findings if f.level is Level.MUST] == []
    assert {s.id: s.reason for s in result.scenarios if s.verdict not in (Verdict.PASSED, Verdict.SKIPPED)} == {}
    passed = {s.id for s in result.scenarios if s.verdict is Verdict.PASSED}
    crashes = {one.id for one in scenarios if "crash" in one.tags}
    assert crashes, "no scenario kills it"
    assert crashes <= passed
    if file.stem == "client-postfleet":
        assert "client.pending" in passed


KILLED = """
id: webhook.crash-at-store-{crossing}-{nth}
title: The worker is killed at one of its messages to the store
role: consumer
why: Whatever transaction is under way is done or not done, and the event comes again unless it was acknowledged.
source: tests
steps:
  - hold: {{crossing: store.{crossing}, nth: {nth}, hold: there}}
  - notify: {{as: first, wait: none}}
  - await: there
  - crash: target
  - restart: target
  - finish: first
expect:
  deliveries: {{first: 1}}
"""


@pytest.mark.parametrize("folder", [PYTHON, NODE], ids=lambda folder: folder.name)
def test_a_worker_that_is_killed_at_a_message_to_its_store_sends_once(folder: Path, tmp_path: Path) -> None:
    asks_for(folder / "consumer-postgres.toml")
    target, path = load(str(folder / "consumer-postgres.toml"))
    places = [(crossing, nth) for crossing in ("request", "response") for nth in MESSAGES]
    scenarios = [parse(KILLED.format(crossing=crossing, nth=nth)) for crossing, nth in places]

    result = asyncio.run(session.run(target, path, scenarios, RunSettings(reports=tmp_path, watch=0.3)))

    assert result.error is None
    assert {s.id: s.reason for s in result.scenarios if s.verdict is not Verdict.PASSED} == {}
    assert len(result.scenarios) == len(places)


def shape(file: Path) -> Any:
    """What a target file says, without the worker's name and how it is started."""
    target = tomllib.loads(file.read_text("utf-8"))["target"]
    for process in [target, target.get("start", {}), *target.get("process", [])]:
        process.pop("command", None)
    del target["name"]
    return target


def test_the_python_and_the_node_worker_are_asked_in_the_same_way() -> None:
    assert {file.name for file in PYTHON.glob("*.toml")} == {file.name for file in NODE.glob("*.toml")}
    for file in PYTHON.glob("*.toml"):
        assert shape(file) == shape(NODE / file.name), file.name


# -- what no scenario shows ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def a_worker(folder: Path, database: Path, **env: str) -> Iterator[http.client.HTTPConnection]:
    """A worker of its own, whose API is nowhere: a connection to it."""
    command = [sys.executable, "worker.py"] if folder == PYTHON else [require("node", "it runs it"), "worker.mjs"]
    port = free_port()
    given = {"PORT": str(port), "API_URL": f"http://127.0.0.1:{free_port()}", "DATABASE": str(database)}
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, "RETRY_PAUSE": "0.01", **given, **env})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        asyncio.run(ready(port))
        yield connection
    finally:
        connection.close()
        process.kill()
        process.wait(20)


async def ready(port: int) -> None:
    async with asyncio.timeout(20):
        await until_ready(f"http://127.0.0.1:{port}", "/healthz")


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection.request(method, path, None if body is None else json.dumps(body))
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


MAIL = {"operation": "order-1042:receipt:v1", "to": "a@x.test", "subject": "Your receipt", "text": "Thank you."}
BOTH = pytest.mark.parametrize("folder", [PYTHON, NODE], ids=lambda folder: folder.name)


@BOTH
def test_what_was_surely_not_sent_is_told_as_that_and_stays_so(folder: Path, tmp_path: Path) -> None:
    with a_worker(folder, tmp_path / "db", MAX_ATTEMPTS="3") as worker:
        status, told = ask(worker, "POST", "/operations", MAIL)
        assert (status, told["state"], told["attempts"]) == (422, "not_sent", 3)
    with a_worker(folder, tmp_path / "db", MAX_ATTEMPTS="3") as worker:
        assert ask(worker, "POST", "/operations", MAIL) == (422, told)
        assert ask(worker, "GET", f"/operations/{quote(MAIL['operation'], safe='')}") == (200, told)


@BOTH
def test_other_words_for_a_known_operation_are_a_conflict(folder: Path, tmp_path: Path) -> None:
    with a_worker(folder, tmp_path / "db", MAX_ATTEMPTS="1") as worker:
        ask(worker, "POST", "/operations", MAIL)
        status, told = ask(worker, "POST", "/operations", {**MAIL, "text": "Thanks a lot."})
        assert (status, told["name"]) == (409, "operation_conflict")


@BOTH
def test_an_operation_that_nobody_asked_for_is_not_known(folder: Path, tmp_path: Path) -> None:
    with a_worker(folder, tmp_path / "db") as worker:
        assert ask(worker, "GET", "/operations/none")[0] == 404
        assert ask(worker, "POST", "/operations", {"operation": "none", "to": "a@x.test"})[0] == 400


def test_a_line_that_a_killed_process_left_torn_is_no_transaction(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with a_worker(NODE, journal, MAX_ATTEMPTS="1") as worker:
        ask(worker, "POST", "/operations", MAIL)
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"operation":{"operation":"torn"')

    with a_worker(NODE, journal, MAX_ATTEMPTS="1") as worker:
        assert journal.read_bytes() == whole
        assert ask(worker, "GET", f"/operations/{MAIL['operation']}")[1]["state"] == "not_sent"
        assert ask(worker, "POST", "/operations", {**MAIL, "operation": "another"})[0] == 422
    with a_worker(NODE, journal, MAX_ATTEMPTS="1") as worker:
        assert ask(worker, "GET", "/operations/another")[1]["state"] == "not_sent"
