"""Target files: what they may say, what is laid over the contract, and one line for each mistake."""

from pathlib import Path

import pytest

from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.target import find_file, is_loopback, load
from sendtwice.harness.target_checks import check_remote

PLAIN = """\
[target]
name = "mailer"
contract = "rasket"

[target.api]
url = "http://127.0.0.1:{port}"
"""


def written(folder: Path, text: str, name: str = "sendtwice.toml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def mistake(folder: Path, text: str) -> str:
    with pytest.raises(BadFileError) as caught:
        load(written(folder, text))
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{folder}/")


def test_a_short_file_is_enough(tmp_path: Path) -> None:
    target, path = load(written(tmp_path, PLAIN))
    assert (target.target.name, target.target.role) == ("mailer", "api")
    assert target.target.processes == []
    assert path == tmp_path / "sendtwice.toml"


def test_a_folder_stands_for_the_file_in_it(tmp_path: Path) -> None:
    written(tmp_path, PLAIN)
    assert load(str(tmp_path))[0].target.name == "mailer"


def test_the_file_is_found_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadFileError, match="there is none here"):
        find_file(None)
    tool = PLAIN.replace("[target", "[tool.sendtwice.target")
    written(tmp_path, tool, "pyproject.toml")
    assert find_file(None) == (Path("pyproject.toml"), True)
    assert load(None)[0].target.name == "mailer"
    written(tmp_path, PLAIN.replace("mailer", "other"))
    assert load(None)[0].target.name == "other"


def test_a_pyproject_that_says_nothing_of_us_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, '[project]\nname = "x"\n', "pyproject.toml")
    with pytest.raises(BadFileError, match="name a target file"):
        find_file(None)
    written(tmp_path, "[project\n", "pyproject.toml")
    with pytest.raises(BadFileError, match="is not valid TOML"):
        find_file(None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('name = "mailer"', 'nmae = "mailer"'), "target.nmae: unknown key; did you mean 'name'?"),
        (("[target.api]", "[target.apy]"), "target.apy: unknown key; did you mean 'api'?"),
        (('url = "http://127.0.0.1:{port}"', ""), "target.api.url: is missing; add it"),
        (("{port}", "{prot}"), "target.api.url: unknown placeholder {prot}; did you mean {port}?"),
        (('contract = "rasket"', 'role = "client"'), "role is 'client' but there is no [target.client] table; add it"),
        (('contract = "rasket"', "contract = 3"), "target.contract"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    found = mistake(tmp_path, PLAIN.replace(*change))
    assert found.startswith("sendtwice.toml: ")
    assert message in found


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[target.api.request]\nrecipient = "fixed@x.test"\n', "has no {token} before the @"),
        ('[target.api.request]\nrecipient = "x@{token}.test"\n', "has no {token} before the @"),
        ('[target.api.request.body]\nto = "{too}"\n', "unknown placeholder {too}; did you mean {to}?"),
        ('[target.api.senders."Other Box"]\n', "is no name; use a-z, 0-9 and -"),
        ("[target.timing]\nanswers_within = 0\n", "target.timing.answers_within"),
        ("[target.provider]\nport = 70000\n", "target.provider.port"),
        ("[target.start]\ncommand = []\n", "target.start.command"),
        ('[target.start]\ncommand = ["{pyhton}"]\n', "did you mean {python}?"),
        ('[target.start]\ncommand = ["x"]\n[[target.process]]\ncommand = ["y"]\n', "not both"),
        (
            '[[target.process]]\nname = "a"\ncommand = ["x"]\n[[target.process]]\nname = "a"\ncommand = ["y"]\n',
            "same name",
        ),
        ('[[known]]\nscenario = "x"\nrule = "y"\n', "known.0.reason: is missing; add it"),
    ],
)
def test_a_mistake_in_a_table_is_one_line_as_well(tmp_path: Path, more: str, message: str) -> None:
    assert message in mistake(tmp_path, PLAIN + more)


def test_a_file_that_is_not_there_or_no_toml_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="cannot be read"):
        load(str(tmp_path / "nothing.toml"))
    assert "is not valid TOML" in mistake(tmp_path, "[target\n")


def test_a_sender_may_bring_placeholders_of_its_own(tmp_path: Path) -> None:
    own, body = '[target.api.senders.main.values]\nteam = "t1"\n', '[target.api.request.body]\nteam = "{team}"\n'
    assert load(written(tmp_path, PLAIN + own + body))[0].target.api is not None
    assert "unknown placeholder {team}" in mistake(tmp_path, PLAIN + body)


