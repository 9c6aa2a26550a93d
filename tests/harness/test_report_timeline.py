"""The timeline of a history: what a person needs to see, in words, and no more."""

from typing import Any

import pytest

from sendtwice.harness.history import Kind
from sendtwice.harness.report.phrases import short, short_key
from sendtwice.harness.report.timeline import as_text, timeline
from tests.harness.stories import TO, Story, twice


def texts(story: Story) -> list[str]:
    return [line.text for line in timeline(story.events)]


def test_a_lost_answer_reads_as_a_story() -> None:
    assert texts(twice()) == [
        "first → POST /emails  key=st-k3n2362tk4kc-first",
        "the target hands over a mail to rz87e…@sendtwice.test",
        "mail 1 to rz87e…@sendtwice.test committed",
        "the target is answered 200 (mail 1)",
        "✂ answer of first lost (caller reset): the caller went away at before-answer",
        "retry → POST /emails  key=st-k3n2362tk4kc-first  retry of first",
        "the target hands over a mail to rz87e…@sendtwice.test",
        "mail 2 to rz87e…@sendtwice.test committed",
        "the target is answered 200 (mail 2)",
        'retry ← 200  {"id": "m1"}',
    ]


def test_times_are_counted_from_the_first_event() -> None:
    lines = timeline(twice().events)
    assert lines[0].ms == pytest.approx(2.0)
    assert str(lines[0]).startswith("        2.0 ms  client ")


def test_cited_events_are_marked_and_the_plan_of_an_attempt_counts_as_its_request() -> None:
    story = twice()
    attempt = next(e for e in story.events if e.kind is Kind.ATTEMPT)
    delivery = next(e for e in story.events if e.kind is Kind.DELIVERY)
    marked = [line.text for line in timeline(story.events, {attempt.seq, delivery.seq}) if line.cited]
    assert marked == [
        "first → POST /emails  key=st-k3n2362tk4kc-first",
        "mail 1 to rz87e…@sendtwice.test committed",
    ]


def test_other_content_under_a_key_is_said() -> None:
    story = Story()
    story.send("first")
    story.answer("first")
    story.send("changed", "other", content="c2")
    assert texts(story)[-1].endswith("other content than first")


def test_kills_and_restarts_are_told() -> None:
    story = Story()
    story.send("first")
    story.tell(Kind.CRASH, None, process="target")
    story.tell(Kind.RESTART, None, process="worker")
    story.tell(Kind.DIED, None, detail="exit status 1")
    assert texts(story)[1:] == [
        "☠ the target killed (SIGKILL)",
        "process worker restarted",
        "☠ the target ended by itself (exit status 1)",
    ]


def test_one_that_did_not_end_when_it_was_asked_to_is_told_to_have_been_killed() -> None:
    story = Story()
    for willingly in (True, False):
        story.tell(Kind.STOP, None, process="target.2")
        story.tell(Kind.RESTART, None, process="target.2", willingly=willingly)
    assert texts(story)[1].endswith("restarted")
    assert texts(story)[3].endswith("restarted (it had not ended in its time, and was killed)")


def test_a_provider_that_never_answers_is_told_with_its_mail() -> None:
    story = Story()
    story.send("first")
    story.hand_over(3, told=False)
    assert texts(story)[-1] == "✂ the provider's answer 200 (mail 1) never reached the target"


def test_a_request_that_never_arrived_is_not_called_a_lost_answer() -> None:
    story = Story()
    story.tell(Kind.ATTEMPT, "first", "first", key="k", content="c")
    story.tell(Kind.ENDED, "first", "first", outcome="lost", never_arrived=True, detail="cut")
    assert texts(story) == ["first →  key=k", "✂ first lost on its way to the target: cut"]


def test_a_mail_to_two_people_is_one_line() -> None:
    story = Story()
    story.tell(Kind.DELIVERY, recipient="a@x.test", commit=4)
    story.tell(Kind.DELIVERY, recipient="b@x.test", commit=4)
    assert texts(story) == ["mail 1 to a@x.test, b@x.test committed"]


