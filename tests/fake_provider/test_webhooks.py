"""Webhooks are signed as Standard Webhooks says, and payloads are data."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sendtwice.fake_provider import webhooks
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.webhooks import BadSignatureError

# The worked example of the specification's own libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NUMBER, STAMP, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_signature_is_that_of_the_known_example() -> None:
    assert webhooks.sign(SECRET, NUMBER, STAMP, BODY) == {
        "webhook-id": NUMBER,
        "webhook-timestamp": str(STAMP),
        "webhook-signature": SIGNATURE,
    }


@pytest.mark.skipif(importlib.util.find_spec("standardwebhooks") is None, reason="standardwebhooks is not there")
def test_the_official_library_believes_it() -> None:
    library = importlib.import_module("standardwebhooks")
    secret = webhooks.make_secret()
    headers = webhooks.sign(secret, "evt_1", datetime.now(UTC).timestamp(), BODY)
    assert library.Webhook(secret).verify(BODY, headers) == {"test": 2432232314}


def test_what_was_signed_verifies_under_its_own_secret_only() -> None:
    secret = webhooks.make_secret()
    headers = webhooks.sign(secret, "evt_1", 1000.9, BODY)
    webhooks.verify(secret, headers, BODY, now=1000)
    webhooks.verify(secret, {k.title(): v for k, v in headers.items()}, BODY, now=1299)
    assert webhooks.make_secret() != secret
    with pytest.raises(BadSignatureError, match="no signature is right"):
        webhooks.verify(webhooks.make_secret(), headers, BODY, now=1000)


def test_one_right_signature_of_several_is_enough() -> None:
    headers = webhooks.sign(SECRET, NUMBER, STAMP, BODY)
    headers["webhook-signature"] = f"v1,AAAA {headers['webhook-signature']} v2,x"
    webhooks.verify(SECRET, headers, BODY, now=STAMP)


@pytest.mark.parametrize(
    ("change", "body", "now", "why"),
    [
        ({}, b"{}", STAMP, "no signature is right"),
        ({"webhook-id": "other"}, BODY, STAMP, "no signature is right"),
        ({"webhook-timestamp": str(STAMP + 1)}, BODY, STAMP, "no signature is right"),
        ({"webhook-timestamp": "now"}, BODY, STAMP, "not a number of seconds"),
        ({"webhook-signature": ""}, BODY, STAMP, "webhook-signature is missing"),
        ({"webhook-signature": "v1,é"}, BODY, STAMP, "no signature is right"),
        ({}, BODY, STAMP + 301, "more than 300 seconds away"),
        ({}, BODY, STAMP - 301, "more than 300 seconds away"),
    ],
)
def test_what_was_changed_or_is_old_is_not_believed(change: dict[str, str], body: bytes, now: float, why: str) -> None:
    headers = {**webhooks.sign(SECRET, NUMBER, STAMP, BODY), **change}
    with pytest.raises(BadSignatureError, match=why):
        webhooks.verify(SECRET, headers, body, now=now)


def test_a_secret_that_is_none_says_how_to_make_one() -> None:
    with pytest.raises(ValueError, match="make_secret"):
        webhooks.sign("whsec_not base64!", NUMBER, STAMP, BODY)


def test_the_shipped_payload_is_filled_and_keeps_what_it_is_not_given() -> None:
    filled = webhooks.fill(
        webhooks.payload("message.received"),
        {"event_id": "e1", "message_id": "m1", "operation": "op", "from": "a@b.test", "to": "c@d.test"},
    )
    assert filled == {
        "type": "message.received",
        "event_id": "e1",
        "timestamp": "{now}",
        "data": {
            "message_id": "m1",
            "operation": "op",
            "from": "a@b.test",
            "to": ["c@d.test"],
            "subject": "{subject}",
            "text": "{text}",
        },
    }


def test_a_payload_of_the_user_is_read_and_checked(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"id": "{event_id}", "n": 1}')
    template = webhooks.payload("mine.json", relative_to=tmp_path)
    assert webhooks.fill(template, {"event_id": "e"}) == {"id": "e", "n": 1}
    (tmp_path / "typo.json").write_text('{"id": "{event_di}"}')
    with pytest.raises(BadFileError, match=r"typo\.json: \{event_di\} is not a placeholder; did you mean \{event_id\}"):
        webhooks.payload("typo.json", relative_to=tmp_path)
    with pytest.raises(BadFileError, match=r"did you mean 'message\.received'"):
        webhooks.payload("message.recieved")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(BadFileError, match="is not valid JSON"):
        webhooks.payload("broken.json", relative_to=tmp_path)