def test_each_process_has_a_port_by_its_name(tmp_path: Path) -> None:
    text = PLAIN.replace("{port}", "{port.web}") + '[[target.process]]\nname = "web"\ncommand = ["x", "{port.web}"]\n'
    target, _ = load(written(tmp_path, text))
    assert [p.name for p in target.target.processes] == ["web"]


# --- what is laid over the contract -------------------------------------------------------------------------


def test_without_own_words_the_contract_stands_as_it_is(tmp_path: Path) -> None:
    target, path = load(written(tmp_path, PLAIN))
    plain = effective_contract(target, path.parent)
    assert plain.request.path == "/emails"
    assert effective_contract(target, path.parent, "pylota").name == "pylota"


def test_the_targets_own_request_wins_over_the_contracts(tmp_path: Path) -> None:
    more = '[target.api.request]\nmethod = "PUT"\npath = "/v2/mail"\nkey = "body:/ref"\n'
    more += 'body = {who = "{to}", what = "{text}"}\n'
    target, path = load(written(tmp_path, PLAIN + more))
    contract = effective_contract(target, path.parent)
    assert (contract.request.method, contract.request.path) == ("PUT", "/v2/mail")
    assert contract.request.body == {"who": "{to}", "what": "{text}"}
    assert contract.request.headers["User-Agent"] == "sendtwice"
    assert contract.key.at == "body:/ref"
    assert contract.key.max.says(256)


def test_the_targets_own_answers_widen_the_contracts(tmp_path: Path) -> None:
    more = '[target.api.answer]\nid = "/data/id"\naccepted = [201, 202]\n'
    target, path = load(written(tmp_path, PLAIN + more))
    contract = effective_contract(target, path.parent)
    accepted, replayed = (contract.shapes(k)[0] for k in (AnswerClass.ACCEPTED, AnswerClass.REPLAYED))
    assert accepted.status == [201, 202]
    assert replayed.status == [200, 201, 202]
    assert accepted.id == replayed.id == "/data/id"


def test_a_key_with_an_impossible_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"request.key: 'cookie:x' is no place for a key"):
        load(written(tmp_path, PLAIN + '[target.api.request]\nkey = "cookie:x"\n'))


def test_a_contract_may_be_a_file_beside_the_target(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("name: own\nextends: rasket\nkey: {max: 40}\n")
    target, path = load(written(tmp_path, PLAIN.replace('"rasket"', '"own.yaml"')))
    assert effective_contract(target, path.parent).key.max.says(40)


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.9.9.9/x", True),
        ("http://localhost", True),
        ("http://app.localhost:1", True),
        ("https://[::1]:8443", True),
        ("http://10.0.0.1", False),
        ("https://api.example.com", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("http://user@example.com#127.0.0.1", False),
        ("", False),
    ],
)
def test_only_this_machine_is_loopback(url: str, here: bool) -> None:
    assert is_loopback(url) is here


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ("in_process = true", "target.client.in_process: is for a function of a test"),
        ('url = "ftp://127.0.0.1/x"', "target.client.url: 'ftp://127.0.0.1/x' is no http address"),
        ('url = "http://127.0.0.1:{port}/x"', "target.client.url: {port} is given to what is started here"),
    ],
)
def test_how_a_client_is_asked_is_checked(tmp_path: Path, client: str, message: str) -> None:
    assert message in mistake(tmp_path, f'[target]\nrole = "client"\n[target.client]\n{client}\n')


@pytest.mark.parametrize("place", ["url", "outcome"])
def test_a_worker_or_its_outcome_elsewhere_needs_leave(tmp_path: Path, place: str) -> None:
    elsewhere, here = "http://203.0.113.9/x", "http://127.0.0.1:9/x"
    url, outcome = (elsewhere, here) if place == "url" else (here, elsewhere)
    text = f'[target]\nrole = "client"\n[target.client]\nurl = "{url}"\nqueued = true\n'
    target, path = load(written(tmp_path, f'{text}[target.client.outcome]\nurl = "{outcome}"\n'))
    with pytest.raises(BadFileError, match=r"203\.0\.113\.9"):
        check_remote(target, path, allow_remote=False)
    check_remote(target, path, allow_remote=True)
