"""Handing mail over: what is certain, what is not, and what the other side sees."""

from __future__ import annotations

import asyncio
import socket

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.emulator.upstream import HttpUpstream, Kind, Outcome, read, render
from sendtwice.fake_provider.faults import Fault, Place, Verb
from sendtwice.fake_provider.ledger import Mail
from tests.fake_provider.kit import provider, run

MAIL = Mail("shop@example.test", ("a@example.test", "b@example.test"), "s", "t", "<p>t</p>")


async def hand_over(dialect: str, url: str, *, timeout: float = 5.0, key: str = "own", times: int = 1) -> Outcome:
    upstream = HttpUpstream(url, contracts.load(dialect), timeout=timeout)
    try:
        outcomes = [await upstream.send(MAIL, key) for _ in range(times)]
    finally:
        await upstream.stop()
    return outcomes[-1]


@pytest.mark.parametrize(("dialect", "commits"), [("generic", 2), ("resend", 1), ("postfleet", 1), ("pylota", 1)])
def test_a_mail_arrives_whole_under_our_own_key(dialect: str, commits: int) -> None:
    async def play() -> None:
        async with provider(dialect) as fake:
            outcome = await hand_over(dialect, fake.url, times=2)
            await fake.emulator.settled()
            assert (outcome.kind, fake.ledger.commits) == (Kind.SENT, commits)
            assert outcome.id
            mail = fake.ledger.deliveries[0].mail
            assert (mail.sender, mail.subject, mail.text, mail.html) == (
                "shop@example.test",
                "s",
                "t",
                "<p>t</p>",
            )
            assert mail.recipients == MAIL.recipients
            assert mail.key == (None if dialect == "generic" else "own")

    run(play())


@pytest.mark.parametrize(
    ("fault", "kind", "commits"),
    [
        (Fault(Place.PROVIDER_REQUEST, Verb.RESET), Kind.UNKNOWN, 0),
        (Fault(Place.PROVIDER_REQUEST, Verb.CLOSE), Kind.UNKNOWN, 0),
        (Fault(Place.PROVIDER_REQUEST, Verb.RESET, stage="headers"), Kind.UNKNOWN, 0),
        (Fault(Place.PROVIDER_RESPONSE, Verb.LOSE), Kind.UNKNOWN, 1),
        (Fault(Place.PROVIDER_RESPONSE, Verb.CUT, 40), Kind.UNKNOWN, 1),
        (Fault(Place.PROVIDER_RESPONSE, Verb.LOSE, "in-body"), Kind.UNKNOWN, 1),
        (Fault(Place.PROVIDER_REQUEST, Verb.HOLD), Kind.UNKNOWN, 0),
        (Fault(Place.PROVIDER_RESPONSE, Verb.HOLD), Kind.UNKNOWN, 1),
        (Fault(Place.PROVIDER_REQUEST, Verb.ANSWER, 503), Kind.BUSY, 0),
        (Fault(Place.PROVIDER_REQUEST, Verb.ANSWER, 429), Kind.BUSY, 0),
        (Fault(Place.PROVIDER_REQUEST, Verb.ANSWER, 422), Kind.REFUSED, 0),
        (Fault(Place.PROVIDER_REQUEST, Verb.ANSWER, 401), Kind.REFUSED, 0),
        (Fault(Place.PROVIDER_RESPONSE, Verb.ANSWER, 504), Kind.UNKNOWN, 1),
        (Fault(Place.PROVIDER_RESPONSE, Verb.ANSWER, 500), Kind.UNKNOWN, 1),
        (Fault(Place.PROVIDER_RESPONSE, Verb.ANSWER, "in_progress"), Kind.UNKNOWN, 1),
    ],
    ids=str,
)
def test_only_what_is_certain_is_said(fault: Fault, kind: Kind, commits: int) -> None:
    async def play() -> None:
        async with provider("resend") as fake:
            fake.faults.arm(fault)
            outcome = await hand_over("resend", fake.url, timeout=0.3)
            assert (outcome.kind, fake.ledger.commits) == (kind, commits)

    run(play())


def test_a_connection_that_was_never_made_is_certain() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        assert asyncio.run(hand_over("generic", f"http://127.0.0.1:{port}")).kind is Kind.BUSY


def test_each_hand_over_has_its_own_connection() -> None:
    async def play() -> None:
        connections = []

        def observe(event: str, /, **fields: object) -> None:
            if event == Place.PROVIDER_REQUEST:
                connections.append(fields["connection"])

        async with provider(observe=observe) as fake:
            await hand_over("generic", fake.url, times=3)
            assert len(set(connections)) == 3

    run(play())


def test_a_dialect_says_whether_its_provider_deduplicates() -> None:
    resend = HttpUpstream("http://x", contracts.load("resend"))
    generic = HttpUpstream("http://x", contracts.load("generic"))
    assert (resend.deduplicates, resend.remembers) == (True, 86_400)
    assert (generic.deduplicates, generic.remembers) == (False, 0)


def test_templates_are_filled_and_empty_options_dropped() -> None:
    template = {"to": ["{to}"], "one": "{to}", "in_reply_to": "{reply_to?}", "fixed": 1, "s": "Re: {subject}"}
    assert render(template, MAIL) == {
        "to": ["a@example.test", "b@example.test"],
        "one": "a@example.test, b@example.test",
        "fixed": 1,
        "s": "Re: s",
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, Kind.SENT),
        (202, Kind.SENT),
        (302, Kind.UNKNOWN),
        (400, Kind.REFUSED),
        (408, Kind.UNKNOWN),
        (409, Kind.UNKNOWN),
        (413, Kind.REFUSED),
        (429, Kind.BUSY),
        (500, Kind.UNKNOWN),
        (503, Kind.BUSY),
    ],
)
def test_a_status_is_read_with_care(status: int, kind: Kind) -> None:
    assert read(contracts.load("resend"), status, None).kind is kind


def test_half_a_surrogate_pair_is_handed_over_and_not_a_crash() -> None:
    async def play() -> None:
        async with provider() as fake:
            upstream = HttpUpstream(fake.url, contracts.load("generic"))
            outcome = await upstream.send(Mail("a@b.test", ("c@d.test",), "\ud800", "t"), "own")
            await upstream.stop()
            assert outcome.kind is Kind.SENT
            assert fake.ledger.deliveries[0].mail.subject == "\ud800"

    run(play())
