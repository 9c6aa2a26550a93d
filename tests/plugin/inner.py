"""Runs of pytest inside a test: a project of its own, in this process, with the plugin as installed."""

import shutil
from pathlib import Path

import pytest

# What an inner run loads is forgotten at its end, and takes half a second to load again; what is there before stays.
import sendtwice.harness.testing.playing
import sendtwice.harness.testing.scenarios  # noqa: F401

HERE = Path(__file__).parent
INI = """
[pytest]
asyncio_default_fixture_loop_scope = function
filterwarnings = error
addopts = -p no:randomly -p no:cacheprovider --strict-markers
"""


def project(pytester: pytest.Pytester, test: str, ini: str = "") -> pytest.Pytester:
    """Make a project with a mailer, a test file and settings."""
    shutil.copy(HERE / "mailer.py", pytester.path / "mailer.py")
    pytester.makefile(".ini", pytest=INI + ini)
    pytester.makepyfile(test_mails=test)
    return pytester


def run(pytester: pytest.Pytester, test: str, *arguments: str, ini: str = "") -> pytest.RunResult:
    """Run a test file in a project of its own."""
    return project(pytester, test, ini).runpytest_inprocess("-q", *arguments)


def run_apart(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, test: str, *arguments: str
) -> pytest.RunResult:
    """Run a test file in a process of its own, with few plugins: some take seconds to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    shutil.copy(HERE / "mailer.py", pytester.path / "mailer.py")
    pytester.makepyfile(test_mails=test)
    return pytester.runpytest_subprocess("-q", "-W", "error", "-p", "sendtwice", *arguments)
