"""Whole runs on targets whose mail goes elsewhere: what is counted is judged as if it had been delivered here."""

import asyncio
from pathlib import Path

import pytest

from sendtwice.harness import checking
from sendtwice.harness.history import Kind
from sendtwice.harness.result import Verdict
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import load
from tests.harness.effects.outbox import COMMAND, HTTP, REPEAT, SQL, only, play, scenario, written

WAYS = {"http": HTTP, "sql": SQL, "command": COMMAND}
#: Each role with another way to count.
ROLES = [("api", "http"), ("consumer", "sql"), ("client", "command")]


@pytest.mark.parametrize(("role", "way"), ROLES)
def test_a_sound_target_passes(tmp_path: Path, role: str, way: str) -> None:
    file = written(tmp_path, WAYS[way], role=role)
    result = only(play(file, scenario(role, REPEAT[role])))
    assert (result.verdict, result.deliveries) == (Verdict.PASSED, {"first": 1})


@pytest.mark.parametrize(("role", "way"), ROLES)
def test_a_target_that_sends_twice_is_caught_by_the_count_alone(tmp_path: Path, role: str, way: str) -> None:
    file = written(tmp_path, WAYS[way], role=role, mode="repeats")
    result = only(play(file, scenario(role, REPEAT[role])))
    assert (result.verdict, result.deliveries) == (Verdict.FAILED, {"first": 2})
    assert [finding.rule for finding in result.broken] == ["at-most-once"]
    counted = [e for e in result.history if e.kind is Kind.DELIVERY]
    assert all(e.data["counted"] for e in counted)
    assert len({e.data["commit"] for e in counted}) == 2


@pytest.mark.parametrize("role", ["api", "consumer", "client"])
def test_an_effect_can_be_asked_for_by_all_that_the_target_was_given(tmp_path: Path, role: str) -> None:
    query = SQL.replace("recipient = :to", "recipient = :to and subject = :subject and content = :text")
    result = only(play(written(tmp_path, query, role=role), scenario(role, REPEAT[role])))
    assert (result.verdict, result.deliveries) == (Verdict.PASSED, {"first": 1})


def test_a_late_effect_is_waited_for(tmp_path: Path) -> None:
    file = written(tmp_path, SQL, mode="late")
    result = only(play(file, scenario("api", REPEAT["api"])))
    assert (result.verdict, result.deliveries) == (Verdict.PASSED, {"first": 1})


def test_an_effect_that_is_awaited_is_asked_for_again(tmp_path: Path) -> None:
    file = written(tmp_path, SQL, mode="late")
    steps = "[{send: {as: first}}, {until: {delivered: first}}, {check: {deliveries: {first: 1}}}]"
    assert only(play(file, scenario("api", steps))).verdict is Verdict.PASSED


def test_a_second_effect_after_the_scenario_is_found_at_the_end_of_the_run(tmp_path: Path) -> None:
    file = written(tmp_path, SQL, mode="sends-again-later")
    result = only(play(file, scenario("api", "[{send: {as: first}}]"), watch=0.8))
    assert (result.verdict, result.deliveries) == (Verdict.FAILED, {"first": 2})


def test_a_success_that_nothing_came_of_is_a_lost_mail(tmp_path: Path) -> None:
    file = written(tmp_path, SQL, mode="only-the-canary", more="[target.timing]\ndelivers_within = 0.2\n")
    result = only(play(file, scenario("api", "[{send: {as: first}}]")))
    assert [finding.rule for finding in result.broken] == ["no-lost-send"]


MUTATED = "[{send: {as: first}}, {send: {as: other, like: first, op: other, change: {text: other}}}]"


def test_two_contents_to_one_person_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    query = SQL.replace("recipient = :to", "recipient = :to and content = :text")
    result = only(play(written(tmp_path, query, mode="repeats"), scenario("api", MUTATED)))
    assert result.deliveries == {"first": 1, "other": 1}


def test_two_contents_that_only_the_recipient_is_asked_for_are_not_held_against_anybody(tmp_path: Path) -> None:
    result = only(play(written(tmp_path, SQL, mode="repeats"), scenario("api", MUTATED)))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reason == "what target.effects counts by does not tell two operations apart: add {subject} or {text}"


def test_scenarios_side_by_side_count_their_own(tmp_path: Path) -> None:
    file = written(tmp_path, SQL)
    several = [scenario("api", REPEAT["api"], f"own.s{n}") for n in range(6)]
    result = play(file, *several, jobs=4)
    assert [(one.verdict, one.deliveries) for one in result.scenarios] == [(Verdict.PASSED, {"first": 1})] * 6


def test_a_killed_target_that_counts_by_itself_is_asked_again_when_it_is_back(tmp_path: Path) -> None:
    file = written(tmp_path, HTTP)
    steps = "[{send: {as: first}}, crash, restart, {send: {as: again, like: first}}]"
    result = only(play(file, scenario("api", steps)))
    assert (result.verdict, result.deliveries) == (Verdict.PASSED, {"first": 1})


def test_a_second_effect_around_a_crash_may_be_of_an_unknown_outcome(tmp_path: Path) -> None:
    """Whether the target knew of the first, nobody saw; so the rule is the milder of the two."""
    file = written(tmp_path, SQL, mode="repeats")
    steps = "[{send: {as: first}}, crash, restart, {send: {as: again, like: first}}]"
    result = only(play(file, scenario("api", steps)))
    assert {finding.rule for finding in result.findings} == {"at-most-once-after-unknown"}


