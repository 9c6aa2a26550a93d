"""The command line without a run: what is wrong is one line and exit 2; what is asked for is told."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import sendtwice
from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.documents import BadFileError, load_toml
from sendtwice.harness import from_url, known, scenario
from sendtwice.harness.cli import main
from sendtwice.harness.cli_options import guarded
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.judge import RULES
from sendtwice.harness.result import Verdict
from sendtwice.harness.target import load as load_target
from tests.harness.stories import failed, other, run_of
from tests.support import ROOT

TARGET = str(ROOT / "tests/flawed/check-then-send/target.toml")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the checkout."""
    monkeypatch.chdir(tmp_path)


def call(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, arguments, env=env)


def test_the_version_is_told() -> None:
    assert call("--version").output == f"sendtwice, version {sendtwice.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frob"], "No such command 'frob'"),
        (["run", "--frob"], "No such option '--frob'"),
        (["run", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["run"], "sendtwice.toml: there is none here"),
        (["run", TARGET, "--scenario", "send.respnse-lost"], "did you mean send.response-lost"),
        (["run", TARGET, "--exclude", "send.respnse-lost"], "--exclude 'send.respnse-lost' fits no scenario"),
        (
            ["run", TARGET, "--scenario", "client.response-lost"],
            "is for role client and the target has role api",
        ),
        (["run", TARGET, "--tag", "smke"], "did you mean smoke"),
        (["run", TARGET, "--scenario", "send.*", "--exclude", "send.*"], "no scenario is left"),
        (["run", TARGET, "--contract", "rasquet"], "did you mean 'rasket'?"),
        (["run", TARGET, "--contract", "./mine.yaml"], "mine.yaml: cannot be read"),
        (["run", TARGET, "--time-limit", "0"], "'0' is no number of seconds above 0"),
        (["run", TARGET, "--seed", "x"], "'x' is not a valid integer"),
        (["run", TARGET, "--color", "blue"], "'blue' is not one of 'auto', 'always', 'never'"),
        (["run", TARGET, "--path", "/x"], "give --url too"),
        (["run", TARGET, "--url", "http://127.0.0.1:1"], "not both"),
        (["run", "--url", "ftp://x"], "is no http address"),
        (["run", "--url", "http://127.0.0.1:1", "-H", "nocolon"], "-H: 'nocolon' is no header"),
        (["run", "--url", "http://127.0.0.1:1", "--body", "@none.json"], "none.json: cannot be read"),
        (["run", "--url", "http://127.0.0.1:1", "--body", '{"x": 1}'], "has no {to}"),
        (["run", "--url", "http://127.0.0.1:1", "--body", '{"x": "{tou}"}'], "has no {to}"),
        (["run", "--url", "http://127.0.0.1:1", "--body", "[1"], "is not valid JSON"),
        (["run", "--url", "http://127.0.0.1:1", "--key-header", "a b"], "is no header name"),
        (["check", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["scenarios", "send.respnse-lost"], "did you mean send.response-lost"),
        (["explain", "at-most-onc"], "did you mean at-most-once"),
        (["explain"], "Missing argument 'ID'"),
        (["schema", "frob"], "'frob' is not one of 'target', 'contract', 'scenario', 'result'"),
        (["replay", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["serve"], "Missing option '--contract'"),
        (["serve", "--contract", "rasquet"], "did you mean 'rasket'?"),
    ],
)
def test_a_mistake_is_one_line_with_a_remedy_and_exit_2(arguments: list[str], said: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("sendtwice: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_place_that_cannot_be_written_is_found_before_the_run() -> None:
    Path("file").write_text("")
    for option, where in (("--report", "file"), ("--json", "file/x.json"), ("--junit", "file/x.xml")):
        result = call("run", TARGET, option, where)
        assert result.exit_code == 2
        assert f"sendtwice: {option}: file" in result.stderr
        assert result.stdout == ""


def test_without_a_command_there_is_help() -> None:
    result = call()
    assert result.exit_code == 2
    assert "replay" in result.output


def test_help_tells_the_exit_statuses() -> None:
    text = call("run", "--help").output
    assert "0  nothing broken" in text
    assert "4  sendtwice could not do its work" in text


# -- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (BadFileError("x.toml", "is bad; mend it", line=3), 2, "sendtwice: x.toml:3: is bad; mend it"),
        (HarnessError("the canary was refused"), 4, "sendtwice: the canary was refused"),
        (ExceptionGroup("g", [HarnessError("inside")]), 4, "sendtwice: inside"),
        (KeyboardInterrupt(), 130, "sendtwice: interrupted"),
        (ZeroDivisionError("a\nb"), 4, "sendtwice: internal error: ZeroDivisionError: a b (run again with "),
        (click.UsageError("No."), 2, "sendtwice: No"),
    ],
)
def test_whatever_goes_wrong_is_one_line(
    error: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> int:
        raise error

    assert guarded(run) == status
    shown = capsys.readouterr().err
    assert shown.startswith(said)
    assert shown.count("\n") == 1


def test_a_traceback_is_shown_to_who_asks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENDTWICE_DEBUG", "1")

    def run() -> int:
        raise ZeroDivisionError

    assert guarded(run) == 4
    assert "Traceback" in capsys.readouterr().err


# -- what is told -------------------------------------------------------------------------------------------


def test_the_catalogue_is_listed_with_what_each_needs() -> None:
    result = call("scenarios")
    assert result.exit_code == 0
    for one in scenario.catalogue():
        assert one.id in result.output
    line = next(line for line in result.output.splitlines() if "scope.other-tenant" in line)
    assert "[target.api.senders.other-tenant]" in line


def test_the_catalogue_is_json_for_programs() -> None:
    data = json.loads(call("scenarios", "send.re*", "--json").output)
    assert {one["id"] for one in data} >= {"send.repeat", "send.response-lost"}
    assert all(one["id"].startswith("send.re") for one in data)
    assert {"id", "title", "role", "tags", "needs", "why", "source"} <= data[0].keys()


@pytest.mark.parametrize("name", [*(s.id for s in scenario.catalogue()), *RULES, *contracts.names()], ids=str)
def test_everything_that_has_an_id_can_be_explained(name: str) -> None:
    result = call("explain", name)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0].startswith(f"{name}  ")
    assert "\nsource\n" in result.output


def test_a_scenario_is_explained_in_words() -> None:
    text = call("explain", "send.response-lost").output
    assert "1. send first; the caller is gone while the provider's answer is held" in text
    assert "2. send retry, like first" in text
    assert "at-most-once: One operation under one key is delivered at most once" in text


def test_a_dry_run_contacts_nothing_and_says_what_would_happen() -> None:
    crashing = str(ROOT / "tests/sound/queued-202/target.toml")
    result = call("run", crashing, "--dry-run", "--scenario", "send.crash-*", "--scenario", "send.response-lost")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("dry run: nothing is contacted; a run would play ")
    assert "sends to: POST http://127.0.0.1:{port}/emails (key: header:Idempotency-Key)" in lines
    assert "  fault: first: the caller is gone while the provider's answer is held" in lines
    assert "  kill: the target is killed (SIGKILL)" in lines
    assert list(Path.cwd().iterdir()) == []


def test_a_dry_run_says_why_a_scenario_would_be_skipped() -> None:
    result = call("run", TARGET, "--dry-run", "--scenario", "send.crash-after-accept", "--scenario", "send.repeat")
    assert any(
        line.startswith("skipped: send.crash-after-accept: the target forgets everything")
        for line in result.output.splitlines()
    )


def test_options_are_environment_variables_too() -> None:
    env = {
        "SENDTWICE_TARGET": TARGET,
        "SENDTWICE_DRY_RUN": "1",
        "SENDTWICE_SCENARIO": "send.repeat, send.burst send.hang-up",
        "SENDTWICE_EXCLUDE": "send.hang-up",
    }
    result = call("run", env=env)
    assert result.output.startswith("dry run: nothing is contacted; a run would play 2 of 2 scenarios\n")


def test_the_command_line_goes_before_the_environment() -> None:
    result = call("run", TARGET, "--dry-run", "--scenario", "send.repeat", env={"SENDTWICE_SCENARIO": "send.burst"})
    assert "send.burst" not in result.output


def test_headers_in_the_environment_stand_on_lines_of_their_own() -> None:
    env = {"SENDTWICE_HEADER": "A: 1, 2\nB"}
    assert "-H: 'B' is no header" in call("run", "--url", "http://127.0.0.1:1", "--dry-run", env=env).stderr


def test_smoke_is_the_tag() -> None:
    smoke = [s for s in scenario.catalogue() if "smoke" in s.tags and s.role == "api"]
    assert f"of {len(smoke)} scenarios" in call("run", TARGET, "--smoke", "--dry-run").output


def test_a_family_is_a_tag() -> None:
    keys = [s for s in scenario.catalogue() if s.id.startswith("key.") and s.role == "api"]
    assert f"of {len(keys)} scenarios" in call("run", TARGET, "--tag", "key", "--dry-run").output


def test_a_scenario_of_ones_own_is_named_by_its_file() -> None:
    Path("mine.yaml").write_text("{id: my.own, title: Mine, role: api, steps: [{send: {as: first}}]}")
    result = call("run", TARGET, "--dry-run", "--scenario", "mine.yaml")
    assert "\nmy.own  Mine\n" in result.output
    assert "1 of 1" in result.output


# -- a target without a file --------------------------------------------------------------------------------


def test_a_url_is_a_target() -> None:
    Path("body.json").write_text('{"recipient": "{to}", "title": "{subject}"}')
    result = call(
        "run", "--url", "localhost:3000/v1/mails", "--body", "@body.json", "--key-header", "X-Key",
        "-H", "X-Api-Key: abc", "--dry-run", "--scenario", "send.repeat",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "sends to: POST http://localhost:3000/v1/mails (key: header:X-Key)" in result.output


def test_a_target_made_of_a_url_is_kept_as_a_file_without_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = from_url.build(
        "http://127.0.0.1:3000",
        path="mails",
        body='{"to": ["{to}"], "s": "say \\"{subject}\\"", "n": 1}',
        headers=["Authorization: Bearer abcdef", "X-Other: x y"],
        key_header="X-Key",
    )
    path = Path("target.toml")
    path.write_text(from_url.write(built, path))
    assert "abcdef" not in path.read_text()
    monkeypatch.setenv("AUTHORIZATION", "Bearer abcdef")
    again, _ = load_target(str(path))
    assert again.target.api is not None
    assert built.target.api is not None
    assert again.target.api.request == built.target.api.request
    assert again.target.api.headers == {"Authorization": "{env:AUTHORIZATION}", "X-Other": "x y"}
    assert again.target.contract == "universal"


# -- known deviations ---------------------------------------------------------------------------------------


def test_what_failed_can_be_written_down_as_known_and_only_once() -> None:
    path = Path("known.toml")
    path.write_text('[target]\nname = "x"')
    result = run_of(failed(), failed("send.burst"), other("send.repeat", Verdict.PASSED))
    assert known.write(path, result) == 2
    assert known.write(path, result) == 0
    entries = load_toml(path).data["known"]
    assert [(e["scenario"], e["rule"]) for e in entries] == [
        ("send.response-lost", "at-most-once"),
        ("send.burst", "at-most-once"),
    ]
    assert "say why" in entries[0]["reason"]
    assert load_toml(path).data["target"] == {"name": "x"}


def test_in_pyproject_known_deviations_are_in_their_own_table() -> None:
    path = Path("pyproject.toml")
    known.write(path, run_of(failed()))
    assert load_toml(path).data["tool"]["sendtwice"]["known"][0]["scenario"] == "send.response-lost"


def test_a_file_that_known_deviations_cannot_be_added_to_is_found_before_the_run() -> None:
    Path("bad.toml").write_text("[")
    result = call("run", TARGET, "--write-known", "bad.toml")
    assert result.exit_code == 2
    assert "bad.toml: is not valid TOML" in result.stderr
