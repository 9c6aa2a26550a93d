"""Routes: what each of them does, and with which answers."""

from __future__ import annotations

import httpx
import pytest

from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.emulator.routes import Found, Routes
from sendtwice.fake_provider.messages import Request
from tests.fake_provider.kit import ask, body_for, call, emulator, get, kind, mine, post, provider, run, said

EVENT = {"email": "ana@example.test", "data": {"from": "a@example.test", "subject": "Noted", "text": "t"}}


def find(contract: Contract, request: Request) -> Found:
    return Routes(contract).find(request)


@pytest.mark.parametrize(
    ("method", "path", "name", "number"),
    [
        ("POST", "/emails", "send", None),
        ("POST", "/api/v2/emails/", "send", None),
        ("POST", "/emails/batch", "batch", None),
        ("GET", "/emails/batch", None, None),
        ("GET", "/v1/emails/batch/", None, None),
        ("GET", "/emails/batches", "read", "batches"),
        ("GET", "/emails/a%2Fb", "read", "a/b"),
        ("GET", "/emails", "list", None),
        ("POST", "/v1/broadcasts/42/send", "launch", "42"),
        ("POST", "/events/send", "event", None),
        ("POST", "/broadcasts/42/43/send", None, None),
        ("POST", "/broadcasts//send", None, None),
    ],
)
def test_a_route_is_found_by_its_path(method: str, path: str, name: str | None, number: str | None) -> None:
    found = find(mine(), call(path, method=method))
    assert (found.name, found.id) == (name, number)


def test_of_two_routes_with_one_path_the_query_decides() -> None:
    contract = mine(routes__test={"path": "/emails", "query": {"mode": "test"}, "does": "nothing"})
    assert find(contract, call("/emails?mode=test")).name == "test"
    assert find(contract, call("/emails?mode=live")).name == "send"
    assert find(contract, call("/emails")).name == "send"


def test_of_two_paths_that_fit_the_one_with_more_of_its_steps_as_they_are_is_meant() -> None:
    contract = mine(
        routes__one={"path": "/{x}/emails/{id}", "does": "nothing"},
        routes__other={"path": "/v9/{x}/{id}", "does": "nothing"},
        routes__third={"path": "/v9/{id}/last", "does": "nothing", "method": "PUT"},
        routes__fourth={"path": "/v9/{name}/last", "does": "nothing"},
    )
    routes = Routes(contract)
    found = [routes.find(call(path)) for path in ("/v9/emails/7", "/v8/emails/7", "/v9/7/last")]
    assert [(one.name, one.id) for one in found] == [("other", "7"), ("one", "7"), ("fourth", None)]
    assert routes.find(call("/v9/7/last", method="PUT")).id == "7"
    assert routes.find(call("/v9/7/last", method="GET")).allowed == ("PUT", "POST")


@pytest.mark.parametrize(
    ("path", "allowed"), [("/emails", "POST, GET"), ("/emails/batch", "POST"), ("/emails/7", "GET")]
)
def test_a_method_that_is_not_taken_is_told_which_are(path: str, allowed: str) -> None:
    async def play() -> None:
        async with provider(mine(), edge="client") as fake, httpx.AsyncClient(trust_env=False) as client:
            answer = await client.delete(f"{fake.url}{path}")
            assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
            assert (await client.delete(f"{fake.url}/nowhere")).status_code == 404

    run(play())


def test_mail_is_read_from_the_places_of_its_route_and_a_key_that_is_ignored_guards_nothing() -> None:
    async def play() -> None:
        async with provider(mine(), edge="client") as fake:
            for _ in range(2):
                answer = await post(fake, "/events/send", EVENT, {"Idempotency-Key": "k1"})
                assert answer.status_code == 201
            assert [(d.recipient, d.mail.subject, d.mail.sender) for d in fake.ledger.deliveries] == [
                ("ana@example.test", "Noted", "a@example.test")
            ] * 2

    run(play())


def test_a_route_that_sends_nothing_may_have_a_key_and_records_a_repeat_once() -> None:
    async def play() -> None:
        async with provider(mine(), edge="client") as fake:
            body = {"event": "order.placed", "idempotency_key": "shop-1"}
            first = await post(fake, "/events/store", body)
            again = await post(fake, "/events/store", body)
            other = await post(fake, "/events/store", {**body, "event": "order.paid"})
            assert (first.status_code, again.status_code, other.status_code) == (202, 202, 409)
            assert first.json()["id"] == again.json()["id"]
            # Its key stands in the body, and none in a header.
            elsewhere = await post(fake, "/events/store", {"event": "x"}, {"Idempotency-Key": "shop-1"})
            assert elsewhere.status_code == 202
            assert elsewhere.json()["id"] != first.json()["id"]
            assert (await post(fake, "/ping", {})).status_code == 201
            assert fake.ledger.commits == 0

    run(play())


