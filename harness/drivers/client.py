"""Role client: the target's own code performs an operation, and the harness is the send API it calls."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from sendtwice.harness import placeholders
from sendtwice.harness.drivers.caller import Flight
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.history import Kind
from sendtwice.harness.live import Plan
from sendtwice.harness.requests import Built

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench


def flight(bench: Bench, scenario: str, plan: Plan) -> Flight:
    """Return the flight of one run of the target's command; its wire attempts are the target's own."""
    return Flight(plan.name, Built("", "", "", [], b"", ""), scenario, plan.operation, bench.url)


async def operate(bench: Bench, scenario: str, plan: Plan, flight: Flight) -> None:
    """Run the target's command for one operation and note what it says became of it."""
    settings = bench.target.client
    assert settings is not None
    values = {
        **bench.values,
        "python": sys.executable,
        "folder": str(bench.folder),
        "operation": plan.uid.partition("+")[0] + "-" + plan.content.text,
        "to": plan.recipients[0],
        "subject": f"Receipt {plan.content.subject}",
        "text": f"Thank you for your order {plan.content.text}.",
        "from": "sender@sendtwice.test",
    }
    env = {
        **os.environ,
        **{name.upper(): values[name] for name in ("operation", "to", "subject", "text", "from")},
        "API_URL": bench.values["api_url"],
        **{name: placeholders.fill_text(text, values) for name, text in settings.env.items()},
    }
    command = [placeholders.fill_text(part, values) for part in settings.command]
    bench.logs.mkdir(parents=True, exist_ok=True)
    with (bench.logs / "client.log").open("ab") as log:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=bench.folder,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise HarnessError(
                f"the client's command {command[0]!r} cannot be started ({reason}); mend target.client.command"
            ) from None
    try:
        async with asyncio.timeout(settings.timeout):
            code = await process.wait()
    except TimeoutError:
        flight.outcome = "timed-out"
        bench.recorder.record(
            Kind.VOID,
            scenario=scenario,
            reason=f"the client did not end within {settings.timeout:g} s (target.client.timeout)",
        )
    else:
        told = next((name for name, codes in settings.told.items() if code in codes), None)
        flight.outcome = "answered"
        bench.recorder.record(
            Kind.TOLD,
            scenario=scenario,
            operation=plan.operation,
            attempt=plan.name,
            told=told or "undeclared",
            status=code,
        )
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.returncode is None:
            await process.wait()
        flight.ended_at = bench.recorder.now()
        flight.ended.set()
