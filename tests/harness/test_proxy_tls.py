"""A proxy speaks TLS on either side, trusts whom it is told to, and does its faults there too."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.faults import Fault, Place, Verb
from sendtwice.fake_provider.provider import FakeProvider
from sendtwice.harness.doctor.peers import RawServer
from sendtwice.harness.edges import proxy_tls
from tests.fake_provider.kit import body_for, run
from tests.harness.proxies import Api, ask, proxy, request_of
from tests.support import require


@pytest.fixture(scope="module")
def own() -> Iterator[proxy_tls.SelfSigned]:
    require("openssl", "it makes the certificates")
    made = proxy_tls.SelfSigned("127.0.0.1")
    yield made
    made.remove()


@contextlib.asynccontextmanager
async def api(own: proxy_tls.SelfSigned) -> AsyncIterator[FakeProvider]:
    """An emulated API that speaks TLS."""
    fake = FakeProvider("rasket", edge="client")
    await fake.emulator.start()
    await fake.endpoint.start(tls=proxy_tls.served(own.certificate, own.key))
    try:
        yield fake
    finally:
        await fake.stop()


async def post(url: str, verify: ssl.SSLContext | bool, key: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, verify=verify) as client:
        headers = {"Idempotency-Key": key, "Authorization": "Bearer one"}
        return await client.post(f"{url}/emails", json=body_for("rasket"), headers=headers)


def test_a_caller_that_is_sent_on_stays_with_tls(own: proxy_tls.SelfSigned) -> None:
    async def play() -> None:
        listening = proxy_tls.served(own.certificate, own.key)
        async with Api() as upstream, proxy(upstream, tls=listening) as standing:
            standing.faults.arm(Fault(Place.CLIENT_REQUEST, Verb.ANSWER, 308, location="same"))
            answer = await post(standing.url, proxy_tls.trusted(own.certificate, insecure=False), "k")
            assert (answer.status_code, answer.headers["location"]) == (308, f"{standing.url}/emails")
            assert upstream.requests == []

    run(play())


def test_it_speaks_tls_on_both_sides_and_loses_an_answer_there(own: proxy_tls.SelfSigned) -> None:
    async def play() -> None:
        trusted = proxy_tls.trusted(own.certificate, insecure=False)
        listening = proxy_tls.served(own.certificate, own.key)
        async with api(own) as fake, proxy(fake.url, tls=listening, upstream_tls=trusted) as standing:
            assert (fake.url[:8], standing.url[:8]) == ("https://", "https://")
            standing.faults.arm(Fault(Place.CLIENT_RESPONSE, Verb.LOSE))
            with pytest.raises(httpx.TransportError):
                await post(standing.url, trusted, "k")
            assert fake.ledger.commits == 1
            again = await post(standing.url, trusted, "k")
            assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
            assert fake.ledger.commits == 1

    run(play())


@pytest.mark.parametrize(
    ("verb", "argument", "given", "error"),
    [
        (Verb.RESET, None, b"", ConnectionResetError),
        (Verb.CUT, 20, b"HTTP/1.1 200 \r\nConte", ConnectionResetError),
        (Verb.CLOSE, None, b"", None),
    ],
)
def test_an_ending_over_tls_is_what_it_is_called(
    own: proxy_tls.SelfSigned, verb: Verb, argument: int | None, given: bytes, error: type[Exception] | None
) -> None:
    async def play() -> None:
        plain = Api(b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n")
        listening = proxy_tls.served(own.certificate, own.key)
        async with plain, proxy(plain, tls=listening) as standing:
            standing.faults.arm(Fault(Place.CLIENT_RESPONSE, verb, argument))
            context = proxy_tls.trusted(own.certificate, insecure=False)
            reader, writer = await asyncio.open_connection("127.0.0.1", standing.endpoint.port, ssl=context)
            writer.write(request_of())
            data, ended = b"", None
            try:
                while more := await reader.read(1000):
                    data += more
            except ConnectionResetError as problem:
                ended = type(problem)
            writer.close()
            assert (data, ended) == (given, error)

    run(play())


def test_an_upstream_that_is_not_trusted_gets_nothing(own: proxy_tls.SelfSigned) -> None:
    async def play() -> None:
        async with api(own) as fake:
            async with proxy(fake.url, upstream_tls=proxy_tls.trusted(None, insecure=False)) as standing:
                answer = await ask(standing, request_of())
                assert answer.startswith(b"HTTP/1.1 502 ")
                assert b"is not trusted (self-signed certificate); give --ca FILE, or --insecure" in answer
            async with proxy(fake.url, upstream_tls=proxy_tls.trusted(None, insecure=True)) as standing:
                assert (await post(standing.url, False, "k")).status_code == 200
            assert fake.ledger.commits == 1

    run(play())


def test_what_is_no_tls_is_said_so() -> None:
    async def play() -> None:
        async with RawServer() as plain:
            url = plain.url.replace("http:", "https:")
            async with proxy(url, upstream_tls=proxy_tls.trusted(None, insecure=True)) as standing:
                asking = asyncio.create_task(ask(standing, request_of()))
                await (await plain.accepted()).send(b"HTTP/1.1 400 \r\n\r\n")
                assert b"cannot be reached (TLS: wrong version number)" in await asking

    run(play())


def test_a_certificate_that_cannot_be_used_is_one_line(own: proxy_tls.SelfSigned, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for certificate, key, said in (
        (tmp_path / "none.pem", None, "--tls-cert: "),
        (own.certificate, tmp_path / "none.pem", "--tls-key: "),
        (own.certificate, None, "(there is no --tls-key) cannot be used"),
        (text, None, "cannot be used"),
    ):
        with pytest.raises(BadFileError) as told:
            proxy_tls.served(certificate, key)
        assert said in str(told.value)
    with pytest.raises(BadFileError, match="holds no certificate"):
        proxy_tls.trusted(text, insecure=False)
    both = tmp_path / "both.pem"
    both.write_bytes(own.certificate.read_bytes() + own.key.read_bytes())
    proxy_tls.served(both, None)


def test_a_key_with_a_password_does_not_make_it_ask(own: proxy_tls.SelfSigned, tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    command = ["openssl", "ec", "-in", str(own.key), "-aes256", "-passout", "pass:x", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(BadFileError, match="it has a password"):
        proxy_tls.served(own.certificate, locked)


def test_without_openssl_there_is_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BadFileError, match="give --tls-cert and --tls-key"):
        proxy_tls.SelfSigned("localhost")
