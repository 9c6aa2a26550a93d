"""The control API: what tests in other languages see and do."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

import httpx
import jsonschema_rs
import pytest

from sendtwice.fake_provider.provider import FakeProvider
from tests.fake_provider.consumer import consumer
from tests.fake_provider.kit import Scripted, Wire, body_for, get, message, post, provider, run

EMAILS = "/emails"
REQUEST, RESPONSE = {"crossing": "client.request"}, {"crossing": "client.response"}
ANSWER = {"crossing": "client.request", "fault": {"answer": 503}}


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def _waits(fake: FakeProvider) -> None:
    """Let the loop run until a waiter has reached the ledger."""
    while not fake.ledger._waiters:  # the ledger tells nobody who waits for it
        await asyncio.sleep(0)


async def control(fake: FakeProvider, what: str, given: Any = None) -> httpx.Response:
    path = f"/_sendtwice/{what}"
    return await get(fake, path) if given is None else await post(fake, path, given)


def test_deliveries_can_be_narrowed_and_read_from_a_number_on() -> None:
    async def play() -> None:
        async with provider("resend", identify=lambda mail: mail.subject) as fake:
            for number in range(3):
                body = body_for("resend", to=f"{number}@example.test", subject=f"op{number}")
                await post(fake, EMAILS, body, keyed(f"k{number}"))
            for query, numbers in (
                ("", [1, 2, 3]),
                ("?since=1", [2, 3]),
                ("?to=1@example.test", [2]),
                ("?key=k2", [3]),
                ("?operation=op0", [1]),
                ("?key=none", []),
            ):
                shown = (await control(fake, f"deliveries{query}")).json()
                assert [delivery["number"] for delivery in shown["deliveries"]] == numbers
                assert (shown["count"], shown["truncated"]) == (len(numbers), False)

    run(play())


def test_attempts_say_what_each_was_told() -> None:
    async def play() -> None:
        async with provider("resend") as fake:
            for body in (body_for("resend"), body_for("resend"), body_for("resend", subject="")):
                await post(fake, EMAILS, body, keyed("k"))
            await control(fake, "faults", {"crossing": "provider.response", "fault": "lose"})
            with pytest.raises(httpx.TransportError):
                await post(fake, EMAILS, body_for("resend"), keyed("k2"))
            shown = (await control(fake, "attempts")).json()
            assert [attempt["answer"] for attempt in shown["attempts"]] == [
                "accepted",
                "replayed",
                "refused",
                "accepted",
            ]
            assert [attempt["sent"] for attempt in shown["attempts"]] == [True, True, True, False]
            counted = {"attempts": 4, "accepted": 2, "replayed": 1, "refused": 1, "lost": 1, "deliveries": 2}
            assert shown["counts"] == counted

    run(play())


@pytest.mark.parametrize(
    ("query", "met", "count"),
    [
        ("at_least=1&timeout=5", True, 1),
        ("timeout=5", True, 1),
        ("exactly=1&quiet_ms=50&timeout=5", True, 1),
        ("exactly=0&quiet_ms=50&timeout=5", False, 1),
        ("at_least=2&timeout=0.05", False, 1),
        ("at_least=1&to=nobody@example.test&timeout=0.05", False, 0),
        ("at_least=1&key=k&quiet_ms=20&timeout=5", True, 1),
        ("exactly=1&quiet_ms=5000&timeout=0.05", False, 1),
    ],
)
def test_a_wait_says_whether_it_was_met(query: str, met: bool, count: int) -> None:
    async def play() -> None:
        async with provider() as fake:
            await post(fake, EMAILS, body_for("generic"), keyed("k"))
            shown = (await control(fake, f"wait?{query}")).json()
            assert (shown["met"], shown["count"]) == (met, count)

    run(play())


def test_a_wait_ends_with_the_delivery_and_not_with_its_time() -> None:
    async def play() -> None:
        async with provider() as fake:
            begun = time.monotonic()
            waiting = asyncio.create_task(control(fake, "wait?at_least=2&timeout=15"))
            await _waits(fake)
            for _ in range(2):
                await post(fake, EMAILS, body_for("generic"))
            assert (await waiting).json()["met"] is True
            assert time.monotonic() - begun < 5

    run(play())


def test_one_too_many_in_the_quiet_time_is_seen() -> None:
    async def play() -> None:
        async with provider() as fake:
            await post(fake, EMAILS, body_for("generic"))
            waiting = asyncio.create_task(control(fake, "wait?exactly=1&quiet_ms=10000&timeout=15"))
            await _waits(fake)
            await post(fake, EMAILS, body_for("generic"))
            assert (await waiting).json() | {"deliveries": []} == {
                "met": False,
                "deliveries": [],
                "count": 2,
                "truncated": False,
            }

    run(play())


def test_a_fault_is_put_on_the_wire_and_says_when_it_fired() -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            armed = await control(
                fake,
                "faults",
                {"crossing": "client.request", "fault": {"answer": "rate_limited"}, "attempt": 2, "key": "k"},
            )
            assert (armed.status_code, armed.json()["fired"]) == (201, 0)
            seen = [(await post(fake, EMAILS, body_for("resend"), keyed("k"))).status_code for _ in range(3)]
            assert seen == [200, 429, 200]
            (shown,) = (await control(fake, "faults")).json()["faults"]
            assert (shown["met"], shown["fired"]) == (3, 1)

    run(play())


@pytest.mark.parametrize(
    ("retry_after", "shown", "form"),
    [
        (2, ", retry after 2 s", r"2"),
        (0.5, ", retry after 0.5 s", r"0\.5"),
        ({"date": 2}, " s (a date)", r"\w+, .* GMT"),
    ],
)
def test_an_answer_can_ask_its_caller_to_wait(retry_after: Any, shown: str, form: str) -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            given = {"crossing": "client.request", "fault": {"answer": "rate_limited"}, "retry_after": retry_after}
            assert (await control(fake, "faults", given)).json()["fault"].endswith(shown)
            answer = await post(fake, EMAILS, body_for("resend"))
            assert answer.status_code == 429
            assert re.fullmatch(form, answer.headers["retry-after"])
            assert fake.ledger.commits == 0

    run(play())


def test_an_answer_can_send_its_caller_on_and_say_anything_else() -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            fault = {"crossing": "client.response", "fault": {"answer": 308}}
            answers = []
            for more in (
                {"location": "other", "headers": {"X-Cache": "miss"}, "body": {"message": "moved"}},
                {"location": "same", "headers": {"content-type": "text/plain"}, "body": "moved"},
            ):
                await control(fake, "faults", fault | more)
                answers.append(await post(fake, EMAILS, body_for("resend")))
            other, same = answers
            assert (other.status_code, fake.ledger.commits) == (308, 2)
            assert other.headers["location"] == fake.url.replace("127.0.0.1", "localhost") + EMAILS
            assert (other.headers["x-cache"], other.json()) == ("miss", {"message": "moved"})
            assert same.headers["location"] == fake.url + EMAILS
            assert (same.headers["content-type"], same.text) == ("text/plain", "moved")

    run(play())


def test_a_body_that_cannot_be_written_is_refused_before_it_is_needed() -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            wire = await Wire.to(fake)
            await wire.send(message(ANSWER | {"body": "\ud800"}, path="/_sendtwice/faults"))
            status, said = await wire.answer()
            assert (status, b"body must be text that UTF-8 can write" in said) == (422, True)
            wire.close()

    run(play())


@pytest.mark.parametrize(
    ("place", "fault", "status", "commits"),
    [
        ("client.request", {"garble": "empty"}, 200, 0),
        ("client.response", {"garble": "html"}, 200, 1),
        ("client.response", {"drip": 0.02}, 200, 1),
        ("client.response", {"close": "after-answer"}, 200, 1),
        ("client.response", {"lose": "in-chunks"}, None, 1),
    ],
)
def test_every_form_of_an_answer_can_be_asked_for(place: str, fault: Any, status: int | None, commits: int) -> None:
    async def play() -> None:
        async with provider("resend", edge="client") as fake:
            described = (await control(fake, "openapi.json")).json()
            _fits(described, {"crossing": place, "fault": fault}, described["components"]["schemas"]["Fault"])
            assert (await control(fake, "faults", {"crossing": place, "fault": fault})).status_code == 201
            try:
                told: int | None = (await post(fake, EMAILS, body_for("resend"))).status_code
            except httpx.ReadError:
                told = None
            assert (told, fake.ledger.commits) == (status, commits)

    run(play())


def test_a_hold_is_released_by_its_label() -> None:
    async def play() -> None:
        async with provider() as fake:
            await control(
                fake,
                "faults",
                {"crossing": "provider.request", "fault": "hold", "label": "gate", "to": "a@b.test"},
            )
            wire = await Wire.to(fake)
            await wire.send(message(body_for("generic", to="a@b.test")))
            while not (await control(fake, "faults")).json()["faults"][0]["fired"]:
                pass
            assert fake.ledger.commits == 0
            released = await control(fake, "release", {"label": "gate"})
            assert released.json() == {"label": "gate", "released": 1}
            assert (await wire.answer())[0] == 200
            wire.close()

    run(play())


def test_a_fault_before_the_message_does_not_hit_the_control_api() -> None:
    """Else the release of a hold would be held by it."""

    async def play() -> None:
        async with provider() as fake:
            await control(
                fake, "faults", {"crossing": "provider.request", "fault": {"hold": "gate"}, "stage": "headers"}
            )
            assert (await control(fake, "faults")).json()["faults"][0]["met"] == 0
            wire = await Wire.to(fake)
            await wire.send(message())
            while not (await control(fake, "faults")).json()["faults"][0]["fired"]:
                pass
            assert (await control(fake, "release", {"label": "gate"})).json()["released"] == 1
            assert (await wire.answer())[0] == 200
            wire.close()

    run(play())


def test_the_clock_makes_keys_old() -> None:
    async def play() -> None:
        async with provider("resend") as fake:
            before = (await control(fake, "clock")).json()["now"]
            await post(fake, EMAILS, body_for("resend"), keyed("k"))
            after = (await control(fake, "clock", {"advance": 90_000})).json()["now"]
            await post(fake, EMAILS, body_for("resend"), keyed("k"))
            assert after - before >= 90_000
            assert fake.ledger.commits == 2

    run(play())


def test_a_reset_forgets_keys_faults_and_what_was_seen_while_numbers_go_on() -> None:
    async def play() -> None:
        async with provider("resend") as fake:
            await post(fake, EMAILS, body_for("resend"), keyed("k"))
            await control(fake, "faults", {"crossing": "provider.request", "fault": "reset"})
            assert (await control(fake, "reset", {})).json() == {"ok": True, "since": 1}
            assert (await control(fake, "deliveries")).json()["count"] == 0
            assert (await control(fake, "attempts")).json()["count"] == 0
            await post(fake, EMAILS, body_for("resend", text="other"), keyed("k"))
            (delivery,) = (await control(fake, "deliveries")).json()["deliveries"]
            assert delivery["number"] == 2

    run(play())


@pytest.mark.parametrize(
    ("what", "given", "sentence"),
    [
        ("deliveries?since=x", None, "since must be a whole number, not 'x'"),
        ("deliveries?since=-1", None, "since must be a whole number, 0 or more, not '-1'"),
        ("deliveries?form=x", None, "'form' is not a parameter here; known: since, to, key, operation"),
        ("wait?atleast=1", None, "'atleast' is not a parameter here; did you mean 'at_least'?"),
        ("wait?at_least=1&exactly=1", None, "at_least and exactly cannot both be given; keep one"),
        ("wait?timeout=inf", None, "timeout must be a number, 0 or more, not 'inf'"),
        ("faults", {"crossing": "provider.response"}, "fault must be a verb"),
        ("faults", {"crossing": "client.response", "fault": "lose"}, "crossing must be provider.request or"),
        ("faults", {"crossing": "provider.request", "fault": "loose"}, "did you mean 'lose'?"),
        (
            "faults",
            {"crossing": "provider.request", "fault": "twice"},
            "provider.request cannot be hit by twice",
        ),
        ("faults", {"crossing": "provider.request", "fault": "delay"}, "delay takes seconds, not None"),
        ("faults", {"crossing": "provider.request", "fault": {"delay": "2"}}, "delay takes seconds, not '2'"),
        ("faults", {"crossing": "provider.request", "fault": {"delay": 10**400}}, "delay takes seconds"),
        ("faults", {"crossing": "provider.request", "fault": {"answer": 42}}, "answer takes a status"),
        (
            "faults",
            {"crossing": "provider.request", "fault": {"answer": "refuse"}},
            "did you mean 'refused'?",
        ),
        (
            "faults",
            {"crossing": "provider.request", "fault": "reset", "nth": 0},
            "nth must be a whole number",
        ),
        ("faults", {"crossing": "provider.request", "fault": "reset", "key": 1}, "key must be text, not 1"),
        (
            "faults",
            {"crossing": "provider.request", "fault": "reset", "stage": "rcpt"},
            "stage must be connect",
        ),
        (
            "faults",
            {"crossing": "provider.request", "fault": "reset", "stage": "connect", "key": "k"},
            "at stage connect nothing is known of a key yet; leave it out",
        ),
        (
            "faults",
            {"crossing": "provider.request", "fault": {"answer": "refused"}, "stage": "headers"},
            "at stage headers the message is not complete",
        ),
        (
            "faults",
            RESPONSE | {"fault": {"lose": "in-chunk"}},
            "lose takes before-answer, first-byte, in-body or in-chunks",
        ),
        ("faults", REQUEST | {"fault": {"close": "after-answer"}}, "there is no answer at client.request; write close"),
        ("faults", RESPONSE | {"fault": {"close": "after"}}, "close takes nothing, or after-answer"),
        ("faults", RESPONSE | {"fault": "garble"}, "garble takes html, empty, half or gzip, not None"),
        ("faults", RESPONSE | {"fault": {"garble": "xml"}}, "garble takes html, empty, half or gzip, not 'xml'"),
        ("faults", RESPONSE | {"fault": {"drip": -1}}, "drip takes seconds, not -1"),
        ("faults", REQUEST | {"fault": {"drip": 1}}, "client.request cannot be hit by drip"),
        ("faults", REQUEST | {"fault": {"garble": "half"}, "stage": "headers"}, "at stage headers the message is not"),
        (
            "faults",
            REQUEST | {"fault": "reset", "retry_after": 1},
            'retry_after is a part of an answer; write "fault":',
        ),
        ("faults", RESPONSE | {"fault": {"garble": "html"}, "body": ""}, "body is a part of an answer"),
        (
            "faults",
            ANSWER | {"stage": "headers", "headers": {}},
            "at stage headers an answer is a bare status; leave head",
        ),
        ("faults", ANSWER | {"retry_after": 0}, "retry_after must be seconds, more than 0 and at most a day, or"),
        ("faults", ANSWER | {"retry_after": True}, 'or {"date": SECONDS}, not True'),
        ("faults", ANSWER | {"retry_after": "soon"}, "retry_after must be seconds"),
        ("faults", ANSWER | {"retry_after": {"date": 90_000}}, "retry_after must be seconds"),
        ("faults", ANSWER | {"retry_after": {"day": 1}}, "retry_after must be seconds"),
        ("faults", ANSWER | {"location": "https://example.test"}, "location must be same or other (the origin), not"),
        ("faults", ANSWER | {"location": ["same"]}, "location must be same or other"),
        ("faults", ANSWER | {"headers": ["X-A: 1"]}, "headers must be an object of names and texts"),
        ("faults", ANSWER | {"headers": {"X-A": 1}}, "headers must be an object of names and texts"),
        ("faults", ANSWER | {"headers": {"X A": "1"}}, "'X A' is no header name"),
        ("faults", ANSWER | {"headers": {"X-A": "1\r\nX-B: 2"}}, "the header X-A must be one line of Latin-1 text"),
        ("faults", ANSWER | {"headers": {"X-A": "日本"}}, "the header X-A must be one line of Latin-1 text"),
        ("faults", ANSWER | {"headers": {"content-length": "9"}}, "content-length is written by the wire itself"),
        (
            "faults",
            ANSWER | {"retry_after": 1, "headers": {"Retry-After": "2"}},
            "Retry-After is said twice, in headers and as retry_after; keep one",
        ),
        ("faults", ANSWER | {"body": 1}, "body must be text, or an object that is sent as JSON, not 1"),
        (
            "faults",
            {"crossings": "provider.request"},
            "'crossings' is not a field here; did you mean 'crossing'?",
        ),
        ("faults", [], "the body must be a JSON object"),
        ("release", {"label": "gate"}, "there is no hold with label 'gate'; known: none"),
        ("clock", {"advance": -1}, "advance must be a number of seconds, 0 or more, not -1"),
        ("clock", {"advance": True}, "advance must be a number of seconds"),
        ("reset", {"all": True}, "'all' is not a field here; leave it out"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(what: str, given: Any, sentence: str) -> None:
    elsewhere = "must be provider.request" in sentence
    client = isinstance(given, dict) and str(given.get("crossing")).startswith("client.") and not elsewhere

    async def play() -> None:
        async with provider(edge="client" if client else "provider") as fake:
            answer = await control(fake, what, given)
            assert answer.status_code == 422
            error = answer.json()["error"]
            assert sentence in error
            assert "\n" not in error

    run(play())


def test_where_mail_goes_on_the_ledger_is_not_pretended_to_be_empty() -> None:
    async def play() -> None:
        async with provider("resend", upstream=Scripted()) as fake:
            await post(fake, EMAILS, body_for("resend"))
            for what in ("deliveries", "wait"):
                answer = await control(fake, what)
                assert (answer.status_code, "ask its ledger" in answer.json()["error"]) == (422, True)
            assert "deliveries" not in (await control(fake, "attempts")).json()["counts"]

    run(play())


def test_unknown_paths_and_methods_name_what_there_is() -> None:
    async def play() -> None:
        async with provider() as fake:
            unknown = await control(fake, "delivery")
            assert (unknown.status_code, unknown.json()["error"]) == (
                404,
                "/_sendtwice/delivery does not exist; did you mean 'deliveries'?",
            )
            method = await control(fake, "deliveries", {})
            assert (method.status_code, method.headers["allow"]) == (405, "GET")
            assert (await get(fake, "/healthz")).json()["ok"] is True
            assert (await control(fake, "health")).json() == {
                "ok": True,
                "contract": "generic",
                "edge": "provider",
            }

    run(play())


def test_the_description_is_sound_and_true() -> None:
    """Every path of it exists, every reference leads somewhere, and real answers fit their schemas."""

    async def play() -> None:
        async with provider("resend") as fake:
            document = (await control(fake, "openapi.json")).json()
            assert document["openapi"].startswith("3.1")
            for reference in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document)):
                place = document
                for step in reference.split("/"):
                    place = place[step]
            told = {f"/{name}": set(methods) for name, methods in fake.control._routes.items()}
            described = {path: {m.upper() for m in methods} for path, methods in document["paths"].items()}
            assert described == told
            identifiers = [op["operationId"] for item in document["paths"].values() for op in item.values()]
            assert len(identifiers) == len(set(identifiers))

            await post(fake, EMAILS, body_for("resend"), keyed("k"))
            hold = {"crossing": "provider.request", "fault": {"hold": "gate"}, "key": "other"}
            _fits(document, hold, document["components"]["schemas"]["Fault"])
            for method, path, given, status in (
                ("get", "/deliveries", None, 200),
                ("get", "/attempts", None, 200),
                ("get", "/wait", None, 200),
                ("get", "/faults", None, 200),
                ("post", "/faults", hold, 201),
                ("get", "/faults", None, 200),
                ("post", "/faults", {}, 422),
                ("post", "/release", {"label": "gate"}, 200),
                ("get", "/clock", None, 200),
                ("post", "/clock", {"advance": 1}, 200),
                ("post", "/reset", {}, 200),
                ("get", "/health", None, 200),
                ("get", "/contract/openapi.json", None, 200),
                ("get", "/webhooks", None, 422),
                ("post", "/webhooks/redrive", {"all": "dead"}, 422),
                ("post", "/webhooks/redeliver", {"event_id": "evt_1"}, 422),
            ):
                answer = await control(fake, path[1:], given)
                assert answer.status_code == status, (path, answer.text)
                response = document["paths"][path][method]["responses"][str(status)]
                if "$ref" in response:
                    response = document["components"]["responses"]["Bad"]
                _fits(document, answer.json(), response["content"]["application/json"]["schema"])

    run(play())


async def happened(fake: FakeProvider) -> str:
    """Let something happen, and return the id of its event."""
    await post(fake, EMAILS, body_for("generic"))
    return str((await control(fake, "webhooks")).json()["events"][-1]["event_id"])


def test_events_are_listed_with_what_became_of_each() -> None:
    async def play() -> None:
        async with consumer(500) as to, provider(webhook_url=to.url, webhook_schedule=()) as fake:
            dead = await happened(fake)
            assert (await control(fake, "webhooks?settle=10")).json()["settled"] is True
            delivered = await happened(fake)
            shown = (await control(fake, "webhooks?settle=10")).json()
            document = (await control(fake, "openapi.json")).json()
            _fits(document, shown, document["components"]["schemas"]["Webhooks"])
            assert [(e["event_id"], e["state"], e["attempts"], e["last"]["status"]) for e in shown["events"]] == [
                (dead, "dead", 1, 500),
                (delivered, "delivered", 1, 204),
            ]
            for query, ids in (
                ("since=1", [delivered]),
                ("state=dead", [dead]),
                ("type=message.sent", [dead, delivered]),
                ("type=message.failed", []),
                (f"event_id={dead}", [dead]),
                ("state=pending", []),
            ):
                found = (await control(fake, f"webhooks?{query}")).json()
                assert [event["event_id"] for event in found["events"]] == ids

    run(play())


def test_an_event_is_redriven_when_it_is_dead_and_redelivered_when_it_is_not() -> None:
    async def play() -> None:
        async with consumer(500, 500) as to, provider(webhook_url=to.url, webhook_schedule=()) as fake:
            ids = [await happened(fake), await happened(fake)]
            await control(fake, "webhooks?settle=10")
            again = await control(fake, "webhooks/redrive", {"event_id": ids[0]})
            assert (again.status_code, [e["state"] for e in again.json()["events"]]) == (200, ["pending"])
            await control(fake, "webhooks?settle=10")
            rest = (await control(fake, "webhooks/redrive", {"all": "dead"})).json()
            assert [event["event_id"] for event in rest["events"]] == [ids[1]]
            await control(fake, "webhooks?settle=10")
            assert (await control(fake, "webhooks/redeliver", {"event_id": ids[0]})).status_code == 200
            await control(fake, "webhooks?settle=10")
            assert [got.id for got in to.got].count(ids[0]) == 3
            assert (await control(fake, "webhooks/redrive", {"all": "dead"})).json() == {"events": [], "count": 0}

    run(play())


def test_the_wire_of_events_takes_faults_as_the_others_do() -> None:
    async def play() -> None:
        async with consumer() as to, provider(webhook_url=to.url, webhook_schedule=(0.0,)) as fake:
            armed = await control(fake, "faults", {"crossing": "webhook.response", "fault": "lose"})
            assert armed.status_code == 201
            number = await happened(fake)
            await control(fake, "webhooks?settle=10")
            assert [got.id for got in to.got] == [number, number]
            (shown,) = (await control(fake, "faults")).json()["faults"]
            assert shown["fired"] == 1

    run(play())


def test_the_clock_makes_events_due_and_a_reset_forgets_them() -> None:
    async def play() -> None:
        async with consumer(500, 500) as to, provider(webhook_url=to.url, webhook_schedule=(3600.0, 3600.0)) as fake:
            assert fake.outbox is not None
            await happened(fake)
            await to.until(lambda: len(to.got) == 1)
            assert await fake.outbox.wait(lambda: fake.outbox.due(fake.outbox.events()[0]) is not None, timeout=10)  # type: ignore[union-attr]
            await control(fake, "clock", {"advance": 3600})
            await to.until(lambda: len(to.got) == 2)
            await control(fake, "reset", {})
            await control(fake, "clock", {"advance": 3600})
            number = await happened(fake)
            await to.until(lambda: len(to.got) == 3)
            assert to.got[2].id == number

    run(play())


@pytest.mark.parametrize(
    ("what", "given", "sentence"),
    [
        ("webhooks?state=lost", None, "state must be pending, delivered, dead, not 'lost'"),
        ("webhooks?settle=soon", None, "settle must be a number, not 'soon'"),
        ("webhooks/redrive", {}, 'say which: {"event_id": "..."}, or {"all": "dead"}'),
        ("webhooks/redrive", {"all": "dead", "event_id": "e"}, "say which"),
        ("webhooks/redrive", {"all": "pending"}, "all must be \"dead\", not 'pending'"),
        ("webhooks/redrive", {"event_id": "evt_1"}, "there is no event 'evt_1'; GET webhooks lists them"),
        ("webhooks/redeliver", {}, "say which"),
        ("webhooks/redeliver", {"event_id": 1}, "event_id must be text, not 1"),
        ("faults", {"crossing": "webhook.response", "fault": "reset"}, "webhook.response cannot be hit by reset"),
        ("faults", {"crossing": "webhook.response", "fault": {"answer": "conflict"}}, "answers with a status"),
        ("faults", {"crossing": "webhook.request", "fault": "lose", "stage": "connect"}, "has no stages"),
        ("faults", {"crossing": "webhook.request", "fault": {"lose": "in-body"}}, "is lost as a whole"),
    ],
)
def test_a_mistake_about_events_is_answered_with_one_sentence(what: str, given: Any, sentence: str) -> None:
    async def play() -> None:
        async with consumer() as to, provider(webhook_url=to.url) as fake:
            answer = await control(fake, what, given)
            assert (answer.status_code, sentence in answer.json()["error"]) == (422, True), answer.text

    run(play())


def test_events_that_go_nowhere_are_said_to() -> None:
    async def play() -> None:
        async with provider() as fake:
            for what, given in (
                ("webhooks", None),
                ("webhooks/redrive", {"all": "dead"}),
                ("webhooks/redeliver", {"event_id": "e"}),
                ("faults", {"crossing": "webhook.request", "fault": "lose"}),
            ):
                answer = await control(fake, what, given)
                assert (answer.status_code, "--webhook-url" in answer.json()["error"]) == (422, True)

    run(play())


def _fits(document: dict[str, Any], value: Any, schema: dict[str, Any]) -> None:
    jsonschema_rs.validate({"components": document["components"], **schema}, value)
