"""The command line. Its names, options and exit statuses are promises: see ``sendtwice run --help``.

Only click is imported here; a command loads what it needs when it is called, so that ``--version`` and
``serve`` start at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

import sendtwice
from sendtwice.harness.cli_options import Items, Lines, Program, Seconds, color_option, option, reporting

_TARGET = click.argument("target", required=False, envvar="SENDTWICE_TARGET", metavar="[TARGET.toml]")

_EXIT = """\b
Exit status (4 before 2 before 1 before 3):
  0  nothing broken; skips, holes and known deviations are listed
  1  at least one finding at level must that is not known
  2  usage: a bad argument, file, contract or scenario
  3  no finding, but something was inconclusive
  4  sendtwice could not do its work: the target did not start, died, or failed the canary
"""

_PROVEN = """\b
Exit status:
  0  all of them do; what is not here is listed
  4  something does not do what it is called
"""


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sendtwice.__version__, prog_name="sendtwice")
def main() -> None:
    """Try to make a system send the same mail twice, and say which promise of its contract was broken.

    Every option is also an environment variable: --fail-fast is SENDTWICE_FAIL_FAST.
    """


@main.command(epilog=_EXIT)
@_TARGET
@option("--scenario", "scenarios", metavar="GLOB", multiple=True, type=Items(), help="Only these scenarios.")
@option("--tag", "tags", metavar="TAG", multiple=True, type=Items(), help="Only scenarios with this tag.")
@option("--exclude", "excluded", metavar="GLOB", multiple=True, type=Items(), help="Not these scenarios.")
@option("--smoke", is_flag=True, help="Only a handful of quick windows (--tag smoke).")
@option("--contract", metavar="NAME|FILE", help="Judge by this contract instead of the target file's.")
@option("--seed", type=int, default=1, show_default=True, help="For whatever is drawn at random.")
@option(
    "--jobs",
    type=click.IntRange(1, 32),
    default=4,
    show_default=True,
    help="Scenarios played side by side, where they can be; 1 plays one after another.",
)
@option("-x", "--fail-fast", is_flag=True, help="Stop at the first failure.")
@option("--last-failed", is_flag=True, help="Only what failed in the last run.")
@option(
    "--time-limit",
    type=Seconds(),
    metavar="S",
    help="Play nothing more after S seconds.",
)
@option("--require-all", is_flag=True, help="Skipped and inconclusive are failures.")
@option("--write-known", "known_file", metavar="FILE", help="Add what failed to FILE as known deviations.")
@option("--strict-known", is_flag=True, help="A known deviation that no longer happens is a failure.")
@option("--dry-run", is_flag=True, help="Say what would be sent, to whom, with which faults; contact nothing.")
@option("--url", metavar="URL", help="A running target without a file; its mail must come to port 8025.")
@option("--path", metavar="PATH", help="With --url: where sends go.")
@option("--body", metavar="@FILE", help="With --url: a JSON body with {to}, {subject}, {text}.")
@option(
    "-H",
    "--header",
    "headers",
    metavar="'NAME: VALUE'",
    multiple=True,
    type=Lines(),
    help="With --url: a header.",
)
@option("--key", metavar="PLACE", help="With --url: where the key is, as header:NAME, body:/POINTER or query:NAME.")
@option("--key-header", metavar="NAME", help="With --url: the header that carries the key; --key header:NAME.")
@reporting
def run(**given: Any) -> int:
    """Play scenarios against a target and judge what was delivered.

    Without TARGET.toml: sendtwice.toml here, then [tool.sendtwice] in pyproject.toml.
    """
    from sendtwice.harness import cli_run  # noqa: PLC0415

    return cli_run.run(**given)


@main.command(epilog=_EXIT)
@_TARGET
@option("--contract", metavar="NAME|FILE", help="Judge by this contract instead of the target file's.")
@option(
    "--budget",
    type=Seconds(none=True),
    metavar="S",
    default=300,
    show_default=True,
    help="End after S seconds, and say what was not played; 0 goes on to the end.",
)
@option(
    "--faults",
    type=click.IntRange(1, 2),
    default=2,
    show_default=True,
    help="One fault in a plan, or one and then two.",
)
@option("--jobs", type=click.IntRange(1, 64), default=16, show_default=True, help="Plans played side by side.")
@option(
    "--watch",
    type=Seconds(none=True),
    metavar="S",
    default=1,
    show_default=True,
    help="Wait so long for late mails where the target file does not say retries_for.",
)
@reporting
def explore(**given: Any) -> int:
    """Go through the windows of a target one by one: every fault at every crossing of its wires.

    The crossings are found by playing. What breaks a promise is played again before it is reported, made smaller, and
    saved; the table says what was covered.
    """
    from sendtwice.harness import cli_explore  # noqa: PLC0415

    return cli_explore.explore(**given)


@main.command()
@_TARGET
@option("--contract", metavar="NAME|FILE", help="Judge by this contract instead of the target file's.")
@option(
    "--report",
    "report_dir",
    metavar="DIR",
    default="reports",
    show_default=True,
    help="Where the target's output goes.",
)
@option("--allow-remote", is_flag=True, help="Send to a target that is not on this machine.")
def check(**given: Any) -> int:
    """Start a target, send one plain mail, and say what would be skipped and what would enable it."""
    from sendtwice.harness import cli_run  # noqa: PLC0415

    return cli_run.check(**given)


@main.command()
@click.argument("glob", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def scenarios(glob: str | None, *, as_json: bool) -> None:
    """List the catalogue, and what each scenario needs."""
    from sendtwice.harness import catalogue  # noqa: PLC0415

    for line in catalogue.lines(glob, as_json=as_json):
        click.echo(line)


@main.command()
@click.argument("name", metavar="ID")
@option("--against", metavar="NAME|FILE", help="Of a contract: what a caller meets who moves to this one.")
@option(
    "--format",
    "shape",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="Of a contract: markdown for a page, json for programs.",
)
def explain(name: str, against: str | None, shape: Literal["text", "markdown", "json"]) -> None:
    """Say what a scenario, a rule or a contract is: what, why, source, how it is played, remedy."""
    from sendtwice.harness.explain import lookup as explaining  # noqa: PLC0415

    for line in explaining.lines(name, against=against, shape=shape):
        click.echo(line)


@main.command()
@option("--contract", metavar="NAME|FILE", required=True, help="A shipped contract, or a file.")
@option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@option("--port", type=click.IntRange(0, 65535), default=8025, show_default=True, help="0 for a free one.")
@option(
    "--state",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Keep the state here; in memory if left out.",
)
@option("--upstream", metavar="URL", help="Hand mail over there; into the own ledger if left out.")
@option(
    "--upstream-dialect",
    default="generic",
    show_default=True,
    metavar="NAME",
    help="How mail is handed over there.",
)
@option("--webhook-url", metavar="URL", help="Where the API's own events go; nowhere if left out.")
@option("--webhook-secret", metavar="SECRET", help="What they are signed with; made and told if left out.")
@option("--webhook-schedule", metavar="S,S,...", help="Seconds from one attempt to the next, after failures.")
def serve(
    contract: str,
    host: str,
    port: int,
    state: str | None,
    upstream: str | None,
    upstream_dialect: str,
    webhook_url: str | None,
    webhook_secret: str | None,
    webhook_schedule: str | None,
) -> None:
    """Serve a contract's API with faults: the fake provider, for developers in any language."""
    import asyncio  # noqa: PLC0415

    from sendtwice.fake_provider import serve as serving  # noqa: PLC0415

    asyncio.run(
        serving.serve(
            contract,
            host=host,
            port=port,
            state=state,
            upstream_url=upstream,
            upstream_dialect=upstream_dialect,
            webhook_url=webhook_url,
            webhook_secret=webhook_secret,
            webhook_schedule=webhook_schedule,
        )
    )


