"""The OpenAPI document of each contract: sound by itself, and true of the emulator that serves it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from schemathesis.specs.openapi import definitions

from sendtwice.fake_provider import contracts, openapi
from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.provider import FakeProvider
from tests.fake_provider.kit import get, provider, run

#: What is held against the emulator. A body that breaks its schema may still be taken: reading is lenient.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
SHIPPED = contracts.names()


def document(name: str) -> dict[str, Any]:
    return openapi.document(contracts.load(name))


def of(text: str) -> dict[str, Any]:
    """The document of a contract that is written in the test."""
    given = {
        "name": "own",
        "title": "Own",
        "request": {"path": "/send", "body": {"from": "{from}", "to": "{to}", "text": "{text?}"}},
        "answers": {"accepted": {"status": 200, "id": "/id"}},
        **json.loads(text),
    }
    return openapi.document(Contract.model_validate(given))


def parameter(operation: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in operation["parameters"] if one["name"] == name]
    return dict(found)


def body(operation: dict[str, Any]) -> dict[str, Any]:
    ((_, media),) = operation["requestBody"]["content"].items()
    return dict(media["schema"])


def schemas(part: Any) -> Iterator[dict[str, Any]]:
    """Every schema of a document."""
    if isinstance(part, dict):
        for name, inner in part.items():
            if name == "schema":
                yield inner
            else:
                yield from schemas(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from schemas(inner)


# --- Sound ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_it_is_openapi_3_1_with_sound_schemas(name: str) -> None:
    given = document(name)
    jsonschema_rs.validator_for(definitions.OPENAPI_31).validate(given)
    found = list(schemas(given["paths"]))
    assert found
    for schema in found:
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    identifiers = [operation["operationId"] for path in given["paths"].values() for operation in path.values()]
    assert len(identifiers) == len(set(identifiers))
    for operation in [operation for path in given["paths"].values() for operation in path.values()]:
        for link in [
            link for response in operation["responses"].values() for link in response.get("links", {}).values()
        ]:
            assert link["operationId"] in identifiers


@pytest.mark.parametrize("name", SHIPPED)
def test_every_route_is_there_with_the_steps_of_its_path(name: str) -> None:
    contract, given = contracts.load(name), document(name)
    for route in (contract.request, *contract.routes.values()):
        operation = given["paths"][route.path][route.method.lower()]
        steps = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert steps == set(re.findall(r"\{(\w+)\}", route.path))


@pytest.mark.parametrize("name", SHIPPED)
def test_its_own_examples_fit_its_schemas(name: str) -> None:
    for path in document(name)["paths"].values():
        for operation in path.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                for example in media.get("examples", {}).values():
                    jsonschema_rs.validate(media["schema"], example["value"])


# --- What it says of keys and mail -------------------------------------------------------------------------


def test_a_key_in_a_header_has_its_bounds_and_whether_it_must_be_there() -> None:
    pylota = document("pylota")["paths"]["/messages"]["post"]
    key = parameter(pylota, "Idempotency-Key")
    assert (key["in"], key["required"]) == ("header", True)
    assert (key["schema"]["minLength"], key["schema"]["maxLength"]) == (1, 255)
    rasket = document("rasket")["paths"]["/emails"]["post"]
    assert parameter(rasket, "Idempotency-Key")["required"] is False
    assert parameter(rasket, "User-Agent")["required"] is True


def test_a_key_in_the_body_stands_there_and_nowhere_else() -> None:
    operation = document("postfleet")["paths"]["/api/v1/send"]["post"]
    assert operation["parameters"] == []
    assert body(operation)["properties"]["client_id"] == {"type": "string", "minLength": 1, "maxLength": 256}
    assert "client_id" not in body(operation)["required"]


def test_a_required_key_in_the_body_is_required_there() -> None:
    operation = of('{"key": {"at": "body:/meta/key", "presence": "required", "max": 9}}')["paths"]["/send"]["post"]
    assert body(operation)["required"] == ["to", "meta"]
    assert body(operation)["properties"]["meta"]["required"] == ["key"]


@pytest.mark.parametrize(
    ("rules", "good", "bad"),
    [
        ({}, ["k", "a b", "x" * 300], ["", " k", "k\n", "ключ"]),
        ({"charset": "word", "max": 4}, ["ab_1"], ["abcde", "a.b"]),
        ({"charset": "uuid"}, ["0b8f1f0c-6f0e-4b0e-8e3b-3b6f8a1c2d3e"], ["k"]),
        ({"form": "quoted", "max": 3}, ['"abc"'], ["abc", '"abcd"', '""']),
        ({"charset": "printable-ascii", "min": 2}, ["a b"], ["a", "ab\t"]),
    ],
)
def test_keys_that_fit_their_schema_are_those_that_the_contract_takes(
    rules: dict[str, Any], good: list[str], bad: list[str]
) -> None:
    operation = of(json.dumps({"key": {"presence": "optional", **rules}}))["paths"]["/send"]["post"]
    schema = parameter(operation, "Idempotency-Key")["schema"]
    assert [key for key in good if not jsonschema_rs.is_valid(schema, key)] == []
    assert [key for key in bad if jsonschema_rs.is_valid(schema, key)] == []


@pytest.mark.parametrize(
    ("presence", "there"), [("none", False), ("optional", True), ("generated", True), ("required", True)]
)
def test_no_key_is_shown_where_none_is_taken(presence: str, there: bool) -> None:
    operation = of(json.dumps({"key": {"presence": presence}}))["paths"]["/send"]["post"]
    assert [one["name"] for one in operation["parameters"]] == (["Idempotency-Key"] if there else [])
    assert ("409" in operation["responses"]) is there


def test_a_mail_cannot_do_without_its_recipient_and_what_the_contract_requires() -> None:
    for template, good, bad in (
        ({"to": ["{to}"], "s": "{subject}"}, {"to": ["a@b.test"]}, [{"to": []}, {"s": "x"}, {"to": ["x"]}]),
        ({"to": [{"email": "{to}"}]}, {"to": [{"email": "a@b.test"}]}, [{"to": [{}]}, {"to": []}]),
        ({"p": [{"to": ["{to}"]}]}, {"p": [{"to": ["a@b.test"]}]}, [{"p": []}, {"p": [{"to": []}]}, {}]),
    ):
        place = "/p/*/to" if "p" in template else "/to"
        given = {"request": {"path": "/send", "body": template}, "mail": {"to": place}}
        schema = body(of(json.dumps(given))["paths"]["/send"]["post"])
        assert jsonschema_rs.is_valid(schema, good)
        assert [one for one in bad if jsonschema_rs.is_valid(schema, one)] == []


def test_a_batch_is_a_list_with_its_bounds() -> None:
    given = {"routes": {"batch": {"path": "/batch", "body": [{"to": "{to}"}]}}, "batch": {"max": 2}}
    schema = body(of(json.dumps(given))["paths"]["/batch"]["post"])
    mail = {"to": "a@b.test"}
    assert [n for n in range(4) if jsonschema_rs.is_valid(schema, [mail] * n)] == [1, 2]


# --- What it says of answers --------------------------------------------------------------------------------


def test_two_answers_of_one_status_are_told_apart_by_their_codes() -> None:
    responses = document("rasket")["paths"]["/emails"]["post"]["responses"]
    schema = responses["409"]["content"]["application/json"]["schema"]
    told = [one["properties"]["name"]["const"] for one in schema["anyOf"]]
    assert told == ["invalid_idempotent_request", "concurrent_idempotent_requests"]
    assert not jsonschema_rs.is_valid(schema, {"statusCode": 409, "message": "m", "name": "other"})


def test_an_answer_of_a_hundred_is_the_one_that_the_emulator_gives() -> None:
    responses = document("universal")["paths"]["/emails"]["post"]["responses"]
    assert {"200", "202", "409", "422", "429", "503"} <= set(responses)
    assert not [status for status in responses if "x" in status.lower()]


def test_markers_hints_and_ids_are_described() -> None:
    given = {
        "key": {"presence": "optional"},
        "replay": {"marker": [{"header": "Replayed", "is": True, "otherwise": False}, {"at": "/again", "is": True}]},
        "hints": {"retry_after": ["in_progress"]},
        "answers": {
            "accepted": {"status": 201, "id": "/data/id"},
            "in_progress": {"status": 423},
            "refused": {"status": 406, "code": {"at": "/error/code", "is": ["a", "b"]}},
        },
    }
    responses = of(json.dumps(given))["paths"]["/send"]["post"]["responses"]
    assert responses["201"]["headers"]["Replayed"]["schema"]["enum"] == ["true", "false"]
    schema = responses["201"]["content"]["application/json"]["schema"]
    assert schema["properties"]["again"] == {"enum": [True]}
    assert not jsonschema_rs.is_valid(schema, {"id": "x"})
    assert jsonschema_rs.is_valid(schema, {"data": {"id": "x"}})
    assert "Retry-After" in responses["423"]["headers"]
    refused = responses["406"]["content"]["application/json"]["schema"]
    assert jsonschema_rs.is_valid(refused, {"error": {"code": "b"}, "message": "m"})
    assert not jsonschema_rs.is_valid(refused, {"error": {"code": "c"}, "message": "m"})


def test_an_answer_leads_to_the_routes_that_can_be_asked_about_its_message() -> None:
    links = document("pylota")["paths"]["/messages"]["post"]["responses"]["202"]["links"]
    assert links["read"] == {"operationId": "read", "parameters": {"id": "$response.body#/id"}}


# --- True -----------------------------------------------------------------------------------------------


def test_it_is_served_by_whatever_serves_the_contract() -> None:
    async def play() -> None:
        async with provider("rasket") as fake:
            assert (await get(fake, "/_sendtwice/contract/openapi.json")).json() == document("rasket")

    run(play())


def fits(operation: dict[str, Any], answer: httpx.Response) -> None:
    """The answer has a status of the document, and the body that is described for it."""
    assert str(answer.status_code) in operation["responses"], answer.text
    content = operation["responses"][str(answer.status_code)].get("content", {})
    if not content:
        assert answer.content == b""
        return
    jsonschema_rs.validate(content[answer.headers["content-type"]]["schema"], answer.json())


async def ask(fake: FakeProvider, operation: dict[str, Any], body: Any, credential: str) -> httpx.Response:
    """Ask for a send under a key of its own, as a reader of the document would."""
    headers = {"Authorization": f"Bearer acme:{credential}"}
    query = {}
    for one in operation["parameters"]:
        schema = one["schema"]
        value = str(uuid.uuid4()) if "Mon" not in schema.get("pattern", "") else formatdate(usegmt=True)
        if schema.get("pattern", "").startswith('^"'):
            value = f'"{value}"'
        if one["in"] == "header" and one["name"] != "User-Agent" and schema.get("format") != "date-time":
            headers[one["name"]] = value
        elif one["required"] and one["in"] == "query":
            query[one["name"]] = value
    ((kind, _),) = operation["requestBody"]["content"].items()
    path = fake.contract.request.path
    form = kind == "application/x-www-form-urlencoded"
    async with httpx.AsyncClient(base_url=fake.url, trust_env=False, headers=headers, params=query) as client:
        return await client.post(path, data=body if form else None, json=None if form else body)


def example(operation: dict[str, Any], to: str) -> Any:
    ((_, media),) = operation["requestBody"]["content"].items()
    return json.loads(json.dumps(media["examples"]["mail"]["value"]).replace("ana@example.test", to))


@pytest.mark.parametrize("name", SHIPPED)
def test_what_a_credential_or_a_recipient_can_ask_for_is_described(name: str) -> None:
    async def play() -> None:
        async with provider(contracts.load(name), edge="client") as fake:
            operation = document(name)["paths"][fake.contract.request.path][fake.contract.request.method.lower()]
            seen = []
            for credential in ("unauthorized", "rate-limited", "over-quota", "person", ""):
                answer = await ask(fake, operation, example(operation, "ana@example.test"), credential)
                fits(operation, answer)
                seen.append(answer.status_code // 100)
            assert seen == [4, 4, 4, 2, 2]
            for recipient in ("unknown-outcome", "busy", "refused", "pending", "pendign"):
                fits(operation, await ask(fake, operation, example(operation, f"{recipient}@fault.test"), ""))

    run(play())


async def schemathesis(url: str, folder: Path, *arguments: str) -> tuple[int, str]:
    """Run it as its users do, always with the same examples; return its exit status and what it says."""
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("schemathesis")), "run", f"{url}/_sendtwice/contract/openapi.json"),
        *("--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing,stateful"),
        *("--max-examples", "6", "--generation-deterministic", "--request-timeout", "20", "--no-color"),
        *("--suppress-health-check", "all", "--warnings", "off"),
        *arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), 100)
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode or 0, said.decode()


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_the_emulator_does_what_the_document_says(name: str, tmp_path: Path) -> None:
    """As a person, who may do all, and as a sender where there is something that a sender may not."""

    async def play() -> None:
        contract = contracts.load(name)
        senders = [route for route in contract.routes.values() if route.asks == "person"]
        for credential in ("acme:person", *(["acme"] if senders else [])):
            async with provider(contract, edge="client") as fake:
                status, said = await schemathesis(fake.url, tmp_path, "-H", f"Authorization: Bearer {credential}")
                assert status == 0, said
                assert fake.control.attempts.log

    asyncio.run(play())
