"""Handing mail over in every vendor's own way: what arrives, and what is learnt from the answer."""

from __future__ import annotations

from typing import Any

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.emulator.upstream import HttpUpstream, Kind, Outcome, read, render
from sendtwice.fake_provider.faults import Fault, Place, Verb
from sendtwice.fake_provider.ledger import Mail
from tests.fake_provider.kit import Served, post, provider, request_for, run

DIALECTS = ["cloudflare", "generic", "mailgun", "postmark", "resend", "sendgrid", "ses"]
MAIL = Mail("shop@example.test", ("a@example.test", "b@example.test"), "Grüße & mehr", "t\n+ü", "<p>t</p>")


async def hand_over(dialect: str, url: str, mail: Mail = MAIL) -> Outcome:
    upstream = HttpUpstream(url, contracts.load(dialect), timeout=0.5)
    try:
        return await upstream.send(mail, "own")
    finally:
        await upstream.stop()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_mail_arrives_whole_and_its_id_is_understood(dialect: str) -> None:
    answers: list[Any] = []

    def observe(kind: str, /, **fields: Any) -> None:
        if kind == Place.PROVIDER_RESPONSE:
            answers.append(fields["response"])

    async def play() -> None:
        async with provider(dialect, observe=observe) as fake:
            outcome = await hand_over(dialect, fake.url)
            assert outcome.kind is Kind.SENT
            assert outcome.id
            told = answers[0].body.decode() + str(answers[0].headers)
            assert outcome.id in told
            assert len(fake.ledger.deliveries) == 2
            mail = fake.ledger.deliveries[0].mail
            assert (mail.sender, mail.recipients) == (MAIL.sender, MAIL.recipients)
            assert (mail.subject, mail.text, mail.html) == (MAIL.subject, MAIL.text, MAIL.html)

    run(play())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("fault", "kind", "commits"),
    [
        (Fault(Place.PROVIDER_REQUEST, Verb.ANSWER, "refused"), Kind.REFUSED, 0),
        (Fault(Place.PROVIDER_REQUEST, Verb.ANSWER, "unauthorized"), Kind.REFUSED, 0),
        (Fault(Place.PROVIDER_REQUEST, Verb.ANSWER, "rate_limited"), Kind.BUSY, 0),
        (Fault(Place.PROVIDER_REQUEST, Verb.ANSWER, "failed"), Kind.BUSY, 0),
        (Fault(Place.PROVIDER_RESPONSE, Verb.ANSWER, "unknown"), Kind.UNKNOWN, 1),
        (Fault(Place.PROVIDER_RESPONSE, Verb.LOSE), Kind.UNKNOWN, 1),
    ],
    ids=str,
)
def test_only_what_is_certain_is_said(dialect: str, fault: Fault, kind: Kind, commits: int) -> None:
    async def play() -> None:
        async with provider(dialect) as fake:
            fake.faults.arm(fault)
            assert ((await hand_over(dialect, fake.url)).kind, fake.ledger.commits) == (kind, commits)

    run(play())


@pytest.mark.parametrize(
    ("dialect", "asked"),
    [
        ("mailgun", "/v3/example.test/messages"),
        ("cloudflare", "/accounts/account_id/email/sending/send"),
        ("ses", "/v2/email/outbound-emails"),
    ],
)
def test_a_path_names_the_senders_domain_and_what_it_cannot_know(dialect: str, asked: str) -> None:
    paths: list[str] = []

    def observe(kind: str, /, **fields: Any) -> None:
        if kind == Place.PROVIDER_REQUEST:
            paths.append(fields["request"].path)

    async def play() -> None:
        async with provider(dialect, observe=observe) as fake:
            mail = Mail('"Shop, Jr." <shop@example.test>', ("a@example.test",), "s", "t")
            assert (await hand_over(dialect, fake.url, mail)).kind is Kind.SENT

    run(play())
    assert paths == [asked]


def test_a_list_of_one_recipient_becomes_one_of_all() -> None:
    assert render({"p": [{"to": [{"email": "{to}"}], "cc": ["{to}"]}]}, MAIL) == {
        "p": [
            {
                "to": [{"email": "a@example.test"}, {"email": "b@example.test"}],
                "cc": ["a@example.test", "b@example.test"],
            }
        ]
    }


def test_an_id_in_a_header_is_found_whatever_its_case() -> None:
    assert read(contracts.load("sendgrid"), 202, None, {"x-message-id": "m1"}) == Outcome(Kind.SENT, "m1")
    assert read(contracts.load("sendgrid"), 202, None, {}) == Outcome(Kind.SENT, None)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_served_contract_hands_over_in_every_dialect(dialect: str) -> None:
    async def play() -> None:
        async with provider(dialect) as fake:
            served = await Served.start("rasket", "--upstream", fake.url, "--upstream-dialect", dialect)
            try:
                request = request_for("rasket", to="ana@example.test")
                headers = {"Authorization": "Bearer one", "Idempotency-Key": "k1", "User-Agent": "tests"}
                body = {"from": "shop@example.test", "to": ["ana@example.test"], "subject": "s", "text": "t"}
                assert (await post(served.url, request.path, body, headers)).is_success
                assert await fake.ledger.wait(lambda: fake.ledger.commits == 1, timeout=10)
                assert fake.ledger.deliveries[0].recipient == "ana@example.test"
            finally:
                await served.stop()

    run(play())
