"""What the judge makes of a count: how many it says, and not when, nor what the target's own provider told it."""

from typing import Any

import pytest

from sendtwice.fake_provider.contracts import AnswerClass, Level
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import Judgement
from tests.harness.histories import History


def a_history(name: str = "rasket", **settings: Any) -> History:
    """Begin a history whose effects are counted."""
    made = History.under(name, **settings)
    made.operation("first")
    made.note(Kind.ELSEWHERE)
    return made


def count(made: History, since: int | None = None, number: int = 1) -> None:
    """So many more are counted than at the event ``since`` (by default: just before)."""
    before = len(made.events) if since is None else since
    for _ in range(number):
        made.note(
            Kind.DELIVERY,
            op="first",
            recipient="first@sendtwice.test",
            commit=len(made.events) + 1,
            swallowed=False,
            ambiguous=False,
            counted=True,
            since=before,
        )


def musts(judgement: Judgement) -> set[str]:
    return {found.rule for found in judgement.findings if found.level is Level.MUST}


def rules(judgement: Judgement) -> set[str]:
    return {found.rule for found in judgement.findings}


def test_two_in_fair_weather_are_at_least_one_too_many() -> None:
    made = a_history()
    made.send("first")
    made.answer("first")
    count(made)
    made.send("again", like="first")
    made.answer("again", AnswerClass.REPLAYED)
    count(made)
    assert musts(made.judgement) == {"at-most-once"}


def test_two_in_one_look_are_as_bad() -> None:
    made = a_history()
    made.send("first")
    made.answer("first")
    count(made, since=1, number=2)
    assert musts(made.judgement) == {"at-most-once"}


@pytest.mark.parametrize("storm", ["crash", "pause"])
def test_of_what_a_process_was_doing_when_it_was_lost_nobody_saw_what_it_knew(storm: str) -> None:
    made = a_history("universal")
    made.send("first")
    since = len(made.events)
    if storm == "crash":
        made.crash(broken=["first"])
        made.restart()
    else:
        made.pause()
        made.note(Kind.RESUME, process="target")
        made.ends("first", "lost")
    count(made, since=since)
    made.send("again", like="first")
    made.answer("again")
    count(made)
    assert "at-most-once" not in rules(made.judgement)
    assert "at-most-once-after-unknown" in rules(made.judgement)


def test_who_answered_inline_and_was_killed_later_knew() -> None:
    """The contract says that a success waits for the provider."""
    made = a_history("postfleet")
    assert made.contract.delivery.says("inline")
    since = len(made.events)
    made.send("first")
    made.answer("first")
    count(made, since=since)
    made.crash()
    made.restart()
    made.send("again", like="first")
    made.answer("again")
    count(made)
    assert "at-most-once" in musts(made.judgement)


def test_a_failure_may_be_the_unseen_provider_s() -> None:
    made = a_history("universal")
    made.send("first")
    made.answer("first", AnswerClass.FAILED)
    count(made, since=1)
    made.send("again", like="first")
    made.answer("again")
    count(made)
    assert "at-most-once" not in rules(made.judgement)


def test_a_failure_after_a_success_is_the_target_s_own() -> None:
    """No provider is needed for a repeat of what was sent."""
    seen, unseen = a_history(), History.under("rasket")
    for made in (seen, unseen):
        made.send("first")
        made.answer("first")
    count(seen)
    unseen.deliver("first")
    for made in (seen, unseen):
        made.send("again", like="first")
        made.answer("again", AnswerClass.FAILED)
    assert musts(seen.judgement) == musts(unseen.judgement) != set()


def test_what_could_not_be_counted_is_not_called_lost() -> None:
    lost = a_history()
    lost.send("first")
    lost.answer("first")
    lost.note(Kind.SETTLED, arrived=False)
    assert musts(lost.judgement) == {"no-lost-send"}
    lost.note(Kind.VOID, reason="target.effects.sql: no such table", uncounted=True)
    judged = lost.judgement
    assert (musts(judged), judged.voids) == (set(), ("target.effects.sql: no such table",))


def test_what_was_counted_twice_stands_though_a_later_count_fails() -> None:
    made = a_history()
    made.send("first")
    made.answer("first")
    count(made, since=1, number=2)
    made.note(Kind.VOID, reason="target.effects.sql: no such table", uncounted=True)
    assert musts(made.judgement) == {"at-most-once"}
