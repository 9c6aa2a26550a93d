"""A whole run: the canary, late deliveries, crashes that are no scenario's, TLS, and targets of several processes."""

import asyncio
import subprocess
import textwrap
from pathlib import Path

import pytest

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness import session
from sendtwice.harness.events import RunEvent, ScenarioEnded, ScenarioReopened
from sendtwice.harness.result import RunResult, Verdict
from sendtwice.harness.scenario import catalogue, parse
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load
from tests.support import require

#: A sound little mailer; ``EXTRA`` goes into the handler of a new mail, ``TOP`` above it.
MAILER = """
import json, os, ssl, sys, threading, urllib.request, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

answers, lock = {}, threading.Lock()

def hand_over(mail, url=None):
    url = url or os.environ["MAIL_PROVIDER_URL"] + "/emails"
    request = urllib.request.Request(url, json.dumps(mail).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=5).close()

TOP

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply(200, {})
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        mail, key = json.loads(body), self.headers.get("Idempotency-Key")
        with lock:
            if key is None or key not in answers:
                EXTRA
                answers[key] = {"id": str(uuid.uuid4())}
            self.reply(200, answers[key])
    def reply(self, status, data):
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
if os.environ.get("CERTIFICATE"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.environ["CERTIFICATE"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""

TARGET = """
[target]
name = "little"
[target.api]
url = "http://127.0.0.1:{port}"
[target.start]
command = ["{python}", "mailer.py"]
env = { PORT = "{port}", MAIL_PROVIDER_URL = "{provider_url}" }
ready = "/healthz"
keeps_state = false
"""


def play(
    folder: Path,
    *scenarios: str,
    extra: str = "hand_over(mail)",
    top: str = "",
    target: str = TARGET,
    watch: float = 0.1,
    events: list[RunEvent] | None = None,
) -> RunResult:
    """Play scenarios of the catalogue against the little mailer, changed as given."""
    program = MAILER.replace("TOP", textwrap.dedent(top)).replace("EXTRA", extra.replace("\n", "\n                "))
    (folder / "mailer.py").write_text(program)
    (folder / "target.toml").write_text(target)
    loaded, path = load(str(folder / "target.toml"))
    chosen = [s for s in catalogue() if s.id in scenarios]
    settings = RunSettings(reports=folder / "reports", watch=watch)
    seen = events if events is not None else []
    return asyncio.run(session.run(loaded, path, chosen, settings, [seen.append]))


def verdicts(result: RunResult) -> dict[str, Verdict]:
    return {scenario.id: scenario.verdict for scenario in result.scenarios}


def test_a_sound_target_passes(tmp_path: Path) -> None:
    result = play(tmp_path, "send.repeat", "send.burst")
    assert (result.error, result.exit_code) == (None, 0)
    assert verdicts(result) == {"send.repeat": Verdict.PASSED, "send.burst": Verdict.PASSED}


def test_a_target_that_mails_elsewhere_is_stopped_after_the_canary(tmp_path: Path) -> None:
    """The second server stands for the real provider: it gets the canary and nothing else."""
    top = """
    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            with open("elsewhere", "a") as file:
                file.write("mail\\n")
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        def log_message(self, *args):
            pass
    elsewhere = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
    """
    extra = 'hand_over(mail, f"http://127.0.0.1:{elsewhere.server_address[1]}/emails")'
    target = TARGET + "[target.timing]\ndelivers_within = 0.3\n"
    result = play(tmp_path, "send.repeat", "send.burst", extra=extra, top=top, target=target)
    assert result.exit_code == 4
    assert result.error is not None
    assert "real provider" in result.error
    assert (tmp_path / "elsewhere").read_text().count("mail") == 1
    assert result.scenarios == ()


def test_a_late_second_mail_reopens_its_scenario(tmp_path: Path) -> None:
    """It arrives when the scenario has long passed, from a timer of the target's own."""
    events: list[RunEvent] = []
    extra = "hand_over(mail)\nthreading.Timer(0.8, hand_over, [mail]).start()"
    result = play(tmp_path, "send.repeat", extra=extra, watch=1.5, events=events)
    provisional = [e.result.verdict for e in events if isinstance(e, ScenarioEnded)]
    assert provisional == [Verdict.PASSED]
    assert [e.after.id for e in events if isinstance(e, ScenarioReopened)] == ["send.repeat"]
    assert verdicts(result) == {"send.repeat": Verdict.FAILED}
    assert result.scenarios[0].findings[0].rule == "at-most-once"


