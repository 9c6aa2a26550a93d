"""Dialects: every vendor's requests are understood, and answered as that vendor answers them."""

from __future__ import annotations

import base64
import json
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendtwice.fake_provider import contracts, dialects
from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.dialects import bodies, mails
from sendtwice.fake_provider.dialects.resends import Resend, resend_of
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.emulator.answers import render
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Request
from sendtwice.fake_provider.provider import FakeProvider
from tests.fake_provider.kit import get, post, provider, run

PATHS = {
    "ses": "/v2/email/outbound-emails",
    "postmark": "/email",
    "sendgrid": "/v3/mail/send",
    "mailgun": "/v3/example.test/messages",
    "cloudflare": "/client/v4/accounts/acc/email/sending/send",
}
BODIES: dict[str, dict[str, Any]] = {
    "ses": {
        "FromEmailAddress": "shop@example.test",
        "Destination": {"ToAddresses": ["ana@example.test"], "BccAddresses": ["ben@example.test"]},
        "Content": {"Simple": {"Subject": {"Data": "Receipt"}, "Body": {"Text": {"Data": "Thanks"}}}},
    },
    "postmark": {
        "From": "shop@example.test",
        "To": "Ana <ana@example.test>",
        "Bcc": "ben@example.test",
        "Subject": "Receipt",
        "TextBody": "Thanks",
    },
    "sendgrid": {
        "from": {"email": "shop@example.test", "name": "Shop"},
        "personalizations": [{"to": [{"email": "ana@example.test"}]}, {"to": [{"email": "ben@example.test"}]}],
        "subject": "Receipt",
        "content": [{"type": "text/html", "value": "<p>"}, {"type": "text/plain", "value": "Thanks"}],
    },
    "mailgun": {
        "from": "shop@example.test",
        "to": ["Ana <ana@example.test>", "ben@example.test"],
        "subject": "Receipt",
        "text": "Thanks",
    },
    "cloudflare": {
        "from": "shop@example.test",
        "to": [{"address": "ana@example.test", "name": "Ana"}],
        "bcc": "ben@example.test",
        "subject": "Receipt",
        "text": "Thanks",
    },
}
#: What stands in a request of these when its recipient is none.
UNADDRESSED: dict[str, dict[str, Any]] = {
    "ses": {**BODIES["ses"], "Destination": {"ToAddresses": ["nobody"]}},
    "postmark": {**BODIES["postmark"], "To": "nobody"},
    "sendgrid": {**BODIES["sendgrid"], "personalizations": [{"to": [{"email": "nobody"}]}]},
    "mailgun": {**BODIES["mailgun"], "to": "nobody"},
    "cloudflare": {**BODIES["cloudflare"], "to": ["nobody"]},
}
KEYLESS = sorted(PATHS)


async def ask(fake: FakeProvider, body: dict[str, Any], **headers: str) -> httpx.Response:
    """Send a body as its vendor's callers do."""
    name = fake.contract.name
    if name != "mailgun":
        return await post(fake, PATHS[name], body, headers)
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(fake.url + PATHS[name], data=body, headers=headers)


def message(**headers: str) -> EmailMessage:
    made = EmailMessage()
    for name, value in headers.items():
        made[name] = value
    made.set_content("Grüße, Ana\n")
    made.add_alternative("<p>Grüße</p>\n", subtype="html")
    return made


def parts(body: list[tuple[str, bytes, str]], boundary: str = "x--y") -> tuple[bytes, str]:
    """A form in parts: name, content, further parameters of its disposition."""
    data = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content + b"\r\n"
        for name, content, more in body
    )
    return data + f"--{boundary}--\r\n".encode(), f'multipart/form-data; boundary="{boundary}"'


def form(kind: str, data: bytes) -> Any:
    return bodies.read(Request("POST", "/", (("content-type", kind),), data))


# --- Requests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEYLESS)
def test_a_mail_in_the_vendors_own_form_reaches_the_ledger(name: str) -> None:
    async def play() -> None:
        async with provider(name) as fake:
            answer = await ask(fake, BODIES[name])
            assert answer.is_success, answer.text
            mail = fake.ledger.deliveries[0].mail
            assert (mail.sender, mail.subject, mail.text) == ("shop@example.test", "Receipt", "Thanks")
            assert mail.recipients == ("ana@example.test", "ben@example.test")

    run(play())


