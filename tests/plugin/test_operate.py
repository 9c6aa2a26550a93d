"""The fixture ``sendtwice``: one test for each scenario, and what each outcome says."""

import pytest

from tests.plugin.inner import run, run_apart

RECEIPT = """
import mailer, pytest

@pytest.mark.sendtwice(contract="resend", scenarios={scenarios!r}, told={{mailer.UnknownOutcomeError: "unknown"}})
def test_receipt(sendtwice):
    @sendtwice.operate
    def _(op):
        body = mailer.request(op.to, op.subject, op.text, op.sender)
        mailer.send(sendtwice.url, body, {key})
"""
LOST = ["client.response-lost"]


def receipt(scenarios: object = LOST, key: str = "op.id") -> str:
    return RECEIPT.format(scenarios=scenarios, key=key)


def text_of(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines)


def test_there_is_one_test_for_each_scenario_and_a_sound_caller_passes(pytester: pytest.Pytester) -> None:
    names = ["client.conflict", "client.response-lost", "client.two-workers"]
    result = run(pytester, receipt(names), "-vv")

    result.assert_outcomes(passed=3)
    for name in names:
        result.stdout.fnmatch_lines([f"*test_receipt[[]{name}[]] PASSED*"])


def test_a_fresh_key_for_each_attempt_is_caught_with_findings_remedy_and_timeline(pytester: pytest.Pytester) -> None:
    result = run(pytester, receipt(key="mailer.fresh_key"))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "client.response-lost: *2 mails*",
            "*client.response-lost  The API accepts, and its answer to the caller is lost",
            "*mail 1 to * committed",
            "*answer of first#1 lost",
            "*mail 2 to * committed",
            "*told × delivered   first: accepted / delivered 2 times",  # noqa: RUF001  # the sign, not the letter
            "*remedy  *",
        ]
    )
    text = text_of(result)
    assert "Traceback" not in text
    assert "harness/" not in text
    assert "without sendtwice:" not in text  # its requests are the test's own: there is nothing to paste


def test_scenarios_that_do_not_fit_are_skipped_with_the_reason(pytester: pytest.Pytester) -> None:
    result = run(pytester, receipt(["client.crash*", "client.response-lost"]), "-rs")

    outcomes = result.parseoutcomes()
    assert outcomes["passed"] == 1
    assert outcomes["skipped"] >= 1
    result.stdout.fnmatch_lines(["*it kills or pauses the process that sends*play it with sendtwice run"])


def test_what_only_its_owner_knows_is_asked_for_in_words_of_the_marker(pytester: pytest.Pytester) -> None:
    result = run(pytester, receipt(["client.*"]), "-rs", "--collect-only")

    assert "target.timing" not in text_of(result)