@pytest.mark.parametrize("way", WAYS)
def test_an_uncounted_canary_stops_the_run(tmp_path: Path, way: str) -> None:
    file = written(tmp_path, WAYS[way], mode="never", more="[target.timing]\ndelivers_within = 0.2\n")
    result = play(file, scenario("api", REPEAT["api"]))
    assert (result.exit_code, result.scenarios) == (4, ())
    assert result.error is not None
    assert result.error.startswith("the canary was answered 200 and was not counted by ")
    assert "target.effects" in result.error
    assert "\n" not in result.error
    assert "s3cret" not in result.error


@pytest.mark.parametrize(
    ("effects", "said"),
    [
        (
            HTTP.replace("/page/total", "/page/words"),
            "target.effects.count: GET http://127.0.0.1:{port}/sent has 'many'",
        ),
        (HTTP.replace("s3cret-of-staging", "x"), 'answered 401: {"error": "who are you?"}; credentials go into'),
        (HTTP.replace("{port}", "1"), "target.effects.http: GET http://127.0.0.1:1/sent could not be asked"),
        (SQL.replace("from sent", "from snet"), "target.effects.sql: outbox.db: no such table: snet; mend the query"),
        (SQL.replace("outbox.db", "inbox.db"), "target.effects.database: there is no inbox.db"),
        ('command = ["no-such-program", "{to}"]', "'no-such-program' cannot be started (no such file or directory)"),
        ('command = ["{python}", "-c", "print(\'none\')", "{to}"]', "printed 'none'; let it print one whole number"),
        ('command = ["{python}", "-c", "raise SystemExit(\'no access\')", "{to}"]', "its last words: no access"),
        ('command = ["{python}", "-c", "import time; time.sleep(9)", "{to}"]\ntimeout = 0.3', "within 0.3 s"),
    ],
)
def test_a_count_that_cannot_be_had_is_told_at_the_canary(tmp_path: Path, effects: str, said: str) -> None:
    file = written(tmp_path, effects, more="[target.timing]\ndelivers_within = 0.3\n")
    result = play(file, scenario("api", REPEAT["api"]))
    assert result.exit_code == 4
    assert result.error is not None
    assert said in result.error
    assert "\n" not in result.error


def test_a_count_of_everything_is_refused_after_the_canary(tmp_path: Path) -> None:
    """It takes the recipient and does not use it: every mail would be everybody's."""
    file = written(tmp_path, SQL.replace("recipient = :to", "recipient = :to or 1 = 1"))
    result = play(file, scenario("api", REPEAT["api"]))
    assert result.exit_code == 4
    assert result.error is not None
    assert result.error.startswith("a query to sqlite:///outbox.db counted 1 for a recipient to whom nothing was sent")


def test_a_count_that_fails_later_voids_the_scenario(tmp_path: Path) -> None:
    """The canary and the check after it are counted, and nothing from then on."""
    program = "import pathlib, subprocess, sys; p = pathlib.Path('asked'); a = p.read_text() if p.exists() else ''; "
    program += "t = sys.argv[1]; a += '' if t in a.split() else t + ' '; p.write_text(a); "
    program += "sys.exit(9) if len(a.split()) > 2 else subprocess.run([sys.executable, 'count.py', t], check=True)"
    file = written(tmp_path, f'command = ["{{python}}", "-c", "{program}", "{{to}}"]')
    result = only(play(file, scenario("api", REPEAT["api"])))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reason is not None
    assert result.reason.startswith("target.effects.command: '{python}' ended with status 9")


def test_a_count_that_falls_voids_the_scenario(tmp_path: Path) -> None:
    program = "import pathlib, sys; p = pathlib.Path(sys.argv[1]); n = len(p.read_text()) if p.exists() else 0; "
    program += "p.write_text('x' * (n + 1)); print(0 if n == 0 else max(0, 3 - n))"
    file = written(tmp_path, f'command = ["{{python}}", "-c", "{program}", "{{token}}"]')
    result = only(play(file, scenario("api", REPEAT["api"])))
    assert "target.effects counted 2 for " in str([e.data for e in result.history if e.kind is Kind.VOID])


def test_mail_at_the_fake_provider_is_noted_and_not_counted(tmp_path: Path) -> None:
    more = '[target.provider]\ndialect = "generic"\n'
    file = written(tmp_path, SQL, more=more)
    server = tmp_path / "server.py"
    hand_over = (
        "    import urllib.request\n"
        '    mail = json.dumps({"from": "a@b.test", "to": [to], "subject": subject, "text": content}).encode()\n'
        '    url = os.environ["MAIL_PROVIDER_URL"] + "/emails"\n'
        '    urllib.request.urlopen(urllib.request.Request(url, mail, {"Content-Type": "application/json"})).close()\n'
    )
    server.write_text(server.read_text().replace("    made.commit()\n", hand_over + "    made.commit()\n", 1))
    file.write_text(
        file.read_text().replace('PORT = "{port}" }', 'PORT = "{port}", MAIL_PROVIDER_URL = "{provider_url}" }')
    )
    result = only(play(file, scenario("api", REPEAT["api"])))
    assert (result.verdict, result.deliveries) == (Verdict.PASSED, {"first": 1})
    assert [e.kind for e in result.history if e.kind in (Kind.DELIVERY, Kind.UNCOUNTED)] == [
        Kind.UNCOUNTED,
        Kind.DELIVERY,
    ]


def test_check_says_where_effects_are_counted_and_what_cannot_be_held(tmp_path: Path) -> None:
    target, path = load(str(written(tmp_path, HTTP)))
    held = scenario("api", "[{send: {as: first, at: {provider.response: lose}}}]", "own.held")
    report = asyncio.run(checking.check(target, path, [held], RunSettings(reports=tmp_path / "reports")))
    assert report.ok
    assert "effects are counted by GET http://127.0.0.1:{port}/sent; mails at the fake provider are not" in report.lines
    assert (
        "skipped: effects are counted elsewhere: nothing is held at the provider (target.effects): 1, own.held"
        in report.lines
    )