@pytest.mark.parametrize("name", KEYLESS)
def test_a_key_guards_nothing_where_the_vendor_has_none(name: str) -> None:
    async def play() -> None:
        async with provider(name) as fake:
            answers = [await ask(fake, BODIES[name], **{"Idempotency-Key": "k1"}) for _ in range(2)]
            assert fake.ledger.commits == 2
            assert {answer.status_code for answer in answers} <= {200, 202}

    run(play())


def test_raw_content_is_read_as_mime_and_the_destination_goes_before_it() -> None:
    raw = bytes(message(From="shop@example.test", To="Ana <ana@example.test>", Cc="ben@x.test", Subject="Grüße"))
    content = {"Content": {"Raw": {"Data": base64.b64encode(raw).decode()}}}

    async def play() -> None:
        async with provider("ses") as fake:
            await ask(fake, content)
            await ask(fake, {**content, "Destination": {"ToAddresses": ["eve@example.test"]}})
            first, second = (fake.ledger.deliveries[number].mail for number in (0, 2))
            assert (first.sender, first.subject) == ("shop@example.test", "Grüße")
            assert (first.text, first.html) == ("Grüße, Ana", "<p>Grüße</p>")
            assert first.recipients == ("ana@example.test", "ben@x.test")
            assert second.recipients == ("eve@example.test",)

    run(play())


@pytest.mark.parametrize("data", ["not base64!", "", base64.b64encode(b"no headers at all").decode()])
def test_raw_content_that_names_nobody_is_refused(data: str) -> None:
    async def play() -> None:
        async with provider("ses") as fake:
            answer = await ask(fake, {"Content": {"Raw": {"Data": data}}})
            assert (answer.status_code, answer.headers["x-amzn-errortype"]) == (400, "BadRequestException")
            assert fake.ledger.commits == 0

    run(play())


def test_cloudflare_raw_takes_its_recipients_from_the_envelope() -> None:
    async def play() -> None:
        async with provider("cloudflare") as fake:
            text = message(From="shop@example.test", To="shown@example.test", Subject="Receipt").as_string()
            body = {"from": "bounce@example.test", "recipients": ["real@example.test"], "mime_message": text}
            answer = await post(fake, "/accounts/acc/email/sending/send_raw", body)
            assert answer.json()["result"]["queued"] == ["real@example.test"]
            mail = fake.ledger.deliveries[0].mail
            assert (mail.sender, mail.recipients) == ("bounce@example.test", ("real@example.test",))
            assert (mail.subject, mail.text) == ("Receipt", "Grüße, Ana")

    run(play())


def test_mailgun_takes_a_mime_message_as_a_file() -> None:
    raw = bytes(message(From="shop@example.test", To="ana@example.test", Subject="Receipt"))

    async def play() -> None:
        async with provider("mailgun") as fake, httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(
                f"{fake.url}/v3/example.test/messages.mime",
                data={"to": "eve@example.test"},
                files={"message": ("message.eml", raw)},
            )
            assert answer.status_code == 200, answer.text
            mail = fake.ledger.deliveries[0].mail
            assert (mail.recipients, mail.subject, mail.text) == (("eve@example.test",), "Receipt", "Grüße, Ana")

    run(play())


def test_a_form_in_parts_keeps_every_field_and_every_byte() -> None:
    data, kind = parts(
        [
            ("to", b"ana@example.test", ""),
            ("to", b"ben@example.test", ""),
            ("to", b"eve@example.test", ""),
            ("subject", "Grüße".encode(), ""),
            ("text", b"one\r\n\r\n--x\r\ntwo\n", ""),
            ("empty", b"", ""),
            ("attachment", b"\xff\x00\r\n", '; filename="a.bin"'),
        ]
    )
    assert form(kind, data) == {
        "to": ["ana@example.test", "ben@example.test", "eve@example.test"],
        "subject": "Grüße",
        "text": "one\r\n\r\n--x\r\ntwo\n",
        "empty": "",
        "attachment": "\xff\x00\r\n",
    }


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=none", "multipart/form-data;="])
def test_a_form_in_parts_that_has_none_is_no_form(kind: str) -> None:
    assert form(kind, b"--x\r\nnothing") is None


