"""When a target counts as ready, and what it said last."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sendtwice.harness.launch.readiness import last_words, until_ready


@asynccontextmanager
async def answering(answers: Sequence[str]) -> AsyncIterator[tuple[str, list[str]]]:
    """One answer for each connection: a status, `end` for a connection that is ended at once, or silence."""
    left, seen = list(answers), []
    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        serving.append(task)
        answer = left.pop(0)
        seen.append(answer)
        if answer == "silence":
            await reader.read()
        elif answer != "end":
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 {answer} x\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
        await asyncio.gather(*serving)


async def ready(answers: Sequence[str], path: str | None, *, proxied: bool = False) -> tuple[list[str], list[str]]:
    told: list[str] = []
    async with answering(answers) as (url, seen), asyncio.timeout(10):
        await until_ready(url, path, proxied=proxied, told=told.append)
    return seen, told


@pytest.mark.parametrize("path", [None, "tcp"])
def test_a_connection_is_enough_where_no_path_is_given(path: str | None) -> None:
    assert asyncio.run(ready(["silence"], path)) == (["silence"], [])


def test_a_worker_that_listens_nowhere_is_ready_as_soon_as_it_runs() -> None:
    assert asyncio.run(ready([], "started")) == ([], [])


def test_a_proxy_that_finds_nobody_is_not_the_target() -> None:
    answers = ["end", "end", "silence"]
    assert asyncio.run(ready(answers, "tcp", proxied=True)) == (answers, [])


def test_a_path_must_answer_well_and_what_it_answered_before_is_told() -> None:
    answers = ["503", "end", "404", "204"]
    told = ["its last answer was 503", "its last answer was 404"]
    assert asyncio.run(ready(answers, "/healthz")) == (answers, told)


def test_the_last_words_are_the_last_line_that_says_something(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_words(log) == ""
    log.write_bytes(b" \n")
    assert last_words(log) == "; it wrote nothing"
    log.write_bytes(b"first\n  \xff last \n\n")
    assert last_words(log) == "; its last words: \ufffd last"
