"""The how-to pages are followed word for word: their files are written, their commands run, their output compared.

A fenced block whose info string names a file (```` ```python app.py ````) is that file, from there on. In a
``console`` block a line that begins with ``$`` is run in that folder, and the lines under it must come in its output in
this order; ``...`` stands for anything.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT

PAGES = sorted((ROOT / "harness" / "howto").glob("*.md"))
_BLOCK = re.compile(r"^```(\S+)(?: +(\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Command:
    line: str
    expected: list[str]


def steps_of(page: str) -> Iterator[tuple[str, str] | Command]:
    for kind, name, text in _BLOCK.findall(page):
        if name:
            yield name, text
        elif kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, *expected = part.rstrip().split("\n")
                yield Command(line, expected)


def fits(expected: list[str], output: str) -> str | None:
    """Return the first line that does not come, or None."""
    seen = iter(output.splitlines())
    for wanted in expected:
        if wanted.strip() == "...":
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.strip().split("...")))
        if not any(pattern.search(line) for line in seen):
            return wanted
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed_word_for_word(page: Path, tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SENDTWICE_", "PYTEST_"))}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    commands = 0
    for step in steps_of(page.read_text("utf-8")):
        if not isinstance(step, Command):
            name, text = step
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")
            continue
        commands += 1
        done = subprocess.run(
            ["bash", "-c", step.line],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            check=False,
        )
        missing = fits(step.expected, done.stdout)
        assert missing is None, f"$ {step.line}\n{missing!r} did not come in:\n{done.stdout}"
    assert commands >= 2, "a page takes its reader to a verdict"


def test_there_is_a_page_for_each_role() -> None:
    assert [page.stem for page in PAGES] == ["my-code-that-sends", "my-send-api", "my-webhook-handler"]


def test_a_line_that_does_not_come_is_seen() -> None:
    assert fits(["a...c", "...", "d"], "abc\nx\nd\n") is None
    assert fits(["d", "abc"], "abc\nx\nd\n") == "abc"