def test_a_pass_says_how_long_was_watched(tmp_path: Path) -> None:
    result = play(tmp_path, "send.repeat", watch=0.4)
    assert not result.retries_declared
    assert result.scenarios[0].watched >= 0.4


def test_a_target_that_dies_by_itself_ends_the_run(tmp_path: Path) -> None:
    extra = "hand_over(mail)\nif len(answers) == 2:\n    print('boom', flush=True); os._exit(7)"
    result = play(tmp_path, "send.repeat", "send.same-content-two-keys", extra=extra)
    assert result.exit_code == 4
    assert result.error is not None
    assert "ended with status 7 by itself" in result.error
    assert "boom" in result.error


def test_a_target_on_tls_is_reached_and_verified(tmp_path: Path) -> None:
    openssl = require("openssl", "the test makes a certificate with it")
    pem = tmp_path / "both.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, "-keyout", pem, "-out", pem],
        check=True,
        capture_output=True,
    )
    tls = (
        TARGET.replace('url = "http://', f'verify_tls = "{pem}"\nurl = "https://')
        .replace(
            'MAIL_PROVIDER_URL = "{provider_url}"', f'MAIL_PROVIDER_URL = "{{provider_url}}", CERTIFICATE = "{pem}"'
        )
        .replace('"/healthz"', '"tcp"')
    )
    windows = ("send.repeat", "send.response-lost", "send.request-lost", "send.burst", "send.response-cut")
    result = play(tmp_path, *windows, target=tls)
    assert result.error is None
    assert set(verdicts(result).values()) == {Verdict.PASSED}
    unverified = play(tmp_path, "send.repeat", target=tls.replace(f'verify_tls = "{pem}"', ""))
    assert unverified.exit_code == 4
    assert "certificate" in (unverified.error or "").lower()


def test_a_remote_url_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "target.toml").write_text('[target]\n[target.api]\nurl = "http://mail.example.com"\n')
    target, path = load(str(tmp_path / "target.toml"))
    with pytest.raises(BadFileError, match="--allow-remote"):
        asyncio.run(session.run(target, path, [], RunSettings(reports=tmp_path)))


def test_a_target_of_two_processes_is_killed_and_restarted_one_by_one(tmp_path: Path) -> None:
    """The second process does nothing for the mail: killing it must not touch the first."""
    two = TARGET.replace("[target.start]", '[[target.process]]\nname = "web"').replace(
        "false", "true"
    ) + textwrap.dedent(
        """
        [[target.process]]
        name = "idler"
        command = ["{python}", "-m", "http.server", "--bind", "127.0.0.1", "{port}"]
        ready = "tcp"
        """
    )
    (tmp_path / "target.toml").write_text(two)
    (tmp_path / "mailer.py").write_text(MAILER.replace("TOP", "").replace("EXTRA", "hand_over(mail)"))
    target, path = load(str(tmp_path / "target.toml"))
    scenario = parse(
        "{id: own.idler-dies, title: t, role: api, steps: [{send: {as: first}}, {crash: idler}, {restart: idler},"
        " {send: {as: retry, like: first}}], expect: {deliveries: {first: 1}}}"
    )
    result = asyncio.run(session.run(target, path, [scenario], RunSettings(reports=tmp_path / "r", watch=0.1)))
    assert result.error is None
    assert verdicts(result) == {"own.idler-dies": Verdict.PASSED}


def test_a_fault_that_never_fires_voids_the_pass(tmp_path: Path) -> None:
    (tmp_path / "target.toml").write_text(TARGET)
    (tmp_path / "mailer.py").write_text(MAILER.replace("TOP", "").replace("EXTRA", "hand_over(mail)"))
    target, path = load(str(tmp_path / "target.toml"))
    scenario = parse(
        "{id: own.never, title: t, role: api, steps: [{send: {as: first}},"
        " {send: {as: again, like: first, at: {provider.response: reset}}}]}"
    )
    result = asyncio.run(session.run(target, path, [scenario], RunSettings(reports=tmp_path / "r", watch=0.1)))
    assert verdicts(result) == {"own.never": Verdict.INCONCLUSIVE}
    assert result.exit_code == 3
    assert "never fired" in (result.scenarios[0].reason or "")
