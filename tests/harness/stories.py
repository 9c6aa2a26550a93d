"""Histories and results made by hand, for the reporters: no runner is needed to print one."""

from typing import Any

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge import RULES, Finding
from sendtwice.harness.result import RunResult, ScenarioResult, Verdict

KEY = "st-k3n2362tk4kc-first"
TO = "rz87eabcdefg@sendtwice.test"


class Story:
    """Writes a history line by line, a millisecond apart."""

    def __init__(self, scenario: str = "send.response-lost") -> None:
        self.scenario = scenario
        self.events: list[Event] = []

    def tell(self, kind: Kind, operation: str | None = "first", attempt: str | None = None, **data: Any) -> Event:
        seq = len(self.events) + 1
        event = Event(seq, 100 + seq / 1000, kind, self.scenario, operation, attempt, None, data)
        self.events.append(event)
        return event

    def send(self, attempt: str, operation: str = "first", key: str | None = KEY, **data: Any) -> None:
        content = data.pop("content", "c1")
        headers = {
            "Idempotency-Key": key or "",
            "Content-Type": "application/json",
            **data.pop("headers", {}),
        }
        self.tell(Kind.ATTEMPT, operation, attempt, key=key, key_problem=None, content=content, **data)
        self.tell(
            Kind.CLIENT_REQUEST,
            operation,
            attempt,
            method="POST",
            url="http://127.0.0.1:41234/emails",
            headers=headers,
            body='{"to": "' + TO + '"}',
        )

    def hand_over(self, commit: int, operation: str = "first", *, told: bool = True) -> None:
        self.tell(Kind.PROVIDER_REQUEST, operation, recipients=[TO], subject="Receipt", key=None)
        self.tell(Kind.DELIVERY, operation, recipient=TO, commit=commit)
        self.tell(Kind.PROVIDER_RESPONSE, operation, status=200, sent=told, commit=commit)

    def answer(self, attempt: str, status: int = 200, body: str = '{"id": "m1"}', operation: str = "first") -> None:
        self.tell(Kind.ENDED, operation, attempt, outcome="answered", status=status, headers={}, body=body)

    def lose(self, attempt: str) -> None:
        detail = "the caller went away at before-answer"
        self.tell(Kind.ENDED, "first", attempt, outcome="lost", detail=detail)


def twice() -> Story:
    """The answer is lost, the retry is sent again: two mails."""
    story = Story()
    story.tell(Kind.OPERATION, recipients=[TO], group="first")
    story.send("first")
    story.hand_over(7)
    fault = "client.response: lose"
    story.tell(Kind.FIRED, "first", "first", fault=fault, place="client.response", verb="lose", argument=None)
    story.lose("first")
    story.send("retry", retry_of="first")
    story.hand_over(8)
    story.answer("retry")
    return story


def finding(
    rule: str = "at-most-once",
    message: str = "first: 2 mails were delivered where one is allowed",
    *events: int,
    level: Level = Level.MUST,
) -> Finding:
    return Finding(rule, level, message, RULES[rule].remedy, events or (3, 5, 12), "first")


def failed(scenario: str = "send.response-lost", *, story: Story | None = None, **changes: Any) -> ScenarioResult:
    story = story or twice()
    given: dict[str, Any] = {
        "seconds": 0.21,
        "deliveries": {"first": 2},
        "answers": {"first": ["lost"], "retry": ["accepted"]},
        "findings": (finding(),),
        "replay": f"reports/run/{scenario}.yaml",
        "history": tuple(story.events),
    }
    return ScenarioResult(
        scenario,
        "The answer is lost after the provider accepted the mail",
        Verdict.FAILED,
        **{**given, **changes},
    )


def other(scenario: str, verdict: Verdict, **given: Any) -> ScenarioResult:
    return ScenarioResult(scenario, f"The title of {scenario}", verdict, seconds=0.1, **given)


def run_of(*scenarios: ScenarioResult, **changes: Any) -> RunResult:
    given: dict[str, Any] = {
        "version": "0.1.0",
        "target": "my-mailer",
        "role": "api",
        "contract": "rasket",
        "contract_sha256": "ab" * 32,
        "seed": 1,
        "started": "2026-11-29T12:00:00+00:00",
        "seconds": 3.25,
        "scenarios": scenarios,
        "watched": 1.0,
    }
    return RunResult(**{**given, **changes})
