"""Where text goes: a terminal or a pipe, its colours, its width, and the signs that its encoding has."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Mapping
from typing import Literal, TextIO

import click

Color = Literal["auto", "always", "never"]

_ASCII = str.maketrans(
    {
        "→": "->",
        "←": "<-",
        "✂": "%",
        "☠": "X",
        "⏸": "=",
        "✗": "x",
        "✓": "+",
        "▶": ">",
        "×": "x",  # noqa: RUF001  # the sign, not the letter
        "…": "...",
        "—": "-",
        "↺": "~",
        "·": "-",
    }
)
_PIPE_WIDTH = 110
_CLEAR_LINE = "\r\x1b[2K"


def wants_color(color: Color, stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """Whether to colour: as asked; else on a terminal, unless NO_COLOR or TERM=dumb say no."""
    environ = os.environ if environ is None else environ
    if color != "auto":
        return color == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at it."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


class Paper:
    """Lines to a stream; a reader that has gone away is no error."""

    def __init__(self, stream: TextIO, *, color: Color = "auto", width: int | None = None) -> None:
        """Find out what the stream can show."""
        self._stream = stream
        self.terminal = is_terminal(stream) and os.environ.get("TERM") != "dumb"
        self.color = wants_color(color, stream)
        columns = shutil.get_terminal_size().columns if self.terminal else _PIPE_WIDTH
        self.width = width or max(40, min(columns, 120))
        self.gone = False
        self._progress = ""
        self._plain = not _has_signs(stream)

    def line(self, text: str = "") -> None:
        """Print one line, in the place of a progress line if there is one."""
        clear, self._progress = (_CLEAR_LINE if self._progress else ""), ""
        self._write(f"{clear}{text}\n")

    def progress(self, text: str) -> None:
        """Rewrite the last line of a terminal; a pipe gets nothing."""
        if not self.terminal:
            return
        self._progress = text[: self.width - 1]
        self._write(f"{_CLEAR_LINE}{self._progress}")

    def clear(self) -> None:
        """Take the progress line away."""
        if self._progress:
            self._progress = ""
            self._write(_CLEAR_LINE)

    def wrap(self, text: str, *, indent: str = "", hanging: str | None = None) -> list[str]:
        """Return a sentence as the lines that it needs; commands and addresses in it stay whole."""
        lines = textwrap.wrap(
            text,
            self.width,
            initial_indent=indent,
            subsequent_indent=indent if hanging is None else hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return lines or [indent.rstrip()]

    def style(self, text: str, color: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
        """Colour a text, where there are colours."""
        return click.style(text, fg=color, bold=bold or None, dim=dim or None) if self.color else text

    def _write(self, text: str) -> None:
        if self.gone:
            return
        if self._plain:
            text = text.translate(_ASCII)
            encoding = getattr(self._stream, "encoding", None) or "ascii"
            text = text.encode(encoding, "replace").decode(encoding)
        try:
            self._stream.write(text)
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            # The run goes on: its files and its exit status are still wanted.
            self.gone = True
        except OSError as error:
            # A full disk: a report that is not there must not look like one that says nothing.
            self.gone = True
            error.filename = error.filename or "standard output"
            raise


def _has_signs(stream: TextIO) -> bool:
    try:
        "".join(map(chr, _ASCII)).encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
