"""Role client by way of a queue: a program puts the job there, a worker does it, another program tells how it ended."""

import asyncio
from pathlib import Path

from sendtwice.harness import session
from sendtwice.harness.result import RunResult, Verdict
from sendtwice.harness.scenario import catalogue
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load

ENQUEUE = """\
import json, os, pathlib
job = {name: os.environ[name] for name in ("OPERATION", "TO", "SUBJECT", "TEXT")}
path = pathlib.Path("jobs") / job["OPERATION"]
path.parent.mkdir(exist_ok=True)
path.with_suffix(".new").write_text(json.dumps(job))
path.with_suffix(".new").rename(path.with_suffix(".job"))
"""

WORKER = """\
import http.client, json, os, pathlib, time, uuid
from urllib.parse import urlsplit
url = urlsplit(os.environ["API_URL"])
jobs = pathlib.Path("jobs")

def attempt(job):
    key = KEY
    mail = {"from": "shop@house.example", "to": [job["TO"]], "subject": job["SUBJECT"], "text": job["TEXT"]}
    headers = {"Authorization": "Bearer re_1", "Content-Type": "application/json", "Idempotency-Key": key}
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=5)
    try:
        connection.request("POST", "/emails", json.dumps(mail), headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()

while True:
    for path in sorted(jobs.glob("*.job")):
        if attempt(json.loads(path.read_text())):
            path.rename(path.with_suffix(".done"))
    time.sleep(0.02)
"""

OUTCOME = """\
import pathlib, sys
print("finished" if pathlib.Path("jobs", sys.argv[1] + ".done").exists() else "queued")
"""

TARGET = """\
[target]
name = "queue"
role = "client"
contract = "resend"
[target.client]
command = ["{python}", "enqueue.py"]
queued = true
timeout = 15
[target.client.outcome]
command = ["{python}", "COMMAND", "{operation}"]
sent = ["finished"]
[target.start]
command = ["{python}", "worker.py"]
env = { API_URL = "{api_url}" }
ready = "started"
"""


def played(folder: Path, *scenarios: str, key: str = 'job["OPERATION"]', command: str = "outcome.py") -> RunResult:
    (folder / "enqueue.py").write_text(ENQUEUE)
    (folder / "worker.py").write_text(WORKER.replace("KEY\n", f"{key}\n"))
    (folder / "outcome.py").write_text(OUTCOME)
    (folder / "sendtwice.toml").write_text(TARGET.replace("COMMAND", command))
    target, path = load(str(folder / "sendtwice.toml"))
    chosen = [scenario for scenario in catalogue() if scenario.id in scenarios]
    settings = RunSettings(reports=folder / "reports", watch=0.1)
    return asyncio.run(session.run(target, path, chosen, settings))


def test_a_job_that_a_program_puts_on_a_queue_is_followed_to_its_end(tmp_path: Path) -> None:
    result = played(tmp_path, "client.response-lost", "client.crash-after-accept")
    assert result.error is None
    assert [(one.id, one.verdict, one.deliveries) for one in result.scenarios] == [
        ("client.crash-after-accept", Verdict.PASSED, {"first": 1}),
        ("client.response-lost", Verdict.PASSED, {"first": 1}),
    ]
    told = [event.data["told"] for one in result.scenarios for event in one.history if event.kind == "told"]
    assert told
    assert set(told) == {"sent"}


def test_a_worker_that_makes_a_key_for_each_attempt_is_found_behind_its_queue(tmp_path: Path) -> None:
    result = played(tmp_path, "client.crash-after-accept", key="str(uuid.uuid4())")
    assert [(f.rule, f.level) for one in result.scenarios for f in one.broken] == [("at-most-once", "must")]


def test_an_outcome_that_nobody_can_ask_for_is_one_line(tmp_path: Path) -> None:
    assert played(tmp_path).error is None
    text = (
        (tmp_path / "sendtwice.toml")
        .read_text()
        .replace('command = ["{python}", "outcome.py", "{operation}"]', 'command = ["no-such-program"]')
    )
    (tmp_path / "sendtwice.toml").write_text(text)
    target, path = load(str(tmp_path / "sendtwice.toml"))
    failed = asyncio.run(session.run(target, path, [], RunSettings(reports=tmp_path / "reports", watch=0.1)))
    assert failed.error is not None
    assert "'no-such-program' cannot be started" in failed.error
    assert "target.client.outcome.command" in failed.error
