"""The contract that a run reads: the target's own requests over a contract, or over another one than its own."""

from pathlib import Path

import pytest

from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness.effective import effective_contract
from sendtwice.harness.scenario import parse, under
from sendtwice.harness.target import load
from tests.harness.histories import contract_named

TARGET = """
[target]
contract = "{contract}"
[target.api]
url = "http://127.0.0.1:1"
{more}
"""


def written(folder: Path, contract: str, more: str = "") -> Path:
    path = folder / "sendtwice.toml"
    path.write_text(TARGET.format(contract=contract, more=more), "utf-8")
    return path


def test_judged_by_another_contract_a_target_is_asked_as_its_own_says(tmp_path: Path) -> None:
    target, path = load(str(written(tmp_path, "postfleet")))
    judged = effective_contract(target, path.parent, "rasket")
    own, promises = contract_named("postfleet"), contract_named("rasket")
    assert (judged.request, judged.mail, judged.key.at) == (own.request, own.mail, own.key.at)
    assert (judged.name, judged.scope, judged.retention) == (promises.name, promises.scope, promises.retention)
    assert judged.answers[AnswerClass.CONFLICT] == promises.answers[AnswerClass.CONFLICT]
    accepted = {status for shape in judged.answers[AnswerClass.ACCEPTED] for status in shape.status}
    assert accepted == {200, 201}, "how its own success looks is told once, not in every scenario"
    assert judged.key.max == promises.key.max


def test_a_target_without_a_contract_of_its_own_has_the_wire_of_the_one_it_is_judged_by(tmp_path: Path) -> None:
    target, path = load(str(written(tmp_path, "universal")))
    assert effective_contract(target, path.parent, "postfleet").request == contract_named("postfleet").request


def test_a_route_of_the_targets_own_stands_over_the_contracts(tmp_path: Path) -> None:
    more = '[target.api.routes.reply]\npath = "/v2/reply"\n[target.api.routes.mine]\npath = "/v2/mine"\n'
    target, path = load(str(written(tmp_path, "pylota", more)))
    contract = effective_contract(target, path.parent)
    assert contract.routes["reply"].path == "/v2/reply"
    assert contract.routes["reply"].key == contract_named("pylota").routes["reply"].key
    assert contract.routes["mine"].path == "/v2/mine"


def test_a_route_that_nobody_has_needs_a_path(tmp_path: Path) -> None:
    target, path = load(str(written(tmp_path, "pylota", '[target.api.routes.mine]\nmethod = "PUT"\n')))
    with pytest.raises(BadFileError, match=r"target\.api\.routes\.mine.*give it a path"):
        effective_contract(target, path.parent)


EACH = """
id: send.each
title: Each
role: api
each: keyed-route
steps:
  - send: {as: first, via: each}
"""


def test_a_scenario_for_each_route_is_one_scenario_for_each_that_the_contract_has() -> None:
    scenario = parse(EACH)
    played = under(contract_named("pylota"), [scenario])
    assert {s.id for s in played} >= {"send.each.reply", "send.each.forward"}
    assert {s.route for s in played} >= {"reply", "forward"}
    assert under(contract_named("pylota"), played) == played


def test_where_there_is_no_such_route_it_stays_one_that_is_skipped() -> None:
    scenario = parse(EACH)
    assert under(contract_named("universal"), [scenario]) == [scenario]
