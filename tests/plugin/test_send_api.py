"""``sendtwice.SendApi``: a send API of one's own, its faults, and what it saw."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import respx

from sendtwice import SendApi, SendtwiceError
from tests.plugin import mailer


@pytest.fixture
def api() -> Iterator[SendApi]:
    with SendApi("resend") as running:
        yield running


def send(api: SendApi, key: mailer.Key = "receipt-1042", to: str = "a@x.test") -> str:
    return mailer.send(api.url, mailer.request(to), key)


def test_it_delivers_and_says_what_it_saw(api: SendApi) -> None:
    send(api)

    assert api.deliveries == 1
    (mail,) = api.mails
    assert (mail.recipients, mail.subject, mail.key) == (("a@x.test",), "Receipt", "receipt-1042")
    (attempt,) = api.attempts
    assert (attempt.method, attempt.path, attempt.status, attempt.answer) == ("POST", "/emails", 200, "accepted")
    assert attempt.json["text"] == "Thank you."
    assert attempt.headers["idempotency-key"] == "receipt-1042"
    assert attempt.sent


def test_a_lost_answer_is_real_the_mail_is_out_and_the_answer_gone(api: SendApi) -> None:
    fault = api.lose("client.response", attempt=1)

    with pytest.raises(httpx.ReadError):
        httpx.post(f"{api.url}/emails", json=mailer.request("a@x.test"), headers={"Authorization": "Bearer k"})

    assert api.deliveries == 1
    assert [attempt.sent for attempt in api.attempts] == [False]
    assert fault.fired == 1


def test_a_sound_caller_survives_a_lost_answer_and_one_with_fresh_keys_does_not(api: SendApi) -> None:
    api.lose("client.response", attempt=1)
    send(api)
    assert api.deliveries == 1
    assert api.keys == ["receipt-1042", "receipt-1042"]

    api.clear()
    api.lose("client.response", attempt=1)
    send(api, mailer.fresh_key)
    assert api.deliveries == 2
    assert len(set(api.keys)) == 2


def test_one_mail_to_two_recipients_is_one(api: SendApi) -> None:
    body = mailer.request("a@x.test") | {"to": ["a@x.test", "b@x.test"]}

    mailer.send(api.url, body, "k")

    assert api.deliveries == 1
    assert len(api.mails) == 1


def test_an_answer_can_be_replaced_before_and_after_the_mail_is_out(api: SendApi) -> None:
    api.answer("client.request", 503, retry_after=7, headers={"X-Own": "1"}, body={"error": "later"})
    before = httpx.post(f"{api.url}/emails", json=mailer.request("a@x.test"), headers={"Authorization": "Bearer k"})
    assert (before.status_code, before.headers["Retry-After"], before.headers["X-Own"]) == (503, "7", "1")
    assert before.json() == {"error": "later"}
    assert api.deliveries == 0

    api.answer("client.response", "unknown", attempt=1)
    after = httpx.post(f"{api.url}/emails", json=mailer.request("a@x.test"), headers={"Authorization": "Bearer k"})
    assert after.status_code >= 500
    assert api.deliveries == 1


def test_a_message_is_held_until_it_is_released(api: SendApi) -> None:
    held = api.hold("client.request", to="slow@x.test")
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(send, api, "slow", "slow@x.test")
        held.reached()
        send(api, "quick", "quick@x.test")
        assert [mail.key for mail in api.mails] == ["quick"]
        assert not slow.done()
        held.release()
        slow.result(5)

    assert api.deliveries == 2


def test_a_held_message_goes_on_at_the_end_of_the_block(api: SendApi) -> None:
    with ThreadPoolExecutor() as pool:
        with api.hold("client.response") as held:
            sent = pool.submit(send, api)
            held.reached()
            assert api.deliveries == 1
            assert not sent.done()
        sent.result(5)


@pytest.mark.parametrize(
    ("put", "error"),
    [
        (lambda api: api.reset("client.request"), httpx.ReadError),
        (lambda api: api.close("client.response"), httpx.RemoteProtocolError),
        (lambda api: api.cut("client.response", 20), httpx.ReadError),
        (lambda api: api.lose("client.response", "in-body"), httpx.ReadError),
        (lambda api: api.lose("client.request", stage="headers"), httpx.TransportError),
    ],
)
def test_a_connection_ends_as_the_fault_says(
    api: SendApi, put: Callable[[SendApi], object], error: type[Exception]
) -> None:
    put(api)

    with pytest.raises(error):
        httpx.post(f"{api.url}/emails", json=mailer.request("a@x.test"), headers={"Authorization": "Bearer k"})


def test_a_delay_a_drip_and_a_garbled_answer(api: SendApi) -> None:
    api.delay("client.request", 0.15, key="late")
    api.drip("client.response", 0.15, key="drip")
    api.garble("client.response", "html", key="page")
    for key, least in (("late", 0.15), ("drip", 0.1)):
        before = time.monotonic()
        send(api, key)
        assert time.monotonic() - before >= least
    send(api, "page")

    assert api.keys == ["late", "drip", "page", "page"]
    assert api.deliveries == 3


def test_a_request_that_a_proxy_sends_twice_is_one_mail_under_a_key_and_two_without(api: SendApi) -> None:
    api.twice(attempt=1, times=2)
    send(api)
    assert api.deliveries == 1

    httpx.post(f"{api.url}/emails", json=mailer.request("b@x.test"), headers={"Authorization": "Bearer k"})
    assert api.deliveries == 3


def test_the_clock_moves_past_the_time_for_which_a_key_is_kept(api: SendApi) -> None:
    send(api)
    api.advance(86_401)
    send(api)

    assert api.deliveries == 2


def test_waiting_for_what_another_thread_sends(api: SendApi) -> None:
    held = api.hold("client.request")
    sender = threading.Thread(target=send, args=(api,))
    sender.start()
    held.reached().release()

    assert api.wait(deliveries=1, quiet=0.02) == 1
    sender.join()
    with pytest.raises(SendtwiceError, match=r"^1 of 2 mails were delivered within 0\.05 s, in 1 attempt;"):
        api.wait(deliveries=2, timeout=0.05)


def test_a_fault_that_is_not_met_is_an_error_at_the_end_and_names_itself() -> None:
    def forgotten(*, may_miss: bool) -> None:
        with SendApi("resend") as api:
            api.lose("client.response", attempt=2, may_miss=may_miss)
            send(api)

    with pytest.raises(
        SendtwiceError, match=r"^a fault was never met: client\.response: lose \(attempt 2\) \(1 attempt"
    ):
        forgotten(may_miss=False)
    forgotten(may_miss=True)


def test_an_error_of_the_test_itself_is_not_hidden_by_a_fault_that_is_not_met() -> None:
    def wrong() -> None:
        with SendApi("resend") as api:
            api.lose("client.response")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        wrong()


@pytest.mark.parametrize(
    ("put", "complaint"),
    [
        (
            lambda api: api.lose("provider.response"),
            "there is no crossing 'provider.response' here; write client.request",
        ),
        (lambda api: api.lose("client.response", "half-way"), "lose takes before-answer, first-byte"),
        (lambda api: api.lose("client.response", atempt=1), "a fault has no 'atempt'; did you mean attempt?"),
        (lambda api: api.lose("client.response", attempt=0), "attempt: Input should be greater than or equal to 1"),
        (lambda api: api.answer("client.request", "conflicts"), "answer takes a status, or an answer class"),
        (lambda api: api.twice("client.response"), "client.response cannot be hit by 'twice'"),
        (lambda api: api.lose("client.request", stage="connect", to="a@x.test"), "at stage connect no recipient"),
        (lambda api: api.advance(-1), "a clock only moves forward"),
    ],
)
def test_wrong_use_is_one_line(api: SendApi, put: Callable[[SendApi], object], complaint: str) -> None:
    with pytest.raises(SendtwiceError) as caught:
        put(api)

    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_contract_that_is_not_there_is_one_line_with_the_nearest() -> None:
    with pytest.raises(SendtwiceError, match=r"'resemd'.*did you mean .?resend.?\?"):
        SendApi("resemd")


def test_what_was_seen_can_be_read_when_it_has_ended_and_nothing_more_can_be_put() -> None:
    with SendApi("resend") as api:
        send(api)

    assert api.deliveries == 1
    assert api.keys == ["receipt-1042"]
    with pytest.raises(SendtwiceError, match="is not running any more"):
        api.lose("client.response")


def test_two_at_once_have_their_own_ports_mails_and_faults() -> None:
    with SendApi("resend") as one, SendApi("rasket") as other:
        send(one)

        assert one.url != other.url
        assert (one.deliveries, other.deliveries) == (1, 0)


def test_the_mail_provider_behind_an_application_is_the_same_handle() -> None:
    with SendApi("resend", edge="provider") as provider:
        provider.lose("provider.response", attempt=1)
        mailer.send(provider.url, mailer.request("a@x.test"), "k")

        assert provider.deliveries == 1
        assert len(provider.attempts) == 2


def test_nothing_is_left_running(recwarn: pytest.WarningsRecorder) -> None:
    before = threading.active_count()
    with SendApi("resend") as api:
        api.hold("client.response", may_miss=True)
        url = api.url

    assert threading.active_count() == before
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    assert not recwarn.list


# --- Without sockets -----------------------------------------------------------------------------------------------


def test_httpx_without_sockets_meets_the_same_faults_and_ledger(api: SendApi) -> None:
    api.lose("client.response", attempt=1)
    with httpx.Client(transport=api.transport) as client:
        mailer.send("https://api.resend.com", mailer.request("a@x.test"), "k", client=client)

    assert api.deliveries == 1
    assert api.keys == ["k", "k"]


def test_a_router_of_respx_meets_them_too(api: SendApi) -> None:
    api.lose("client.response", attempt=1)
    with respx.mock as router:
        api.respx(router, host="api.resend.com")
        mailer.send("https://api.resend.com", mailer.request("a@x.test"), "k")

    assert api.deliveries == 1
    assert api.keys == ["k", "k"]


def test_a_held_message_without_sockets(api: SendApi) -> None:
    client = httpx.Client(transport=api.transport)
    with client, ThreadPoolExecutor() as pool, api.hold("client.response") as held:
        slow = pool.submit(mailer.send, api.url, mailer.request("a@x.test"), "k", client=client)
        held.reached()
        assert api.deliveries == 1
        held.release()
        slow.result(5)
