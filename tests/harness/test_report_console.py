"""What a person reads: a line for each scenario, what failed and why, one command at the end."""

import io
from collections.abc import Sequence
from typing import Any

import pytest

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.events import (
    RunEnded,
    RunEvent,
    RunStarted,
    ScenarioEnded,
    ScenarioReopened,
    ScenarioStarted,
    Watching,
)
from sendtwice.harness.history import Kind
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report import blocks
from sendtwice.harness.report.console import Console
from sendtwice.harness.report.paint import wants_color
from sendtwice.harness.required import all_required
from sendtwice.harness.result import RunResult, Verdict
from sendtwice.harness.scenario import parse
from tests.harness.stories import Story, failed, finding, other, run_of, twice

PLAIN = parse("{id: send.repeat, title: A repeat, role: api, steps: [{send: {as: first}}]}")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    """A pipe whose reader has had enough."""

    def write(self, text: str, /) -> int:
        raise BrokenPipeError


def printed(events: Sequence[RunEvent], stream: io.StringIO | None = None, **options: Any) -> str:
    stream = stream or io.StringIO()
    redactor = options.pop("redactor", Redactor())
    console = Console(redactor, stream=stream, target=options.pop("target", "mailer.toml"), **options)
    for event in events:
        console(event)
    return stream.getvalue()


def report(result: RunResult, **options: Any) -> list[str]:
    return printed([RunEnded(result)], **options).splitlines()


def test_the_first_line_is_how_many_scenarios_and_how_long() -> None:
    started = RunStarted("my-mailer", "api", "rasket", (PLAIN,), (), 75.0)
    text = printed([started, ScenarioStarted(PLAIN, 1, 1)])
    assert text == "1 scenario against my-mailer (api, contract rasket), about 1 min 15 s\n"


def test_each_scenario_has_a_line_with_mark_verdict_seconds_and_reason() -> None:
    lines = printed(
        [
            ScenarioEnded(other("send.repeat", Verdict.PASSED)),
            ScenarioEnded(failed()),
            ScenarioEnded(other("send.burst", Verdict.INCONCLUSIVE, reason="a and b did not overlap")),
            ScenarioEnded(other("send.hang-up", Verdict.KNOWN, reason="TICKET-412")),
        ]
    ).splitlines()
    assert lines[0].split() == ["✓", "send.repeat", "passed", "0.10", "s"]
    assert lines[1].startswith("✗ send.response-lost ")
    assert lines[1].endswith("0.21 s  first: 2 mails were delivered where one is allowed")
    assert lines[2].endswith("a and b did not overlap")
    assert lines[3].endswith("TICKET-412")


def test_quiet_leaves_out_what_is_well() -> None:
    events: list[RunEvent] = [ScenarioEnded(other("send.repeat", Verdict.PASSED)), ScenarioEnded(failed())]
    assert "send.repeat" not in printed(events, verbosity=-1)
    assert "send.response-lost" in printed(events, verbosity=-1)


def test_a_failure_is_understood_from_its_block() -> None:
    lines = report(run_of(failed()))
    text = "\n".join(lines)
    assert "✗ send.response-lost  The answer is lost after the provider accepted the mail" in lines
    assert "  first: 2 mails were delivered where one is allowed [at-most-once]" in lines
    assert any(line.startswith("  ▶") and "first → POST /emails" in line for line in lines)
    assert any("mail 2 to rz87e…@sendtwice.test committed" in line for line in lines)
    assert "  told × delivered   first: accepted / delivered 2 times" in lines  # noqa: RUF001  # the sign
    assert "  remedy             Claim the key in one atomic write" in text
    assert "  replay: sendtwice replay reports/run/send.response-lost.yaml mailer.toml" in lines


def test_the_last_line_is_the_command_that_repeats_the_worst_failure() -> None:
    lost = failed("send.repeat", findings=(finding("no-lost-send", "first: never delivered"),))
    result = run_of(lost, failed("send.burst"), failed("send.hang-up"), other("key.max", Verdict.PASSED))
    lines = report(result)
    assert lines[-1] == "sendtwice replay reports/run/send.burst.yaml mailer.toml"
    assert lines[-2] == "failed: 3 failed, 1 passed in 3.2 s (seed 1)"


def test_of_like_failures_the_shortest_story_is_the_worst() -> None:
    short = Story()
    short.send("first")
    result = run_of(failed("send.burst"), failed("send.repeat", story=short))
    worst = blocks.worst(result)
    assert worst is not None
    assert worst.id == "send.repeat"


