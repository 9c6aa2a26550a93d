"""What callers send again: the same request, from the same sender, to the same place; and how they follow redirects."""

import json
from typing import Any

import pytest

from sendtwice.fake_provider.contracts import Basis, Claim
from sendtwice.harness.history import Kind
from tests.harness.callings import BODY, Calling, first_then, lost_then

TEXT = json.dumps(BODY)
FORMS = {
    "whitespace": json.dumps(BODY, indent=2),
    "field_order": json.dumps(dict(reversed(BODY.items()))),
    "escapes": TEXT.replace("Receipt", "\\u0052eceipt"),
    "empty_fields": json.dumps({**BODY, "reply_to": None}),
    "recipient_form": json.dumps({**BODY, "to": ["First <first@sendtwice.test>"]}),
}
MULTIPART = 'multipart/form-data; boundary="{0}"'
PARTS = '--{0}\r\nContent-Disposition: form-data; name="to"\r\n\r\n{1}\r\n--{0}--\r\n'


def saying(h: Calling, **claims: Claim[Any]) -> Calling:
    """The same history, under a contract that says more of its fingerprint."""
    fingerprint = h.contract.fingerprint.model_copy(update=claims)
    h.contract = h.contract.model_copy(update={"fingerprint": fingerprint})
    return h


# --- the same request -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed", [{"text": "Thank you, at 12:01."}, {"to": ["other@sendtwice.test"]}, {"sent_at": 1}, {"priority": 2}]
)
def test_another_body_under_the_key_of_an_open_attempt_is_found(changed: dict[str, object]) -> None:
    h = lost_then(body={**BODY, **changed})
    assert h.found == {"same-request": "must"}
    assert "another body" in h.finding("same-request").message


@pytest.mark.parametrize("contract", ["rasket", "resend", "universal", "ietf-07", "pylota"])
def test_the_same_bytes_are_right(contract: str) -> None:
    assert first_then("lost", contract=contract).found == {}


@pytest.mark.parametrize("form", FORMS)
def test_another_form_weighs_what_the_contract_says_of_it(form: str) -> None:
    unsaid: Claim[Any] = Claim(basis=Basis.UNKNOWN)
    for claim, found in (
        (Claim(value="same"), {}),
        (Claim(value="different"), {"same-request": "must"}),
        (unsaid, {"same-request": "should"}),
    ):
        assert saying(lost_then(body=FORMS[form]), **{form: claim}).found == found


def test_fields_in_another_order_are_the_same_request_where_the_contract_says_so() -> None:
    assert lost_then(body=FORMS["field_order"]).found == {}


def test_where_raw_bytes_are_compared_every_form_counts() -> None:
    h = lost_then(body=FORMS["whitespace"])
    assert saying(h, parts=Claim(value=["raw"]), whitespace=Claim(value="same")).found == {"same-request": "must"}


def test_recipients_in_another_order_are_another_form() -> None:
    for claim, found in ((Claim(value="same"), {}), (Claim(value="different"), {"same-request": "must"})):
        h = Calling.of()
        h.loses(h.tries(body={**BODY, "to": ["a@x.test", "b@x.test"]}))
        h.delivers()
        h.answers(h.tries(body={**BODY, "to": ["b@x.test", "a@x.test"]}), "replayed")
        h.says("sent")
        assert saying(h, recipient_order=claim).found == found


def test_one_is_one_however_it_is_written() -> None:
    for claim, found in ((Claim(value="same"), {}), (Claim(basis=Basis.UNKNOWN), {"same-request": "should"})):
        h = Calling.of()
        h.loses(h.tries(body='{"n": 1}'))
        h.delivers()
        h.answers(h.tries(body='{"n": 1.0}'), "replayed")
        h.says("sent")
        assert saying(h, number_form=claim).found == found


