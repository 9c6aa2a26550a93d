"""Batches: one key or many, whole or in part."""

from __future__ import annotations

from typing import Any

import pytest

from sendtwice.fake_provider.contracts import AnswerClass
from tests.fake_provider.kit import Scripted, ask, body_for, call, emulator, kind, mine, run, said

A = AnswerClass


def mails(*recipients: str) -> list[dict[str, Any]]:
    return [body_for("mine", to=to) for to in recipients]


@pytest.mark.parametrize("path", ["/emails/batch", "/bundles"])
def test_mails_stand_in_the_body_or_where_the_route_has_them(path: str) -> None:
    async def play() -> None:
        items = mails("a@example.test", "b@example.test")
        body = {"mails": items} if path == "/bundles" else items
        async with emulator(mine(batch={})) as (engine, upstream):
            first, again = [await ask(engine, call(path, body)) for _ in range(2)]
            assert len({one["id"] for one in said(first)["data"]}) == 2
            assert (kind(again), said(again)["data"]) == (A.REPLAYED, said(first)["data"])
            assert [mail.recipients for mail in upstream.taken] == [("a@example.test",), ("b@example.test",)]
            assert b"b@example" not in upstream.taken[0].raw

    run(play())


def test_a_batch_has_a_greatest_size() -> None:
    async def play() -> None:
        async with emulator(mine(batch={"max": 2})) as (engine, upstream):
            many = await ask(engine, call("/emails/batch", mails("a@x.test", "b@x.test", "c@x.test")))
            assert (kind(many), "at most 2" in said(many)["message"]) == (A.REFUSED, True)
            assert kind(await ask(engine, call("/emails/batch", []))) is A.REFUSED
            assert kind(await ask(engine, call("/emails/batch", mails("a@x.test", "b@x.test")))) is A.ACCEPTED
            assert len(upstream.taken) == 2

    run(play())


@pytest.mark.parametrize("partial", [None, "refuse-all", "accept-rest"])
def test_one_bad_mail_refuses_all_or_itself(partial: str | None) -> None:
    async def play() -> None:
        body = mails("a@example.test", "nobody", "b@example.test")
        async with emulator(mine(batch={"partial": partial} if partial else {})) as (engine, upstream):
            first, again = [await ask(engine, call("/emails/batch", body)) for _ in range(2)]
            if partial != "accept-rest":
                assert [kind(first), kind(again)] == [A.REFUSED, A.REFUSED]
                assert not upstream.taken
                return
            assert [kind(first), kind(again)] == [A.ACCEPTED, A.REPLAYED]
            assert said(first)["errors"] == [{"index": 1, "message": "'nobody' is not an address."}]
            assert said(again) == said(first)
            assert len(said(first)["data"]) == len(upstream.taken) == 2
            assert kind(await ask(engine, call("/emails/batch", mails("nobody"), key="k2"))) is A.REFUSED

    run(play())


def test_each_mail_may_have_a_key_of_its_own() -> None:
    async def play() -> None:
        contract = mine(batch={"key": "item", "partial": "accept-rest"}, key={"at": "body:/id", "presence": "required"})
        a, b, c = (
            {**mail, "id": mail["to"][0]} for mail in mails("a@example.test", "b@example.test", "c@example.test")
        )
        async with emulator(contract) as (engine, upstream):
            first = await ask(engine, call("/emails/batch", [a, b]))
            again = await ask(engine, call("/emails/batch", [b, {**a, "text": "other"}, c]))
            ids = [one["id"] for one in said(first)["data"]]
            told = said(again)["data"]
            assert (told[0]["id"], "id" in told[1]) == (ids[1], False)
            assert [mail.recipients[0][0] for mail in upstream.taken] == ["a", "b", "c"]
            assert [mail.key for mail in upstream.taken] == ["a@example.test", "b@example.test", "c@example.test"]
            # The same keys are those of single mails.
            assert kind(await ask(engine, call(body=a))) is A.REPLAYED
            missing = await ask(engine, call("/emails/batch", [{**a, "id": None}]))
            assert kind(missing) is A.KEY_MISSING

    run(play())


def test_keys_of_single_mails_are_made_from_the_batchs_where_it_stands_in_a_header() -> None:
    async def play() -> None:
        contract = mine(batch={"key": "item"})
        async with emulator(contract, Scripted(script=["sent", "busy"])) as (engine, upstream):
            body = mails("a@example.test", "b@example.test")
            first = said(await ask(engine, call("/emails/batch", body)))["data"]
            assert ("id" in first[0], "id" in first[1]) == (True, False)
            again = said(await ask(engine, call("/emails/batch", body)))["data"]
            assert again[0]["id"] == first[0]["id"]
            assert [mail.recipients[0][0] for mail in upstream.taken] == ["a", "b"]

    run(play())


def test_a_batch_of_keyed_mails_is_refused_as_a_whole_for_what_concerns_it_as_a_whole() -> None:
    async def play() -> None:
        async with emulator(mine(batch={"key": "item"})) as (engine, upstream):
            body = mails("a@example.test", "nobody")
            assert kind(await ask(engine, call("/emails/batch", body))) is A.REFUSED
            refused = await ask(engine, call("/emails/batch", mails("a@example.test"), credential="one:unauthorized"))
            assert kind(refused) is A.UNAUTHORIZED
            assert not upstream.keys

    run(play())
