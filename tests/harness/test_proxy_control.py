"""The control API of a proxy: what tests in other languages see and do."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import jsonschema_rs
import pytest

from sendtwice.harness.edges.proxy import Proxy
from tests.fake_provider.kit import run
from tests.harness.proxies import ANSWER, Api, ask, control, proxy, request_of, to

LOSE = {"crossing": "client.response", "fault": "lose"}


def test_attempts_say_what_crossed_and_what_was_done_to_it() -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            await control(standing, "faults", {"crossing": "client.response", "fault": {"answer": 504}, "key": "b"})
            for key, target in (("a", "/emails?token=secret"), ("b", "/emails"), (None, "/healthz")):
                await ask(standing, request_of(target=target, key=key))
            shown = (await control(standing, "attempts")).json()
            assert (shown["count"], shown["counts"]) == (3, {"attempts": 3, "forwarded": 3, "lost": 0})
            told = [
                (a["path"], a["key"], a["status"], a["faults"], a["forwarded"][0]["status"]) for a in shown["attempts"]
            ]
            assert told == [
                ("/emails", "a", 200, [], 200),
                ("/emails", "b", 504, ["client.response: answer 504"], 200),
                ("/healthz", None, 200, [], 200),
            ]
            for query, numbers in (("?since=1", [2, 3]), ("?key=b", [2]), ("?key=none", [])):
                found = (await control(standing, f"attempts{query}")).json()["attempts"]
                assert [attempt["number"] for attempt in found] == numbers

    run(play())


def test_a_wait_for_a_fault_ends_when_it_fires_and_a_release_lets_go() -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            hold = {"crossing": "client.request", "fault": {"hold": "gate"}, "key": "k"}
            assert (await control(standing, "faults", hold)).status_code == 201
            waiting = asyncio.create_task(control(standing, "wait?label=gate&timeout=15"))
            while not standing.log._waiters:
                await asyncio.sleep(0)
            caller = await to(standing)
            await caller.send(request_of(key="k"))
            reached = (await waiting).json()
            assert (reached["met"], reached["fired"], [one["key"] for one in reached["attempts"]]) == (True, 1, ["k"])
            assert (reached["attempts"][0]["over"], api.requests) == (False, [])
            assert (await control(standing, "release", {"label": "gate"})).json() == {"label": "gate", "released": 1}
            assert await caller.message() == ANSWER
            caller.close()

    run(play())


def test_a_wait_for_attempts_ends_when_so_many_are_over() -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            waiting = asyncio.create_task(control(standing, "wait?key=k&at_least=2&timeout=15"))
            while not standing.log._waiters:
                await asyncio.sleep(0)
            for key in ("k", "other", "k"):
                await ask(standing, request_of(key=key))
            assert [one["number"] for one in (await waiting).json()["attempts"]] == [1, 3]
            for query, met in (
                ("exactly=1&quiet_ms=20", True),
                ("exactly=0", False),
                ("at_least=2&timeout=0.02", False),
            ):
                shown = (await control(standing, f"wait?key=other&{query}")).json()
                assert (shown["met"], shown["count"]) == (met, 1)
            assert len(api.requests) == 3

    run(play())


def test_a_reset_takes_the_faults_away_and_lets_go_what_they_hold() -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            await control(standing, "faults", {"crossing": "client.request", "fault": "hold", "label": "gate"})
            await control(standing, "faults", LOSE)
            caller = await to(standing)
            await caller.send(request_of())
            await control(standing, "wait?label=gate")
            assert (await control(standing, "reset", {})).json() == {"ok": True, "since": 1}
            assert await caller.message() == ANSWER
            assert (await control(standing, "faults")).json()["count"] == 0
            assert (await control(standing, "attempts")).json()["count"] == 0
            caller.close()
            assert len(api.requests) == 1

    run(play())


@pytest.mark.parametrize(
    ("what", "given", "code", "sentence"),
    [
        ("deliveries", None, 404, "/_sendtwice/deliveries does not exist; known: attempts, wait, reset"),
        ("attempts", {}, 405, "takes GET, not POST"),
        ("attempts?to=x", None, 422, "'to' is not a parameter here; known: since, key"),
        ("wait?label=gate", None, 422, "there is no fault with label 'gate'; known: none"),
        ("wait?at_least=1&exactly=1", None, 422, "keep one"),
        ("release", {"label": "gate"}, 422, "there is no hold with label 'gate'"),
        ("faults", LOSE | {"crossing": "provider.request"}, 422, "must be client.request or client.response here"),
        ("faults", LOSE | {"fault": {"answer": "accepted"}}, 422, "answer takes a status from 200 to 599"),
        ("faults", LOSE | {"fault": "twice"}, 422, "client.response cannot be hit by twice"),
        ("faults", LOSE | {"fault": {"garble": "xml"}}, 422, "garble takes html, empty, half or gzip, not 'xml'"),
        ("faults", LOSE | {"retry_after": 1}, 422, "retry_after is a part of an answer"),
        ("faults", LOSE | {"fault": {"answer": 503}, "headers": {"Content-Length": "1"}}, 422, "by the wire itself"),
        ("faults", LOSE | {"operation": "op"}, 422, "'operation' is not a field here"),
        ("faults", LOSE | {"message": 1}, 422, "message must be text, not 1"),
        ("faults", {"crossing": "client.request", "fault": {"lose": "in-body"}}, 422, "is lost as a whole"),
        (
            "faults",
            {"crossing": "client.request", "fault": "reset", "stage": "headers", "message": "x"},
            422,
            "at stage headers nothing is known of a message yet",
        ),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(what: str, given: Any, code: int, sentence: str) -> None:
    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            answer = await control(standing, what, given)
            assert answer.status_code == code
            assert sentence in answer.json()["error"]
            assert api.requests == []

    run(play())


def test_the_description_is_sound_and_true() -> None:
    """Every path of it exists, every reference leads somewhere, and real answers fit their schemas."""

    async def fits(standing: Proxy, document: dict[str, Any]) -> None:
        hold = {"crossing": "client.request", "fault": {"hold": "gate"}, "key": "other"}
        for method, path, given, code in (
            ("get", "/attempts", None, 200),
            ("get", "/faults", None, 200),
            ("post", "/faults", hold, 201),
            ("post", "/faults", hold | {"fault": {"answer": 503}, "message": "POST", "key": None}, 201),
            ("post", "/faults", hold | {"fault": {"answer": 503}, "retry_after": {"date": 2}, "location": "same"}, 201),
            ("post", "/faults", hold | {"fault": {"answer": 503}, "headers": {"X-A": "1"}, "body": {"a": 1}}, 201),
            ("post", "/faults", hold | {"fault": {"garble": "gzip"}}, 201),
            ("post", "/faults", LOSE | {"key": "other", "fault": {"drip": 0.5}}, 201),
            ("post", "/faults", LOSE | {"key": "other", "fault": {"close": "after-answer"}}, 201),
            ("post", "/faults", LOSE | {"key": "other", "fault": {"lose": "in-chunks"}}, 201),
            ("get", "/wait?timeout=5", None, 200),
            ("get", "/wait?label=gate&timeout=0", None, 200),
            ("post", "/faults", {}, 422),
            ("post", "/release", {"label": "gate"}, 200),
            ("post", "/reset", {}, 200),
            ("get", "/health", None, 200),
        ):
            if code == 201:
                _valid(document, given, document["components"]["schemas"]["Fault"])
            answer = await control(standing, path[1:], given)
            assert answer.status_code == code, (path, answer.text)
            response = document["paths"][path.partition("?")[0]][method]["responses"][str(code)]
            if "$ref" in response:
                response = document["components"]["responses"]["Bad"]
            _valid(document, answer.json(), response["content"]["application/json"]["schema"])

    async def play() -> None:
        async with Api() as api, proxy(api) as standing:
            document = (await control(standing, "openapi.json")).json()
            for reference in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document)):
                place = document
                for step in reference.split("/"):
                    place = place[step]
            told = {f"/{name}": set(methods) for name, methods in standing.control._routes.items()}
            described = {path: {m.upper() for m in methods} for path, methods in document["paths"].items()}
            assert described == told
            await ask(standing, request_of(key="k"))
            await fits(standing, document)
            assert len(api.requests) == 1
            for answer in ("accepted", 199):
                wrong = LOSE | {"fault": {"answer": answer}}
                with pytest.raises(jsonschema_rs.ValidationError):
                    _valid(document, wrong, document["components"]["schemas"]["Fault"])

    run(play())


def _valid(document: dict[str, Any], given: Any, schema: dict[str, Any]) -> None:
    jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]}).validate(given)