def test_true_is_not_one() -> None:
    h = Calling.of()
    h.loses(h.tries(body='{"n": 1}'))
    h.delivers()
    h.answers(h.tries(body='{"n": true}'), "replayed")
    h.says("sent")
    assert h.found == {"same-request": "must"}


def test_what_the_contract_leaves_out_may_differ() -> None:
    h = lost_then(body={**BODY, "sent_at": 1})
    assert saying(h, excluded=Claim(value=["/sent_at"])).found == {}
    h = lost_then(body={**BODY, "sent_at": 1})
    assert saying(h, fields=Claim(value=["/to", "/subject", "/text"])).found == {}
    h = lost_then(body={**BODY, "text": "other"})
    assert saying(h, fields=Claim(value=["/to", "/subject", "/text"])).found == {"same-request": "must"}


def test_an_api_that_never_compares_makes_it_unwise() -> None:
    h = lost_then(body={**BODY, "text": "other"})
    h.contract = h.contract.model_copy(update={"mismatch": Claim(value="replay")})
    assert h.found == {"same-request": "should"}


def test_another_form_that_the_api_called_a_conflict_is_found() -> None:
    h = Calling.of("resend")
    h.loses(h.tries())
    h.delivers()
    h.answers(h.tries(body=FORMS["whitespace"]), "conflict")
    h.says("unknown")
    assert h.found == {"same-request": "must"}


@pytest.mark.parametrize("how", ["refused", "rate_limited", "unauthorized"])
def test_a_body_that_is_mended_after_a_refusal_is_right(how: str) -> None:
    assert first_then(how, body={**BODY, "subject": "mended"}).found == {}


def test_a_fresh_boundary_of_a_form_is_only_another_form() -> None:
    for other, to, found in (
        ("b1", "first@sendtwice.test", {}),
        ("b2", "first@sendtwice.test", {"same-request": "should"}),
        ("b2", "other@sendtwice.test", {"same-request": "must"}),
    ):
        h = Calling.of()
        h.loses(h.tries(body=PARTS.format("b1", "first@sendtwice.test"), content_type=MULTIPART.format("b1")))
        h.delivers()
        h.answers(h.tries(body=PARTS.format(other, to), content_type=MULTIPART.format(other)), "replayed")
        h.says("sent")
        assert h.found == found, other


def test_a_form_in_another_order_is_another_form() -> None:
    form = "application/x-www-form-urlencoded"
    for body, found in (
        ("to=a&n=1", {}),
        ("n=1&to=a", {"same-request": "should"}),
        ("to=b&n=1", {"same-request": "must"}),
    ):
        h = Calling.of("resend")
        h.loses(h.tries(body="to=a&n=1", content_type=form))
        h.delivers()
        h.answers(h.tries(body=body, content_type=form), "replayed")
        h.says("sent")
        assert h.found == found, body


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({"path": "/emails/batch"}, "must"),  # rasket compares it
        ({"query": "try=2"}, "should"),
        ({"method": "PUT"}, "should"),
        ({"content_type": "text/plain"}, None),  # rasket does not compare it
        ({"content_type": "application/json; charset=utf-8"}, None),
    ],
)
def test_another_place_method_or_type(change: dict[str, Any], level: str | None) -> None:
    assert lost_then(**change).found == ({"same-request": level} if level else {})


def test_two_workers_that_render_the_same_task_anew_are_found() -> None:
    h = Calling.of()
    h.ask("second")
    first = h.tries()
    second = h.tries(body={**BODY, "text": "at 12:01"})
    h.delivers()
    h.answers(first)
    h.answers(second, "conflict")
    h.says("sent")
    h.says("unknown", "second")
    assert h.found == {"same-request": "must"}


def test_a_batch_that_is_cut_anew_under_its_key_is_found() -> None:
    both = json.dumps([BODY, {**BODY, "to": ["second@sendtwice.test"]}])
    h = Calling.of()
    h.loses(h.tries(body=both, path="/emails/batch"))
    h.delivers()
    h.answers(h.tries(body=json.dumps([BODY]), path="/emails/batch"), "conflict")
    h.says("unknown")
    assert h.found == {"same-request": "must"}


