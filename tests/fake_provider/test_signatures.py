"""Each scheme signs as its vendor says, and each flaw is one that a verifier written from the documents refuses."""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import time
from collections.abc import Callable

import pytest

from sendtwice.fake_provider.signatures import STALE, Flaw, Scheme, make_secret

BODY = b'{"type": "message.received"}'
NOW = 1_614_265_330
SVIX_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HMAC = Scheme("hmac", "X-Hub-Signature-256", "sha256=")

# The verifiers: from the vendors' pages, in as few words as they have.


def svix_believes(secret: str, headers: dict[str, str], body: bytes, start: str = "svix") -> bool:
    number, stamp, given = (headers.get(f"{start}-{part}", "") for part in ("id", "timestamp", "signature"))
    key = base64.b64decode(secret.split("_", 1)[1])
    made = base64.b64encode(hmac.new(key, f"{number}.{stamp}.".encode() + body, hashlib.sha256).digest()).decode()
    return stamp.isdigit() and abs(int(stamp) - NOW) <= 300 and f"v1,{made}" in given.split()


def stripe_believes(secret: str, headers: dict[str, str], body: bytes) -> bool:
    parts = dict(part.split("=", 1) for part in headers.get("Stripe-Signature", "t=0").split(","))
    made = hmac.new(secret.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    return abs(int(parts["t"]) - NOW) <= 300 and parts.get("v1") == made


def hub_believes(secret: str, headers: dict[str, str], body: bytes) -> bool:
    made = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return headers.get("X-Hub-Signature-256") == made


VERIFIERS: dict[str, tuple[Scheme, Callable[[str, dict[str, str], bytes], bool]]] = {
    "standard": (Scheme(), lambda secret, headers, body: svix_believes(secret, headers, body, "webhook")),
    "svix": (Scheme("svix"), svix_believes),
    "stripe": (Scheme("stripe"), stripe_believes),
    "hmac": (HMAC, hub_believes),
}
SCHEMES = pytest.mark.parametrize("name", VERIFIERS)


def test_svix_signs_the_worked_example_of_its_own_libraries() -> None:
    body = b'{"test": 2432232314}'
    assert Scheme("svix").sign(SVIX_SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", NOW, body) == {
        "svix-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "svix-timestamp": str(NOW),
        "svix-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_plain_hmac_signs_the_example_of_github() -> None:
    # docs.github.com, "Testing the webhook payload validation".
    headers = HMAC.sign("It's a Secret to Everybody", "evt_1", NOW, b"Hello, World!")
    assert headers == {"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}


def test_a_plain_hmac_can_be_base64_in_another_header() -> None:
    shopify = Scheme("hmac", "X-Shopify-Hmac-Sha256", "", "base64").sign("s", "evt_1", NOW, BODY)
    made = base64.b64encode(hmac.new(b"s", BODY, hashlib.sha256).digest()).decode()
    assert shopify == {"X-Shopify-Hmac-Sha256": made}


@pytest.mark.skipif(importlib.util.find_spec("stripe") is None, reason="stripe is not installed")
def test_the_official_library_of_stripe_believes_it() -> None:
    library = importlib.import_module("stripe")
    secret = make_secret()
    headers = Scheme("stripe").sign(secret, "evt_1", time.time(), BODY)
    assert library.WebhookSignature.verify_header(BODY.decode(), headers["Stripe-Signature"], secret, 300)


@SCHEMES
def test_one_secret_is_good_for_every_scheme(name: str) -> None:
    scheme, believes = VERIFIERS[name]
    secret = make_secret()
    assert believes(secret, scheme.sign(secret, "evt_1", NOW + 0.9, BODY), BODY)


@SCHEMES
@pytest.mark.parametrize("flaw", Flaw)
def test_a_flawed_signature_is_refused_by_who_verifies_it(name: str, flaw: Flaw) -> None:
    scheme, believes = VERIFIERS[name]
    secret = make_secret()
    if not scheme.can_be(flaw):
        assert (name, flaw) == ("hmac", Flaw.STALE), "the body alone is signed, so nothing grows old"
        return
    headers = scheme.sign_wrongly(flaw, secret, "evt_1", NOW, BODY, original=BODY + b" ")
    assert not believes(secret, headers, BODY)


@SCHEMES
@pytest.mark.parametrize("flaw", [Flaw.BAD, Flaw.OTHER_SECRET, Flaw.TAMPERED])
def test_a_wrong_signature_has_the_form_of_a_right_one(name: str, flaw: Flaw) -> None:
    scheme, _ = VERIFIERS[name]
    right = scheme.sign(SVIX_SECRET, "evt_1", NOW, BODY)
    wrong = scheme.sign_wrongly(flaw, SVIX_SECRET, "evt_1", NOW, BODY, original=b"{}")
    assert {header: len(value) for header, value in wrong.items()} == {h: len(v) for h, v in right.items()}
    assert wrong != right


@SCHEMES
def test_a_tampered_event_was_signed_as_it_stood_before(name: str) -> None:
    scheme, believes = VERIFIERS[name]
    headers = scheme.sign_wrongly(Flaw.TAMPERED, SVIX_SECRET, "evt_1", NOW, BODY, original=b"{}")
    assert believes(SVIX_SECRET, headers, b"{}")


def test_a_stale_signature_is_right_and_a_day_old() -> None:
    headers = Scheme("stripe").sign_wrongly(Flaw.STALE, "s", "evt_1", NOW, BODY, original=b"")
    assert headers == Scheme("stripe").sign("s", "evt_1", NOW - STALE, BODY)


def test_who_signs_nothing_has_nothing_that_could_be_wrong() -> None:
    assert Scheme("none").sign("s", "evt_1", NOW, BODY) == {}
    assert not any(Scheme("none").can_be(flaw) for flaw in Flaw)


@pytest.mark.parametrize("name", ["standard", "svix"])
def test_a_secret_that_cannot_be_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(ValueError, match="whsec_ followed by base64"):
        Scheme(name).check_secret("not base64!")  # type: ignore[arg-type]
    Scheme("stripe").check_secret("not base64!")
