"""Fingerprints: which other bytes are the same request, and which other request is none."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.emulator import canonical
from sendtwice.fake_provider.emulator.fingerprints import Fingerprints
from sendtwice.fake_provider.messages import Request
from tests.fake_provider.kit import ask, body_for, call, emulator, kind, mine, run

BODY = {"from": "shop@example.test", "to": ["ana@example.test", "bo@example.test"], "subject": "S", "n": 1, "cc": None}


def written(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


PLAIN = written(BODY)
#: The same content in other bytes; each by the claim that says whether it is the same request.
FORMS: dict[str, bytes] = {
    "field_order": written(dict(reversed(BODY.items()))),
    "whitespace": json.dumps(BODY, indent=2).encode(),
    "number_form": PLAIN.replace(b'"n":1', b'"n":1.0'),
    "escapes": PLAIN.replace(b'"S"', rb'"\u0053"'),
    "empty_fields": written({name: value for name, value in BODY.items() if name != "cc"}),
    "recipient_order": written({**BODY, "to": BODY["to"][::-1]}),  # type: ignore[index]
}


def same(contract: Contract, first: Request, second: Request) -> bool:
    """Whether two requests under one key are the same to a contract."""

    async def play() -> bool:
        async with emulator(contract) as (engine, upstream):
            assert kind(await ask(engine, first)) is AnswerClass.ACCEPTED
            answer = await ask(engine, second)
            assert len(upstream.taken) == 1
            return kind(answer) is not AnswerClass.CONFLICT

    return run(play())


@pytest.mark.parametrize("claim", FORMS)
@pytest.mark.parametrize("says", ["same", "different"])
def test_other_bytes_are_the_same_request_exactly_as_the_contract_says(claim: str, says: str) -> None:
    others = {name: "different" if says == "same" else "same" for name in FORMS if name != claim}
    contract = mine(**{f"fingerprint__{name}": value for name, value in {**others, claim: says}.items()})
    assert same(contract, call(raw=PLAIN), call(raw=PLAIN))
    assert same(contract, call(raw=PLAIN), call(raw=FORMS[claim])) == (says == "same")


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(FORMS, 2)))
def test_two_ways_of_writing_together(first: str, second: str) -> None:
    """Where both are the same, both at once are; where one is not, the other does not hide it."""
    loose = {f"fingerprint__{name}": "same" for name in FORMS}
    both = {
        "field_order": lambda body: dict(reversed(body.items())),
        "number_form": lambda body: {**body, "n": 1.0},
        "empty_fields": lambda body: {name: value for name, value in body.items() if name != "cc"},
        "recipient_order": lambda body: {**body, "to": body["to"][::-1]},
    }
    body: Any = BODY
    for name in (first, second):
        body = both[name](body) if name in both else body
    raw = json.dumps(body, indent=2).encode() if "whitespace" in (first, second) else written(body)
    if "escapes" in (first, second):
        raw = raw.replace(b'"S"', rb'"\u0053"')
    assert same(mine(**loose), call(raw=PLAIN), call(raw=raw))
    assert not same(mine(**{**loose, f"fingerprint__{first}": "different"}), call(raw=PLAIN), call(raw=raw))
    assert not same(mine(**{**loose, f"fingerprint__{second}": "different"}), call(raw=PLAIN), call(raw=raw))


@pytest.mark.parametrize(("says", "expected"), [("same", True), ("different", False), (None, False)])
def test_one_recipient_may_be_a_text_or_a_list_of_one(says: str | None, expected: bool) -> None:
    contract = mine(**({} if says is None else {"fingerprint__recipient_form": says}))
    one, several = ({**body_for("mine"), "to": to} for to in ("ana@example.test", ["ana@example.test"]))
    assert same(contract, call(body=one), call(body=several)) is expected
    copied = [{**body_for("mine"), "cc": cc} for cc in ("bo@example.test", ["bo@example.test"])]
    assert same(contract, call(body=copied[0]), call(body=copied[1])) is expected


def test_what_the_contract_does_not_say_is_read_as_a_parser_reads_it() -> None:
    loose = ("field_order", "whitespace", "number_form", "escapes")
    for name, raw in FORMS.items():
        assert same(mine(), call(raw=PLAIN), call(raw=raw)) == (name in loose), name


def test_only_the_named_fields_count() -> None:
    contract = mine(fingerprint__fields=["/to", "/reply/to"])
    body = {**body_for("mine"), "reply": {"to": "m1", "at": 1}}
    assert same(contract, call(body=body), call(body={**body, "subject": "other", "reply": {"to": "m1", "at": 2}}))
    assert not same(contract, call(body=body), call(body={**body, "reply": {"to": "m2", "at": 1}}))
    assert not same(contract, call(body=body), call(body={**body, "to": ["eve@example.test"]}))


def test_a_named_field_that_is_empty_is_there_or_not() -> None:
    empty, absent = {**body_for("mine"), "note": ""}, body_for("mine")
    for says in ("same", "different"):
        contract = mine(fingerprint__fields=["/to", "/note"], fingerprint__empty_fields=says)
        assert same(contract, call(body=empty), call(body=absent)) == (says == "same")


def test_excluded_fields_do_not_count() -> None:
    contract = mine(fingerprint__excluded=["/at", "/meta/trace"])
    body = {**body_for("mine"), "at": 1, "meta": {"trace": "a", "kept": 1}}
    assert same(contract, call(body=body), call(body={**body, "at": 2, "meta": {"trace": "b", "kept": 1}}))
    assert not same(contract, call(body=body), call(body={**body, "meta": {"trace": "a", "kept": 2}}))


def test_the_key_itself_does_not_count_wherever_it_stands() -> None:
    contract = mine(key__at="body:/id", key__also_at=["header:Idempotency-Key"])
    assert same(contract, call(body={**body_for("mine"), "id": "k1"}, key=None), call(key="k1"))


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("path", call("/v2/emails")),
        ("query", call("/emails?a=1")),
        ("version", call(headers={"X-Api-Version": "2"})),
        ("content-type", call(headers={"content-type": "application/vnd.api+json"})),
        ("raw", call(raw=json.dumps(body_for("mine"), indent=1).encode())),
        ("body", call(text="other")),
    ],
)
def test_a_part_counts_where_the_contract_names_it(part: str, other: Request) -> None:
    assert not same(mine(fingerprint__parts=[part]), call(), other)
    assert same(mine(fingerprint__parts=["method"]), call(), other)


def test_the_parameters_of_a_content_type_are_no_other_type() -> None:
    contract = mine(fingerprint__parts=["content-type"])
    assert same(contract, call(), call(headers={"content-type": "Application/JSON; charset=utf-8"}))


def test_a_method_is_another_request_where_the_contract_compares_it() -> None:
    put = {"method": "PUT", "path": "/emails"}
    for parts in (["method"], ["body"]):
        contract = mine(fingerprint__parts=parts, routes__put=put)
        assert same(contract, call(), call(method="PUT")) == (parts == ["body"])


def test_what_comes_of_recipients_is_compared_where_the_contract_compares_what_is_rendered() -> None:
    named, bare = ({**body_for("mine"), "to": to} for to in ("Ana <ana@example.test>", ["ana@example.test"]))
    assert same(mine(fingerprint__of="rendered"), call(body=named), call(body=bare))
    assert not same(mine(fingerprint__of="requested"), call(body=named), call(body=bare))
    replied = {**body_for("mine"), "in_reply_to": "m1"}
    assert not same(mine(fingerprint__of="rendered"), call(body=replied), call(body={**replied, "in_reply_to": "m2"}))


@pytest.mark.parametrize("says", ["same", "different"])
@pytest.mark.parametrize("path", ["/emails/batch", "/bundles"])
def test_the_order_of_a_batch_counts_as_the_contract_says(says: str, path: str) -> None:
    mails = [body_for("mine", to=f"{n}@example.test") for n in range(3)]
    bodies = [mails, mails[::-1], [*mails[:2], body_for("mine", to="9@example.test")]]
    first, turned, other = ({"mails": body, "name": "n"} if path == "/bundles" else body for body in bodies)

    async def play() -> None:
        contract = mine(batch={"item_order": says})
        async with emulator(contract) as (engine, upstream):
            assert kind(await ask(engine, call(path, first))) is AnswerClass.ACCEPTED
            answer = await ask(engine, call(path, turned))
            assert (kind(answer) is AnswerClass.CONFLICT) == (says == "different")
            assert kind(await ask(engine, call(path, other))) is AnswerClass.CONFLICT
            assert len(upstream.taken) == 3

    run(play())


def test_what_stands_around_the_mails_of_a_batch_counts() -> None:
    async def play() -> None:
        async with emulator(mine(batch={})) as (engine, _):
            mails = [body_for("mine")]
            await ask(engine, call("/bundles", {"mails": mails, "name": "n"}))
            assert kind(await ask(engine, call("/bundles", {"mails": mails, "name": "m"}))) is AnswerClass.CONFLICT

    run(play())


def test_a_body_nested_too_deep_to_compare_is_compared_byte_for_byte() -> None:
    deep = b'{"to":["ana@example.test"],"subject":"s","x":' + b"[" * 900 + b"1" + b"]" * 900 + b"}"
    assert same(mine(), call(raw=deep), call(raw=deep))
    assert not same(mine(), call(raw=deep), call(raw=deep + b" "))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 3)
    | st.sampled_from([0.0, 1.0, 1e400, "", "a", "é", "\ud800", "1", "null"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abé"), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """JSON, written in one way or another, now and then with a name that stands there twice."""
    value = draw(JSON)
    if isinstance(value, dict) and draw(st.booleans()):
        value = dict(reversed(value.items()))
    text = json.dumps(value, indent=draw(st.sampled_from([None, 1])), ensure_ascii=draw(st.booleans()))
    return text.replace('"b"', draw(st.sampled_from(['"b"', '"a"', '"\\u0061"'])), 1)


@given(texts(), texts())
@example('{"a": 1}', '{"a": 1.0}')
@example('{"a": "x"}', '{"a": "x", "a": "x"}')
@example('{"a": {}, "b": []}', '{"b": [], "a": {}}')
def test_two_bodies_are_the_same_when_their_canonical_forms_are(one: str, other: str) -> None:
    """However little of that has to be worked out for bodies in which a parser loses nothing."""
    prints = Fingerprints(mine(), "send", mine().mail)

    def of(text: str) -> str:
        request = call(raw=text.encode("utf-8", "surrogatepass"))
        return prints.of(request, request.json())

    def form(text: str) -> object:
        try:
            return canonical.canonical(
                canonical.parse(text.encode("utf-8", "surrogatepass").decode()), canonical.Rules()
            )
        except ValueError:  # an infinity, or half a character: no JSON
            return text

    assert (of(one) == of(other)) == (form(one) == form(other))
