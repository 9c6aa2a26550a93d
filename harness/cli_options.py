"""What the commands have in common: options that are environment variables too, and how errors are said."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130


class Items(click.types.StringParamType):
    """An item of a list; in an environment variable commas and spaces stand between items."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """Take it as it is."""
        return str(value)

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Split the variable's value."""
        return [item for item in re.split(r"[,\s]+", rv) if item]


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
    return status


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
