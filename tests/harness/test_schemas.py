"""JSON Schemas of the files that people write: they take what the models take, and refuse what the models refuse."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from click.testing import CliRunner

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.documents import BadFileError, load_toml, load_yaml
from sendtwice.harness import scenario
from sendtwice.harness.cli import main
from sendtwice.harness.result import Verdict
from sendtwice.harness.schemas import schema
from tests.harness.stories import failed, other, run_of
from tests.support import ROOT

CONTRACT = """\
name: mine
title: Mine
request: {path: /send}
answers:
  accepted: {status: 200, id: /id}
"""
EXTENDING = "name: mine\nextends: rasket\n"


def plain(data: Any) -> Any:
    """Keys that JSON has: a group of names becomes one, and YAML's numbers become text."""
    if isinstance(data, dict):
        return {", ".join(k) if isinstance(k, tuple) else str(k): plain(v) for k, v in data.items()}
    if isinstance(data, list):
        return [plain(item) for item in data]
    return data.isoformat() if hasattr(data, "isoformat") else data


@pytest.mark.parametrize("kind", ["target", "contract", "scenario", "result"])
def test_schemas_are_schemas(kind: str) -> None:
    data = json.loads(CliRunner().invoke(main, ("schema", kind)).output)
    jsonschema_rs.validator_for(data)
    assert data["title"] == f"sendtwice: {kind}"


