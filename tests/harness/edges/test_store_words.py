"""What a scenario does to a store, in words; and what is wrong with a store in a target file, in one line."""

from pathlib import Path

import pytest

from sendtwice.harness.catalogue import needs_of
from sendtwice.harness.fault_specs import FaultSpec
from sendtwice.harness.fault_words import fault_in_words
from sendtwice.harness.scenario import catalogue
from sendtwice.harness.target import load
from sendtwice.harness.words import faults_of, steps_in_words


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"crossing": "store.request", "verb": "reset"},
            "the connection is reset (RST) at the target's message to its store",
        ),
        (
            {"crossing": "store.response", "verb": "lose", "store": "db", "message": "COMMIT"},
            "store db's answer that says 'COMMIT' is lost",
        ),
        (
            {"crossing": "store.request", "verb": "hold", "argument": "claim", "store": "db", "nth": 2},
            "the target's message to its store db is held as 'claim' (number 2)",
        ),
        (
            {"crossing": "store.request", "verb": "close", "stage": "connect", "times": 3},
            "the target's connection to its store is closed (FIN) as it is made (3 times)",
        ),
        (
            {"crossing": "store.response", "verb": "cut", "argument": 5},
            "the store's answer is cut after 5 bytes",
        ),
    ],
)
def test_a_fault_says_which_messages_it_is_for(spec: dict[str, object], text: str) -> None:
    assert fault_in_words(FaultSpec.model_validate(spec)) == text


def test_a_scenario_about_a_store_says_how_it_is_played_and_what_it_needs() -> None:
    (scenario,) = (one for one in catalogue() if one.id == "outcome.store-down-at-claim")
    down = "the connection is reset (RST) at the target's message to its store (every time until 'store' is released)"
    assert faults_of(scenario) == [f"first: {down}"]
    assert steps_in_words(scenario)[:2] == [
        f"send first; {down}, and go on at once",
        "wait until something meets the fault 'store'",
    ]
    assert needs_of(scenario) == ["a store behind sendtwice ([target.store.NAME])"]


@pytest.mark.parametrize(
    ("upstream", "complaint"),
    [
        ("/run/redis.sock", "'/run/redis.sock' is a Unix socket, which cannot be held; let the store listen on TCP"),
        ("unix:/run/redis.sock", "is a Unix socket"),
        ("redis://127.0.0.1:6379", "is no address; write 127.0.0.1:5432, or a host's name and its port"),
        ("localhost", "is no address"),
    ],
)
def test_an_upstream_is_a_host_and_a_port(tmp_path: Path, upstream: str, complaint: str) -> None:
    file = tmp_path / "target.toml"
    file.write_text(
        f'[target]\nname = "a"\n[target.api]\nurl = "http://127.0.0.1:1"\n[target.store.db]\nupstream = "{upstream}"\n'
    )
    with pytest.raises(Exception, match="upstream") as found:
        load(str(file))
    assert complaint in str(found.value)
