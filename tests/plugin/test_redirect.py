"""The known SDKs are pointed at the API of a test, and back again."""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

import boto3  # type: ignore[import-untyped]  # it has no types
import pytest
import resend
import stripe

from sendtwice import SendApi, SendtwiceError
from tests.plugin import mailer

PARAMS: Any = mailer.request("a@x.test")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resend, "api_key", "re_test")


def test_resend_sends_to_the_api_and_a_lost_answer_reaches_its_caller() -> None:
    before = resend.api_url
    with SendApi("resend") as api:
        resend.Emails.send(PARAMS, {"idempotency_key": "k"})
        assert api.keys == ["k"]

        api.lose("client.response", attempt=1)
        with pytest.raises(resend.exceptions.ResendError):
            resend.Emails.send(PARAMS, {"idempotency_key": "k2"})
        assert api.deliveries == 2

    assert resend.api_url == before
    assert "RESEND_API_URL" not in os.environ


def by_module() -> object:
    return stripe.Customer.create(email="a@x.test", idempotency_key="k")


def by_client() -> object:
    return stripe.StripeClient("sk_test").v1.customers.create({"email": "a@x.test"}, {"idempotency_key": "k"})


@pytest.mark.parametrize("create", [by_module, by_client])
def test_stripe_sends_to_the_api(create: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stripe, "api_key", "sk_test")
    with SendApi("stripe-v1") as api:
        # What the contract has no route for is answered 404 all the same: it did arrive.
        with pytest.raises(stripe.StripeError):
            create()
        assert [attempt.path for attempt in api.attempts] == ["/v1/customers"]
        assert stripe.api_base == api.url

    assert stripe.api_base == "https://api.stripe.com"


def test_boto3_sends_to_the_api_without_credentials_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with SendApi("ses") as api:
        client = boto3.session.Session().client("sesv2")
        client.send_email(
            FromEmailAddress="shop@x.test",
            Destination={"ToAddresses": ["a@x.test"]},
            Content={"Simple": {"Subject": {"Data": "Receipt"}, "Body": {"Text": {"Data": "Thank you."}}}},
        )
        client.close()
        assert api.deliveries == 1

    assert not [name for name in os.environ if name.startswith("AWS_")]


def test_a_client_that_was_made_before_is_one_clear_error_and_no_mail() -> None:
    def swallowed() -> None:
        with SendApi("rasket"), contextlib.suppress(resend.exceptions.ResendError):
            resend.Emails.send(PARAMS)

    # Its SDK makes an error of its own of whatever is raised, and says what it was.
    refused = r"^a connection to api\.resend\.com:443 was refused"
    with pytest.raises(resend.exceptions.ResendError, match=refused), SendApi("rasket"):
        resend.Emails.send(PARAMS)
    with pytest.raises(SendtwiceError, match=refused):
        swallowed()


def test_variables_of_ones_own_get_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECEIPTS_API", "https://mail.example.com")
    with SendApi("rasket", variables=["RECEIPTS_API"]) as api:
        for name in ("RECEIPTS_API", "RASKET_API_URL", "SENDTWICE_API_URL"):
            assert os.environ[name] == api.url

    assert os.environ["RECEIPTS_API"] == "https://mail.example.com"
    assert "RASKET_API_URL" not in os.environ


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:3128")
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:3128")
    monkeypatch.setenv("NO_PROXY", "example.com")
    with SendApi("resend") as api:
        mailer.send(api.url, mailer.request("a@x.test"), "k")
        assert api.deliveries == 1

    assert os.environ["NO_PROXY"] == "example.com"


def test_an_sdk_that_is_not_installed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "resend")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with SendApi("resend"):
        assert "resend" not in sys.modules
