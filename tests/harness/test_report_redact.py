"""Nothing secret is shown, and nothing else is hidden."""

import json

import pytest

from sendtwice.harness.redact import Redactor, credentials_in, secrets_of

SECRET = "s3cr3t/with+signs"


@pytest.mark.parametrize(
    "text",
    [
        f"token {SECRET} here",
        json.dumps({"x": SECRET + "\n"}),
        "url?x=s3cr3t%2Fwith%2Bsigns",
        "czNjcjN0L3dpdGgrc2lnbnM=",
    ],
)
def test_a_secret_is_hidden_in_every_form(text: str) -> None:
    shown = Redactor({SECRET}).text(text)
    assert "***" in shown
    assert "s3cr3t" not in shown
    assert "czNjcjN0" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc123def", "Authorization: ***"),
        ("x-api-key=abc", "x-api-key=***"),
        ("{'Authorization': 'Bearer abc', 'B': 'c'}", "{'Authorization': '***', 'B': 'c'}"),
        ('{"Set-Cookie": "a=b", "c": 1}', '{"Set-Cookie": "***", "c": 1}'),
        ("sent with Bearer eyJhbGciOi.J9", "sent with Bearer ***"),
        ("key whsec_c2VjcmV0 used", "key *** used"),
        ("basic authentication is what the target wants", "basic authentication is what the target wants"),
        ("the authorization failed", "the authorization failed"),
    ],
)
def test_credentials_are_hidden_where_a_header_names_them(text: str, shown: str) -> None:
    assert Redactor().text(text) == shown


def test_data_keeps_its_shape_and_its_names() -> None:
    data = {
        "headers": {"authorization": "Bearer x", "X-Api-Key": "y", "Accept": "z"},
        "pairs": [["Cookie", "a=b"], ("Accept", "c")],
        "n": 3,
        "none": None,
        "text": f"it is {SECRET}",
    }
    assert Redactor({SECRET}).data(data) == {
        "headers": {"authorization": "***", "X-Api-Key": "***", "Accept": "z"},
        "pairs": [["Cookie", "***"], ["Accept", "c"]],
        "n": 3,
        "none": None,
        "text": "it is ***",
    }


def test_a_short_secret_does_not_eat_what_only_contains_it() -> None:
    redactor = Redactor({"80"})
    assert redactor.text("port 80, 8025 mails") == "port ***, 8025 mails"


def test_an_empty_secret_hides_nothing() -> None:
    assert Redactor({"", " "}).text("all of it") == "all of it"


def test_a_longer_secret_is_hidden_before_a_shorter_one_in_it() -> None:
    assert Redactor({"abcdefgh", "abcdefgh-ijkl"}).text("abcdefgh-ijkl") == "***"


def test_a_shell_line_names_the_variable_instead() -> None:
    redactor = Redactor(variables={"API_KEY": "abcdefgh"})
    assert redactor.shell("Authorization", "Bearer abcdefgh") == '"Bearer ${API_KEY}"'
    assert redactor.shell("Authorization", "Bearer other") == '"***"'
    assert redactor.shell("X-Note", 'a "b" $c `d`') == '"a \\"b\\" \\$c \\`d\\`"'
    assert redactor.shell("X-Trace", "id-abcdefgh") == '"id-${API_KEY}"'


def test_the_secrets_of_a_target_are_what_it_reads_and_what_it_writes_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_KEY", "from-the-environment")
    target = {
        "headers": {"Authorization": "Bearer {env:MY_KEY}", "X-Api-Key": "literal-one", "Accept": "x"},
        "senders": [{"headers": {"Authorization": "Bearer literal-two"}}],
    }
    assert secrets_of(target) == {"MY_KEY": "from-the-environment"}
    assert credentials_in(target) == {"literal-one", "Bearer literal-two", "literal-two"}
