"""``sendtwice replay``: a saved failure is a scenario, played alone by the same runner and judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness.cli_run import Plan, Reporting, contract_of
from sendtwice.harness.scenario import load as load_scenario
from sendtwice.harness.selection import SelectionError, select
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load as load_target


def replay(*, file: str, target: str | None, **rest: Any) -> int:
    """Play the scenario in ``file`` and return the exit status."""
    reporting = Reporting.taken_from(rest)
    scenario = load_scenario(file)
    saved = scenario.saved or {}
    contract: str | None = None
    own = target is None
    if target is None:
        target = _own_target(file, saved)
        # The contract that it failed under; another target has its own.
        contract = str(saved["contract"]) if saved.get("contract") else None
    loaded, path = load_target(target)
    if contract is not None and contract == loaded.target.contract:
        contract = None
    elif contract is not None and ("/" in contract or contract.endswith((".yaml", ".yml"))):
        contract = contract_of(str(path.parent / contract))
    seed = saved.get("seed", 1)
    plan = Plan(loaded, path, None if own else target, reporting)
    plan.settings = replace(
        RunSettings(),
        contract=contract,
        seed=seed if isinstance(seed, int) else 1,
        allow_remote=reporting.allow_remote,
    )
    try:
        plan.scenarios = select([scenario], role=loaded.target.role)
    except SelectionError as error:
        raise BadFileError(file, str(error)) from None
    return plan.play(remember=False).exit_code


def _own_target(file: str, saved: dict[str, Any]) -> str:
    named = saved.get("target")
    if not isinstance(named, str):
        raise BadFileError(file, "names no target; give one: sendtwice replay FILE TARGET.toml", where="saved")
    path = Path(file).parent / named
    if not path.exists():
        message = f"{named!r} is not there any more; give the target: sendtwice replay FILE TARGET.toml"
        raise BadFileError(file, message, where="saved.target")
    return str(path)