def test_a_plain_form_keeps_empty_fields_and_repeated_ones() -> None:
    kind = "application/x-www-form-urlencoded; charset=utf-8"
    data = urlencode([("to", "a@x.test"), ("to", "b@x.test"), ("subject", ""), ("text", "ä &")]).encode()
    assert form(kind, data) == {"to": ["a@x.test", "b@x.test"], "subject": "", "text": "ä &"}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("ana@x.test", ["ana@x.test"]),
        ("Ana <ana@x.test>", ["ana@x.test"]),
        ("a@x.test, b@x.test", ["a@x.test", "b@x.test"]),
        ('"Sender, Jr." <a@x.test>, b@x.test', ["a@x.test", "b@x.test"]),
        (["a@x.test", {"email": "b@x.test", "name": "B, C"}], ["a@x.test", "b@x.test"]),
        ({"address": "a@x.test"}, ["a@x.test"]),
        ({"name": "nobody"}, []),
        ("not, an address", ["not, an address"]),
        ("nobody", ["nobody"]),
        ("", []),
        (None, []),
        (7, ["7"]),
    ],
)
def test_addresses_are_found_in_all_their_forms(given: Any, found: list[str]) -> None:
    assert mails.addresses(given) == found


def test_a_broken_mime_message_is_read_as_far_as_it_goes() -> None:
    places = contracts.load("ses").mail
    raw = b'To: <<@\r\nSubject: =?no-such?q?x?=\r\nContent-Type: text/plain; charset="no-such"\r\n\r\n\xff'
    body = {"Content": {"Raw": {"Data": base64.b64encode(raw).decode()}}}
    assert mails.read(places, body).text == "\ufffd"


PIECES = [*"<>@,;:([.", '"', "\\", "a@b.test", "=?utf-8?q?", "=?x?b?", "?=", "\r\n ", "\xff"]


@given(
    st.sampled_from(["To", "From", "Subject", "Content-Type", "Content-Disposition", "Content-Transfer-Encoding"]),
    st.lists(st.sampled_from(PIECES), max_size=20).map("".join),
)
def test_no_header_of_a_mime_message_or_a_part_is_too_broken_to_be_read(name: str, value: str) -> None:
    header = f"{name}: {value}".encode("latin-1")
    body = {"Content": {"Raw": {"Data": base64.b64encode(header + b"\r\n\r\nThanks").decode()}}}
    assert isinstance(mails.read(contracts.load("ses").mail, body).recipients, tuple)
    assert isinstance(form("multipart/form-data; boundary=x", b"--x\r\n" + header + b"\r\n\r\ny\r\n--x--"), dict)


def test_a_step_may_be_every_item_or_the_item_that_has_a_field() -> None:
    data = {"p": [{"to": [{"e": 1}, {"e": 2}]}, {}, {"to": [{"e": 3}]}], "c": [{"type": "a/b", "v": 1}, {"type": "c"}]}
    assert pointers.get(data, "/p/*/to/*/e") == [1, 2, 3]
    assert pointers.get(data, "/c/type=a~1b/v") == 1
    assert pointers.get(data, "/c/type=none/v") is None
    assert pointers.get(data, "/c/type=c/v") is None
    assert pointers.get(data, "/p/0/to/1/e") == 2
    assert pointers.get(data, "/p/9/to") is None


def test_a_value_is_put_into_the_item_that_has_the_field_or_into_a_new_one() -> None:
    data: dict[str, Any] = {"c": [{"type": "text", "v": 1}], "errors": [{"field": None}]}
    pointers.put(data, "/c/type=text/v", 2)
    pointers.put(data, "/c/type=html/v", 3)
    pointers.put(data, "/errors/0/message", "m")
    pointers.put(data, "/errors/1/message", "n")
    pointers.put(data, "/new/x", 4)
    assert data == {
        "c": [{"type": "text", "v": 2}, {"type": "html", "v": 3}],
        "errors": [{"field": None, "message": "m"}, {"message": "n"}],
        "new": {"x": 4},
    }


