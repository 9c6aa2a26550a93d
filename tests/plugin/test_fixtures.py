"""The fixtures ``send_api`` and ``fake_provider``: where the contract comes from, and what fails a test."""

import pytest

from tests.plugin.inner import run, run_apart

BY_HAND = """
import mailer, pytest

@pytest.mark.sendtwice(contract="resend")
def test_by_hand(send_api):
    send_api.lose("client.response", attempt=1)
    mailer.send(send_api.url, mailer.request("a@x.test"), {key})
    assert send_api.deliveries == 1
"""
PLAIN = """
def test_plain(send_api):
    assert send_api.contract == "{}"
"""


def failures(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines)


def test_a_sound_caller_passes_by_hand(pytester: pytest.Pytester) -> None:
    run(pytester, BY_HAND.format(key='"1042"')).assert_outcomes(passed=1)


def test_a_caller_with_fresh_keys_is_caught_by_hand(pytester: pytest.Pytester) -> None:
    result = run(pytester, BY_HAND.format(key="mailer.fresh_key"))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 2 == 1*"])


def test_no_contract_is_one_clear_error_with_the_three_ways(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_none(send_api): pass\n")

    result.assert_outcomes(errors=1)
    (told,) = [line for line in result.outlines if line.startswith("test_none names no contract")]
    for way in ('@pytest.mark.sendtwice(contract="resend")', "sendtwice_contract = resend", "sendtwice.toml"):
        assert way in told
    assert "Traceback" not in failures(result)
    assert "harness" not in failures(result)


def test_the_contract_of_pytests_settings(pytester: pytest.Pytester) -> None:
    run(pytester, PLAIN.format("rasket"), ini="sendtwice_contract = rasket\n").assert_outcomes(passed=1)


def test_the_contract_of_the_projects_target_file(pytester: pytest.Pytester) -> None:
    (pytester.path / "sendtwice.toml").write_text('[target]\nrole = "api"\ncontract = "postfleet"\n')
    run(pytester, PLAIN.format("postfleet")).assert_outcomes(passed=1)


def test_the_contract_of_the_projects_pyproject(pytester: pytest.Pytester) -> None:
    (pytester.path / "pyproject.toml").write_text('[tool.sendtwice.target]\ncontract = "postfleet"\n')
    run(pytester, PLAIN.format("postfleet")).assert_outcomes(passed=1)


def test_a_contract_file_lies_beside_the_test(pytester: pytest.Pytester) -> None:
    pytester.makefile(".yaml", mine="name: mine\ntitle: My API\nextends: resend\n")
    run(
        pytester,
        """
        import os, pytest
        @pytest.mark.sendtwice(contract="mine.yaml")
        def test_mine(send_api):
            assert send_api.contract == "mine"
            assert os.environ["RESEND_API_URL"] == send_api.url
        """,
    ).assert_outcomes(passed=1)


def test_the_markers_of_a_function_add_to_its_modules(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import os, pytest
        pytestmark = pytest.mark.sendtwice(contract="rasket", env="RECEIPTS_API")
        @pytest.mark.sendtwice(contract="resend")
        def test_mine(send_api):
            assert send_api.contract == "resend"
            assert os.environ["RECEIPTS_API"] == send_api.url
        """,
    ).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ('contract="resemd"', "*'resemd'*did you mean*resend*"),
        ('contract="none.yaml"', "*none.yaml*"),
        ('contrat="resend"', "*the marker sendtwice has no 'contrat'; did you mean contract?*"),
        ('"resend"', "*the marker sendtwice takes names only*"),
        ("contract=3", "*the marker's contract is a text, not 3*"),
        ("exclude=3", "*the marker's exclude is a text, or a list of texts, not 3*"),
        ('told=["x"]', "*the marker's told is a mapping, not*"),
        ('known={"one-key": 3}', "*the marker's known is a mapping, not*"),
        ('max_attempts="x"', "*the marker's max_attempts is a number, not 'x'*"),
        ('role="api"', "*a test plays role client*use sendtwice run*"),
        ('told={"TimeoutError": "unknown"}', "*told maps exceptions*"),
        ('told={TimeoutError: "maybe"}', "*told says sent, not_sent or unknown of TimeoutError, not 'maybe'*"),
        (
            'contract="resend", scenarios="client.*"',
            "*names scenarios and does not play them; give it the argument sendtwice",
        ),
    ],
)
def test_a_mistake_in_the_marker_is_one_line(pytester: pytest.Pytester, marker: str, complaint: str) -> None:
    result = run(pytester, f"import pytest\n@pytest.mark.sendtwice({marker})\ndef test_it(send_api): pass\n")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([complaint])
    assert "Traceback" not in failures(result)


def test_a_fault_that_never_fired_fails_the_test_and_is_named(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import mailer, pytest
        pytestmark = pytest.mark.sendtwice(contract="resend")

        def test_forgotten(send_api):
            send_api.lose("client.response", attempt=2)
            mailer.send(send_api.url, mailer.request("a@x.test"), "k")

        def test_meant(send_api):
            send_api.lose("client.response", attempt=2, may_miss=True)
            mailer.send(send_api.url, mailer.request("a@x.test"), "k")

        def test_failed_before(send_api):
            send_api.lose("client.response", attempt=2)
            assert False, "this is the news"
        """,
    )

    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines(["a fault was never met: client.response: lose (attempt 2)*"])
    result.stdout.fnmatch_lines(["*this is the news*"])
    assert failures(result).count("a fault was never met") == 2  # once, and in the summary


def test_a_client_that_is_not_redirected_is_one_clear_error(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import httpx, pytest
        pytestmark = pytest.mark.sendtwice(contract="resend")

        def test_loud(send_api):
            httpx.post("https://api.resend.com/emails")

        def test_quiet(send_api):
            try:
                httpx.post("https://api.resend.com/emails")
            except Exception:
                pass
        """,
    )

    result.assert_outcomes(failed=1, passed=1, errors=1)
    result.stdout.fnmatch_lines(["a connection to api.resend.com:443 was refused*sendtwice_allow = api.resend.com"])


def test_hosts_can_be_allowed_in_pytests_settings(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import socket, pytest
        @pytest.mark.sendtwice(contract="resend")
        def test_it(send_api):
            with socket.socket() as sock:
                sock.settimeout(0.01)
                with pytest.raises(OSError):
                    sock.connect(("192.0.2.1", 25))
        """,
        ini="sendtwice_allow = 192.0.2.* other.example.com\n",
    ).assert_outcomes(passed=1)


def test_the_fake_provider_stands_behind_an_application(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import os, mailer, pytest
        @pytest.mark.sendtwice(dialect="resend", contract="rasket")
        def test_it(fake_provider, send_api):
            assert (fake_provider.contract, send_api.contract) == ("resend", "rasket")
            assert os.environ["RESEND_API_URL"] == os.environ["SENDTWICE_PROVIDER_URL"] == fake_provider.url
            fake_provider.lose("provider.response", attempt=1)
            mailer.send(fake_provider.url, mailer.request("a@x.test"), "k")
            assert (fake_provider.deliveries, send_api.deliveries) == (1, 0)
        """,
    ).assert_outcomes(passed=1)


def test_no_api_is_started_for_a_test_that_does_not_ask(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_apart(
        pytester,
        monkeypatch,
        """
        import os, sys, threading

        def test_it():
            assert "SENDTWICE_API_URL" not in os.environ
            assert not [thread for thread in threading.enumerate() if thread.name == "sendtwice"]
            assert not [name for name in sys.modules if name.startswith("sendtwice.harness.testing")]
        """,
    )

    result.assert_outcomes(passed=1)
