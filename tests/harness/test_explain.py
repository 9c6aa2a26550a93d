"""``explain``: a contract as its vendor would print it; every claim in words, and what is not said said to be so."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts.claims import Basis
from sendtwice.fake_provider.contracts.model import as_claims
from sendtwice.fake_provider.contracts.wire import AnswerClass
from sendtwice.harness.cli import main
from sendtwice.harness.explain import claim_words
from sendtwice.harness.explain import contract as explain_contract
from sendtwice.harness.explain.facts import FACTS
from sendtwice.harness.explain.situations import situations
from tests.harness import language

ROUTES_AND_NAMES = {
    *("name", "title", "extends", "source", "as_of", "summary", "request", "routes", "answers", "levels"),
    "capabilities",  # of targets
    "batch.route",  # told with the routes
    # told by the body of a send
    *("mail.from", "mail.to", "mail.copies", "mail.subject", "mail.text", "mail.html", "mail.mime.at"),
    "mail.mime.encoding",
}


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("explain", *arguments))


def rows(text: str, section: str) -> list[list[str]]:
    """The rows of the first Markdown table after a heading."""
    lines = text[text.index(section) :].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| "))
    found = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def answer(name: str, **parts: Any) -> tuple[str, str]:
    """The answer and the action of a situation under a contract that says these things."""
    answers = {"accepted": {"status": 201}, **parts.pop("answers", {})}
    found = situations(language.contract(parts.pop("said", {}), answers=answers, **parts))
    one = next(one for one in found if one.name.startswith(name))
    return one.answer(), one.action


# -- words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), language.claims().items(), ids=language.claims())
def test_every_value_of_every_claim_has_words(name: str, kind: Any) -> None:
    assert name in claim_words.WORDS
    said = [as_claims(language.contract({name: {"value": value}}))[name].value for value in language.values(kind)]
    phrases = [claim_words.phrase(name, value) for value in said]
    assert all(phrases)
    assert len(set(phrases)) == len(phrases), "two values in the same words"


def test_no_words_are_left_of_claims_that_are_gone() -> None:
    assert set(claim_words.WORDS) == set(language.claims())


def test_every_other_field_is_told_as_a_fact_or_elsewhere() -> None:
    assert set(FACTS) - {"request.headers", "request.body"} | ROUTES_AND_NAMES == language.plain_fields()


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (86_400, "24 h"), (2_592_000, "30 days"), (172_800, "2 days"), (90_000, "25 h"), (3600, "1 h"),
        (1800, "30 min"), (300, "5 min"), (90, "1 min 30 s"), (0, "0 s"), (0.5, "0.5 s"), (5400, "1 h 30 min"),
        (86_400.5, "24 h 0.5 s"),
    ],
)  # fmt: skip
def test_durations_are_told_in_words(seconds: float, told: str) -> None:
    assert claim_words.duration(seconds) == told


def test_what_was_seen_beside_a_claim_is_told_with_it() -> None:
    contract = language.contract({"concurrent": {"value": "refuse", "also": ["wait"]}})
    told = claim_words.value_of("concurrent", contract.concurrent)
    assert told == "refused, to be tried again (also seen: waits for the first)"


# -- situations ----------------------------------------------------------------------------------------------------


def test_the_vendors_own_table_comes_out() -> None:
    """The six rows that Postfleet's page prints, with its statuses and codes."""
    told = {one.name: one.answer() for one in situations(contracts.load("postfleet"))}
    assert told["First send"] == "201"
    assert told["Same key, same request, after completion"].startswith("200")
    assert told["Approval is required"].startswith("202")
    assert told["Same key, other content"] == "409 idempotency_conflict"
    assert told["Same key while the first request runs"] == "409 idempotency_in_progress"
    assert told["The outcome is unknown"] == "502 delivery_outcome_unknown"


@pytest.mark.parametrize(
    ("duplicates", "told", "action"),
    [
        ("replay", "200", "nothing was sent again"),
        ("replay_current", "200", "news of the first send"),
        ("refuse", "409 seen", "no reason for another key"),
        ("redirect", "409 seen", "read the message"),
        ("execute", "201", "It was sent again"),
        ("accept", "201", "Nothing was sent again"),
    ],
)
def test_how_a_repeat_is_answered_follows_from_the_duplicate_model(duplicates: str, told: str, action: str) -> None:
    answers = {"replayed": {"status": 200}, "duplicate": {"status": 409, "code": {"at": "/code", "is": "seen"}}}
    found = answer("Same key, same request", said={"duplicates": duplicates}, answers=answers)
    assert found[0] == told
    assert action in found[1]


@pytest.mark.parametrize(
    ("stored", "action"),
    [
        ("stored", "under a new key: the refusal is stored"),
        ("released", "the key is still free"),
        ("poisoned", "this one is spent"),
        ("unknown", "whether the key is still free is not said"),
    ],
)
def test_what_a_caller_does_after_a_refusal_follows_from_what_becomes_of_the_key(stored: str, action: str) -> None:
    assert action in answer("Refused", said={"outcomes.invalid": stored})[1]


def test_two_kinds_of_refusal_that_are_kept_otherwise_have_a_row_each() -> None:
    said = {"outcomes.invalid": "released", "outcomes.provider_refused": "stored"}
    assert "still free" in answer("Refused, the request", said=said)[1]
    assert "is stored" in answer("Refused, the mail", said=said)[1]


def test_a_repeat_that_waits_says_for_how_long() -> None:
    told = answer("Same key while", said={"concurrent": "wait", "waits": 60}, answers={"replayed": {"status": 200}})
    assert told[0] == "200, when the first is answered, after 1 min at most"


