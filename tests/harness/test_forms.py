"""The same content in other bytes: what each form changes on the wire, and what it leaves alone."""

import json
from typing import Any

import pytest

from sendtwice.fake_provider.contracts import Claim, Contract
from sendtwice.harness.forms import unfit
from sendtwice.harness.keys import KeyValue
from sendtwice.harness.requests import Built, build
from sendtwice.harness.sends import Change, Form
from tests.harness.histories import contract_named

VALUES: dict[str, Any] = {
    "from": "a@x",
    "to": "b@x",
    "subject": "Hello",
    "text": "World",
    "reply_to": None,
    "token": "t1",
}


def built(form: Form | None, *, name: str = "resend", **changes: Any) -> Built:
    values = {**VALUES, **changes}
    return build(contract_named(name), "http://h", {}, values, KeyValue("k1"), change=Change(form=form))


@pytest.mark.parametrize("form", ["field-order", "whitespace", "escapes"])
def test_a_form_is_the_same_json_in_other_bytes(form: Form) -> None:
    plain, other = built(None), built(form)
    assert other.body != plain.body
    assert json.loads(other.body) == json.loads(plain.body)
    assert other.content == plain.content


def test_only_the_order_of_fields_differs_in_another_field_order() -> None:
    plain, other = built(None).body, built("field-order").body
    assert sorted(plain) == sorted(other)
    assert list(json.loads(other)) == list(reversed(json.loads(plain)))


def test_an_optional_field_is_null_only_where_it_would_be_left_out() -> None:
    assert json.loads(built("empty-fields").body)["reply_to"] is None
    assert json.loads(built("empty-fields", reply_to="m1").body)["reply_to"] == "m1"
    assert "reply_to" not in json.loads(built(None).body)


def test_a_list_of_one_recipient_becomes_a_text_and_the_other_way_round() -> None:
    assert json.loads(built("recipient-form").body)["to"] == "b@x"
    assert json.loads(built("recipient-form", name="postfleet").body)["to"] == ["b@x"]


def test_recipients_change_their_order_and_nothing_else() -> None:
    plain = json.loads(built(None, to=["b@x", "c@x"]).body)
    other = json.loads(built("recipient-order", to=["b@x", "c@x"]).body)
    assert other["to"] == list(reversed(plain["to"]))
    assert built(None, to=["b@x", "c@x"]).content == built("recipient-order", to=["b@x", "c@x"]).content


def told(contract: Contract, **changes: Any) -> str:
    return build(contract, "http://h", {}, {**VALUES, **changes}, KeyValue("k1")).content


def test_where_the_fields_that_count_are_named_nothing_else_does() -> None:
    contract = contract_named("postfleet")
    assert contract.fingerprint.fields.judged
    assert told(contract) == told(contract, mailbox="another")
    for field in ("to", "subject", "text", "reply_to"):
        assert told(contract) != told(contract, **{field: "another"})


def test_a_field_that_is_excluded_does_not_count() -> None:
    contract = contract_named("resend")
    excluded = contract.fingerprint.model_copy(update={"excluded": Claim[Any](value=["/subject"])})
    contract = contract.model_copy(update={"fingerprint": excluded})
    assert told(contract) == told(contract, subject="another")
    assert told(contract) != told(contract, text="another")


def test_a_number_is_written_otherwise_where_there_is_one() -> None:
    assert unfit({"a": [{"priority": 1}]}, "number-form") is None
    assert unfit({"a": "1"}, "number-form") == "the request has no number"


def test_a_batch_has_a_mail_for_each_of_its_recipients_in_either_order() -> None:
    items = ["a@x", "b@x", "c@x"]

    def recipients(form: Form | None) -> list[Any]:
        change = Change(form=form)
        made = build(
            contract_named("rasket"), "http://h", {}, VALUES, KeyValue("k"), route="batch", items=items, change=change
        )
        return [mail["to"] for mail in json.loads(made.body)]

    assert recipients(None) == [["a@x"], ["b@x"], ["c@x"]]
    assert recipients("item-order") == [["c@x"], ["b@x"], ["a@x"]]


def test_another_query_and_type_of_content_are_on_the_wire() -> None:
    change = Change(query="other", content_type="other")
    made = build(contract_named("resend"), "http://h", {}, VALUES, KeyValue("k"), change=change)
    assert made.target == "/emails?sendtwice=other"
    assert [v for n, v in made.headers if n.lower() == "content-type"] == ["application/json; charset=utf-8"]


def test_a_dry_run_says_so_where_the_contract_has_one() -> None:
    made = build(contract_named("pylota"), "http://h", {}, VALUES, KeyValue(None), dry_run=True)
    assert made.target.endswith("?dry_run=true")
