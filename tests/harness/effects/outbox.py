"""Targets whose mail never comes to the fake provider: they write it into a SQLite file of their own."""

import asyncio
import sys
import textwrap
from pathlib import Path

from sendtwice.harness import session
from sendtwice.harness.result import RunResult, ScenarioResult
from sendtwice.harness.scenario import Scenario, parse
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load

#: An API or a webhook endpoint; ``mode`` is what is wrong with it.
SERVER = """
import json, os, sqlite3, sys, threading, time, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

mode, lock = sys.argv[1], threading.Lock()

def outbox():
    made = sqlite3.connect("outbox.db", timeout=5)
    made.execute("create table if not exists sent (recipient text, subject text, content text)")
    made.execute("create table if not exists keys (key text primary key, answer text)")
    return made

def send(to, subject, content, made):
    if mode != "never" and not (mode == "only-the-canary" and made.execute("select 1 from sent").fetchone()):
        made.execute("insert into sent values (?, ?, ?)", (to, subject, content))
    made.commit()

def answer(key, to, subject, content, body):
    with lock:
        made = outbox()
        known = made.execute("select answer from keys where key = ?", (key,)).fetchone() if mode != "repeats" else None
        if known:
            return json.loads(known[0])
        answer = {"id": str(uuid.uuid4())}
        made.execute("insert or replace into keys values (?, ?)", (key or str(uuid.uuid4()), json.dumps(answer)))
        if mode == "late":
            made.commit()
            threading.Timer(0.4, lambda: send(to, subject, content, outbox())).start()
        else:
            send(to, subject, content, made)
        if mode == "sends-again-later" and "canary" not in seen:
            seen.add("canary")
        elif mode == "sends-again-later":
            threading.Timer(0.5, lambda: send(to, subject, content, outbox())).start()
        return answer

seen = set()

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/healthz":
            return self.reply(200, {})
        if self.headers.get("X-Staging") != "s3cret-of-staging":
            return self.reply(401, {"error": "who are you?"})
        rows = outbox().execute("select * from sent where recipient = ?", (parse_qs(url.query)["to"][0],)).fetchall()
        self.reply(200, {"page": {"total": len(rows), "rows": rows, "words": "many", "digits": str(len(rows))}})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = body.get("data", body)
        if "event_id" in body or "webhook-id" in self.headers:
            key, to = self.headers.get("webhook-id"), data["from"]
        else:
            key, to = self.headers.get("Idempotency-Key"), data["to"]
        to = to[0] if isinstance(to, list) else to
        self.reply(200, answer(key, to, data["subject"], data["text"], body))
    def reply(self, status, data):
        raw = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
    def log_message(self, *args):
        pass

ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""

#: A client that has a way of its own to send.
CLIENT = """
import os, sqlite3, sys
made = sqlite3.connect("outbox.db", timeout=5)
made.execute("create table if not exists sent (recipient text, subject text, content text, operation text unique)")
operation = os.environ["OPERATION"] if sys.argv[1] == "sound" else None
made.execute("insert or ignore into sent values (?, ?, ?, ?)",
             (os.environ["TO"], os.environ["SUBJECT"], os.environ["TEXT"], operation))
made.commit()
"""

COUNT = """
import sqlite3, sys
made = sqlite3.connect("file:outbox.db?mode=ro", uri=True)
print(made.execute("select count(*) from sent where recipient = ?", (sys.argv[1],)).fetchone()[0])
"""

HTTP = """
http = "http://127.0.0.1:{port}/sent?to={to}"
headers = { X-Staging = "s3cret-of-staging" }
count = "/page/total"
"""
SQL = """
sql = "select count(*) from sent where recipient = :to"
database = "sqlite:///outbox.db"
"""
COMMAND = """
command = ["{python}", "count.py", "{to}"]
"""

_ROLES = {
    "api": '[target.api]\nurl = "http://127.0.0.1:{port}"\n',
    "consumer": '[target.consumer]\nurl = "http://127.0.0.1:{port}/webhooks"\n',
    "client": '[target.client]\ncommand = ["{python}", "client.py", "MODE"]\n',
}
_START = """
[target.start]
command = ["{python}", "server.py", "MODE"]
env = { PORT = "{port}" }
ready = "/healthz"
"""

REPEAT = {
    "api": "[{send: {as: first}}, {send: {as: again, like: first}}]",
    "consumer": "[{notify: {as: first}}, {redeliver: {as: again, like: first}}]",
    "client": "[{operate: {as: first}}, {operate: {as: again, like: first}}]",
}


def written(folder: Path, effects: str, *, role: str = "api", mode: str = "sound", more: str = "") -> Path:
    """Write a target of a role into a folder, and return its file."""
    for name, text in {"server.py": SERVER, "client.py": CLIENT, "count.py": COUNT}.items():
        (folder / name).write_text(textwrap.dedent(text))
    file = folder / "target.toml"
    start = "" if role == "client" else _START
    text = f'[target]\nname = "outbox"\nrole = "{role}"\n' + (_ROLES[role] + start).replace("MODE", mode)
    file.write_text(f"{text}[target.effects]\n{effects}\n{more}")
    return file


def scenario(role: str, steps: str, name: str = "own.repeat") -> Scenario:
    """Return a scenario of these steps."""
    return parse(f"{{id: {name}, title: Ours, role: {role}, steps: {steps}}}")


def play(file: Path, *scenarios: Scenario, watch: float = 0.0, jobs: int = 1) -> RunResult:
    """Play scenarios on a target."""
    target, path = load(str(file))
    settings = RunSettings(reports=file.parent / "reports", watch=watch, jobs=jobs)
    return asyncio.run(session.run(target, path, scenarios, settings))


def only(result: RunResult) -> ScenarioResult:
    """Return the one scenario of a run that went well."""
    assert result.error is None
    (found,) = result.scenarios
    return found


PYTHON = sys.executable
