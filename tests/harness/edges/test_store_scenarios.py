"""The scenarios about stores, played against mailers on a real Redis: each catches the mistake that it is about."""

import asyncio
import fnmatch
from functools import cache
from pathlib import Path

import pytest

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness import session
from sendtwice.harness.result import RunResult, ScenarioResult
from sendtwice.harness.scenario import Scenario, catalogue
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load
from tests.servers import Redis, free_port
from tests.support import ROOT

TARGET = """
[target]
name = "redis-mailer"
role = "api"
contract = "%(contract)s"

[target.api]
url = "http://127.0.0.1:{port}"
request = { path = "/v1/messages" }

[target.start]
command = ["{python}", "%(program)s", "%(mistake)s"]
env = { PORT = "{port}", MAIL_PROVIDER_URL = "{provider_url}", REDIS = "{store.cache}" }
ready = "/healthz"

[target.store.cache]
upstream = "%(upstream)s"

[target.provider]
dialect = "generic"

[target.timing]
retries_for = 0
"""
SHORT_LEASE = "name: short-lease\ntitle: A claim lapses soon\nextends: {base}\nlease: {{lasts: 0.2}}\n"
PROGRAM = ROOT / "tests" / "targets_common" / "redis_mailer.py"


@cache
def shipped() -> tuple[Scenario, ...]:
    return tuple(catalogue())


def play(folder: Path, upstream: str, mistake: str, *globs: str, contract: str = "universal") -> RunResult:
    file = folder / "target.toml"
    values = {"program": PROGRAM, "mistake": mistake, "upstream": upstream, "contract": contract}
    file.write_text(TARGET % values, encoding="utf-8")
    target, path = load(str(file))
    chosen = [s for s in shipped() if any(fnmatch.fnmatchcase(s.id, glob) for glob in globs)]
    settings = RunSettings(reports=folder / "reports", watch=0.1)
    return asyncio.run(session.run(target, path, chosen, settings, []))


def broken(scenario: ScenarioResult) -> set[str]:
    return {finding.rule for finding in scenario.findings if finding.level is Level.MUST}


@pytest.mark.parametrize(
    ("mistake", "scenarios"),
    [
        ("looks-up", ["overtaken", "down-at-result", "crash-at-result"]),
        ("pings-first", ["overtaken-later"]),
        ("opens", ["down-at-claim", "down-at-lookup", "hangs-at-claim"]),
        ("frees", ["result-answer-lost"]),
        ("forgets-first", ["crash-after-result"]),
    ],
)
def test_a_mistake_is_seen(redis_server: Redis, tmp_path: Path, mistake: str, scenarios: list[str]) -> None:
    ids = [f"outcome.store-{name}" for name in scenarios]
    result = play(tmp_path, redis_server.address, mistake, *ids)
    seen = {one.id: broken(one) & {"at-most-once", "at-most-once-after-unknown"} for one in result.scenarios}
    assert seen.keys() == set(ids)
    assert all(seen.values()), seen


def test_a_claim_whose_answer_was_lost_may_not_stay_for_ever(redis_server: Redis, tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(SHORT_LEASE.format(base=ROOT / "tests" / "implementations" / "mail-operations.yaml"))
    result = play(tmp_path, redis_server.address, "bricks", "outcome.store-answer-lost", contract="contract.yaml")
    assert "progress" in {finding.rule for finding in result.scenarios[0].findings}


def test_a_store_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    port = free_port()
    assert play(tmp_path, f"127.0.0.1:{port}", "looks-up", "send.repeat").error == (
        f"nothing answers at 127.0.0.1:{port}, the upstream of store 'cache' (Connection refused); "
        "start it, or correct target.store.cache.upstream"
    )
