"""How requests are built: keys, bodies, and what counts as the same content; and the placeholders they are made of."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendtwice.fake_provider.contracts.model import Claim, Contract, Route
from sendtwice.harness import placeholders
from sendtwice.harness.keys import KeyValue, key_problem, make_key
from sendtwice.harness.placeholders import MissingEnvironmentError, UnknownPlaceholderError
from sendtwice.harness.requests import Built, build, values_for
from sendtwice.harness.sends import Change, Key
from sendtwice.harness.target_roles import Sender
from tests.harness.histories import CONTRACTS, contract_named

VALUES: dict[str, Any] = {
    "from": "a@x",
    "to": "b@x",
    "subject": "Hello",
    "text": "World",
    "reply_to": None,
    "mailbox": "m1",
}
BASE = {"k": "st-kabcdefghijk-k"}


def built(name: str, key: KeyValue | None = None, *, reordered: bool = False, **changes: Any) -> Built:
    contract = contract_named(name)
    values = {**VALUES, **changes}
    change = Change(form="field-order") if reordered else None
    return build(contract, "http://h:1/base/", {}, values, key or KeyValue("k1"), change=change)


def keyed(contract: Contract, **changes: Any) -> Contract:
    return contract.model_copy(update={"key": contract.key.model_copy(update=changes)})


# --- keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_plain_key_is_run_unique_and_nobody_has_anything_against_it(name: str) -> None:
    made = make_key(contract_named(name), "k", BASE)
    assert (made.value, made.problem, made.twice) == ("st-kabcdefghijk-k", None, None)


@pytest.mark.parametrize("spec", [None, "none", Key(absent=True)])
def test_no_key_is_a_fault_only_where_one_is_required(spec: str | Key | None) -> None:
    assert make_key(contract_named("pylota"), spec, BASE) == KeyValue(None, "absent")
    for name in ("universal", "rasket", "ietf-07"):
        assert make_key(contract_named(name), spec, BASE) == KeyValue(None)


@pytest.mark.parametrize(
    ("size", "length", "problem"),
    [("min", 1, None), ("max", 256, None), ("max+1", 257, "too long"), ("max+long", 4352, "too long"), (40, 40, None)],
)
def test_a_key_has_the_size_that_was_asked_for(size: Any, length: int, problem: str | None) -> None:
    made = make_key(contract_named("rasket"), Key(of="k", size=size), BASE)
    assert made.value is not None
    assert len(made.value) == length
    assert made.problem == problem


def test_two_long_keys_may_differ_in_their_ends_alone() -> None:
    one, two = (make_key(contract_named("rasket"), Key(of="k", size="max", tail=t), BASE).value or "" for t in "ab")
    assert len(one) == len(two) == 256
    assert one[:-1] == two[:-1]
    assert one != two


def test_a_key_can_be_written_in_either_case() -> None:
    lower, upper = (make_key(contract_named("rasket"), Key(of="k", case=c), BASE).value for c in ("lower", "upper"))
    assert (lower, upper) == ("st-kabcdefghijk-k", "ST-KABCDEFGHIJK-K")


def test_a_literal_key_stays_unique_where_it_says_so() -> None:
    assert make_key(contract_named("rasket"), Key(of="k", text="{unique}/x"), BASE).value == "st-kabcdefghijk-k/x"
    assert make_key(contract_named("rasket"), Key(text=""), BASE) == KeyValue("", "empty")


@pytest.mark.parametrize(("twice", "second"), [("same", BASE["k"]), ("different", BASE["k"] + "-2")])
def test_a_doubled_key_is_judged_only_where_the_contract_speaks_of_it(twice: Any, second: str) -> None:
    contract = contract_named("rasket")
    assert make_key(contract, Key(of="k", twice=twice), BASE) == KeyValue(BASE["k"], "undeclared", second)
    strict = keyed(contract, repeated=Claim[Any](value="invalid"))
    assert make_key(strict, Key(of="k", twice=twice), BASE).problem == "repeated"
    lax = keyed(contract, repeated=Claim[Any](value="first"))
    assert make_key(lax, Key(of="k", twice=twice), BASE).problem is None


def test_a_uuid_is_made_where_one_is_wanted_and_the_same_for_the_same_name() -> None:
    contract = keyed(contract_named("rasket"), charset=Claim[Any](value="uuid"))
    one, two = make_key(contract, "k", BASE).value or "", make_key(contract, "k", BASE).value
    assert one == two
    assert [len(part) for part in one.split("-")] == [8, 4, 4, 4, 12]


@pytest.mark.parametrize(
    ("charset", "good", "bad"),
    [
        ("printable-ascii", "a b~", "a\u00e9"),
        ("visible-ascii", "a!~", "a b"),
        ("word", "a-B_9", "a.b"),
        ("token", "a.b", "a:b"),
    ],
)
def test_a_charset_is_held_against_a_key(charset: str, good: str, bad: str) -> None:
    contract = keyed(contract_named("rasket"), charset=Claim[Any](value=charset))
    assert key_problem(contract, good) is None
    assert key_problem(contract, bad) == f"not {charset.replace('-', ' ')}"


def test_of_an_odd_key_nobody_speaks_unless_a_charset_is_declared() -> None:
    assert key_problem(contract_named("rasket"), "a/b") == "undeclared"
    assert key_problem(contract_named("pylota"), "a/b") is None


def test_of_a_long_key_nobody_speaks_unless_a_length_is_declared() -> None:
    assert key_problem(contract_named("universal"), "k" * 65) == "undeclared"
    assert key_problem(contract_named("universal"), "k" * 64) is None
    assert key_problem(contract_named("pylota"), "k" * 255) is None


# --- bodies -------------------------------------------------------------------------------------------------


def test_a_key_stands_where_the_contract_wants_it() -> None:
    assert ("Idempotency-Key", "k1") in built("rasket").headers
    assert json.loads(built("postfleet").body)["client_id"] == "k1"
    quoted = make_key(contract_named("ietf-07"), "k1", {"k1": "k1"})
    assert ("Idempotency-Key", '"k1"') in built("ietf-07", quoted).headers
    query = keyed(contract_named("rasket"), at="query:key")
    query = query.model_copy(update={"request": Route(path="/send?a=1")})
    made = build(query, "http://h", {}, VALUES, KeyValue("a b&c"))
    assert made.url == "http://h/send?a=1&key=a%20b%26c"


def test_a_doubled_key_is_two_lines_of_the_header() -> None:
    lines = built("rasket", KeyValue("a", "undeclared", "b")).headers
    assert [v for n, v in lines if n == "Idempotency-Key"] == ["a", "b"]


def test_without_a_key_none_is_sent() -> None:
    assert all(n != "Idempotency-Key" for n, _ in built("rasket", KeyValue(None)).headers)
    assert "client_id" not in json.loads(built("postfleet", KeyValue(None)).body)


def test_the_path_follows_the_base_url() -> None:
    assert built("rasket").url == "http://h:1/base/emails"
    assert built("rasket").target == "/base/emails"


def test_own_headers_come_beside_the_contracts_and_the_content_is_json() -> None:
    contract = contract_named("universal")
    made = build(
        contract,
        "http://h",
        {"Authorization": "Bearer {token}"},
        {**VALUES, "token": "t"},
        KeyValue("k"),
    )
    assert ("Authorization", "Bearer t") in made.headers
    assert ("Content-Type", "application/json") in made.headers
    own = build(contract, "http://h", {"content-type": "application/x"}, VALUES, KeyValue("k"))
    assert [v for n, v in own.headers if n.lower() == "content-type"] == ["application/x"]


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_key_is_no_part_of_the_content(name: str) -> None:
    assert built(name, KeyValue("k1")).content == built(name, KeyValue("k2")).content


@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("change", [{"to": "c@x"}, {"subject": "Other"}, {"text": "Other"}, {"reply_to": "r1"}])
def test_whatever_is_asked_for_is_part_of_the_content(name: str, change: dict[str, Any]) -> None:
    assert built(name).content != built(name, **change).content


@pytest.mark.parametrize("name", CONTRACTS)
def test_reordered_fields_are_other_bytes_and_the_same_content(name: str) -> None:
    plain, other = built(name), built(name, reordered=True)
    assert plain.body != other.body
    assert json.loads(plain.body) == json.loads(other.body)
    assert plain.content == other.content


@given(st.text(max_size=40))
def test_any_text_at_all_arrives_unchanged(text: str) -> None:
    encodable = text.encode("utf-8", "replace").decode()
    assert json.loads(built("rasket", text=encodable).body)["text"] == encodable


def test_the_senders_values_win_over_ours_and_the_requests_over_both() -> None:
    sender = Sender(values={"from": "own@x", "mailbox": "m2"})
    assert values_for(sender, subject="S", text=None)["from"] == "own@x"
    assert values_for(sender, mailbox="m3")["mailbox"] == "m3"
    assert "text" not in values_for(sender, text=None)


# --- placeholders -------------------------------------------------------------------------------------------


def test_an_optional_field_that_is_empty_is_dropped() -> None:
    template = {"a": "{x?}", "b": "{y}", "c": ["{x?}", "1"]}
    assert placeholders.fill(template, {"y": "2"}) == {"b": "2", "c": ["1"]}
    assert placeholders.fill("{x?}", {}) is None


def test_an_optional_placeholder_inside_a_text_becomes_nothing() -> None:
    assert placeholders.fill_text("a{x?}b", {}) == "ab"


def test_a_list_of_one_recipient_grows_to_all() -> None:
    assert placeholders.fill({"to": ["{to}"]}, {"to": ["a", "b"]}) == {"to": ["a", "b"]}
    assert placeholders.fill([{"to": ["{to}"]}], {"to": ["a", "b"]}) == [{"to": ["a"]}, {"to": ["b"]}]
    assert placeholders.fill("{to}", {"to": ["a", "b"]}) == "a,b"


@pytest.mark.parametrize(
    ("template", "several"),
    [
        ({"to": ["{to}"]}, True),
        ({"to": "{to}"}, False),
        ({"a": {"to": [{"email": "{to}"}]}}, True),
        ([{"to": "{to}", "subject": "{subject}"}], False),
        ([{"to": ["{to}"], "subject": "{subject}"}], False),  # a batch: one mail for each
    ],
)
def test_a_template_that_takes_several_recipients_is_recognised(template: Any, several: bool) -> None:
    assert placeholders.takes_several_recipients(template) is several


def test_what_is_no_placeholder_is_left_alone() -> None:
    assert placeholders.fill_text('{"a": 1} {A} { x }', {"x": 1}) == '{"a": 1} {A} { x }'
    assert placeholders.fill({"n": 1, "t": True, "z": None}, {}) == {"n": 1, "t": True, "z": None}


def test_an_unknown_placeholder_names_the_nearest() -> None:
    with pytest.raises(UnknownPlaceholderError, match=r"unknown placeholder \{sbject\}; did you mean \{subject\}\?"):
        placeholders.check({"a": ["{sbject}"]}, {"subject", "text"})
    with pytest.raises(UnknownPlaceholderError, match=r"known here: \{text\}, \{env:NAME\}"):
        placeholders.check("{zzz}", {"text"})


def test_known_and_environment_placeholders_pass_the_check() -> None:
    placeholders.check({"a": "{text} {env:HOME}", "b": ("{text?}",)}, {"text"})


def test_a_value_from_the_environment_is_filled_in_and_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret")
    assert placeholders.fill_text("Bearer {env:API_TOKEN}", {}) == "Bearer s3cret"
    assert placeholders.secrets_in({"h": ["{env:API_TOKEN}", "{text}"]}) == {"s3cret"}


def test_a_missing_variable_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(MissingEnvironmentError, match="NOT_THERE is not set; set it, or take"):
        placeholders.fill_text("{env:NOT_THERE}", {})
    assert placeholders.secrets_in("{env:NOT_THERE}") == set()
