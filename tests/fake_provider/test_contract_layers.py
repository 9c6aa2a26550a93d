"""A contract that extends another: what is merged, what is replaced, and where a mistake is said to stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import AnswerClass, Basis, Claim, Contract
from sendtwice.fake_provider.documents import BadFileError

BASE = """\
name: base
title: Base
source: "its page"
request: {path: /send, headers: {A: "1", B: "2"}, body: {to: "{to}", subject: "{subject}"}}
routes:
  batch: {path: /batch, body: [{to: "{to}"}], note: "all at once"}
  reply: {path: /reply}
key: {at: "header:Key", max: 64, min: 1}
concurrent: {value: refuse, also: [wait], play: wait, source: "its page", note: "today"}
reconciliation: {within: 60, by: [recipient]}
lease: 5
batch: {max: 10}
levels: {progress: should, conflict: should}
answers:
  accepted: {status: 201, id: /id, headers: {X: "1"}}
  conflict: {status: 409, code: {at: /code, is: conflict}}
"""


def over(folder: Path, text: str, *, base: str = BASE) -> Contract:
    """The contract of a file that extends another."""
    (folder / "base.yaml").write_text(base)
    (folder / "mine.yaml").write_text(f"name: mine\nextends: ./base.yaml\n{text}")
    return contracts.load(str(folder / "mine.yaml"))


def test_a_contract_that_extends_another_says_only_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nextends: rasket\nkey: {max: 64}\nconcurrent: wait\n")
    mine, base = contracts.load(str(path)), contracts.load("rasket")
    assert (mine.name, mine.key.max.value, mine.concurrent.value) == ("mine", 64, "wait")
    assert mine.answers == base.answers
    assert mine.key.min == base.key.min


@pytest.mark.parametrize("given", ["refuse", "{value: refuse}", "{basis: documented, value: refuse}"])
def test_a_claim_given_anew_replaces_all_that_stood_beside_its_value(given: str, tmp_path: Path) -> None:
    assert over(tmp_path, f"concurrent: {given}\n").concurrent == Claim(value="refuse")


def test_groups_and_tables_are_merged_and_templates_and_answers_are_replaced_whole(tmp_path: Path) -> None:
    mine = over(
        tmp_path,
        """\
request: {headers: {B: "3"}, body: {recipient: "{to}"}}
routes: {batch: {path: /many}, forward: {path: /forward}}
key: {max: 32}
levels: {conflict: must}
answers: {accepted: {status: 200, id: /data/id}}
""",
    )
    assert mine.request.path == "/send"
    assert mine.request.headers == {"A": "1", "B": "3"}
    assert mine.request.body == {"recipient": "{to}"}
    assert sorted(mine.routes) == ["batch", "forward", "reply"]
    assert (mine.routes["batch"].path, mine.routes["batch"].note) == ("/many", "all at once")
    assert (mine.key.at, mine.key.min.value, mine.key.max.value) == ("header:Key", 1, 32)
    assert mine.levels == {"progress": "should", "conflict": "must"}
    accepted = mine.shapes(AnswerClass.ACCEPTED)[0]
    assert (accepted.status, accepted.id, accepted.headers) == ([200], "/data/id", {})
    assert mine.shapes(AnswerClass.CONFLICT)[0].code is not None


def test_a_group_that_is_one_bare_claim_is_merged_like_one_that_is_written_out(tmp_path: Path) -> None:
    mine = over(tmp_path, "reconciliation: 90\nlease: {then: refuse}\n")
    assert (mine.reconciliation.within.value, mine.reconciliation.by.value) == (90, ["recipient"])
    assert (mine.lease.lasts.value, mine.lease.then.value) == (5, "refuse")
    told = over(tmp_path, "lease: {value: 7, source: 'its page'}\nreconciliation: {by: ~}\n")
    assert (told.lease.lasts.value, told.lease.lasts.source) == (7, "its page")
    assert (told.reconciliation.within.value, told.reconciliation.by.judged) == (60, False)


def test_a_tilde_takes_an_entry_out(tmp_path: Path) -> None:
    mine = over(tmp_path, "routes: {batch: ~}\nbatch: ~\nconcurrent: ~\nanswers: {conflict: ~}\nkey: {max: ~}\n")
    assert sorted(mine.routes) == ["reply"]
    assert mine.batch is None
    assert mine.concurrent.basis is Basis.UNKNOWN
    assert mine.shapes(AnswerClass.CONFLICT) == []
    assert (mine.key.max.judged, mine.key.min.value) == (False, 1)


def test_a_contract_may_extend_one_that_extends_another(tmp_path: Path) -> None:
    over(tmp_path, "key: {max: 32}\n")
    third = tmp_path / "third.yaml"
    third.write_text("name: third\nextends: ./mine.yaml\nkey: {min: 8}\n")
    found = contracts.load(str(third)).key
    assert (found.at, found.min.value, found.max.value) == ("header:Key", 8, 32)


@pytest.mark.parametrize(
    ("base", "child", "place", "message"),
    [
        (BASE, "key: {maxx: 3}", "mine.yaml:3", "key.maxx: unknown key; did you mean 'max'?"),
        (BASE, "title: Mine\nconcurrent: sometimes", "mine.yaml:4", "concurrent"),
        (BASE, "routes: {batch: {pth: /x}}", "mine.yaml:3", "routes.batch.pth: unknown key"),
        (BASE, "batch: {route: reply2}", "mine.yaml:3", "'reply2', and routes has none"),
        (BASE, "title: Mine\n\nretention: {at_least: 9, at_most: 1}", "mine.yaml:5", "retention.at_least"),
        (BASE, "routes: {bacth: ~}", "mine.yaml:3", "routes.bacth: there is no such entry to take out"),
        (BASE.replace("max: 64", "max: long"), "title: Mine", "base.yaml:8", "key.max"),
        (BASE.replace("path: /reply", "pth: /reply"), "routes: {batch: {path: /x}}", "base.yaml:7", "routes.reply.pth"),
        (BASE.replace("status: 409", "status: 4099"), "answers: {accepted: {status: 200}}", "base.yaml:16", "answers"),
        (
            BASE.replace("within: 60", "within: soon"),
            "reconciliation: {by: [subject]}",
            "base.yaml:10",
            "reconciliation",
        ),
    ],
)
def test_a_mistake_names_the_file_in_which_it_stands(
    base: str, child: str, place: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadFileError) as caught:
        over(tmp_path, child + "\n", base=base)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path}/{place}: ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: mine\nextends: ./mine.yaml\n", "2: extends: the contract extends itself"),
        (
            "name: mine\nextends: ./back.yaml\n",
            "2: extends: the contract extends itself (mine.yaml -> back.yaml",
        ),
        ("name: mine\nextends: raskett\n", "2: extends: 'raskett' is not a shipped contract; did you mean 'rasket'?"),
        ("name: mine\nextends: ./none.yaml\n", "2: extends: './none.yaml' does not exist"),
        ("name: mine\nextends: [rasket]\n", "2: extends: write the name of a shipped contract"),
        ("extends: rasket\n", "1: name: is missing; a contract that extends another has its own"),
    ],
)
def test_a_base_that_cannot_be_meant_is_told_at_extends(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    (tmp_path / "back.yaml").write_text("name: back\nextends: ./mine.yaml\n")
    with pytest.raises(BadFileError) as caught:
        contracts.load(str(path))
    told = str(caught.value)
    file = tmp_path / ("back.yaml" if "back" in text else "mine.yaml")
    assert told.startswith(f"{file}:{message}")
    assert "\n" not in told
