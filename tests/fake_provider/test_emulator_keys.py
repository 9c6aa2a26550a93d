"""Keys: where they stand, whether they must, how they are written, and what comes with them."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import pytest

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.emulator.upstream import HttpUpstream, Kind
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Request
from tests.fake_provider.kit import Scripted, ask, body_for, call, emulator, kind, mine, provider, run, said

A = AnswerClass


async def kinds(contract: Any, *requests: Request, clock: Clock | None = None) -> tuple[list[AnswerClass | None], int]:
    """The class of each answer, and how many mails went out."""
    async with emulator(contract, Scripted(), clock=clock) as (engine, upstream):
        answers = [await ask(engine, request) for request in requests]
        await engine.settled()
        return [kind(answer) for answer in answers], len(upstream.taken)


def check(contract: Any, *cases: tuple[Request, AnswerClass], mails: int) -> None:
    found, sent = run(kinds(contract, *(request for request, _ in cases)))
    assert (found, sent) == ([expected for _, expected in cases], mails)


def test_further_carriers_are_looked_at_in_their_order() -> None:
    contract = mine(key__also_at=["body:/headers/idempotencyKey", "query:key"])
    nested = {**body_for("mine"), "headers": {"idempotencyKey": "k1"}}
    check(
        contract,
        (call(body=nested, key=None), A.ACCEPTED),
        (call(key="k1"), A.CONFLICT),  # `headers` is a field like any other, but for the key in it
        (call(body={**body_for("mine"), "headers": {}}, key="k1"), A.REPLAYED),
        (call("/emails?key=k1", body=nested, key="k2"), A.ACCEPTED),
        mails=2,
    )


def test_a_key_in_the_query_is_one_too_and_may_be_blank() -> None:
    contract = mine(key__also_at=["query:key"])
    check(
        contract,
        (call("/emails?key=k1", key=None), A.ACCEPTED),
        (call("/emails?key=k1", key=None, text="other"), A.CONFLICT),
        (call("/emails?key=", key=None), A.KEY_INVALID),
        (call("/emails?key=k2&key=k3", key=None), A.KEY_INVALID),
        mails=1,
    )


@pytest.mark.parametrize(
    ("claims", "key", "expected"),
    [
        ({"unit": "bytes", "max": 4}, "éé", A.ACCEPTED),
        ({"unit": "bytes", "max": 4}, "ééé", A.KEY_INVALID),
        ({"unit": "characters", "max": 4}, "éééé", A.ACCEPTED),
        ({"charset": "word"}, "a-b_9", A.ACCEPTED),
        ({"charset": "word"}, "a.b", A.KEY_INVALID),
        ({"charset": "dotted-word"}, "a.b", A.ACCEPTED),
        ({"charset": "dotted-word"}, "a:b", A.KEY_INVALID),
        ({"charset": "visible-ascii"}, "a b", A.KEY_INVALID),
        ({"charset": "uuid"}, "01234567-89ab-cdef-0123-456789abcdef", A.ACCEPTED),
        ({"form": "quoted"}, '"k1"', A.ACCEPTED),
        ({"form": "quoted"}, '"k1";p=1', A.ACCEPTED),
        ({"form": "quoted"}, "k1", A.KEY_INVALID),
        ({"form": "quoted"}, '"k1', A.KEY_INVALID),
        ({"form": "quoted"}, '"é"', A.KEY_INVALID),
        ({"form": "quoted", "invalid": "ignore"}, "k1", A.ACCEPTED),
        ({"form": "either"}, "k1", A.ACCEPTED),
        ({"empty": "absent", "presence": "required"}, "", A.KEY_MISSING),
        ({"blanks": "trimmed", "empty": "absent", "presence": "required"}, "  ", A.KEY_MISSING),
    ],
)
def test_a_key_is_written_as_the_contract_says(claims: dict[str, Any], key: str, expected: AnswerClass) -> None:
    contract = mine(**{f"key__{name}": value for name, value in claims.items()})
    check(contract, (call(key=key), expected), mails=expected is A.ACCEPTED)


@pytest.mark.parametrize(
    ("claims", "first", "second"),
    [
        ({"form": "quoted"}, '"k1"', '"k1";a'),
        ({"form": "quoted"}, r'"k\"1"', r'"k\"1"'),
        ({"form": "either"}, '"k1"', "k1"),
        ({"case": "folded"}, "K1", "k1"),
        ({"repeated": "first"}, "k1", "k1"),
    ],
)
def test_two_ways_of_writing_a_key_are_one_key(claims: dict[str, Any], first: str, second: str) -> None:
    contract = mine(**{f"key__{name}": value for name, value in claims.items()})
    check(contract, (call(key=first), A.ACCEPTED), (call(key=second, text="other"), A.CONFLICT), mails=1)


def test_an_unguarded_key_guards_nothing() -> None:
    contract = mine(key__charset="word", key__invalid="ignore")
    check(contract, (call(key="a b"), A.ACCEPTED), (call(key="a b", text="other"), A.ACCEPTED), mails=2)


def test_blanks_around_a_key_in_the_body_are_kept_or_trimmed() -> None:
    for blanks, second in (("kept", A.ACCEPTED), ("trimmed", A.CONFLICT)):
        contract = mine(key__at="body:/id", key__blanks=blanks)
        plain, padded = ({**body_for("mine", text=key), "id": key} for key in ("k1", " k1\t"))
        check(contract, (call(body=plain), A.ACCEPTED), (call(body=padded), second), mails=1 + (second is A.ACCEPTED))


def test_a_header_that_comes_twice_is_joined_or_the_first_counts() -> None:
    twice = Request("POST", "/emails", (*call().headers, ("idempotency-key", "k2")), call(text="other").body)
    check(mine(key__repeated="first"), (call(key="k1"), A.ACCEPTED), (twice, A.CONFLICT), mails=1)
    check(mine(key__repeated="joined"), (call(key="k1, k2"), A.ACCEPTED), (twice, A.CONFLICT), mails=1)


def test_a_key_is_made_where_none_is_given_and_can_be_used_again() -> None:
    async def play() -> None:
        contract = mine(key__presence="generated", replay__key_echo="Idempotency-Key")
        async with emulator(contract) as (engine, upstream):
            exchange = engine.begin(call(key=None))
            first = await exchange.perform()
            assert exchange.key is None
            other = await ask(engine, call(key=None))
            again = await ask(engine, call(key=first.headers["Idempotency-Key"]))
            assert said(again)["id"] == said(first)["id"] != said(other)["id"]
            assert len(upstream.taken) == 2
            assert upstream.taken[0].key is None

    run(play())


@pytest.mark.parametrize(("foreign", "status", "mails"), [("ignored", 201, 2), ("refused", 501, 0), (None, 201, 2)])
def test_a_key_where_none_is_taken_is_ignored_or_refused(foreign: str | None, status: int, mails: int) -> None:
    async def play() -> None:
        claims = {} if foreign is None else {"key__foreign": foreign}
        event = {"data": {"from": "a@b.test", "subject": "s", "text": "t"}, "email": "ana@example.test"}
        async with emulator(mine(**claims)) as (engine, upstream):
            for _ in range(2):
                assert (await ask(engine, call("/events/send", event))).status == status
            assert (await ask(engine, call("/events/send", event, key=None))).status == 201
            assert len(upstream.taken) == mails + 1
            # It was not recorded either.
            assert (await ask(engine, call(text="other"))).status == 201

    run(play())


# --- What comes with a key -------------------------------------------------------------------------------

FIRST_SENT = "Repeatability-First-Sent"


def asserted(seconds: float) -> dict[str, str]:
    return {FIRST_SENT: formatdate(Clock().now() + seconds, usegmt=True)}


@pytest.mark.parametrize(
    ("key", "said", "expected"),
    [
        ("k1", 0, A.ACCEPTED),
        ("k1", -200, A.ACCEPTED),
        ("k1", -400, A.EXPIRED),
        ("k1", 400, A.EXPIRED),
        ("k1", None, A.KEY_INVALID),
        ("k1", "the day before", A.KEY_INVALID),
        ("k1", "Tue, 31 Feb 2026 10:00:00 GMT", A.KEY_INVALID),
        ("k1", "2026-11-01T10:00:00Z", A.KEY_INVALID),
        (None, 0, A.KEY_INVALID),
        (None, None, A.ACCEPTED),
    ],
)
def test_the_time_of_the_first_attempt_belongs_to_the_key(
    key: str | None, said: float | str | None, expected: AnswerClass
) -> None:
    headers = {} if said is None else {FIRST_SENT: said} if isinstance(said, str) else asserted(said)
    contract = mine(key__first_sent={"at": f"header:{FIRST_SENT}", "window": 300})
    check(contract, (call(key=key, headers=headers), expected), mails=expected is A.ACCEPTED)


def test_what_is_too_old_is_412_and_a_retry_within_the_window_is_a_replay() -> None:
    async def play() -> None:
        clock = Clock()
        contract = mine(key__first_sent={"at": f"header:{FIRST_SENT}", "window": 300})
        async with emulator(contract, clock=clock) as (engine, upstream):
            headers = asserted(0)
            first = await ask(engine, call(headers=headers))
            clock.advance(200)
            again = await ask(engine, call(headers=headers))
            assert said(first)["id"] == said(again)["id"]
            clock.advance(200)
            late = await ask(engine, call(headers=headers))
            assert (late.status, kind(late)) == (412, A.EXPIRED)
            assert len(upstream.taken) == 1

    run(play())


@pytest.mark.parametrize("key", ["plain", 'a "quoted" \\ key', "ü"])
@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"key__form": "quoted"},
        {"key__at": "query:key"},
        {"key__at": "body:/id"},
        {"key__first_sent": {"at": f"header:{FIRST_SENT}", "window": 300}},
    ],
)
def test_a_key_is_handed_on_as_the_next_api_wants_it(claims: dict[str, Any], key: str) -> None:
    async def play() -> None:
        contract = mine(key__presence="required", duplicates="replay", **claims)
        async with provider(contract) as fake:
            upstream = HttpUpstream(fake.url, contract)
            mail = Mail("a@example.test", ("b@example.test",), "s", "t")
            outcomes = [await upstream.send(mail, key) for _ in range(2)]
            await upstream.stop()
            if key == "ü" and "key__form" in claims:  # no String of RFC 8941
                assert [outcome.kind for outcome in outcomes] == [Kind.REFUSED] * 2
                return
            assert [outcome.kind for outcome in outcomes] == [Kind.SENT] * 2
            assert outcomes[0].id == outcomes[1].id
            assert [delivery.mail.key for delivery in fake.ledger.deliveries] == [key]

    run(play())
