"""A fake provider as the harness uses it, and recipients that ask for faults."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from sendtwice.fake_provider.faults import Crossing, Fault, Place, Verb
from tests.fake_provider.kit import body_for, get, post, provider, run

EMAILS = "/emails"


async def to(fake: Any, name: str, key: str | None = "k", contract: str = "resend") -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return await post(fake, EMAILS, body_for(contract, to=f"{name}@fault.test"), headers)


@pytest.mark.parametrize("edge", ["provider", "client"])
def test_an_answer_is_lost_once_and_the_retry_ends_well(edge: Any) -> None:
    async def play() -> None:
        async with provider("resend", edge=edge) as fake:
            with pytest.raises(httpx.ReadError):
                await to(fake, "response-lost")
            assert fake.ledger.commits == 1
            assert (await to(fake, "response-lost")).status_code == 200
            assert fake.ledger.commits == 1
            with pytest.raises(httpx.ReadError):
                await to(fake, "response-lost", key="other")

    run(play())


@pytest.mark.parametrize("edge", ["provider", "client"])
def test_an_answer_breaks_off_once_after_its_status_and_the_retry_ends_well(edge: Any) -> None:
    async def play() -> None:
        async with provider("resend", edge=edge) as fake, httpx.AsyncClient(trust_env=False) as client:
            body, headers = body_for("resend", to="response-cut@fault.test"), {"Idempotency-Key": "k"}
            async with client.stream("POST", fake.url + EMAILS, json=body, headers=headers) as answer:
                assert answer.status_code == 200
                with pytest.raises(httpx.ReadError):
                    await answer.aread()
            assert (await to(fake, "response-cut")).status_code == 200
            assert fake.ledger.commits == 1

    run(play())


@pytest.mark.parametrize(
    ("name", "first", "second", "commits"),
    [
        ("unknown-outcome", 500, 200, 1),
        ("busy", 429, 200, 1),
        ("refused", 422, 422, 0),
    ],
)
def test_a_recipient_asks_for_an_answer(name: str, first: int, second: int, commits: int) -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            answers = [await to(fake, name) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [first, second]
            assert fake.ledger.commits == commits

    run(play())


@pytest.mark.parametrize("name", ["pending", "pending+case-7"])
def test_a_recipient_asks_for_approval(name: str) -> None:
    async def play() -> None:
        async with provider("postfleet", edge="client") as fake:
            body = {**body_for("postfleet", to=f"{name}@fault.test"), "client_id": "k"}
            answers = [await post(fake, "/api/v1/send", body) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [202, 202]
            assert answers[0].json()["draft_id"] == answers[1].json()["draft_id"]
            assert fake.ledger.commits == 0

    run(play())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("respnse-lost", "did you mean response-lost@fault.test? known: slow, response-lost,"),
        (
            "nothing_special",
            "known: slow, response-lost, response-cut, unknown-outcome, busy, server-error, pending, refused.",
        ),
        ("pending", "The contract resend declares no pending answer"),
    ],
)
def test_a_fault_that_cannot_be_played_is_refused(name: str, said: str) -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            answer = await to(fake, name)
            assert answer.status_code == 422
            assert said in answer.json()["message"]
            assert fake.ledger.commits == 0

    run(play())


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_status_is_not_contradicted_by_the_body(method: str) -> None:
    async def play() -> None:
        async with provider("rasket", edge="client") as fake, httpx.AsyncClient(base_url=fake.url) as client:
            answer = await client.request(method, "/nowhere")
            assert answer.json()["statusCode"] == answer.status_code == 404

    run(play())


def test_busy_can_last_for_several_attempts() -> None:
    async def play() -> None:
        async with provider("resend") as fake:
            assert [(await to(fake, "busy+2")).status_code for _ in range(3)] == [429, 429, 200]
            await post(fake, "/_sendtwice/reset", {})
            assert (await to(fake, "busy+2")).status_code == 429

    run(play())


def test_slow_waits_before_the_commit() -> None:
    async def play() -> None:
        async with provider("resend") as fake:
            begun = time.monotonic()
            assert (await to(fake, "slow+0.2s")).status_code == 200
            assert time.monotonic() - begun >= 0.2
            assert fake.ledger.commits == 1

    run(play())


def test_other_domains_ask_for_nothing() -> None:
    async def play() -> None:
        async with provider() as fake:
            for recipient in ("refused@default.test", "refused@fault.test.example", "refused@sub.fault.test"):
                body = body_for("generic", to=recipient)
                assert (await post(fake, EMAILS, body)).status_code == 200

    run(play())


def test_operations_are_told_to_the_ledger_the_faults_and_the_observer() -> None:
    async def play() -> None:
        seen: list[tuple[str, dict[str, Any]]] = []
        fired: list[tuple[Fault, Crossing]] = []
        async with provider(
            identify=lambda mail: mail.subject or None,
            observe=lambda event, /, **fields: seen.append((event, fields)),
            notice=lambda fault, crossing: fired.append((fault, crossing)),
        ) as fake:
            fake.faults.arm(Fault(Place.PROVIDER_REQUEST, Verb.DELAY, 0, operation="op2"))
            for operation in ("op1", "op2"):
                await post(fake, EMAILS, body_for("generic", subject=operation))
            assert [delivery.operation for delivery in fake.ledger.deliveries] == ["op1", "op2"]
            assert [event for event, _ in seen] == ["provider.request", "provider.response"] * 2
            assert seen[0][1]["mail"].subject == seen[0][1]["operation"] == "op1"
            assert [crossing.operation for _, crossing in fired] == ["op2"]

    run(play())


@pytest.mark.parametrize("dialect", ["generic", "resend", "rasket", "pylota"])
def test_a_delivery_is_counted_before_its_answer_also_where_the_contract_queues(dialect: str) -> None:
    async def play() -> None:
        counted: list[int] = []

        def observe(event: str, /, **_: Any) -> None:
            if event == "provider.response":
                counted.append(fake.ledger.commits)

        async with provider(dialect, observe=observe) as fake:
            for number in range(1, 4):
                path = fake.contract.request.path
                await post(fake, path, body_for(dialect), {"Idempotency-Key": f"k{number}"})
            assert counted == [1, 2, 3]

    run(play())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", {"to": "a@b.test", "text": "t"}),
        ("/v3/mail/send", {"to": [{"email": "a@b.test"}]}),
        ("/emails?x=1", {"to": "Ann Example <a@b.test>"}),
        ("/api/emails", {"to": ["a@b.test"], "cc": "c@d.test"}),
    ],
)
def test_a_generic_provider_takes_any_path_and_many_forms(path: str, body: dict[str, Any]) -> None:
    async def play() -> None:
        async with provider() as fake:
            assert (await post(fake, path, body)).status_code == 200
            assert fake.ledger.deliveries[0].recipient == "a@b.test"

    run(play())


def test_a_generic_provider_takes_a_form_and_refuses_what_has_no_recipient() -> None:
    async def play() -> None:
        async with provider() as fake:
            async with httpx.AsyncClient(trust_env=False) as client:
                sent = await client.post(fake.url, data={"to": "a@b.test", "subject": "s"})
            assert sent.status_code == 200
            refused = await post(fake, EMAILS, {"subject": "s"})
            assert (refused.status_code, refused.json()["message"]) == (422, "There is no recipient at /to.")
            assert (await get(fake, EMAILS)).status_code == 405
            assert fake.ledger.commits == 1

    run(play())