def test_like_lines_in_a_row_are_drawn_together() -> None:
    story = Story()
    for number in range(1, 21):
        story.send(f"copy.{number}")
    for number in range(1, 21):
        story.answer(f"copy.{number}")
    assert texts(story) == [
        "copy.1 … copy.20 (20) → POST /emails  key=st-k3n2362tk4kc-first",
        'copy.1 … copy.20 (20) ← 200  {"id": "m1"}',
    ]


def test_two_like_lines_stay_two() -> None:
    story = Story()
    story.send("a")
    story.send("b")
    assert len(texts(story)) == 2


def test_a_long_history_loses_its_routine_first_and_says_how_much_is_left_out() -> None:
    story = Story()
    for number in range(30):
        story.send(f"a{number}")
        story.hand_over(number)
        story.answer(f"a{number}", body=f'{{"id": "{number}"}}')
    lines = timeline(story.events)
    printed = as_text(lines, limit=40)
    assert len(printed) == 41
    assert not any("hands over" in text for text in printed)
    assert printed[0] == str(lines[0])
    assert '"29"' in printed[-1]
    left_out = next(text for text in printed if "more in the history file" in text)
    assert int(left_out.split("…")[1].split()[0]) == len(lines) - 40
    assert len(as_text(lines, limit=None)) == len(lines)


def test_braces_in_an_answer_or_a_key_do_no_harm() -> None:
    story = Story()
    for name in ("a", "b", "c"):
        story.send(name, key="{who} {0} {")
    for name in ("a", "b", "c"):
        story.answer(name, 500, "{oops} {}")
    assert texts(story) == [
        "a … c (3) → POST /emails  key={who} {0} {",
        "a … c (3) ← 500  {oops} {}",
    ]


def test_what_a_client_tells_and_what_was_never_fired_is_told() -> None:
    story = Story()
    story.tell(Kind.TOLD, told="not_sent")
    story.tell(Kind.UNFIRED, None, fault="provider.response: close")
    story.tell(Kind.OVERLAP, None, attempts=["a", "b"], overlapped=False)
    story.tell(Kind.OVERLAP, None, attempts=["a", "b"], overlapped=True, spread_us=250.0)
    story.tell(Kind.SETTLED, waited=10.0, arrived=False)
    story.tell(Kind.FINISHED, definite=False, waited=3.0, last="first~3")
    assert texts(story) == [
        "says of first: not sent",
        "the fault 'provider.response: close' never fired",
        "a, b did not overlap",
        "a, b were in flight together (sent within 0.2 ms)",
        "waited 10.0 s: what was promised did not arrive",
        "no definite answer after 3.0 s of retries",
    ]


def test_every_kind_of_event_can_be_told_without_its_data() -> None:
    for kind in Kind:
        if kind is not Kind.ENDED:
            story = Story()
            story.tell(kind, "first", "first")
            assert all(line.text for line in timeline(story.events)) or kind is Kind.VOID


def test_an_empty_history_has_no_lines() -> None:
    assert timeline([]) == []


def test_addresses_and_keys_are_short_enough_to_compare() -> None:
    assert short(TO) == "rz87e…@sendtwice.test"
    assert short("bob@x.test") == "bob@x.test"
    assert short_key(None) == "none"
    assert short_key("") == '""'
    assert short_key("k" * 250 + "ending") == "k" * 16 + "…kkkkending (256 characters)"
    assert short_key("a\tb") == "a\\tb"


def test_an_event_of_a_provider_is_told_once_with_its_number() -> None:
    story = Story("webhook.twice")
    attempt = story.tell(Kind.ATTEMPT, "first", "first", key="evt_1")
    story.tell(Kind.WEBHOOK_REQUEST, "first", "first", url="http://127.0.0.1:1/hooks")
    story.answer("first", body="")
    lines = timeline(story.events, {attempt.seq})
    assert [(line.edge, line.text, line.cited) for line in lines] == [
        ("webhook", "first → /hooks  event=evt_1", True),
        ("webhook", "first ← 200", False),
    ]


