"""While a test has a send API nothing leaves this machine, in whatever thread and by whatever library."""

import asyncio
import socket
import threading
import urllib.request
from collections.abc import Callable

import httpx
import pytest

from sendtwice import SendApi, SendtwiceError
from sendtwice.harness.testing.guard import Guard, UnexpectedHostError

ELSEWHERE = ("192.0.2.1", 25)  # a documentation address: nobody answers there (RFC 5737)


def connected(address: tuple[str, int]) -> None:
    with socket.socket() as sock:
        sock.settimeout(0.01)
        sock.connect(address)


def guarded(*allow: str) -> SendApi:
    return SendApi("resend", allow=allow)


def swallowed(address: tuple[str, int]) -> None:
    try:
        connected(address)
    except Exception:  # noqa: BLE001  # as code under test does
        return


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: connected(ELSEWHERE),
        lambda: httpx.get("https://api.resend.com/emails"),
        lambda: urllib.request.urlopen("https://api.resend.com/emails"),
        lambda: asyncio.run(httpx.AsyncClient().get("https://api.resend.com/emails")),
        lambda: socket.getaddrinfo("smtp.example.com", 25),
        lambda: socket.create_connection(("2001:db8::1", 25)),
    ],
)
def test_a_connection_elsewhere_is_one_clear_error(attempt: Callable[[], object]) -> None:
    guard = Guard()
    guard.begin()
    try:
        with pytest.raises(SendtwiceError) as caught:
            attempt()
    finally:
        guard.end()

    text = str(caught.value)
    assert text.startswith("a connection to ")
    assert "sendtwice_allow = " in text
    assert "\n" not in text


def test_an_error_that_was_swallowed_fails_the_test_at_the_end() -> None:
    def quiet() -> None:
        with guarded():
            swallowed(ELSEWHERE)

    with pytest.raises(SendtwiceError, match=r"^a connection to 192\.0\.2\.1:25 was refused"):
        quiet()


def test_other_threads_are_watched_too() -> None:
    def beside() -> None:
        with guarded():
            thread = threading.Thread(target=swallowed, args=(ELSEWHERE,))
            thread.start()
            thread.join()

    with pytest.raises(SendtwiceError, match=r"192\.0\.2\.1"):
        beside()


def test_this_machine_is_no_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> None:
    with guarded() as api, socket.socket(socket.AF_UNIX) as unix:
        for host in ("127.0.0.1", "localhost", "::ffff:127.0.0.1"):
            socket.getaddrinfo(host, 80)
        httpx.get(api.url.replace("127.0.0.1", "localhost") + "/_sendtwice/health")
        with pytest.raises(FileNotFoundError):
            unix.connect(str(tmp_path_factory.mktemp("s") / "none"))


def test_an_allowed_host_and_its_addresses_are_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ELSEWHERE)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    guard = Guard(["*.example.com"])

    guard.check("db.example.com", 5432)
    guard.check("192.0.2.1", 5432)
    with pytest.raises(UnexpectedHostError, match=r"192\.0\.2\.9:5432"):
        guard.check("192.0.2.9", 5432)


def test_afterwards_everything_is_let_through_again() -> None:
    with guarded():
        pass

    with pytest.raises(OSError, match=r"timed out|unreachable|refused|not permitted"):
        connected(ELSEWHERE)