# --- Answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status", "header", "place", "value"),
    [
        ("ses", 400, ("x-amzn-errortype", "BadRequestException"), "/message", "'nobody' is not an address."),
        ("postmark", 422, None, "/ErrorCode", 300),
        ("postmark", 422, None, "/Message", "'nobody' is not an address."),
        ("sendgrid", 400, None, "/errors/0/message", "'nobody' is not an address."),
        ("mailgun", 400, None, "/message", "'nobody' is not an address."),
        ("cloudflare", 400, None, "/errors/0/code", 10001),
        ("cloudflare", 400, None, "/success", False),
    ],
)
def test_a_refusal_is_written_as_its_vendor_writes_it(
    name: str, status: int, header: tuple[str, str] | None, place: str, value: Any
) -> None:
    async def play() -> None:
        async with provider(name) as fake:
            answer = await ask(fake, UNADDRESSED[name])
            assert (answer.status_code, pointers.get(answer.json(), place)) == (status, value)
            assert header is None or answer.headers[header[0]] == header[1]
            assert fake.ledger.commits == 0

    run(play())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ses", {"MessageId": "m1"}),
        ("postmark", {"To": "a@x.test, b@x.test", "ErrorCode": 0, "Message": "OK", "MessageID": "m1"}),
        ("mailgun", {"id": "<m1@mailgun.test>", "message": "Queued. Thank you."}),
    ],
)
def test_a_success_is_written_as_its_vendor_writes_it(name: str, said: dict[str, Any]) -> None:
    told = render(contracts.load(name), AnswerClass.ACCEPTED, ids=("m1",), recipients=[("a@x.test", "b@x.test")])
    assert (told.status, json.loads(told.body)) == (200, said)


def test_an_id_may_stand_in_a_header_over_an_empty_body() -> None:
    told = render(contracts.load("sendgrid"), AnswerClass.ACCEPTED, ids=("m1",))
    assert (told.status, told.body, told.headers) == (202, b"", {"X-Message-Id": "m1"})


def test_a_batch_of_postmark_is_answered_with_a_list_in_its_order() -> None:
    async def play() -> None:
        async with provider("postmark") as fake:
            batch = [{**BODIES["postmark"], "To": to, "Bcc": ""} for to in ("a@example.test", "b@example.test")]
            answer = await post(fake, "/email/batch", batch)
            assert [(one["ErrorCode"], one["To"]) for one in answer.json()] == [
                (0, "a@example.test"),
                (0, "b@example.test"),
            ]
            assert len({one["MessageID"] for one in answer.json()}) == 2
            assert [delivery.recipient for delivery in fake.ledger.deliveries] == ["a@example.test", "b@example.test"]

    run(play())


def test_a_refused_mail_of_a_batch_is_answered_in_its_place_and_the_rest_is_sent() -> None:
    async def play() -> None:
        async with provider("postmark") as fake:
            batch = [{**BODIES["postmark"], "To": to, "Bcc": ""} for to in ("a@x.test", "nobody", "c@x.test")]
            answer = await post(fake, "/email/batch", batch)
            assert answer.status_code == 200
            assert [one["ErrorCode"] for one in answer.json()] == [0, 300, 0]
            assert [one.get("To") for one in answer.json()] == ["a@x.test", None, "c@x.test"]
            assert [delivery.recipient for delivery in fake.ledger.deliveries] == ["a@x.test", "c@x.test"]

    run(play())