def fault_line(place: str, verb: str, argument: object = None, *, more: str = "", **data: Any) -> str:
    """What is told of a fault that fired on a caller's attempt."""
    fault = f"{place}: {verb}{'' if argument is None else f' {argument}'}{more}"
    story = Story("client.faults")
    story.tell(Kind.FIRED, "first", place=place, verb=verb, argument=argument, fault=fault, **data)
    (line,) = timeline(story.events)
    assert line.edge == place.partition(".")[0]
    return line.text


@pytest.mark.parametrize(
    ("place", "verb", "argument", "text"),
    [
        (
            *("client.request", "garble", "html"),
            "✂ the caller's request is answered with success and a page of HTML, and nothing is done",
        ),
        ("client.response", "garble", "empty", "✂ the answer to the caller comes with an empty body"),
        ("client.response", "garble", "half", "✂ the answer to the caller comes with half of its JSON"),
        ("client.response", "garble", "gzip", "✂ the answer to the caller comes with half of its gzip"),
        ("client.response", "drip", 2.5, "⏸ the answer to the caller comes bit by bit, for 2.5 s"),
        (
            "client.response",
            "lose",
            "in-chunks",
            "✂ the answer to the caller breaks off in its chunks, before the last",
        ),
        ("client.response", "lose", "in-body", "✂ the answer to the caller breaks off in the middle of its body"),
        ("client.response", "lose", "before-answer", "✂ the answer to the caller is lost"),
        ("client.response", "close", "after-answer", "✂ the connection is closed (FIN) after the answer to the caller"),
        ("client.response", "close", None, "✂ the connection is closed (FIN) at the answer to the caller"),
        ("webhook.response", "answer", 502, "✂ a gateway answers 502 in the place of the target's ack"),
    ],
)
def test_what_a_fault_does_to_a_callers_answer_is_told(place: str, verb: str, argument: object, text: str) -> None:
    assert fault_line(place, verb, argument) == text


def test_what_an_answer_asks_of_its_caller_is_told() -> None:
    more = ", retry after 2 s (a date)"
    assert fault_line("client.request", "answer", 503, more=more) == f"✂ the caller's request is answered 503{more}"


@pytest.mark.parametrize(
    ("stage", "verb", "argument", "text"),
    [
        ("connect", "reset", None, "✂ the connection is reset (RST) at the connection of the caller's request"),
        ("headers", "lose", None, "✂ the head of the caller's request is lost"),
        ("headers", "hold", None, "⏸ the head of the caller's request is held"),
        ("headers", "answer", 503, "✂ the head of the caller's request is answered 503"),
    ],
)
def test_a_fault_before_a_request_is_whole_says_what_there_was_of_it(
    stage: str, verb: str, argument: object, text: str
) -> None:
    assert fault_line("client.request", verb, argument, stage=stage) == text


def test_how_an_answer_broke_off_is_told_where_its_ending_does_not_say_so() -> None:
    story = Story("client.cut-answer")
    story.tell(Kind.ATTEMPT, "first", "first#1", key="k")
    story.tell(Kind.FIRED, "first", place="client.response", verb="lose", argument="in-body")
    story.tell(Kind.ENDED, "first", "first#1", outcome="lost", status=200)
    assert texts(story)[1:] == [
        "✂ the answer to the caller breaks off in the middle of its body",
        "✂ answer of first#1 lost",
    ]


def test_a_target_that_is_asked_again_is_told_with_the_id_that_it_gets() -> None:
    story = Story("client.asked-again")
    for attempt in ("first", "again"):
        story.tell(Kind.ASKED, "first", attempt, id="st-o1")
    assert texts(story) == ["is asked to perform first  id=st-o1", "is asked to perform first (again)  id=st-o1"]


def test_what_a_client_sends_by_itself_has_no_address_to_tell() -> None:
    story = Story("client.response-lost")
    story.tell(Kind.ATTEMPT, "first", "first#1", key="k")
    story.tell(Kind.CLIENT_REQUEST, "first", "first#1", key="k", recipients=[TO])
    story.tell(Kind.FIRED, "first", fault="client.response: lose", place="client.response", verb="lose")
    story.tell(Kind.ENDED, "first", "first#1", outcome="lost", status=200)
    assert texts(story) == ["first#1 → the API  key=k", "✂ answer of first#1 lost"]
