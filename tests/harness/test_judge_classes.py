"""What an answer may mean: sets of classes, and where its id and its marker stand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.contracts.model import Marker
from sendtwice.fake_provider.emulator.answers import render, with_status
from sendtwice.harness.judge.classes import answer_id, carries, classify, is_definite, pointer, status_matches
from tests.harness.histories import CONTRACTS, contract_named, rendered

DECLARED = [(name, kind) for name in CONTRACTS for kind in contract_named(name).answers]


@pytest.mark.parametrize(("name", "kind"), DECLARED)
def test_every_answer_of_the_emulator_is_taken_for_what_it_is(name: str, kind: AnswerClass) -> None:
    told = render(contract_named(name), kind, ids=("m1",))
    assert told.kind is kind
    assert kind in classify(contract_named(name), told.status, told.body, approval=True)


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_replay_of_the_emulator_is_one_and_carries_its_marker(name: str) -> None:
    contract = contract_named(name)
    told = render(contract, AnswerClass.ACCEPTED, ids=("m1",), replay=True)
    assert AnswerClass.REPLAYED in classify(contract, told.status, told.body)
    headers = {k.lower(): v for k, v in told.headers.items()}
    assert all(carries(marker, headers, told.body) for marker in contract.replay.marker.value or [])
    assert answer_id(contract, told.status, told.body) == "m1"


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_first_answer_of_the_emulator_carries_no_marker_and_names_its_id(name: str) -> None:
    contract = contract_named(name)
    told = render(contract, AnswerClass.ACCEPTED, ids=("m1",))
    headers = {k.lower(): v for k, v in told.headers.items()}
    assert not any(carries(marker, headers, told.body) for marker in contract.replay.marker.value or [])
    assert answer_id(contract, told.status, told.body) == "m1"


@pytest.mark.parametrize(("name", "kind"), DECLARED)
def test_the_histories_of_these_tests_speak_as_the_contract_does(name: str, kind: AnswerClass) -> None:
    status, _, body = rendered(contract_named(name), kind, "m1")
    assert kind in classify(contract_named(name), status, json.dumps(body), approval=True)


@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, AnswerClass.UNAUTHORIZED),
        (429, AnswerClass.RATE_LIMITED),
        (503, AnswerClass.FAILED),
        (422, AnswerClass.REFUSED),
    ],
)
def test_a_bare_status_that_a_fault_asks_for_is_understood(name: str, status: int, kind: AnswerClass) -> None:
    told = with_status(contract_named(name), status, ("m1",))
    assert told.status == status
    assert kind in classify(contract_named(name), told.status, told.body)


@pytest.mark.parametrize("name", ["postfleet", "rasket", "pylota", "resend"])
def test_codes_tell_a_conflict_from_a_request_in_progress(name: str) -> None:
    contract = contract_named(name)
    for kind in (AnswerClass.CONFLICT, AnswerClass.IN_PROGRESS):
        told = render(contract, kind)
        assert told.status == 409
        assert classify(contract, told.status, told.body) == {kind}
    assert classify(contract, 409, "{}") == set()


def test_without_codes_one_status_may_mean_many_things() -> None:
    found = classify(contract_named("universal"), 409, "{}")
    assert {AnswerClass.CONFLICT, AnswerClass.IN_PROGRESS, AnswerClass.DUPLICATE} <= found


def test_a_draft_is_one_only_where_there_are_approvals() -> None:
    contract = contract_named("universal")
    assert AnswerClass.PENDING not in classify(contract, 202, '{"id": "d1"}')
    assert AnswerClass.PENDING in classify(contract, 202, '{"id": "d1"}', approval=True)


@given(st.integers(100, 599), st.binary(max_size=60))
def test_any_answer_at_all_can_be_classified(status: int, body: bytes) -> None:
    for name in CONTRACTS:
        contract = contract_named(name)
        assert classify(contract, status, body) <= set(contract.answers)
        answer_id(contract, status, body)
        for marker in contract.replay.marker.value or []:
            assert not carries(marker, {}, body)


@given(st.integers(100, 599))
def test_a_pattern_of_a_hundred_holds_its_hundred(status: int) -> None:
    assert [status_matches(status, f"{n}xx") for n in range(1, 6)].count(True) == 1
    assert status_matches(status, status)
    assert not status_matches(status, status + 1)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/a/b", 1),
        ("/a/c", None),
        ("/l/1", "y"),
        ("/l/2", None),
        ("/l/x", None),
        ("/x~1y", 2),
        ("/m~0n", 3),
        ("/a/b/c", None),
    ],
)
def test_a_pointer_finds_its_value_or_none(path: str, found: object) -> None:
    assert pointer({"a": {"b": 1}, "l": ["x", "y"], "x/y": 2, "m~n": 3}, path) == found


@pytest.mark.parametrize(
    ("body", "number"), [({"id": 7}, "7"), ({"id": True}, None), ({"id": None}, None), ({}, None), ([], None)]
)
def test_an_id_is_a_text_or_a_number(body: object, number: str | None) -> None:
    assert answer_id(contract_named("rasket"), 200, json.dumps(body)) == number


def test_a_refusal_names_no_id() -> None:
    assert answer_id(contract_named("rasket"), 422, '{"id": "m1"}') is None


def test_a_marker_in_a_header_is_read_without_regard_to_case() -> None:
    marker = Marker.model_validate({"header": "Idempotent-Replayed", "is": "true"})
    assert carries(marker, {"idempotent-replayed": "TRUE"}, "")
    assert not carries(marker, {"idempotent-replayed": "false"}, "")


def test_a_marker_in_the_body_needs_its_exact_value() -> None:
    marker = Marker.model_validate({"at": "/deduplicated", "is": True})
    assert carries(marker, {}, '{"deduplicated": true}')
    assert not carries(marker, {}, '{"deduplicated": false}')
    assert not carries(marker, {}, "no JSON")


@pytest.mark.parametrize(
    ("classes", "definite"),
    [
        ({AnswerClass.ACCEPTED}, True),
        ({AnswerClass.CONFLICT}, True),
        ({AnswerClass.REFUSED}, True),
        ({AnswerClass.IN_PROGRESS}, False),
        ({AnswerClass.UNKNOWN}, False),
        ({AnswerClass.FAILED}, False),
        ({AnswerClass.RATE_LIMITED}, False),
        ({AnswerClass.CONFLICT, AnswerClass.IN_PROGRESS}, False),
        (set(), False),
    ],
)
def test_a_caller_stops_only_at_a_definite_answer(classes: set[AnswerClass], definite: bool) -> None:
    assert is_definite(classes) is definite


def test_a_shape_with_a_code_alone_counts_where_it_matches() -> None:
    contract = contract_named("rasket")
    told = render(contract, AnswerClass.REFUSED)
    assert classify(contract, told.status, told.body) == {AnswerClass.REFUSED}
    assert classify(contract, 403, "{}") == {AnswerClass.REFUSED, AnswerClass.UNAUTHORIZED}
