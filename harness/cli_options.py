"""What the commands have in common: options that are environment variables too, and how errors are said."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Items(click.types.StringParamType):
    """An item of a list; in an environment variable commas and spaces stand between items."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """Take it as it is."""
        return str(value)

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Split the variable's value."""
        return [item for item in re.split(r"[,\s]+", rv) if item]


class Seconds(click.types.FloatParamType):
    """Seconds up to a day; ``nan`` is less than nothing and ``inf`` never comes."""

    name = "seconds"

    def __init__(self, *, none: bool = False) -> None:
        """``none``: whether 0 is a number of seconds too."""
        self._none = none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Take a number that can be waited for."""
        seconds = float(super().convert(value, param, ctx))
        if not 0 < seconds <= 86_400 and not (self._none and seconds == 0):
            least = "from 0" if self._none else "above 0"
            self.fail(f"{value!r} is no number of seconds {least}, up to a day (86400).", param, ctx)
        return seconds


class Lines(Items):
    """An item that may hold commas and spaces: in an environment variable each has its own line."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Split the variable's value."""
        return [line.strip() for line in rv.splitlines() if line.strip()]


def option(*declarations: str, **attributes: Any) -> Callable[[F], F]:
    """Return an option that is also the environment variable ``SENDTWICE_<NAME>``."""
    longest = max((d for d in declarations if d.startswith("-")), key=len)
    name = longest.strip("-").replace("-", "_").upper()
    attributes.setdefault("envvar", f"SENDTWICE_{name}")
    return click.option(*declarations, **attributes)


def together(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return one decorator for several, in the order in which help shows them."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


color_option = option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours.",
)

reporting = together(
    option(
        "--json",
        "json_file",
        metavar="FILE",
        envvar="SENDTWICE_JSON",
        help="Write the result; - is standard output.",
    ),
    option(
        "--junit",
        "junit_file",
        metavar="FILE",
        envvar="SENDTWICE_JUNIT",
        help="Write the result as JUnit XML.",
    ),
    option(
        "--report",
        "report_dir",
        metavar="DIR",
        default="reports",
        show_default=True,
        help="Where histories and saved failures go, in a folder for each run.",
    ),
    option("--allow-remote", is_flag=True, help="Send to a target that is not on this machine."),
    option("-v", "--verbose", count=True, help="Say more: whole timelines, observed habits."),
    option("-q", "--quiet", count=True, help="Say less: only what is not well."),
    color_option,
)


class Program(click.Group):
    """The command line: every error is one line that says what to do, and nothing ends in a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and end the process with the exit status that INTERFACES promises."""
        _open_streams()

        def run() -> Any:
            return super(Program, self).main(args, prog_name or "sendtwice", complete_var, False, **extra)

        return sys.exit(guarded(run)) if standalone_mode else run()

    def invoke(self, ctx: click.Context) -> Any:
        """Let a reader that has seen enough (``| head``) end a command without a word."""
        try:
            found = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _mute()
            return 0
        return found


def guarded(run: Callable[[], Any]) -> int:
    """Run a command and return its exit status; whatever goes wrong is one line on standard error."""
    try:
        status = run()
        status = status if isinstance(status, int) else 0
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # click 8.1 has none
            error.show()
        else:
            where = f"; see {error.ctx.command_path} --help" if error.ctx is not None else ""
            _say(f"{error.format_message().rstrip('.')}{where}")
        status = 2
    except click.ClickException as error:
        _say(error.format_message())
        status = 2
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        status = INTERRUPTED
    except asyncio.CancelledError:  # SIGTERM or SIGHUP while a run went on
        _say("ended by a signal")
        status = 143
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 4
    except BrokenPipeError:
        _mute()
        status = 0
    except Exception as error:  # noqa: BLE001  # the last place where one can be caught
        status = _unexpected(error)
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError):
        _mute()
    except OSError as error:  # a full disk, which shows itself only now
        _mute()
        status = status if status == 4 else _unexpected(error)
    return status


def _open_streams() -> None:
    """Give every standard stream that was closed (``>&-``) somewhere to go: else the next socket gets its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _unexpected(error: BaseException) -> int:
    from sendtwice.fake_provider.documents import BadFileError  # noqa: PLC0415  # loads YAML: not for --version
    from sendtwice.harness.errors import HarnessError  # noqa: PLC0415

    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if os.environ.get("SENDTWICE_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, BadFileError):
        _say(str(error))
        return 2
    if isinstance(error, HarnessError):
        _say(str(error))
        return 4
    if isinstance(error, OSError) and error.errno in _UNWRITABLE:
        _say(f"{error.filename or 'standard output'} cannot be written ({os.strerror(error.errno).lower()}); make room")
        return 4
    what = " ".join(f"{type(error).__name__}: {error}".split())
    _say(f"internal error: {what} (run again with SENDTWICE_DEBUG=1 for the traceback)")
    return 4


def _say(message: str) -> None:
    with contextlib.suppress(BrokenPipeError, ValueError):
        click.echo(f"sendtwice: {' '.join(message.split())}", err=True)


def _mute() -> None:
    """Give Python's own last flush somewhere to go."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
