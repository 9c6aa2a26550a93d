"""Contract files: every shipped one loads, and a mistake in one is told in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sendtwice.fake_provider import contracts, dialects
from sendtwice.fake_provider.contracts import AnswerClass, Basis
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.emulator.answers import CUSTOMARY, render

MINIMAL = """\
name: mine
title: Mine
request: {path: /send}
answers:
  accepted: {status: 200, id: /id}
"""


@pytest.mark.parametrize("name", contracts.names())
def test_every_shipped_contract_loads_and_says_where_it_is_from(name: str) -> None:
    contract = contracts.load(name)
    assert contract.name == name
    assert contract.title
    assert contract.summary
    assert contract.source
    assert len(contracts.sha256(contract)) == 64


@pytest.mark.parametrize("name", contracts.names())
@pytest.mark.parametrize("kind", list(AnswerClass))
def test_every_class_can_be_answered_under_every_contract(name: str, kind: AnswerClass) -> None:
    told = render(contracts.load(name), kind, ids=("m1",))
    assert 200 <= told.status <= 599
    assert (told.status < 300) == (CUSTOMARY[kind] < 300)


def test_what_is_not_said_is_unknown() -> None:
    contract = contracts.load("universal")
    assert contract.concurrent.basis is Basis.UNKNOWN
    assert not contract.concurrent.judged
    assert contract.concurrent.permits("execute")


def test_a_contract_that_extends_another_says_only_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nextends: rasket\nkey: {max: 64}\nconcurrent: wait\n")
    mine, base = contracts.load(str(path)), contracts.load("rasket")
    assert (mine.name, mine.key.max.value, mine.concurrent.value) == ("mine", 64, "wait")
    assert mine.answers == base.answers
    assert mine.key.min == base.key.min


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("title:", "titel:"), 2, "titel: unknown key; did you mean 'title'?"),
        (("accepted:", "acepted:"), 5, "acepted"),
        (("{path: /send}", "{pth: /send}"), 3, "request.pth: unknown key; did you mean 'path'?"),
        (("status: 200", "status: good"), 5, "status"),
        (("title: Mine", "title: Mine\nduplicates: replayy"), 3, "duplicates"),
        (("title: Mine", "title: Mine\nkey: {at: 'heade:X'}"), 3, "is no place for a key"),
        (("title: Mine", "title: Mine\nkey: {presense: optional}"), 3, "did you mean 'presence'?"),
        (("title: Mine", "title: Mine\ntitle: Again"), 3, "'title' is given twice"),
        (("title: Mine", "title: 'Mine"), None, "is not valid YAML"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(
    change: tuple[str, str], line: int | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINIMAL.replace(*change))
    with pytest.raises(BadFileError) as caught:
        contracts.load(str(path))
    text = str(caught.value)
    assert text.startswith(f"{path}:{line}: " if line else f"{path}:")
    assert message in text
    assert "\n" not in text


def test_a_contract_without_a_success_or_in_a_circle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINIMAL.replace("accepted: {status: 200, id: /id}", "refused: {status: 422}"))
    with pytest.raises(BadFileError, match="answers has no 'accepted'"):
        contracts.load(str(path))
    path.write_text("extends: ./mine.yaml\n")
    with pytest.raises(BadFileError, match="extends itself"):
        contracts.load(str(path))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("raskett", "did you mean 'rasket'?"), ("zzz", "shipped: generic, "), ("./none.yaml", "cannot be read")],
)
def test_an_unknown_contract_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(BadFileError, match=hint.replace("?", r"\?")):
        contracts.load(name)


def test_dialects_are_contracts_with_the_variables_that_point_at_them() -> None:
    resend = dialects.load("resend")
    assert resend.environment("http://x") == {"RESEND_BASE_URL": "http://x", "RESEND_API_URL": "http://x"}
    assert resend.contract.name == "resend"
    assert dialects.load("generic").any_path
    with pytest.raises(BadFileError, match=r"'resnd' is not a dialect; did you mean 'resend'\?"):
        dialects.load("resnd")