def test_an_operation_is_the_same_each_time_it_is_asked_for(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import mailer, pytest
        seen = []

        @pytest.mark.sendtwice(contract="resend", scenarios="client.asked-again")
        def test_receipt(sendtwice):
            @sendtwice.operate
            def _(op):
                seen.append(op)
                mailer.send(sendtwice.url, mailer.request(op.to, op.subject, op.text, op.sender), op.id)

        def test_afterwards():
            middle = seen[1:-1]  # between the first plain mail and the last
            assert len(middle) == 2 and middle[0] == middle[1]
            assert seen[0].id != middle[0].id != seen[-1].id
        """,
    )

    result.assert_outcomes(passed=2)


def test_sequential_operations_run_in_the_tests_own_thread_and_parallel_ones_beside_it(
    pytester: pytest.Pytester,
) -> None:
    run(
        pytester,
        """
        import contextvars, threading, mailer, pytest
        mark = contextvars.ContextVar("mark")
        where = {}

        @pytest.mark.sendtwice(contract="resend", scenarios=["client.asked-again", "client.two-workers"])
        def test_receipt(sendtwice):
            here = threading.current_thread()
            mark.set("mine")
            there = where.setdefault(sendtwice.scenario, [])

            @sendtwice.operate
            def _(op):
                there.append(threading.current_thread() is here)
                assert mark.get() == "mine"
                mailer.send(sendtwice.url, mailer.request(op.to, op.subject, op.text, op.sender), op.id)

        def test_afterwards():
            assert all(where["client.asked-again"])
            assert sorted(where["client.two-workers"])[:2] == [False, True]
        """,
        "-p",
        "no:xdist",
    ).assert_outcomes(passed=3)


def test_an_exception_means_not_sent_unless_it_is_mapped(pytester: pytest.Pytester) -> None:
    test = """
    import mailer, pytest

    @pytest.mark.sendtwice(contract="resend", scenarios="client.unknown-outcome", {told})
    def test_receipt(sendtwice):
        @sendtwice.operate
        def _(op):
            mailer.send(sendtwice.url, mailer.request(op.to, op.subject, op.text, op.sender), op.id)
    """
    result = run(pytester, test.format(told=""))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "client.unknown-outcome: *the mail was delivered*",
            "*raised             UnknownOutcomeError:*mailer.py:*, taken as not_sent",
            '*other meanings: @pytest.mark.sendtwice(told={TheError: "unknown"})',
        ]
    )

    run(pytester, test.format(told='told={Exception: "sent", mailer.UnknownOutcomeError: "unknown"}')).assert_outcomes(
        passed=1
    )


@pytest.mark.parametrize(
    ("returned", "outcome"),
    [('"unknown"', {"passed": 1}), ('"not_sent"', {"failed": 1}), ("False", {"failed": 1}), ('"sent"', {"passed": 1})],
)
def test_what_a_callable_returns_says_what_became_of_the_mail(
    pytester: pytest.Pytester, returned: str, outcome: dict[str, int]
) -> None:
    """The mail is out each time: whoever says it is not is wrong."""
    run(
        pytester,
        f"""
        import mailer, pytest

        @pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
        def test_receipt(sendtwice):
            @sendtwice.operate
            def _(op):
                mailer.send(sendtwice.url, mailer.request(op.to, op.subject, op.text, op.sender), op.id)
                return "sent" if len(sendtwice.api.attempts) != 3 else {returned}
        """,
    ).assert_outcomes(**outcome)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("pass", "test_receipt*registered nothing that sends; decorate a function*@sendtwice.operate"),
        (
            "sendtwice.operate(lambda op: None)",
            "sendtwice could not do its work: the canary was reported as sent*sendtwice.url",
        ),
        ("sendtwice.operate(lambda op: False)", "sendtwice could not do its work: the canary *"),
        ("sendtwice.operate(None)", "*operate registers a callable*"),
        (
            "sendtwice.operate(lambda op: None); sendtwice.operate(lambda op: None)",
            "*a callable is registered already*",
        ),
    ],
)
def test_wrong_use_is_one_clear_message(pytester: pytest.Pytester, body: str, complaint: str) -> None:
    result = run(
        pytester,
        f"""
        import pytest
        @pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
        def test_receipt(sendtwice):
            {body}
        """,
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([complaint])


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        (
            'contract="resend", scenarios="client.response-lots"',
            "*fits no scenario; did you mean*client.response-lost*",
        ),
        ('contract="resend", scenarios="send.repeat"', "*send.repeat is for role api; a test plays*client*"),
        ('contract="resend", exclude="client.*"', "*exclude leaves none*"),
        ('contract="resend", retries_for=-1', "*the marker's retries_for: *"),
        ('contract="resend", known={"at-most-onec": "-"}', "*is no rule; did you mean at-most-once?*"),
        ('scenarios="client.*"', "*names no contract*"),
    ],
)
def test_a_choice_that_fits_nothing_is_one_line(pytester: pytest.Pytester, marker: str, complaint: str) -> None:
    result = run(
        pytester,
        f"""
        import pytest
        @pytest.mark.sendtwice({marker})
        def test_receipt(sendtwice): pass
        """,
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([complaint])
    assert "Traceback" not in text_of(result)


def test_a_callable_with_a_bug_shows_the_bug(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        @pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
        def test_receipt(sendtwice):
            @sendtwice.operate
            def _(op):
                return op.no_such_thing
        """,
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*return op.no_such_thing", "E*AttributeError:*no_such_thing*", "*one plain mail*"])


def test_a_callable_that_is_not_redirected_is_one_clear_error_and_no_mail(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import mailer, pytest
        @pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
        @pytest.mark.parametrize("quiet", [False, True])
        def test_receipt(sendtwice, quiet):
            @sendtwice.operate
            def _(op):
                try:
                    mailer.send("https://api.resend.com", mailer.request(op.to), op.id)
                except Exception:
                    if not quiet:
                        raise
        """,
    )

    result.assert_outcomes(failed=2)
    text = text_of(result)
    # Where CI is set, pytest says it in its summary as well.
    assert text.count("a connection to api.resend.com:443 was refused: a test with a send API stays") in (2, 4)


@pytest.mark.parametrize(
    ("body", "outcomes", "line"),
    [
        ('pytest.skip("not today")', {"skipped": 1}, "*not today*"),
        ('pytest.fail("no more")', {"failed": 1}, "*no more*"),
    ],
)
def test_a_callable_may_end_the_test(pytester: pytest.Pytester, body: str, outcomes: dict[str, int], line: str) -> None:
    result = run(
        pytester,
        f"""
        import pytest
        @pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
        def test_receipt(sendtwice):
            @sendtwice.operate
            def _(op):
                {body}
        """,
        "-rs",
    )

    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines([line])


def test_an_assertion_of_the_test_itself_is_shown_as_ever(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        @pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
        def test_receipt(sendtwice):
            assert sendtwice.scenario == "another"
        """,
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert sendtwice.scenario == *", "E*client.response-lost*"])
    assert "playing.py" not in text_of(result)


def test_the_api_of_a_scenario_can_be_looked_at_and_known_sdks_are_pointed_at_it(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import os, resend, pytest
        @pytest.mark.sendtwice(contract="resend", scenarios="client.conflict")
        def test_receipt(sendtwice, send_api, monkeypatch):
            monkeypatch.setattr(resend, "api_key", "re_test")
            assert send_api.url == sendtwice.url == resend.api_url == os.environ["RESEND_API_URL"]

            @sendtwice.operate
            def _(op):
                params = {"from": op.sender, "to": [op.to], "subject": op.subject, "text": op.text}
                resend.Emails.send(params, {"idempotency_key": op.id})
                assert send_api.keys[-1] == op.id
        """,
    ).assert_outcomes(passed=1)


def test_a_method_of_a_class_and_fixtures_beside_it(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import mailer, pytest

        class TestReceipts:
            prefix = "receipt-"

            @pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
            @pytest.mark.parametrize("attempts", [2, 3])
            def test_receipt(self, sendtwice, attempts, tmp_path):
                @sendtwice.operate
                def _(op):
                    body = mailer.request(op.to, op.subject, op.text, op.sender)
                    mailer.send(sendtwice.url, body, self.prefix + op.id, attempts=attempts)
        """,
    ).assert_outcomes(passed=2)


def test_an_accepted_deviation_is_an_expected_failure_with_its_reason(pytester: pytest.Pytester) -> None:
    known = 'known={"at-most-once": "TICKET-412", "one-key": "TICKET-412"}'
    test = receipt(key="mailer.fresh_key").replace("told=", f"{known}, told=")
    result = run(pytester, test, "-rx")

    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["*TICKET-412*"])


def test_mails_of_all_kinds_can_be_asked_for(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import mailer, pytest
        subjects = set()

        @pytest.mark.sendtwice(contract="resend", scenarios="client.two-workers", mails="varied")
        def test_receipt(sendtwice):
            @sendtwice.operate
            def _(op):
                subjects.add(op.subject)
                body = mailer.request(op.to, op.subject or "-", op.text, op.sender)
                mailer.send(sendtwice.url, body, op.id)

        def test_afterwards():
            assert len(subjects) > 8 and any(not subject.isascii() for subject in subjects)
        """,
    ).assert_outcomes(passed=2)


def test_a_callable_that_does_not_end_shows_nothing_and_ends_with_its_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import httpx, mailer, pytest

        @pytest.mark.sendtwice(contract="resend", scenarios="client.no-answer", attempt_timeout=0.2, timeout=0.5)
        def test_receipt(sendtwice):
            @sendtwice.operate
            def _(op):
                body = mailer.request(op.to, op.subject, op.text, op.sender)
                headers = {"Authorization": "Bearer k", "Idempotency-Key": op.id}
                httpx.post(f"{sendtwice.url}/emails", json=body, headers=headers, timeout=None)
        """,
        "-rs",
    )

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*inconclusive: the client did not end within 0.5 s*"])


def test_a_testcase_of_unittest_is_told_what_is_possible(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import unittest, pytest

        class TestReceipts(unittest.TestCase):
            @pytest.mark.usefixtures("sendtwice")
            @pytest.mark.sendtwice(contract="resend")
            def test_receipt(self):
                pass
        """,
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the fixture sendtwice is an argument of a test, not of a unittest.TestCase"])


@pytest.mark.slow
def test_each_test_has_its_own_in_several_processes_and_in_random_order(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = """
@pytest.mark.sendtwice(contract="resend")
@pytest.mark.parametrize("n", range(4))
def test_by_hand(send_api, n):
    send_api.lose("client.response", attempt=1)
    mailer.send(send_api.url, mailer.request("a@x.test"), "the same key")
    assert send_api.deliveries == 1
    assert len(send_api.attempts) == 2
"""
    names = ["client.conflict", "client.response-lost", "client.two-workers", "client.asked-again"]
    result = run_apart(pytester, monkeypatch, receipt(names) + by_hand, "-p", "xdist", "-p", "randomly", "-n", "2")

    result.assert_outcomes(passed=8)