@main.command()
@option("--upstream", metavar="URL", required=True, help="The API to stand in front of.")
@option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@option("--port", type=click.IntRange(0, 65535), default=8026, show_default=True, help="0 for a free one.")
@option("--tls", is_flag=True, help="Listen with TLS, by a certificate that is made at the start.")
@option("--tls-cert", metavar="FILE", type=click.Path(path_type=Path), help="Listen with TLS, by this certificate.")
@option("--tls-key", metavar="FILE", type=click.Path(path_type=Path), help="Its key, if that is in another file.")
@option("--ca", metavar="FILE", type=click.Path(path_type=Path), help="Trust an https upstream by this authority.")
@option("--insecure", is_flag=True, help="Trust any https upstream.")
@option("--allow-remote", is_flag=True, help="Send to an upstream that is not on this machine.")
@option(
    "--key-header",
    metavar="NAME",
    default="Idempotency-Key",
    show_default=True,
    help="The header by which requests belong together.",
)
@option("--keep-host", is_flag=True, help="Pass on the caller's Host instead of the upstream's.")
def proxy(**given: Any) -> None:
    """Stand between any two systems that speak HTTP, with the faults of the control API."""
    import asyncio  # noqa: PLC0415

    from sendtwice.harness.edges import proxy as standing  # noqa: PLC0415

    asyncio.run(standing.serve(**given))


@main.command(epilog=_PROVEN)
@option("--json", "json_file", metavar="FILE", envvar="SENDTWICE_JSON", help="Write the result; - is standard output.")
@option("-q", "--quiet", is_flag=True, help="Only what is not well.")
@color_option
def doctor(**given: Any) -> int:
    """Prove on this machine that every fault does on the wire what it is called, and say what else is here."""
    from sendtwice.harness.doctor import cli as examining  # noqa: PLC0415

    return examining.doctor(**given)


@main.command()
@color_option
def demo(color: Literal["auto", "always", "never"]) -> int:
    """Play the same scenarios against a sound and a flawed implementation, side by side."""
    from sendtwice.harness import demo as demonstration  # noqa: PLC0415

    return demonstration.main(color)


@main.command()
@click.argument("file")
@_TARGET
@reporting
def replay(**given: Any) -> int:
    """Play a saved failure again, on its own target or on another."""
    from sendtwice.harness import replay as replaying  # noqa: PLC0415

    return replaying.replay(**given)


@main.command()
@click.argument("kind", type=click.Choice(["target", "contract", "scenario", "result"]))
def schema(kind: str) -> None:
    """Print a JSON Schema, for editors and for those who read results."""
    import json  # noqa: PLC0415

    from sendtwice.harness import schemas  # noqa: PLC0415

    click.echo(json.dumps(schemas.schema(kind), indent=2))


if __name__ == "__main__":
    main()