def test_a_failure_that_was_not_saved_is_repeated_by_its_id() -> None:
    assert report(run_of(failed(replay=None)))[-1] == ("sendtwice run mailer.toml --scenario send.response-lost")


def test_a_command_can_be_pasted_whatever_the_path() -> None:
    lines = report(run_of(failed(replay="my reports/x.yaml")), target="a b.toml")
    assert lines[-1] == "sendtwice replay 'my reports/x.yaml' 'a b.toml'"


def test_a_run_without_failures_ends_with_its_counts() -> None:
    lines = report(run_of(other("send.repeat", Verdict.PASSED), retries_declared=True))
    assert lines == ["", "passed: 1 passed in 3.2 s (seed 1)"]


def test_a_pass_says_for_how_long_it_was_watched() -> None:
    text = " ".join(report(run_of(other("send.repeat", Verdict.PASSED), watched=2.5)))
    assert "no second mail within 2.5 s" in text
    assert "target.timing.retries_for" in text
    text = " ".join(report(run_of(other("send.repeat", Verdict.PASSED), retries_declared=True)))
    assert "retries_for" not in text


def test_what_was_not_shown_is_listed_with_its_reasons() -> None:
    why = "the target forgets everything when it restarts: target.start.keeps_state is false"
    lines = report(
        run_of(
            other("send.crash-after-accept", Verdict.SKIPPED, reason=why, needs=(why,)),
            other("send.crash-after-answer", Verdict.SKIPPED, reason=why, needs=(why,)),
            other("scope.other-path", Verdict.SKIPPED, reason="the target has no /emails/batch (404)"),
            other("send.burst", Verdict.INCONCLUSIVE, reason="the fault never fired"),
            other("send.hang-up", Verdict.KNOWN, reason="TICKET-412"),
        ),
        width=200,
    )
    at = lines.index("Skipped")
    assert lines[at + 1] == f"  send.crash-after-accept, send.crash-after-answer: {why}"
    assert lines[at + 2] == "  scope.other-path: the target has no /emails/batch (404)"
    assert lines[lines.index("Inconclusive: nothing was shown") + 1] == "  send.burst: the fault never fired"
    assert "  send.hang-up: TICKET-412" in lines


def test_weaker_findings_are_told_in_short() -> None:
    hole = finding("at-most-once-after-unknown", "first: 2 mails; the contract permits it", level=Level.HOLE)
    should = finding("conflict", "other content was delivered", level=Level.SHOULD)
    lines = report(
        run_of(
            other("send.provider-silent", Verdict.PASSED, findings=(hole,)),
            other("send.other-body", Verdict.PASSED, findings=(should,)),
            other("send.other-subject", Verdict.PASSED, findings=(should,)),
        ),
        width=200,
    )
    assert lines[lines.index("Holes: the contract permits this") + 1] == (
        "  first: 2 mails; the contract permits it [at-most-once-after-unknown; send.provider-silent]"
    )
    assert "  other content was delivered [conflict; send.other-body, send.other-subject]" in lines


def test_habits_are_told_only_to_those_who_ask() -> None:
    result = run_of(other("send.repeat", Verdict.PASSED), observed={"in_progress": "waits, then replays"})
    assert "in progress: waits, then replays" not in "\n".join(report(result))
    assert "  in progress: waits, then replays" in report(result, verbosity=1)


def test_an_error_of_the_harness_is_said_and_the_failures_before_it_stay() -> None:
    lines = report(run_of(failed(), error="the target ended with status 1"))
    assert "sendtwice could not do its work: the target ended with status 1" in lines
    assert lines[-2].startswith("could not finish: 1 failed")


def test_with_all_required_what_was_skipped_is_among_the_failures() -> None:
    result = all_required(run_of(other("send.burst", Verdict.SKIPPED, reason="no sender")))
    assert result.exit_code == 1
    lines = report(result)
    assert "  skipped, and all are required: no sender" in lines
    assert lines[-1] == "sendtwice run mailer.toml --scenario send.burst"


def test_strays_are_told() -> None:
    assert any("2 mails belonged to no operation" in line for line in report(run_of(failed(), strays=2)))


def test_a_late_delivery_is_told_at_once() -> None:
    before = other("send.response-lost", Verdict.PASSED)
    text = printed([ScenarioReopened(before, failed())])
    assert text.startswith("↺ send.response-lost  passed → failed: first: 2 mails")