# --- Sandboxes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "asking", "status"),
    [
        ("sendgrid", {"mail_settings": {"sandbox_mode": {"enable": True}}}, 200),
        ("mailgun", {"o:testmode": "yes"}, 200),
    ],
)
def test_a_sandbox_send_is_answered_counted_apart_and_not_delivered(
    name: str, asking: dict[str, Any], status: int
) -> None:
    async def play() -> None:
        async with provider(name) as fake:
            assert (await ask(fake, {**BODIES[name], **asking})).status_code == status
            await ask(fake, BODIES[name])
            assert fake.ledger.commits == 1
            shown = (await get(fake, "/_sendtwice/attempts")).json()
            assert [attempt["dry_run"] for attempt in shown["attempts"]] == [True, False]
            assert (shown["counts"]["attempts"], shown["counts"]["accepted"], shown["counts"]["dry_runs"]) == (1, 1, 1)

    run(play())


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("sendgrid", {"mail_settings": {"sandbox_mode": {"enable": False}}}),
        ("mailgun", {"o:testmode": "no"}),
    ],
)
def test_a_sandbox_that_is_off_is_none(name: str, off: dict[str, Any]) -> None:
    async def play() -> None:
        async with provider(name) as fake:
            await ask(fake, {**BODIES[name], **off})
            assert fake.ledger.commits == 1

    run(play())


# --- Resends ---------------------------------------------------------------------------------------------


def request(**headers: str) -> Request:
    return Request("POST", "/", tuple((name.replace("_", "-").lower(), value) for name, value in headers.items()), b"")


@pytest.mark.parametrize(
    ("name", "headers", "found"),
    [
        ("ses", {"amz_sdk_invocation_id": "c1", "amz_sdk_request": "attempt=1"}, Resend("c1", 0)),
        ("ses", {"amz_sdk_invocation_id": "c1", "amz_sdk_request": "ttl=x; attempt=2; max=3"}, Resend("c1", 1)),
        ("ses", {"amz_sdk_invocation_id": "c1"}, Resend("c1", None)),
        ("ses", {}, None),
        ("cloudflare", {"X_Stainless_Retry_Count": "2"}, Resend(None, 2)),
        ("cloudflare", {"X_Stainless_Retry_Count": "often"}, None),
        ("generic", {"X_Stainless_Retry_Count": "2"}, None),
    ],
)
def test_attempts_of_one_call_are_known_where_the_vendors_sdks_say_so(
    name: str, headers: dict[str, str], found: Resend | None
) -> None:
    assert resend_of(contracts.load(name), request(**headers)) == found


def test_the_log_of_attempts_and_whoever_observes_are_told_of_resends() -> None:
    seen: list[tuple[Any, Any]] = []

    def observe(kind: str, /, **fields: Any) -> None:
        if kind == "provider.request":
            seen.append((fields["call"], fields["resend"]))

    async def play() -> None:
        async with provider("ses", observe=observe) as fake:
            for attempt in (1, 2):
                headers = {"amz-sdk-invocation-id": "c1", "amz-sdk-request": f"attempt={attempt}; max=3"}
                await post(fake, PATHS["ses"], BODIES["ses"], headers)
            shown = (await get(fake, "/_sendtwice/attempts")).json()["attempts"]
            assert [(attempt["call"], attempt["resend"]) for attempt in shown] == [("c1", 0), ("c1", 1)]

    run(play())
    assert seen == [("c1", 0), ("c1", 1)]


# --- The files -------------------------------------------------------------------------------------------


def test_a_dialect_names_the_variables_that_point_its_sdks_elsewhere() -> None:
    assert dialects.load("ses").environment("http://x") == {"AWS_ENDPOINT_URL_SESV2": "http://x"}
    assert dialects.load("cloudflare").environment("http://x") == {"CLOUDFLARE_BASE_URL": "http://x"}
    assert dialects.load("resend").environment("http://x") == {
        "RESEND_BASE_URL": "http://x",
        "RESEND_API_URL": "http://x",
    }
    assert dialects.load("postmark").environment("http://x") == {}


@pytest.mark.parametrize("name", KEYLESS)
def test_a_vendor_without_keys_promises_no_deduplication(name: str) -> None:
    contract: Contract = contracts.load(name)
    assert contract.key.presence.says("none")
    assert contract.duplicates.says("execute")
    assert contract.source
    assert contract.as_of


def test_a_mail_is_read_with_the_bytes_it_came_in() -> None:
    mail = mails.read(contracts.load("generic").mail, {"from": "a@x.test", "to": "b@x.test"}, key="k", raw=b"{}")
    assert mail == Mail("a@x.test", ("b@x.test",), "", "", "", "k", b"{}")
