"""Sends into a ledger of our own, which need nobody to wait for: what is written of them, and when."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.emulator.records import Claim, State, new_messages
from sendtwice.fake_provider.emulator.store import Store
from sendtwice.fake_provider.ledger import Delivery
from sendtwice.fake_provider.provider import FakeProvider
from tests.fake_provider.kit import ask, body_for, call, get, kind, mine, post, provider, request_for, run, said

A = AnswerClass


def test_the_key_the_mail_and_the_answer_are_on_disk_before_the_mail_is_delivered(tmp_path: Path) -> None:
    async def play() -> None:
        async with provider(mine(), edge="client", state=tmp_path / "state.db") as fake:
            store, seen = fake.emulator.store, []

            def look(_: Delivery) -> None:
                (message,) = store.of_account("one")
                entry = store.entry(message.entry or 0)
                assert entry is not None
                assert entry.response is not None
                seen.append((message.state, entry.answer, store._db.in_transaction))

            fake.ledger.subscribe(look)
            first = await ask(fake.emulator, call())
            assert seen == [(State.SENT, A.ACCEPTED, False)]
            again = await ask(fake.emulator, call())
            assert [kind(first), kind(again)] == [A.ACCEPTED, A.REPLAYED]
            assert said(first)["id"] == said(again)["id"]
            assert [event.type for event in store.events_after(0)] == ["message.sent"]

    run(play())


def test_what_cannot_be_stored_is_not_delivered(tmp_path: Path) -> None:
    async def play() -> None:
        async with provider(mine(), edge="client", state=tmp_path / "state.db") as fake:
            fake.emulator.store._db.execute("DROP TABLE message")
            for request in (call(), call(key=None)):
                assert kind(await ask(fake.emulator, request)) is A.FAILED
            assert fake.ledger.commits == 0
            assert fake.emulator.store.find('{"tenant": "one"}', "k1") is None

    run(play())


def test_twenty_at_once_under_one_key_are_one_mail_and_nineteen_replays() -> None:
    async def play() -> None:
        async with provider("resend") as fake:
            answers = await asyncio.gather(
                *(post(fake, "/emails", body_for("resend"), {"Idempotency-Key": "k1"}) for _ in range(20))
            )
            assert {answer.status_code for answer in answers} == {200}
            assert len({answer.json()["id"] for answer in answers}) == 1
            assert fake.ledger.commits == 1

    run(play())


@pytest.mark.parametrize(
    ("start", "replayed"), [("first-receipt", True), ("completion", True), ("first-success", True)]
)
def test_retention_counts_from_a_success_that_comes_at_once(start: str, replayed: bool) -> None:
    async def play() -> None:
        clock = Clock()
        contract = mine(retention={"at_least": 100, "at_most": 100, "from": start})
        async with provider(contract, edge="client", clock=clock) as fake:
            first = await ask(fake.emulator, call())
            clock.advance(90)
            assert (kind(await ask(fake.emulator, call())) is A.REPLAYED) is replayed
            clock.advance(20)
            again = await ask(fake.emulator, call())
            assert kind(again) is A.ACCEPTED
            assert said(again)["id"] != said(first)["id"]

    run(play())


@pytest.mark.parametrize(
    ("settings", "rows"), [({}, 0), ({"state": "file"}, 1), ({"webhook_url": "http://127.0.0.1:1/"}, 1)]
)
def test_a_mail_that_nobody_can_ask_for_leaves_nothing_behind_but_itself(
    settings: dict[str, Any], rows: int, tmp_path: Path
) -> None:
    async def play() -> None:
        if "state" in settings:
            settings["state"] = tmp_path / "state.db"
        fake = FakeProvider("generic", **settings)
        for _ in range(2):
            await ask(fake.emulator, request_for("generic", key=None))
        store = fake.emulator.store
        assert len(store.of_account("one")) == 2 * rows
        assert len(store.events_after(0)) == 2 * rows
        assert fake.ledger.commits == 2
        await fake.emulator.stop()

    run(play())


def test_a_mail_without_a_key_can_be_read_where_the_contract_has_a_route_for_that() -> None:
    async def play() -> None:
        async with provider(mine(), edge="client") as fake:
            number = (await post(fake, "/emails", body_for("mine"))).json()["id"]
            shown = (await get(fake, f"/emails/{number}")).json()
            assert (shown["status"], shown["subject"], shown["to"]) == ("sent", "Receipt", ["ana@example.test"])

    run(play())


def test_a_number_never_means_two_entries() -> None:
    """A job that still runs for the first of them would write into the second."""
    store = Store()
    numbers = []
    for _ in range(3):
        claimed = store.claim(Claim("s", "k", "f"), new_messages((), now=1.0), now=1.0)
        assert isinstance(claimed, int)
        assert not isinstance(store.claim(Claim("s", "k", "f"), (), now=1.0), int)
        numbers.append(claimed)
        store.free(claimed)
    assert len(set(numbers)) == 3
    store.close()
