"""``sendtwice proxy`` as a program."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from sendtwice.harness.cli import main
from tests.fake_provider.kit import Served, body_for, get, post, run
from tests.harness.proxies import Api
from tests.support import require


@contextlib.asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[tuple[dict[str, Any], asyncio.subprocess.Process]]:
    command = [str(Path(sys.executable).with_name("sendtwice")), "proxy", "--port", "0", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline()), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def test_it_stands_before_a_served_api_and_loses_an_answer_that_the_retry_gets_replayed() -> None:
    async def play() -> None:
        served = await Served.start("rasket")
        try:
            async with program("--upstream", served.url) as (line, process):
                assert (line["ready"], line["upstream"]) == (True, served.url)
                assert line["control"] == f"{line['url']}/_sendtwice/"
                fault = {"crossing": "client.response", "fault": "lose", "key": "k"}
                assert (await post(line["control"], "faults", fault)).status_code == 201
                send = body_for("rasket"), {"Idempotency-Key": "k", "Authorization": "Bearer one"}
                with pytest.raises(httpx.TransportError):
                    await post(line["url"], "/emails", *send)
                again = await post(line["url"], "/emails", *send)
                assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
                assert (await get(served.url, "/_sendtwice/deliveries")).json()["count"] == 1
                counts = (await get(line["control"], "attempts?key=k")).json()["counts"]
                assert counts == {"attempts": 2, "forwarded": 2, "lost": 1}
                process.terminate()
                assert await process.wait() == 0
        finally:
            await served.stop()

    run(play())


def test_a_certificate_of_its_own_is_told_and_removed_at_the_end() -> None:
    require("openssl", "it makes the certificate")

    async def play() -> None:
        async with Api() as api, program("--upstream", api.url, "--tls") as (line, process):
            assert line["url"].startswith("https://127.0.0.1:")
            context = ssl.create_default_context(cafile=line["ca"])
            async with httpx.AsyncClient(trust_env=False, verify=context) as client:
                for host in ("127.0.0.1", "localhost"):
                    url = line["url"].replace("127.0.0.1", host)
                    assert (await client.post(f"{url}/emails")).json() == {"id": "a"}
            process.terminate()
            assert await process.wait() == 0
            assert not Path(line["ca"]).parent.exists()

    run(play())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing option '--upstream'"),
        (["--upstream", "api.example.com"], "--upstream: 'api.example.com' is no http address; write https://"),
        (["--upstream", "http://127.0.0.1:99999"], "is no http address"),
        (["--upstream", "ftp://127.0.0.1"], "is no http address"),
        (["--upstream", "http://127.0.0.1?x=1"], "write scheme, host and path only"),
        (["--upstream", "http://u:p@127.0.0.1"], "write scheme, host and path only"),
        (
            ["--upstream", "https://api.example.com"],
            "https://api.example.com is not on this machine; sendtwice sends there only with --allow-remote",
        ),
        (["--upstream", "http://127.0.0.1:1", "--ca", "x.pem"], "--ca: is for an https upstream"),
        (["--upstream", "https://127.0.0.1:1", "--ca", "x.pem"], "--ca: x.pem is no file"),
        (["--upstream", "https://127.0.0.1:1", "--ca", "x.pem", "--insecure"], "keep one of them"),
        (["--upstream", "http://127.0.0.1:1", "--tls", "--tls-cert", "x.pem"], "keep one of them"),
        (["--upstream", "http://127.0.0.1:1", "--tls-key", "x.pem"], "give --tls-cert too"),
        (["--upstream", "http://127.0.0.1:1", "--tls-cert", "x.pem"], "--tls-cert: x.pem is no file"),
        (["--upstream", "http://127.0.0.1:1", "--key-header", "a b"], "--key-header: 'a b' is no header name"),
    ],
)
def test_a_mistake_is_one_line_with_a_remedy_and_exit_2(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["proxy", "--port", "0", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_port_that_is_taken_and_an_upstream_that_is_the_proxy_itself_are_said_so() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        url = f"http://localhost:{port}"
        sock.listen()
        taken = CliRunner().invoke(main, ["proxy", "--upstream", "http://127.0.0.1:1", "--port", str(port)])
        assert (taken.exit_code, "address already in use" in taken.stderr) == (2, True)
    itself = CliRunner().invoke(main, ["proxy", "--upstream", url, "--port", str(port)])
    assert (itself.exit_code, "is this proxy itself" in itself.stderr) == (2, True)