def test_what_is_done_under_a_key_is_done_once() -> None:
    """A repeat of a resolution is its replay, not a refusal because all is known by now."""

    async def play() -> None:
        contract = mine(routes__ping__key="required", routes__read__key="optional")
        async with emulator(contract) as (engine, _):
            assert kind(await ask(engine, call("/ping", {}, key=None))) is AnswerClass.KEY_MISSING
            first = await ask(engine, call("/ping", {}))
            again = await ask(engine, call("/ping", {}))
            assert [kind(first), kind(again)] == [AnswerClass.ACCEPTED, AnswerClass.REPLAYED]
            assert said(first) == said(again)
            # What is refused leaves no key.
            missing = call("/emails/none", method="GET", key="k2")
            assert [(await ask(engine, missing)).status for _ in range(2)] == [404, 404]
            assert kind(await ask(engine, call(key="k2"))) is AnswerClass.ACCEPTED

    run(play())


def test_a_dry_run_stores_reserves_and_sends_nothing() -> None:
    async def play() -> None:
        contract = mine(dry_run="query:dry_run", key__presence="required", key__max=4)
        async with provider(contract, edge="client") as fake:
            dry = "/emails?dry_run=true"
            key = {"Idempotency-Key": "k1"}
            for headers in (key, key, {}, {"Idempotency-Key": "too long"}):
                assert (await post(fake, dry, body_for("mine"), headers)).status_code == 201
            assert (await post(fake, dry, body_for("mine", subject=""))).status_code == 422
            assert (await get(fake, "/emails")).json() == {"data": []}
            assert fake.ledger.commits == 0
            first = await post(fake, "/emails", body_for("mine"), key)
            assert (first.status_code, fake.ledger.commits) == (201, 1)
            again = await post(fake, "/emails", body_for("mine"), key)
            assert again.json()["id"] == first.json()["id"]
            # Not looked up either: it is not a replay of what the key has sent.
            assert (await post(fake, dry, body_for("mine", text="other"), key)).status_code == 201

    run(play())


@pytest.mark.parametrize(
    ("credential", "status", "code"),
    [("one:unauthorized", 401, None), ("one:rate-limited", 429, "rate_limited"), ("one:over-quota", 402, "quota")],
)
def test_a_credential_asks_for_an_answer(credential: str, status: int, code: str | None) -> None:
    async def play() -> None:
        async with emulator(mine()) as (engine, upstream):
            for request in (call(credential=credential), call("/ping", {}, credential=credential)):
                answer = await ask(engine, request)
                assert (answer.status, said(answer).get("code")) == (status, code)
            # Neither looked at nor stored: the same key is free.
            assert kind(await ask(engine, call())) is AnswerClass.ACCEPTED
            assert len(upstream.taken) == 1

    run(play())


def test_a_persons_route_takes_no_senders_credential() -> None:
    async def play() -> None:
        async with emulator(mine()) as (engine, _):
            number = said(await ask(engine, call("/drafts", body_for("mine"))))["id"]
            own = await ask(engine, call(f"/drafts/{number}/approve", {}))
            assert (own.status, kind(own)) == (403, AnswerClass.UNAUTHORIZED)
            other = await ask(engine, call(f"/drafts/{number}/approve", {}, credential="two:person"))
            assert other.status == 404
            assert (await ask(engine, call(f"/drafts/{number}/approve", {}, credential="one:person"))).status == 201

    run(play())


def test_answers_of_a_route_go_before_those_of_the_contract() -> None:
    async def play() -> None:
        contract = mine(
            routes__event__answers={
                "accepted": {"status": 207, "id": "/run"},
                "refused": {"status": 418, "code": {"at": "/why", "is": "no"}},
            }
        )
        async with emulator(contract) as (engine, _):
            answer = await ask(engine, call("/events/send", EVENT))
            assert (answer.status, list(said(answer))) == (207, ["run"])
            bad = await ask(engine, call("/events/send", {"email": "nobody", "data": {}}))
            assert (bad.status, said(bad)["why"]) == (418, "no")
            fault = engine.begin(call("/events/send", EVENT)).answer("accepted")
            assert fault.status == 207

    run(play())
