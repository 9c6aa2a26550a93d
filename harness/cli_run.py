"""``sendtwice run`` and ``check``: from the options to a run, its reporters and the exit status.

Everything that can be wrong with the arguments is found before the target is touched; what goes wrong
with a report's file is told after the run, whose other reports are still written.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import re
import signal
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import click

import sendtwice
from sendtwice.fake_provider import contracts
from sendtwice.harness import checking, dry_run, from_url, known, session
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.events import RunEnded, RunEvent, Subscriber
from sendtwice.harness.explain import diff
from sendtwice.harness.redact import Redactor, credentials_in, secrets_of
from sendtwice.harness.report.console import Console
from sendtwice.harness.report.files import write_text
from sendtwice.harness.report.jsonfile import Histories, JsonFile, LastRun, last_failed
from sendtwice.harness.report.junit import JUnitFile
from sendtwice.harness.report.paint import Color
from sendtwice.harness.report.saved import SavedFailures
from sendtwice.harness.required import all_required
from sendtwice.harness.result import RunResult
from sendtwice.harness.scenario import Scenario, catalogue, under
from sendtwice.harness.scenario import load as load_scenario
from sendtwice.harness.selection import SelectionError, select
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import Target
from sendtwice.harness.target import load as load_target
from sendtwice.harness.target_checks import check_remote, shown
from sendtwice.harness.target_checks import contract as contract_named

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reporting:
    """What the options that every playing command has ask for."""

    json_file: str | None = None
    junit_file: str | None = None
    report_dir: str = "reports"
    allow_remote: bool = False
    verbose: int = 0
    quiet: int = 0
    color: Color = "auto"

    @classmethod
    def taken_from(cls, given: dict[str, Any]) -> Reporting:
        """Take these options out of a command's."""
        return cls(**{name: given.pop(name) for name in cls.__dataclass_fields__})


def run(
    *,
    target: str | None,
    scenarios: Sequence[str],
    tags: Sequence[str],
    excluded: Sequence[str],
    smoke: bool,
    contract: str | None,
    seed: int,
    jobs: int,
    fail_fast: bool,
    last_failed: bool,
    time_limit: float | None,
    require_all: bool,
    known_file: str | None,
    strict_known: bool,
    dry_run: bool,
    url: str | None,
    path: str | None,
    body: str | None,
    headers: Sequence[str],
    key: str | None,
    key_header: str | None,
    **rest: Any,
) -> int:
    """Play scenarios and return the exit status."""
    reporting = Reporting.taken_from(rest)
    contract = contract_of(contract)
    if url is None and (path or body or headers or key or key_header):
        raise click.UsageError(
            "--path, --body, -H, --key and --key-header describe a target without a file; give --url too"
        )
    if url is not None and target is not None:
        raise click.UsageError("give either TARGET.toml or --url, not both")
    if url is not None:
        built = from_url.build(
            url, path=path, body=body, headers=headers, key=key, key_header=key_header, contract=contract
        )
        plan = Plan(built, None, None, reporting)
    else:
        loaded, target_path = load_target(target)
        plan = Plan(loaded, target_path, target, reporting)
    plan.settings = RunSettings(
        scenario=tuple(scenarios),
        tag=(*tags, *(("smoke",) if smoke else ())),
        exclude=tuple(excluded),
        contract=contract,
        seed=seed,
        jobs=jobs,
        fail_fast=fail_fast,
        time_limit=time_limit,
        require_all=require_all,
        allow_remote=reporting.allow_remote,
        strict_known=strict_known,
    )
    plan.choose(only_last_failed=last_failed)
    if known_file is not None:
        writable_file(known_file, "--write-known")
        known.check(Path(known_file))
    if dry_run:
        return plan.tell_only()
    result = plan.play(remember=True)
    if known_file is not None and result.scenarios:
        try:
            added = known.write(Path(known_file), result)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise HarnessError(f"--write-known: {known_file} cannot be written ({reason}); name another file") from None
        click.echo(f"sendtwice: {added} known deviation(s) added to {known_file}; give each its reason", err=True)
    return result.exit_code