def test_a_key_is_missing_only_where_it_is_required() -> None:
    missing = {"key_missing": {"status": 400}}
    assert answer("No key", said={"key.presence": "required"}, answers=missing)[0] == "400"
    assert answer("No key", said={"key.presence": "optional"}, answers=missing)[0] == "201"


def test_without_keys_nothing_is_told_of_keys() -> None:
    names = [one.name for one in situations(language.contract({"key.presence": "none"}))]
    assert [name for name in names if "key" in name.lower()] == ["No key"]


def test_a_sending_route_with_answers_of_its_own_is_told_and_no_other() -> None:
    routes = {
        "draft": {"path": "/drafts", "does": "draft", "answers": {"accepted": {"status": 202}}},
        "read": {"path": "/m/{id}", "does": "read", "answers": {"accepted": {"status": 203}}},
    }
    assert answer("First send", routes=routes)[0] == "201; draft: 202"


def test_what_has_no_declared_answer_is_not_made_up() -> None:
    assert answer("Same key, other content")[0] == "not said"


# -- the whole -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", contracts.names())
def test_no_claim_is_hidden_in_any_format(name: str) -> None:
    contract = contracts.load(name)
    text, page = (
        " ".join("\n".join(explain_contract.text(contract)).split()),
        "\n".join(explain_contract.markdown(contract)),
    )
    data = explain_contract.data(contract)
    assert set(data["claims"]) == set(as_claims(contract))
    assert json.loads(json.dumps(data)) == data
    for claim in as_claims(contract):
        assert text.count(f" {claim} ") + text.count(f" {claim}, ") >= 1 or text.endswith(claim), claim
        assert claim_words.title(claim)[1:] in page


@pytest.mark.parametrize("name", contracts.names())
def test_every_row_of_a_page_has_all_its_cells(name: str) -> None:
    cells = 0
    for line in explain_contract.markdown(contracts.load(name)):
        if line.startswith("|"):
            found = line.replace("\\|", "").count("|")
            assert found == (cells or found), line
            cells = found
        else:
            cells = 0


def test_a_claim_is_told_with_value_basis_source_and_note() -> None:
    claim = {"value": 86_400, "basis": "observed", "source": "the page, section 2", "note": "seen | once"}
    contract = language.contract({"retention.at_least": claim})
    table = rows("\n".join(explain_contract.markdown(contract)), "## Retention")
    assert table[2] == [
        "How long a key is remembered, at least", "24 h", "observed", "the page, section 2; seen \\| once",
    ]  # fmt: skip


def test_what_is_not_said_is_summed_up_with_its_note() -> None:
    contract = language.contract({"lease.lasts": {"basis": "unknown", "note": "the page is silent"}})
    text = " ".join("\n".join(explain_contract.text(contract)).split())
    assert "a request in flight not said: lease.lasts (the page is silent), lease.then, lease.late_original" in text
    assert contract.lease.lasts.basis is Basis.UNKNOWN


def test_what_the_emulator_plays_is_no_promise() -> None:
    contract = language.contract({"concurrent": {"play": "wait"}})
    assert explain_contract.data(contract)["claims"]["concurrent"]["value"] is None
    assert "play" not in explain_contract.data(contract)["claims"]["concurrent"]


def test_routes_are_told_with_their_keys_and_who_may_ask() -> None:
    routes = {
        "reply": {"path": "/reply", "scope": ["tenant"], "key_at": "body:/ref"},
        "approve": {"path": "/d/{id}", "does": "launch", "asks": "person", "note": "by the dashboard"},
    }
    page = "\n".join(explain_contract.markdown(language.contract({"key.presence": "required"}, routes=routes)))
    found = {row[0]: row[1:] for row in rows(page, "## Routes")}
    assert found["reply"] == ["`POST /reply`", "sends", "required, in body:/ref", "", "a key counts per tenant"]
    assert found["approve"][2] == "takes none"
    assert found["approve"][4] == "needs a person's credential; by the dashboard"


def test_levels_other_than_must_are_told() -> None:
    page = list(explain_contract.markdown(language.contract({}, levels={"conflict": "should", "progress": "must"})))
    assert "| conflict | should |" in page
    assert not any("progress" in line for line in page)


# -- the command ---------------------------------------------------------------------------------------------------


def test_a_contract_is_explained_as_text_page_and_data() -> None:
    text = explain("rasket").output
    assert text.startswith("rasket  Rasket, POST /emails\n")
    assert "\nanswers\n" in text
    page = explain("rasket", "--format", "markdown").output
    assert "| Situation | Answer | What the caller does |\n| --- | --- | --- |\n" in page
    data = json.loads(explain("rasket", "--format", "json").output)
    assert data["claims"]["key.max"]["value"] == 256
    conflict = next(one for one in data["situations"] if one["class"] == AnswerClass.CONFLICT)
    assert conflict["answers"][0]["code"] == {"at": "/name", "is": ["invalid_idempotent_request"]}


def test_a_contract_in_a_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nextends: rasket\nkey: {max: 64}\n")
    assert "longest key: 64" in explain(str(path)).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("send.repeat", "--format", "json"), "--format is for contracts, and 'send.repeat' is none"),
        (("at-most-once", "--against", "rasket"), "--against is for contracts, and 'at-most-once' is none"),
        (("rasket", "--against", "raskt"), "did you mean 'rasket'?"),
        (("rasket", "--format", "html"), "'html' is not one of 'text', 'markdown', 'json'"),
    ],
)
def test_what_cannot_be_explained_so_is_one_line_and_exit_2(arguments: tuple[str, ...], said: str) -> None:
    result = explain(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
