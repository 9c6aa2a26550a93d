import importlib
import subprocess
import sys

import pytest


@pytest.fixture
def tasks(sendtwice, tmp_path, monkeypatch):
    """A real worker: it inherits the environment, in which RESEND_API_URL is the test's API."""
    for folder in ("q", "results"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("QUEUE", str(tmp_path))
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "solo", "--loglevel", "ERROR"]
    worker = subprocess.Popen([*command, "--without-gossip", "--without-mingle", "--without-heartbeat"])
    yield importlib.import_module("tasks")  # QUEUE is set by now
    worker.terminate()
    worker.wait(20)


@pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
def test_receipts(sendtwice, tasks):
    @sendtwice.operate
    def _(op):
        tasks.send_receipt.delay(op.id, op.to, op.subject, op.text).get(timeout=30, interval=0.02)
