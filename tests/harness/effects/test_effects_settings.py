"""``[target.effects]`` in a target file: what cannot be meant is refused in one line, before anything is started."""

import asyncio
from pathlib import Path

import jsonschema_rs
import pytest

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness import checking, dry_run, session
from sendtwice.harness.cli_run import redactor_for
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.needs import missing
from sendtwice.harness.schemas import schema
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load
from tests.harness.effects.outbox import COMMAND, HTTP, REPEAT, SQL, scenario, written


@pytest.mark.parametrize(
    ("effects", "said"),
    [
        ("timeout = 3", "effects are counted by one of http, sql and command, not none"),
        (HTTP + COMMAND, "effects are counted by one of http, sql and command, not http and command"),
        ('sql = "select 1 where :to"', "sql and database belong together: the query, and where it is asked"),
        (COMMAND + 'count = "/n"', "headers and count are for http; take them out"),
        (HTTP.replace("/page/total", "page.total"), "'page.total' is no JSON Pointer; write /page/total"),
        (
            HTTP.replace("?to={to}", ""),
            "target.effects.http: {to} is missing; without it everybody's mails are counted",
        ),
        (HTTP.replace("{to}", "{operation}"), "target.effects.http: {to} is missing"),
        (SQL.replace(" = :to", " = ':to'"), "target.effects.sql: :to is missing"),
        (COMMAND.replace(', "{to}"', ""), "target.effects.command: {to} is missing"),
        (SQL.replace(":to", ":too"), "target.effects.sql: unknown parameter :too; did you mean to"),
        (SQL.replace("select count(*)", "delete"), "target.effects.sql: only reads; write select count(*) from ..."),
        (SQL.replace("sqlite:///outbox.db", "outbox.db"), "'outbox.db' is no database's URL; write sqlite:///app.db"),
        (SQL.replace("outbox.db", ":memory:"), "a database in memory is seen by its own process alone; name a file"),
        (HTTP.replace("{to}", "{two}"), "target.effects.http: unknown placeholder {two}; did you mean {to}?"),
        (HTTP.replace("http://", "ftp://"), "is no http address; write http://127.0.0.1:{port}"),
        (
            HTTP.replace("127.0.0.1:{port}", "{store.db}"),
            "target.effects.http: {store.db} is the wire on which faults are played; write the store's own address",
        ),
        (HTTP.replace("s3cret-of-staging", "{env:NOT_SET_HERE}"), "the environment variable NOT_SET_HERE is not set"),
        ("htp = 1", "target.effects.htp: unknown key; did you mean 'http'?"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, effects: str, said: str) -> None:
    file = written(tmp_path, effects, more='[target.store.db]\nupstream = "127.0.0.1:5432"\n')
    with pytest.raises(BadFileError) as refused:
        load(str(file))
    assert said in str(refused.value)
    assert "target.effects" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_operation_is_its_own_where_the_harness_names_it(tmp_path: Path) -> None:
    """A client is asked for an operation under an id that is new in each run; of an API it is a scenario's word."""
    effects = COMMAND.replace("{to}", "{operation}")
    load(str(written(tmp_path, effects, role="client")))
    with pytest.raises(BadFileError, match="is missing"):
        load(str(written(tmp_path, effects)))


@pytest.mark.parametrize(
    "effects",
    [
        HTTP.replace("127.0.0.1:{port}", "staging.example"),
        'sql = "select 1 where :to = :to"\ndatabase = "postgresql://me:hidden@db.example:5432/app"',
    ],
)
def test_what_is_not_on_this_machine_needs_leave(tmp_path: Path, effects: str) -> None:
    target, path = load(str(written(tmp_path, effects)))
    settings = RunSettings(reports=tmp_path / "reports")
    with pytest.raises(BadFileError, match="is not on this machine; sendtwice sends there only with") as refused:
        session.Session(target, path, [], settings)
    assert "hidden" not in str(refused.value)


def test_a_database_without_its_reader_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    target, path = load(str(written(tmp_path, SQL.replace("sqlite:///outbox.db", "postgresql://127.0.0.1/app"))))
    with pytest.raises(BadFileError, match="postgresql is read through SQLAlchemy, which is not installed here"):
        session.Session(target, path, [], RunSettings(reports=tmp_path / "reports"))


def test_a_dry_run_says_where_effects_are_counted(tmp_path: Path) -> None:
    target, path = load(str(written(tmp_path, HTTP)))
    contract = effective_contract(target, path.parent, None)
    lines = list(dry_run.lines(target, contract, [scenario("api", REPEAT["api"])], RunSettings()))
    assert "effects: counted by GET http://127.0.0.1:{port}/sent; mails at the fake provider are not" in lines
    assert "first: one plain mail, the canary; if it does not get counted, nothing more is sent" in lines


@pytest.mark.parametrize(
    ("steps", "held"),
    [
        ("[{send: {as: first, at: {provider.request: hold}}}]", True),
        ("[{hold: {crossing: provider.response}}, {send: {as: first}}]", True),
        ("[{parallel: [{as: a, at: {provider.request: lose}}, {as: b}]}]", True),
        ("[{send: {as: first, at: {client.response: lose}}}]", False),
        ("[{send: {as: first}}, crash, restart]", False),
    ],
)
def test_what_is_held_at_the_provider_is_skipped(tmp_path: Path, steps: str, held: bool) -> None:
    target, path = load(str(written(tmp_path, SQL)))
    contract = effective_contract(target, path.parent, None)
    found = missing(scenario("api", steps), target.target, contract)
    assert found == (["effects are counted elsewhere: nothing is held at the provider (target.effects)"] * held)


def test_a_password_and_credentials_are_not_shown(tmp_path: Path) -> None:
    effects = (
        'http = "http://me:hidden-word@127.0.0.1:9/sent?to={to}"\nheaders = { Authorization = "Bearer of-staging" }'
    )
    target, _ = load(str(written(tmp_path, effects)))
    shown = redactor_for(target).text("it says hidden-word, of-staging")
    assert shown == "it says ***, ***"


@pytest.mark.parametrize("effects", [HTTP, SQL, COMMAND])
def test_the_schema_knows_it(tmp_path: Path, effects: str) -> None:
    target, _ = load(str(written(tmp_path, effects)))
    data = target.model_dump(mode="json", by_alias=True, exclude_unset=True)
    validator = jsonschema_rs.validator_for(schema("target"))
    assert validator.is_valid(data)
    data["target"]["effects"]["counts"] = 1
    assert not validator.is_valid(data)


def test_the_state_of_what_is_started_can_be_read(tmp_path: Path) -> None:
    """A reference worker keeps its effects where it keeps everything else."""
    file = written(tmp_path, SQL.replace("outbox.db", "{state}"))
    server = tmp_path / "server.py"
    server.write_text(server.read_text().replace('"outbox.db"', 'os.environ["STATE"]'))
    file.write_text(file.read_text().replace('PORT = "{port}" }', 'PORT = "{port}", STATE = "{state}" }'))
    target, path = load(str(file))
    report = asyncio.run(checking.check(target, path, [], RunSettings(reports=tmp_path / "reports")))
    assert report.ok, report.lines
