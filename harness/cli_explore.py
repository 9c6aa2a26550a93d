"""``sendtwice explore``: from the options to an exploration, its reporters and the exit status."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness import known
from sendtwice.harness.bench import Bench
from sendtwice.harness.cli_run import (
    Reporting,
    contract_of,
    new_folder,
    redactor_for,
    until_signal,
    writable_file,
)
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.explore.console import ExploreConsole
from sendtwice.harness.explore.events import Event, Subscriber
from sendtwice.harness.explore.explorer import Explorer, Settings
from sendtwice.harness.explore.files import ExploreJson, Saved
from sendtwice.harness.explore.junit import ExploreJUnit
from sendtwice.harness.explore.stage import Stage
from sendtwice.harness.needs import unplayable
from sendtwice.harness.scenario import catalogue, under
from sendtwice.harness.target import load
from sendtwice.harness.target_checks import check_remote, shown


def explore(
    *, target: str | None, contract: str | None, budget: float, faults: int, jobs: int, watch: float, **rest: Any
) -> int:
    """Explore a target and return the exit status."""
    reporting = Reporting.taken_from(rest)
    contract = contract_of(contract)
    loaded, path = load(target)
    body = loaded.target
    if body.role != "api":
        raise BadFileError(
            shown(path), f"explore plays send APIs; this target has role {body.role}", where="target.role"
        )
    judged_by = effective_contract(loaded, path.parent, contract)
    check_remote(loaded, path, reporting.allow_remote)
    broken = unplayable(body, path.parent)
    if broken is not None:
        raise BadFileError(str(path), broken)
    known.check_entries(loaded, [one.id for one in (*under(judged_by, catalogue()), *catalogue())])
    for name, option in ((reporting.json_file, "--json"), (reporting.junit_file, "--junit")):
        if name is not None and not (option == "--json" and name == "-"):
            writable_file(name, option)
    redactor = redactor_for(loaded)
    reports = new_folder(Path(reporting.report_dir), f"explore-{body.name}")
    stream = sys.stderr if reporting.json_file == "-" else sys.stdout
    console = ExploreConsole(
        redactor,
        name=body.name,
        contract=judged_by.name,
        target=target or shown(path),
        stream=stream,
        color=reporting.color,
        verbosity=reporting.verbose - reporting.quiet,
    )
    files: list[Subscriber] = [Saved(path, contract or body.contract, redactor)]
    if reporting.json_file is not None:
        files.append(ExploreJson(reporting.json_file, body.name, judged_by.name, redactor))
    if reporting.junit_file is not None:
        files.append(ExploreJUnit(Path(reporting.junit_file), body.name, judged_by, redactor))
    told = Told([*files, console])
    retries = body.timing.retries_for
    settings = Settings(
        budget=budget or None,
        deeds=faults,
        jobs=jobs,
        watch=retries if retries is not None else watch,
        reports=reports,
        known=tuple(loaded.known),
    )
    bench = Bench(body, judged_by, path.parent, reports / "output")
    console.starting()
    try:
        result = until_signal(Explorer(Stage(bench), settings, [told]).run())
    finally:
        console.clear()
        with contextlib.suppress(OSError):
            reports.rmdir()  # where nothing was written
    told.complain()
    if result.error is not None and stream is not sys.stderr:  # there the console has said it
        click.echo(f"sendtwice: {redactor.text(result.error)}", err=True)
    return result.exit_code


class Told:
    """Tells reporters; one that cannot write does not end the exploration."""

    def __init__(self, subscribers: Sequence[Subscriber]) -> None:
        """Pass events on to ``subscribers``."""
        self._subscribers = subscribers
        self._failed: list[str] = []

    def __call__(self, event: Event) -> None:
        """Take one event."""
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                self._failed.append(f"{error.filename or 'a report'} cannot be written ({reason})")

    def complain(self) -> None:
        """Say which reports could not be written."""
        if self._failed:
            raise HarnessError(f"{'; '.join(dict.fromkeys(self._failed))}; check the place and its permissions")
