"""Curl lines: they run as they stand, keep keys apart and alike, and show no secret."""

import subprocess
from typing import Any

from sendtwice.harness.history import Kind
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report.curl import curl_lines
from tests.harness.stories import Story
from tests.support import require


def arguments(lines: list[str]) -> list[list[str]]:
    """What curl would get: the shell says, with a function in curl's place."""
    bash = require("bash", "the lines are for a shell")
    script = 'curl() { printf "%s\\0" "$@" END; }\n' + "\n".join(lines)
    out = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True).stdout
    return [call.strip("\0").split("\0") for call in out.split("END\0") if call]


def sent(*keys: str, **request: Any) -> Story:
    story = Story("key.case")
    for number, key in enumerate(keys):
        story.send(f"a{number}", key=key, **request)
        story.answer(f"a{number}")
    return story


def headers_of(call: list[str]) -> dict[str, str]:
    found = [call[i + 1] for i, word in enumerate(call) if word == "-H"]
    return {name.rstrip(";"): value for name, _, value in (text.partition(": ") for text in found)}


def test_a_key_is_fresh_and_of_the_same_length_and_case() -> None:
    calls = arguments(curl_lines(sent("st-k3n2362tk4kc-first", "ST-K3N2362TK4KC-FIRST").events, Redactor()))
    lower, upper = (headers_of(call)["Idempotency-Key"] for call in calls)
    assert len(lower) == len(upper) == len("st-k3n2362tk4kc-first")
    assert lower != upper == lower.upper()
    assert "3n2362tk4kc" not in lower


def test_odd_keys_reach_curl_as_they_are() -> None:
    odd = "a \"b\" $c `d` \\e 'f'"
    calls = arguments(curl_lines(sent(odd, "").events, Redactor()))
    assert headers_of(calls[0])["Idempotency-Key"] == odd
    assert "Idempotency-Key;" in calls[1]


def test_a_body_reaches_curl_as_it_is() -> None:
    story = sent("k")
    request = next(e for e in story.events if e.kind is Kind.CLIENT_REQUEST)
    request.data["body"] = """{"it's": "st-k3n2362tk4kc-x", "n": "$HOME"}"""
    call = arguments(curl_lines(story.events, Redactor()))[0]
    body = call[call.index("-d") + 1]
    assert body.startswith("""{"it's": "st-kx""")
    assert body.endswith("""-x", "n": "$HOME"}""")
    assert call[3] == "http://127.0.0.1:41234/emails"


def test_secrets_are_hidden_or_named() -> None:
    story = sent("k", headers={"Authorization": "Bearer hunter2hunter2", "Cookie": "session=abc"})
    text = "\n".join(curl_lines(story.events, Redactor(variables={"TOKEN": "hunter2hunter2"})))
    assert '-H "Authorization: Bearer ${TOKEN}"' in text
    assert '-H "Cookie: ***"' in text
    assert "hunter2" not in text


def test_a_header_that_was_sent_twice_has_no_lines() -> None:
    assert curl_lines(sent("k", headers={"Idempotency-Key": "k, other"}).events, Redactor()) == []


def test_requests_in_flight_together_or_without_an_answer_have_no_lines() -> None:
    together = Story()
    together.send("a")
    together.send("b")
    together.answer("a")
    together.answer("b")
    assert curl_lines(together.events, Redactor()) == []
    lost = Story()
    lost.send("a")
    lost.lose("a")
    assert curl_lines(lost.events, Redactor()) == []
    assert curl_lines([], Redactor()) == []