@pytest.mark.parametrize("path", sorted(scenario.FOLDER.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_scenario_fits_its_schema(path: Path) -> None:
    jsonschema_rs.validator_for(schema("scenario")).validate(plain(load_yaml(path).data))


@pytest.mark.parametrize("name", contracts.names())
def test_every_shipped_contract_fits_its_schema(name: str) -> None:
    data = plain(load_yaml(contracts.find(name)).data)
    jsonschema_rs.validator_for(schema("contract")).validate(data)


def test_every_target_file_here_fits_its_schema() -> None:
    validator = jsonschema_rs.validator_for(schema("target"))
    paths = [*(ROOT / "tests").glob("*/*/target.toml"), *(ROOT / "tests/emulated").glob("*.toml")]
    assert len(paths) > 40
    for path in paths:
        validator.validate(plain(load_toml(path).data))


# -- contracts -----------------------------------------------------------------------------------------------------


def fits(text: str, tmp_path: Path) -> tuple[bool, bool]:
    """Whether the schema and the model take a contract."""
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    by_schema = jsonschema_rs.validator_for(schema("contract")).is_valid(plain(yaml.safe_load(text)))
    try:
        contracts.load(str(path))
    except BadFileError:
        return by_schema, False
    return by_schema, True


RIGHT = [
    "lease: 5",
    "lease: unknown",
    "lease: {value: 5, note: n}",
    "lease: {lasts: 5, then: refuse}",
    "lease: {lasts: {value: 5, also: [6]}, late_original: {play: fenced}}",
    "reconciliation: 1800",
    "reconciliation: {within: 1800, by: [sender], marker: {at: /reconciled, is: true}}",
    "retention: {at_least: 1, at_most: 2, from: completion}",
    "retention: {from: {value: last-use, source: s}}",
    "scope: [tenant, mailbox]",
    "scope: unknown",
    "scope: {basis: observed, value: [tenant]}",
    "scope: {play: [tenant]}",
    "replay: {marker: [{header: X, is: 'true', otherwise: 'false'}]}",
    "hints: {retry_after: [rate_limited], should_retry: X-Should-Retry}",
    "batch: {max: 100, key: whole}\nroutes: {batch: {path: /batch}}",
    "routes: {other: {path: /o, answers: {refused: {status: 4xx}, accepted: [{status: [200, 202]}]}}}",
    "routes: {other: {path: /o, does: draft, key: ignored, asks: person, scope: [tenant]}}",
    "key: {first_sent: {at: 'header:First-Sent', window: 300}, also_at: ['query:key']}",
    "mail: {from: /sender, items: /mails, required: [/to]}",
    "levels: {conflict: should}",
    "events: {id: /event_id, ids: stable}",
]
WRONG = [
    "lease: soon",
    "lease: {last: 5}",
    "lease: {value: 5, nte: x}",
    "scope: tenant",
    "scope: [tennant]",
    "duplicates: replays",
    "concurrent: {vlaue: refuse}",
    "concurrent: {also: [wait]}",
    "concurrent: {value: refuse, basis: guessed}",
    "retention: {at_least: -1}",
    "key: {max: 1.5}",
    "key: {presense: optional}",
    "reconciliation: {by: [colour]}",
    "reconciliation: {marker: {header: X}}",
    "routes: {other: {does: send}}",
    "routes: {other: {path: /o, does: sends}}",
    "routes: {other: {path: /o, answers: {conflikt: {status: 409}}}}",
    "hints: {retry_after: [busy]}",
    "replay: {marker: {header: X, is: 'true'}}",
    "frobs: 1",
]


@pytest.mark.parametrize("base", [CONTRACT, EXTENDING], ids=["whole", "extending"])
@pytest.mark.parametrize("added", RIGHT)
def test_what_a_contract_may_say_fits_its_schema_and_its_model(base: str, added: str, tmp_path: Path) -> None:
    assert fits(f"{base}{added}\n", tmp_path) == (True, True)


@pytest.mark.parametrize("added", WRONG)
def test_a_wrong_contract_fits_neither_its_schema_nor_its_model(added: str, tmp_path: Path) -> None:
    assert fits(f"{CONTRACT}{added}\n", tmp_path) == (False, False)


@pytest.mark.parametrize(
    "status_or_code",
    [
        "{status: 99}",
        "{status: 6xx}",
        "{status: 409, code: {at: /code}}",
        "{status: 409, code: {at: code, is: x}}",
        "{}",
    ],
)
def test_an_answer_that_cannot_be_fits_neither(status_or_code: str, tmp_path: Path) -> None:
    assert fits(f"{CONTRACT}  conflict: {status_or_code}\n", tmp_path) == (False, False)


@pytest.mark.parametrize(
    "added",
    [
        "routes: {batch: {method: PUT}}",
        "answers: {conflict: {status: 422}}",
        "request: {headers: {X-Mine: '1'}}",
        "key: {max: 64, unit: ~}",
        "routes: {batch: ~}\nbatch: ~",
        "retention: ~",
    ],
)
def test_an_extending_contract_says_only_what_differs(added: str, tmp_path: Path) -> None:
    assert fits(f"{EXTENDING}{added}\n", tmp_path) == (True, True)


@pytest.mark.parametrize("text", ["extends: rasket\n", "name: mine\n", f"{EXTENDING}kye: {{max: 64}}\n"])
def test_a_contract_that_lacks_what_it_needs_fits_neither(text: str, tmp_path: Path) -> None:
    assert fits(text, tmp_path) == (False, False)


# -- scenarios and results -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        "advance: 60",
        "advance: retention.at_least",
        "advance: {by: lease.lasts, plus: -1}",
        "call: approve",
        "call: {name: approve, times: 2}",
        "send: {as: x, change: {form: whitespace}}",
        "send: {as: x, change: {fields: reordered}}",
        "send: {as: x, via: batch, items: 3}",
        "operate: {as: x, at: {client.request: {garble: html}}}",
        "operate: {as: x, at: {client.response: {garble: gzip, nth: 2}}}",
        "operate: {as: x, at: {client.response: {drip: 0.5}}}",
        "operate: {as: x, at: {client.response: {lose: in-chunks}}}",
        "operate: {as: x, at: {client.response: {close: after-answer}}}",
        "operate: {as: x, at: {client.request: {reset: , stage: headers}}}",
        "operate: {as: x, at: {client.request: {answer: rate_limited, retry_after: 0.5}}}",
        "operate: {as: x, at: [{crossing: client.request, answer: 503, retry_after: {date: 2}}]}",
        "operate: {as: x, at: {client.response: {answer: 308, location: other}}}",
        "parallel: [{as: x}, {operate: {as: y}}]",
    ],
)
def test_what_a_scenario_may_say_fits_its_schema_and_its_model(step: str) -> None:
    role = "client" if "operate" in step else "api"
    text = f"{{id: a.b, title: T, role: {role}, steps: [{{{step}}}]}}"
    assert jsonschema_rs.validator_for(schema("scenario")).is_valid(yaml.safe_load(text))
    scenario.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "{id: a.b, title: T, role: api, steps: [{send: {as: x, at: {client.response: frob}}}]}",
        "{id: a.b, title: T, role: api, steps: [{send: {as: x, at: {client.request: {lose: , hold: }}}}]}",
        "{id: a.b, title: T, role: api, steps: [{sned: {as: x}}]}",
        "{id: a.b, title: T, role: client, steps: [{operate: {as: x, at: {client.request: {drip: 1}}}}]}",
        "{id: a.b, title: T, role: client, steps: [{operate: {as: x, at: {provider.response: {garble: html}}}}]}",
        "{id: a.b, title: T, role: client, steps: [{hold: {crossing: client.request, lose: , retry_after: 1}}]}",
        "{id: a.b, title: T, role: client, steps: [{hold: {crossing: client.request, retry_after: 1}}]}",
        "{id: a.b, title: T, role: client, steps: [{hold: {crossing: client.request, answer: 503, retry_after: 0}}]}",
        "{id: a.b, title: T, role: client, steps: [{hold: {crossing: client.request, answer: 307, location: x}}]}",
        "{id: a.b, title: T, role: client, steps: [{parallel: [{resend: {as: x}}]}]}",
        "{id: a.b, title: T, role: api, steps: [{advance: {plus: 1}}]}",
        "{id: a.b, title: T, role: api, steps: [{send: {as: x, change: {form: colour}}}]}",
        "{id: a.b, title: T, role: api, steps: [frob]}",
        "{id: a.b, title: T, role: mailer, steps: [settle]}",
    ],
)
def test_a_wrong_scenario_fits_neither_its_schema_nor_its_model(text: str) -> None:
    assert not jsonschema_rs.validator_for(schema("scenario")).is_valid(yaml.safe_load(text))
    with pytest.raises(BadFileError):
        scenario.parse(text)


def test_results_fit_their_schema() -> None:
    validator = jsonschema_rs.validator_for(schema("result"))
    validator.validate(run_of(failed(), other("send.repeat", Verdict.SKIPPED, reason="x")).as_json())
    validator.validate(run_of(error="no").as_json())
    assert not validator.is_valid({**run_of().as_json(), "verdict": "fine"})