# --- the same sender ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"host": "eu.api.test"}, {"credential": "c2"}])
def test_another_host_or_credential_while_an_attempt_is_open_is_unwise(change: dict[str, Any]) -> None:
    assert lost_then(**change).found == {"same-sender": "should"}
    for how in ("rate_limited", "refused"):
        assert first_then(how, **change).found == {}


def test_a_fresh_credential_after_one_was_turned_away_is_right() -> None:
    h = Calling.of()
    h.loses(h.tries())
    h.delivers()
    h.answers(h.tries(), 401)
    h.answers(h.tries(credential="c2"), "replayed")
    h.says("sent")
    assert h.found == {}


def test_another_process_may_have_a_token_of_its_own() -> None:
    h = Calling.of()
    h.loses(h.tries())
    h.delivers()
    h.says("unknown")
    h.ask("again")
    h.answers(h.tries(credential="c2"), "replayed")
    h.says("sent", "again")
    assert h.found == {}


def test_a_host_to_which_it_was_sent_is_no_other_sender() -> None:
    h = Calling.of()
    h.loses(h.tries())
    h.delivers()
    h.answers(h.tries(), 307, headers={"location": "http://eu.api.test/emails"})
    h.answers(h.tries(host="eu.api.test"), "replayed")
    h.says("sent")
    assert "same-sender" not in h.found


# --- redirects ------------------------------------------------------------------------------------------------


def redirected(to: str = "/v2/emails", status: int = 308, **follow: Any) -> Calling:
    h = Calling.of()
    h.answers(h.tries(), status, headers={"location": to})
    h.answers(h.tries(**{"path": "/v2/emails", **follow}))
    h.delivers()
    h.says("sent")
    return h


@pytest.mark.parametrize("to", ["/v2/emails", "http://127.0.0.1:9/v2/emails"])
def test_a_redirect_that_is_followed_with_everything_is_right(to: str) -> None:
    assert redirected(to).found == {}


@pytest.mark.parametrize("follow", [{"key": None}, {"key": "k2"}, {"body": {**BODY, "text": ""}}, {"method": "PUT"}])
def test_a_redirect_that_is_followed_with_less_is_found(follow: dict[str, Any]) -> None:
    assert redirected(**follow).found == {"redirect": "must"}


def test_a_redirect_to_another_origin_is_not_followed_with_the_key() -> None:
    elsewhere = "http://localhost:9/v2/emails"
    assert redirected(elsewhere, host="localhost:9").found == {"redirect": "should"}
    assert redirected(elsewhere, host="localhost:9", key=None).found == {}


def test_a_name_without_a_port_is_the_usual_one() -> None:
    h = Calling.of()
    h.answers(h.tries(host="api.test"), 307, headers={"location": "http://api.test:80/v2/emails"})
    h.answers(h.tries(path="/v2/emails", host="api.test:80"))
    h.delivers()
    h.says("sent")
    assert h.found == {}


def test_who_does_not_follow_and_tries_again_may_take_a_new_key() -> None:
    assert redirected(path="/emails", key="k2").found == {}
    assert redirected("/emails", path="/emails", key="k2").found == {}


def test_a_redirect_that_changes_the_method_is_no_matter_of_this_rule() -> None:
    assert redirected(status=303, method="GET", key=None, body="").found == {}


def test_what_may_be_another_workers_attempt_follows_nothing() -> None:
    h = Calling.of()
    h.ask("second")
    first = h.tries()
    second = h.tries()
    h.answers(first, 307, headers={"location": "/v2/emails"})
    h.answers(second, "in_progress")
    h.answers(h.tries(path="/v2/emails", key=None))
    h.delivers()
    assert "redirect" not in h.found
    assert h.events[-1].kind is Kind.DELIVERY