def test_a_terminal_gets_a_progress_line_and_colour_and_a_pipe_neither() -> None:
    events: list[RunEvent] = [
        ScenarioStarted(PLAIN, 3, 8),
        ScenarioEnded(other("send.repeat", Verdict.PASSED)),
        Watching(2.0),
        RunEnded(run_of(other("send.repeat", Verdict.PASSED))),
    ]
    shown = printed(events, Terminal(), color="always")
    assert "\r\x1b[2K3/8  send.repeat  A repeat" in shown
    assert "watching for late mails for 2.0 s" in shown
    assert "\x1b[32m✓\x1b[0m" in shown
    assert "\x1b" not in printed(events)
    assert "\r" not in printed(events, color="always")
    assert "\x1b[32m" not in printed(events, Terminal(), color="never")


@pytest.mark.parametrize(
    ("color", "environ", "terminal", "wanted"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_colour_is_as_asked_or_as_the_stream_is(
    color: Any, environ: dict[str, str], terminal: bool, wanted: bool
) -> None:
    assert wants_color(color, Terminal() if terminal else io.StringIO(), environ) is wanted


def test_a_reader_that_has_gone_away_is_no_error() -> None:
    printed([RunEnded(run_of(failed()))], Gone())


def test_a_stream_without_the_signs_gets_plain_ones() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Console(Redactor(), stream=stream)(RunEnded(run_of(failed())))
    stream.flush()
    text = raw.getvalue().decode("ascii")
    assert "first -> POST /emails" in text
    assert "% answer of first lost" in text


def test_no_secret_is_printed() -> None:
    story = twice()
    story.answer("retry", 500, "internal error: token hunter2hunter2 is wrong")
    result = failed(story=story, findings=(finding("at-most-once", "seen hunter2hunter2"),))
    text = "\n".join(report(run_of(result, error="it said hunter2hunter2"), redactor=Redactor({"hunter2hunter2"})))
    assert "hunter2" not in text
    assert "***" in text


def test_plain_sends_are_shown_as_curl_lines_too() -> None:
    story = Story("send.repeat")
    story.send("first", headers={"Authorization": "Bearer hunter2hunter2"})
    story.hand_over(1)
    story.answer("first")
    story.send("again")
    story.hand_over(2)
    story.answer("again")
    redactor = Redactor(variables={"API_KEY": "hunter2hunter2"})
    lines = report(run_of(failed("send.repeat", story=story)), redactor=redactor)
    at = lines.index("  without sendtwice:")
    assert lines[at + 1].split()[:2] == ["URL=http://127.0.0.1:41234", "RUN=$(date"]
    assert lines[at + 2].startswith('    curl -i -X POST "$URL/emails" -H "Idempotency-Key: st-kx${RUN}-first"')
    assert '-H "Authorization: Bearer ${API_KEY}"' in lines[at + 2]
    assert lines[at + 2].endswith("# first")
    assert lines[at + 3].endswith("# again")


@pytest.mark.parametrize("kind", [Kind.FIRED, Kind.CRASH, Kind.OVERLAP])
def test_what_curl_cannot_show_has_no_curl_lines(kind: Kind) -> None:
    story = Story("send.repeat")
    story.send("first")
    story.answer("first")
    story.tell(kind, "first", "first", overlapped=True, attempts=["first"], place="x", verb="y")
    assert "without sendtwice" not in "\n".join(report(run_of(failed("send.repeat", story=story))))


@pytest.mark.parametrize(
    ("answers", "count", "cell"),
    [
        ({"first": ["accepted"]}, 1, "accepted / delivered"),
        ({"first": ["accepted"]}, 0, "accepted / never delivered"),
        ({"first": ["refused", "conflict"]}, 1, "refused / delivered"),
        ({"first": ["refused"]}, 0, "refused / not delivered"),
        ({"first": ["lost"], "retry": ["replayed"]}, 3, "accepted / delivered 3 times"),
        ({"first": ["lost"]}, 1, "told nothing for certain / delivered"),
        ({"first": ["accepted", "conflict"]}, 1, "perhaps accepted / delivered"),
    ],
)
def test_told_and_delivered_is_one_cell(answers: dict[str, list[str]], count: int, cell: str) -> None:
    result = failed(answers=answers, deliveries={"first": count})
    assert blocks.told_and_delivered(result) == [("first", cell)]


def test_what_a_client_says_of_itself_is_what_was_told() -> None:
    story = Story()
    story.tell(Kind.TOLD, told="not_sent")
    result = failed(story=story, answers={}, deliveries={"first": 1})
    assert blocks.told_and_delivered(result) == [("first", "refused / delivered")]