def check(*, target: str | None, contract: str | None, report_dir: str, allow_remote: bool) -> int:
    """Start a target, send the canary, and say what would be skipped."""
    loaded, path = load_target(target)
    folder = Path(report_dir) / "check"
    settings = RunSettings(contract=contract_of(contract), allow_remote=allow_remote, reports=folder)
    every = (*catalogue(), *under(effective_contract(loaded, path.parent, settings.contract), catalogue()))
    known.check_entries(loaded, [scenario.id for scenario in every])
    check_remote(loaded, path, allow_remote)
    writable(folder, "--report")
    redactor = redactor_for(loaded)
    report = until_signal(checking.check(loaded, path, catalogue(), settings))
    for line in report.lines:
        click.echo(redactor.text(line if report.ok else f"sendtwice: {line}"), err=not report.ok)
    return 0 if report.ok else 4


@dataclass(slots=True)
class Plan:
    """A run that is about to be: its target, its scenarios, and who is told."""

    target: Target
    target_path: Path | None  # None: --url
    target_name: str | None  # as the user wrote it
    reporting: Reporting
    settings: RunSettings = field(default_factory=RunSettings)
    scenarios: list[Scenario] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where the target file's own paths start."""
        return self.target_path.parent if self.target_path is not None else Path.cwd()

    def choose(self, *, only_last_failed: bool = False) -> None:
        """Find the scenarios that were asked for; a usage error names the nearest."""
        names = list(self.settings.scenario)
        if only_last_failed:
            failed, note = last_failed(Path(self.reporting.report_dir), self.target_path)
            if note is not None:
                click.echo(f"sendtwice: {note}", err=True)
            names += failed
        contract = effective_contract(self.target, self.folder, self.settings.contract)
        shipped = under(contract, catalogue())
        # A scenario of the user's own is named by its file.
        files = [name for name in names if name.endswith((".yaml", ".yml"))]
        own = [load_scenario(name) for name in files]
        names = [name for name in names if name not in files] + [scenario.id for scenario in own]
        own_ids = {scenario.id for scenario in own}
        if only_last_failed:
            # The catalogue may have changed since.
            known_ids = {scenario.id for scenario in shipped} | own_ids
            names = [name for name in names if name in known_ids or any(c in name for c in "*?[")]
        try:
            self.scenarios = select(
                [*own, *(scenario for scenario in shipped if scenario.id not in own_ids)],
                role=self.target.target.role,
                names=names,
                tags=self.settings.tag,
                excluded=self.settings.exclude,
            )
        except SelectionError as error:
            raise click.UsageError(str(error)) from None

    def check(self) -> None:
        """Find what is wrong with the target's accepted deviations and with the places of reports."""
        contract = effective_contract(self.target, self.folder, self.settings.contract)
        every = (*under(contract, catalogue()), *catalogue(), *self.scenarios)
        known.check_entries(self.target, [scenario.id for scenario in every])
        for name, option in ((self.reporting.json_file, "--json"), (self.reporting.junit_file, "--junit")):
            if name is not None and not (option == "--json" and name == "-"):
                writable_file(name, option)

    def tell_only(self) -> int:
        """``--dry-run``."""
        self.check()
        contract = effective_contract(self.target, self.folder, self.settings.contract)
        redactor = redactor_for(self.target)
        for line in dry_run.lines(self.target, contract, self.scenarios, self.settings):
            click.echo(redactor.text(line))
        return 0

    def play(self, *, remember: bool) -> RunResult:
        """Run, report, and return the result; ``remember`` it for ``--last-failed``."""
        contract = effective_contract(self.target, self.folder, self.settings.contract)
        check_remote(self.target, self.target_path, self.settings.allow_remote)
        self.check()
        redactor = redactor_for(self.target)
        options = self.reporting
        reports = new_folder(Path(options.report_dir), self.target.target.name)
        self.settings = replace(self.settings, reports=reports)
        path, name = self._target_file(reports)
        # Standard output is either for a person or for a program.
        stream = sys.stderr if options.json_file == "-" else sys.stdout
        console = Console(
            redactor,
            target=name,
            stream=stream,
            color=options.color,
            verbosity=options.verbose - options.quiet,
            compared=self._compared(),
        )
        judged_by = self.settings.contract or self.target.target.contract
        files: list[Subscriber] = [
            SavedFailures(path, judged_by, redactor),
            Histories(reports, redactor),
        ]
        if remember:
            files.append(LastRun(Path(options.report_dir), self.target_path, redactor))
        if options.json_file is not None:
            files.append(JsonFile(Path(options.json_file), redactor))
        if options.junit_file is not None:
            files.append(JUnitFile(Path(options.junit_file), redactor))
        told = Told(files, self.settings.require_all)
        seen = Told([console], self.settings.require_all)
        console.starting(self.target.target.name)
        try:
            result = until_signal(session.run(self.target, path, self.scenarios, self.settings, [told, seen]))
        except HarnessError as error:
            console.clear()
            # The files of the run before must not be taken for this one's.
            result = RunResult(
                version=sendtwice.__version__,
                target=self.target.target.name,
                role=self.target.target.role,
                contract=contract.name,
                contract_sha256=contracts.sha256(contract),
                seed=self.settings.seed,
                started=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                seconds=0.0,
                scenarios=(),
                error=str(error),
            )
            told(RunEnded(result))
            if self.target_path is None:
                path.unlink(missing_ok=True)
            raise HarnessError(redactor.text(str(error))) from None
        finally:
            console.clear()
            with contextlib.suppress(OSError):
                reports.rmdir()  # where nothing was written
        told.complain()
        seen.complain()
        return told.result or result

    def _compared(self) -> list[str]:
        """Return what differs between the target's own contract and another that it is judged by."""
        own, other = self.target.target.contract, self.settings.contract
        if other is None or other == own:
            return []
        return list(
            diff.lines(contracts.load(own, relative_to=self.folder), contracts.load(other, relative_to=self.folder))
        )

    def _target_file(self, reports: Path) -> tuple[Path, str | None]:
        """Return the target's file, and how a command line names it; one that has none gets one."""
        if self.target_path is not None:
            return self.target_path, self.target_name or shown(self.target_path)
        path = reports / "target.toml"
        write_text(path, from_url.write(self.target, path))
        return path.resolve(), str(path)


