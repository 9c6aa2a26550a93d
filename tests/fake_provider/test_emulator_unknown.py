"""Unknown outcomes: a person or a provider's event says what became of a mail, and nobody guesses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.emulator.engine import Emulator
from sendtwice.fake_provider.messages import Request
from tests.fake_provider.kit import Scripted, ask, body_for, call, emulator, get, kind, mine, post, provider, run, said

A = AnswerClass


def resolve(number: str, outcome: Any, **more: Any) -> Request:
    return call(f"/emails/{number}/resolve", {"outcome": outcome}, key=None, **more)


def event(kind_: str = "email.delivered", **changes: Any) -> Request:
    data = {"from": "shop@example.test", "to": ["ana@example.test"], "subject": "Receipt", **changes}
    return call("/hooks/provider", {"type": kind_, "data": data}, key=None, credential="provider")


async def only(engine: Emulator, key: str | None = None) -> dict[str, Any]:
    """The only message that the account has, or has under a key."""
    query = f"?key={key}" if key else ""
    listed = said(await ask(engine, call(f"/emails{query}", method="GET", key=None)))["data"]
    assert len(listed) == 1
    found: dict[str, Any] = listed[0]
    return found


# --- Resolved by a person --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["kept", "stored"])
def test_a_person_says_that_it_was_sent(policy: str) -> None:
    async def play() -> None:
        async with emulator(mine(outcomes__unknown=policy), Scripted(script=["unknown"])) as (engine, upstream):
            assert kind(await ask(engine, call())) is A.UNKNOWN
            number = (await only(engine))["id"]
            answer = await ask(engine, resolve(number, "sent"))
            assert (answer.status, said(answer)["status"]) == (201, "sent")
            replay = await ask(engine, call())
            assert (kind(replay), said(replay)["id"]) == (A.REPLAYED, number)
            assert kind(await ask(engine, resolve(number, "not_sent"))) is A.REFUSED
            assert len(upstream.keys) == 1

    run(play())


@pytest.mark.parametrize("delivery", ["inline", "queued"])
def test_a_person_says_that_it_was_not_sent_and_a_new_send_needs_a_new_key(delivery: str) -> None:
    async def play() -> None:
        contract = mine(delivery=delivery, lookup={"words": {"refused": "failed"}})
        async with emulator(contract, Scripted(script=["lost"])) as (engine, upstream):
            await ask(engine, call())
            await engine.settled()
            number = (await only(engine))["id"]
            answer = said(await ask(engine, resolve(number, "not_sent")))
            assert (answer["status"], answer["code"]) == ("failed", "resolved_not_sent")
            repeats = [await ask(engine, call()) for _ in range(2)]
            assert [kind(repeat) for repeat in repeats] == [A.FAILED, A.FAILED]
            assert said(repeats[0])["code"] == "resolved_not_sent"
            assert not upstream.taken
            assert kind(await ask(engine, call(key="k2"))) is A.ACCEPTED
            await engine.settled()
            assert len(upstream.taken) == 1

    run(play())


def test_a_code_of_the_contracts_own_stays_beside_the_reason() -> None:
    async def play() -> None:
        failed = {"status": 503, "code": {"at": "/name", "is": "unavailable"}}
        async with emulator(mine(answers__failed=failed), Scripted(script=["lost"])) as (engine, _):
            await ask(engine, call())
            await ask(engine, resolve((await only(engine))["id"], "not_sent"))
            repeat = said(await ask(engine, call()))
            assert (repeat["name"], "resolved_not_sent" in repeat.values()) == ("unavailable", True)

    run(play())


@pytest.mark.parametrize("outcome", ["perhaps", None, 1, ["sent"]])
def test_only_what_is_an_outcome_is_taken(outcome: Any) -> None:
    async def play() -> None:
        async with emulator(mine(), Scripted(script=["unknown"])) as (engine, _):
            await ask(engine, call())
            number = (await only(engine))["id"]
            assert kind(await ask(engine, resolve(number, outcome))) is A.REFUSED
            assert kind(await ask(engine, call())) is A.IN_PROGRESS

    run(play())


def test_only_an_unknown_message_of_the_same_account_is_resolved() -> None:
    async def play() -> None:
        async with emulator(mine(), Scripted(script=["sent", "unknown"])) as (engine, _):
            known = said(await ask(engine, call()))["id"]
            assert kind(await ask(engine, resolve(known, "sent"))) is A.REFUSED
            assert (await ask(engine, resolve("none", "sent"))).status == 404
            await ask(engine, call(key="k2"))
            number = (await only(engine, "k2"))["id"]
            assert (await ask(engine, resolve(number, "sent", credential="two"))).status == 404

    run(play())


def test_a_resolution_may_be_a_persons_alone() -> None:
    async def play() -> None:
        async with emulator(mine(routes__resolve__asks="person"), Scripted(script=["unknown"])) as (engine, _):
            await ask(engine, call())
            number = (await only(engine))["id"]
            assert kind(await ask(engine, resolve(number, "sent"))) is A.UNAUTHORIZED
            assert kind(await ask(engine, resolve(number, "sent", credential="one:person"))) is A.ACCEPTED

    run(play())


def test_a_batch_is_known_when_all_of_its_mails_are() -> None:
    async def play() -> None:
        async with emulator(mine(batch={}), Scripted(script=["unknown", "unknown", "refused"])) as (engine, _):
            batch = call("/emails/batch", [body_for("mine", to=f"{n}@example.test") for n in range(3)])
            await ask(engine, batch)
            listed = said(await ask(engine, call(method="GET", key=None)))["data"]
            unknown = [one["id"] for one in listed if one["status"] == "unknown"]
            await ask(engine, resolve(unknown[0], "not_sent"))
            assert kind(await ask(engine, batch)) is A.IN_PROGRESS
            await ask(engine, resolve(unknown[1], "sent"))
            assert kind(await ask(engine, batch)) is A.REPLAYED

    run(play())


# --- Reconciled by an event ------------------------------------------------------------------------------


def test_an_event_tells_what_became_of_a_mail_and_later_answers_show_it() -> None:
    async def play() -> None:
        contract = mine(reconciliation={"within": 1800, "marker": {"at": "/reconciled", "is": True}})
        async with emulator(contract, Scripted(script=["unknown"])) as (engine, upstream):
            await ask(engine, call())
            number = (await only(engine))["id"]
            assert said(await ask(engine, event())) == {"received": True, "matched": number}
            replay = await ask(engine, call())
            assert (kind(replay), said(replay)["id"], said(replay)["reconciled"]) == (A.REPLAYED, number, True)
            shown = said(await ask(engine, call(f"/emails/{number}", method="GET", key=None)))
            assert (shown["status"], shown["reconciled"]) == ("sent", True)
            assert said(await ask(engine, event()))["matched"] is None
            assert len(upstream.keys) == 1

    run(play())


@pytest.mark.parametrize(
    ("claims", "kind_", "changes", "matched"),
    [
        ({}, "email.sent", {}, True),
        ({}, "email.bounced", {}, True),
        ({}, "email.delivered", {"from": "Shop <SHOP@example.test>"}, True),
        ({}, "email.delivered", {"to": "Ana <ana@example.test>"}, True),
        ({}, "email.delivered", {"from": "other@example.test"}, False),
        ({}, "email.delivered", {"to": ["eve@example.test"]}, False),
        ({}, "email.delivered", {"to": []}, False),
        ({}, "email.delivered", {"subject": "receipt"}, False),
        ({}, "contact.created", {}, False),
        ({"by": ["sender", "recipient"]}, "email.delivered", {"subject": "other"}, True),
        ({"by": ["message-id"]}, "email.delivered", {}, False),
        ({"by": ["message-id"]}, "email.delivered", {"message_id": "none"}, False),
    ],
)
def test_an_event_is_matched_by_what_the_contract_names(
    claims: dict[str, Any], kind_: str, changes: dict[str, Any], matched: bool
) -> None:
    async def play() -> None:
        async with emulator(mine(reconciliation={"within": 1800, **claims}), Scripted(script=["lost"])) as (engine, _):
            await ask(engine, call())
            found = said(await ask(engine, event(kind_, **changes)))["matched"]
            assert (found is not None) == matched
            assert kind(await ask(engine, call())) is (A.REPLAYED if matched else A.IN_PROGRESS)

    run(play())


def test_a_message_is_known_by_the_id_that_the_provider_was_given() -> None:
    async def play() -> None:
        contract = mine(reconciliation={"within": 1800, "by": ["message-id"]})
        async with emulator(contract, Scripted(script=["lost", "lost"])) as (engine, upstream):
            await ask(engine, call())
            await ask(engine, call(key="k2"))
            assert said(await ask(engine, event(message_id=upstream.keys[1])))["matched"] == upstream.keys[1]
            kinds = [kind(await ask(engine, call(key=key))) for key in ("k1", "k2")]
            assert kinds == [A.IN_PROGRESS, A.REPLAYED]

    run(play())


def test_an_id_that_cannot_be_compared_leaves_the_rest_to_decide() -> None:
    async def play() -> None:
        contract = mine(reconciliation={"by": ["message-id", "sender", "recipient", "subject"]})
        for changes, matched in (({"message_id": "p1"}, True), ({"message_id": "p1", "subject": "other"}, False)):
            async with emulator(contract, Scripted(script=["lost"])) as (engine, _):
                await ask(engine, call())
                assert (said(await ask(engine, event(**changes)))["matched"] is not None) == matched

    run(play())


def test_an_event_that_fits_two_messages_is_taken_for_none() -> None:
    async def play() -> None:
        async with emulator(mine(), Scripted(script=["unknown", "lost"])) as (engine, upstream):
            for key in ("k1", "k2"):
                await ask(engine, call(key=key))
            assert said(await ask(engine, event()))["matched"] is None
            for key in ("k1", "k2"):
                assert kind(await ask(engine, call(key=key))) is A.IN_PROGRESS
            assert len(upstream.keys) == 2

    run(play())


def test_an_event_of_a_message_that_is_known_is_no_other_ones() -> None:
    async def play() -> None:
        async with emulator(mine(), Scripted(script=["lost", "sent"])) as (engine, upstream):
            for key in ("k1", "k2"):
                await ask(engine, call(key=key))
            assert said(await ask(engine, event(message_id=upstream.keys[1])))["matched"] is None
            assert kind(await ask(engine, call())) is A.IN_PROGRESS

    run(play())


@pytest.mark.parametrize(("age", "matched"), [(1799, True), (1801, False)])
def test_an_event_comes_in_time_or_too_late(age: float, matched: bool) -> None:
    async def play() -> None:
        clock = Clock()
        contract = mine(reconciliation=1800)
        async with emulator(contract, Scripted(script=["unknown"]), clock=clock) as (engine, _):
            await ask(engine, call())
            clock.advance(age)
            assert (said(await ask(engine, event()))["matched"] is not None) == matched
            assert kind(await ask(engine, call())) is (A.REPLAYED if matched else A.IN_PROGRESS)

    run(play())


def test_an_event_that_says_it_failed_is_a_refusal() -> None:
    async def play() -> None:
        async with emulator(mine(), Scripted(script=["lost"])) as (engine, upstream):
            await ask(engine, call())
            assert said(await ask(engine, event("email.failed")))["matched"] is not None
            assert kind(await ask(engine, call())) is A.REFUSED
            assert not upstream.taken

    run(play())


@pytest.mark.parametrize("script", ["unknown", "sent"])
def test_an_event_that_comes_before_the_providers_answer_is_not_lost(script: str) -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event(), script=[script])
        async with emulator(mine(), upstream) as (engine, _):
            first = asyncio.create_task(ask(engine, call()))
            await upstream.reached.wait()
            assert said(await ask(engine, event()))["matched"] is not None
            assert upstream.gate is not None
            upstream.gate.set()
            assert kind(await first) is A.ACCEPTED
            assert kind(await ask(engine, call())) is A.REPLAYED
            assert len(upstream.taken) == 1

    run(play())


def test_a_queue_shows_an_uncertain_message_and_its_reconciliation() -> None:
    """Pylota: the first answer is replayed all the time, the state of the message changes."""

    async def play() -> None:
        async with emulator("pylota", Scripted(script=["lost"])) as (engine, _):
            first = said(await ask(engine, call("/messages")))
            await engine.settled()
            shown = call(f"/messages/{first['id']}", method="GET", key=None)
            assert said(await ask(engine, shown))["status"] == "uncertain"
            replay = await ask(engine, call("/messages"))
            assert (kind(replay), said(replay)["id"]) == (A.REPLAYED, first["id"])
            data = {"from": "shop@example.test", "to": ["ana@example.test"], "subject": "Receipt"}
            told = call("/hooks/ses", {"type": "email.delivered", "data": data}, key=None)
            assert said(await ask(engine, told))["matched"] == first["id"]
            now = said(await ask(engine, shown))
            assert (now["status"], now["reconciled"]) == ("sent", True)
            assert said(await ask(engine, call("/messages")))["reconciled"] is True

    run(play())


def test_postfleet_keeps_an_operation_in_progress_until_it_is_reconciled() -> None:
    async def play() -> None:
        async with emulator("postfleet", Scripted(script=["unknown"])) as (engine, upstream):
            body = body_for("postfleet", key="k1")
            request = call("/api/v1/send", body, key=None)
            assert [(await ask(engine, request)).status for _ in range(3)] == [502, 409, 409]
            data = {
                "from": body["mailbox_id"],
                "to": [body["to"]],
                "subject": body["subject"],
                "message_id": upstream.keys[0],
            }
            told = call("/hooks/provider", {"type": "email.delivered", "data": data}, key=None)
            assert said(await ask(engine, told))["matched"] == upstream.keys[0]
            assert (await ask(engine, request)).status == 200
            assert len(upstream.keys) == 1

    run(play())


def test_it_works_over_the_wire() -> None:
    async def play() -> None:
        async with provider(
            mine(lookup={"words": {"sent": "gone"}}), edge="client", upstream=Scripted(script=["lost"])
        ) as fake:
            answer = await post(fake, "/emails", body_for("mine"), {"Idempotency-Key": "k1"})
            assert answer.status_code == 504
            number = (await get(fake, "/emails?key=k1")).json()["data"][0]["id"]
            assert (await post(fake, f"/emails/{number}/resolve", {"outcome": "sent"})).status_code == 201
            shown = (await get(fake, f"/emails/{number}")).json()
            assert (shown["status"], shown["to"], shown["subject"]) == ("gone", ["ana@example.test"], "Receipt")
            assert (await get(fake, "/emails/none")).status_code == 404
            again = await post(fake, "/emails", body_for("mine"), {"Idempotency-Key": "k1"})
            assert (again.status_code, again.json()["id"]) == (200, number)

    run(play())