class Told:
    """Tells reporters, in the words of ``--require-all``; one that cannot write does not end the run."""

    def __init__(self, subscribers: Sequence[Subscriber], require_all: bool) -> None:
        """Pass events on to ``subscribers``."""
        self._subscribers, self._require_all = subscribers, require_all
        self._failed: list[str] = []
        self.result: RunResult | None = None

    def __call__(self, event: RunEvent) -> None:
        """Take one event."""
        if isinstance(event, RunEnded):
            self.result = all_required(event.result) if self._require_all else event.result
            event = RunEnded(self.result)
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except OSError as error:
                self._failed.append(
                    f"{error.filename or 'a report'} cannot be written ({(error.strerror or str(error)).lower()})"
                )

    def complain(self) -> None:
        """Say which reports could not be written."""
        if self._failed:
            raise HarnessError(f"{'; '.join(dict.fromkeys(self._failed))}; check the place and its permissions")


def contract_of(given: str | None) -> str | None:
    """Return a contract's name, or its file's full path: on the command line a path starts here."""
    if given is None:
        return None
    contract_named(given, Path(), None)  # a mistake in it is told before anything else
    return str(Path(given).resolve()) if given.endswith((".yaml", ".yml")) or "/" in given else given


def redactor_for(target: Target) -> Redactor:
    """Return what hides a target's secrets: environment variables, and credentials written out."""
    data = target.model_dump()
    return Redactor(credentials_in(data), variables=secrets_of(data))


def new_folder(folder: Path, name: str) -> Path:
    """Make a folder of its own for a run's reports."""
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.") or "target"
    stamp = f"{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}"
    for number in range(1, 1000):
        path = folder / (f"{stamp}-{slug}" if number == 1 else f"{stamp}-{slug}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not folder.is_dir():
                break
            continue
        except OSError:
            break
        writable(path, "--report")
        return path
    writable(folder, "--report")
    raise click.UsageError(f"--report {folder}: no folder can be made in it; name another place")


def writable(folder: Path, option: str) -> None:
    """Make a folder, or say before the run that it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "permission denied")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise click.UsageError(f"{option}: {folder} cannot be written to ({reason}); name another place") from None


def writable_file(name: str, option: str) -> None:
    """Say before the run that a report cannot be written where it should be: afterwards it would be lost."""
    path = Path(name)
    if path.is_dir():
        raise click.UsageError(f"{option}: {name} is a folder; name a file")
    if not path.parent.is_dir():
        reason = "is no folder" if path.parent.exists() else "does not exist as a folder"
        raise click.UsageError(f"{option}: {path.parent} {reason}; make it, or name another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise click.UsageError(f"{option}: {name} cannot be written to (permission denied); name another file")


def until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end. SIGINT, SIGTERM and SIGHUP let the run clean up first: no target is left behind."""

    async def attended() -> T:
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)
        for number in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
                loop.add_signal_handler(number, task.cancel)
        return await task

    return asyncio.run(attended())
