"""With real servers and their own clients: they say what the readers expect, and a fault decides what is done."""

import asyncio
import hashlib
import signal
import struct
import uuid
from collections.abc import Sequence

import pytest

from sendtwice.fake_provider.faults import Place, Verb
from tests.harness.edges.wires import (
    DESCRIBE_PORTAL,
    FLUSH,
    REQUEST,
    RESPONSE,
    SYNC,
    Seen,
    an_edge,
    bind,
    execute,
    first_frame,
    frame,
    parse,
    query,
    run,
)
from tests.servers import Postgresql, Redis, a_redis
from tests.support import require

STARTUP = first_frame(196608, b"user\0postgres\0database\0postgres\0\0")
TABLE = "CREATE TABLE IF NOT EXISTS operations (key text PRIMARY KEY)"
INSERT = "INSERT INTO operations VALUES ($1)"
SCRIPT = "return {1, redis.call('GET', KEYS[1])}"

# --- PostgreSQL ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "verb", "message", "rows"),
    [
        (REQUEST, Verb.RESET, "insert", 0),
        (REQUEST, Verb.CUT, "insert", 0),
        (REQUEST, Verb.CLOSE, "commit", 0),
        (REQUEST, Verb.CUT, "commit", 0),
        (RESPONSE, Verb.LOSE, "insert", 0),  # it was executed, and rolled back with the connection
        (RESPONSE, Verb.RESET, "commit", 1),
        (RESPONSE, Verb.CLOSE, "commit", 1),
        (RESPONSE, Verb.CUT, "commit", 1),
    ],
)
def test_a_fault_decides_what_postgresql_has_done(
    postgresql: Postgresql, place: Place, verb: Verb, message: str, rows: int
) -> None:
    key = uuid.uuid4().hex

    async def play() -> None:
        async with an_edge(postgresql.address) as seen:
            seen.arm(place, verb, 3 if verb is Verb.CUT else None, message=message)
            statements = ("BEGIN", f"INSERT INTO operations VALUES ('{key}')", "COMMIT")
            given = [part for statement in statements for part in ("-c", statement)]
            ran = await asyncio.to_thread(postgresql.psql, *given, through=seen.address)
            assert ran.returncode != 0
            assert "connection" in ran.stderr
            assert seen.said(">")[-1] == {"insert": "INSERT INTO operations VALUES (?)", "commit": "COMMIT"}[message]

    postgresql.sql(TABLE)
    run(play())
    assert postgresql.sql(f"SELECT count(*) FROM operations WHERE key = '{key}'") == str(rows)


def test_what_a_killed_client_had_sent_is_never_executed(postgresql: Postgresql) -> None:
    key = uuid.uuid4().hex

    async def play() -> None:
        async with an_edge(postgresql.address) as seen:
            held = seen.arm(REQUEST, Verb.HOLD, message="insert")
            sql = f"INSERT INTO operations VALUES ('{key}')"
            program = [require("psql", "it is killed"), "-Xqc", sql, postgresql.url(through=seen.address)]
            psql = await asyncio.create_subprocess_exec(*program)
            await held.reached.wait()
            async with seen.edge.callers_die():
                psql.send_signal(signal.SIGKILL)
                await psql.wait()
            held.gate.set()
            await seen.edge.idle()

    postgresql.sql(TABLE)
    run(play())
    assert postgresql.sql(f"SELECT count(*) FROM operations WHERE key = '{key}'") == "0"


async def _dialogue(seen: Seen, turns: Sequence[tuple[bytes, int]]) -> None:
    """Send each, and wait until so many answers have come."""
    target, answers = await seen.connect(), 0
    for data, more in turns:
        await target.send(data)
        answers += more
        await seen.until("<", answers)
    target.leave()


def test_postgresql_answers_as_it_is_read(postgresql: Postgresql) -> None:
    key = uuid.uuid4().hex

    async def play() -> None:
        async with an_edge(postgresql.address) as seen:
            await _dialogue(
                seen,
                [
                    (first_frame(80877103), 1),
                    (STARTUP, 1),
                    (parse(INSERT, "s1") + frame("D", b"Ss1\0") + FLUSH, 1),
                    (bind(key.encode(), statement="s1") + DESCRIBE_PORTAL + execute() + SYNC, 1),
                    (bind(key.encode(), statement="s1") + execute() + FLUSH, 1),
                    (parse("SELECT 1") + FLUSH + SYNC, 1),  # what was flushed behind an error has no answer
                    (query("BEGIN") + parse("SELECT 1") + bind() + execute() + SYNC + query("COMMIT"), 3),
                    (parse("SELECT generate_series(1, 3)") + bind() + execute(rows=2) + FLUSH, 1),
                    (execute(rows=2) + FLUSH, 1),
                    (SYNC, 1),
                    (query("CREATE TEMP TABLE copied (n int)"), 1),
                    (query("COPY copied FROM STDIN"), 1),
                    (frame("d", b"1\n2\n") + frame("c"), 1),
                    (parse("COPY copied FROM STDIN") + bind() + execute() + SYNC, 1),
                    (frame("d", b"3\n") + frame("c") + SYNC, 1),
                    (query("COPY copied FROM STDIN"), 1),
                    (frame("d", b"no number\n") + frame("c"), 1),
                    (query("COPY copied TO STDOUT"), 1),
                    (query("LISTEN jobs"), 1),
                    (query("NOTIFY jobs, 'now'"), 1),
                    (query(""), 1),
                    (query("SELECT 1; SELECT generate_series(1, 2)"), 1),
                    (frame("C", b"Ss1\0") + SYNC, 1),
                    (query("SELEC"), 1),
                ],
            )
            unique = f'ERROR 23505 duplicate key value violates unique constraint "operations_pkey" for {INSERT}'
            assert seen.said("<") == [
                "no TLS",
                "ready",
                f"ready for PREPARE {INSERT}",
                f"INSERT 0 1 for {INSERT}",
                unique,
                "ready for sync",
                "BEGIN for BEGIN",
                "SELECT 1 for SELECT ?",
                "COMMIT for COMMIT",
                "suspended for SELECT generate_series(?, ?)",
                "SELECT 1 for SELECT generate_series(?, ?)",
                "ready for sync",
                "CREATE TABLE for CREATE TEMP TABLE copied (n int)",
                "COPY IN for COPY copied FROM STDIN",
                "COPY 2+ for COPY copied FROM STDIN",
                "COPY IN for COPY copied FROM STDIN",
                "COPY 1 for COPY copied FROM STDIN",
                "COPY IN for COPY copied FROM STDIN",
                'ERROR 22P02 invalid input syntax for type integer: "no number" for COPY copied FROM STDIN',
                "COPY 2+ for COPY copied TO STDOUT",
                "LISTEN for LISTEN jobs",
                "NOTIFY for NOTIFY jobs, ?",
                "empty",
                "SELECT 1; SELECT 2+ for SELECT ?; SELECT generate_series(?, ?)",
                f"ready for CLOSE {INSERT}",
                'ERROR 42601 syntax error at or near "SELEC" for SELEC',
            ]
            await seen.edge.idle()

    postgresql.sql(TABLE)
    run(play())


def test_a_notification_passes_while_nothing_is_asked(postgresql: Postgresql) -> None:
    async def play() -> None:
        async with an_edge(postgresql.address) as seen:
            target = await seen.connect()
            await target.send(STARTUP + query("LISTEN orders"))
            await seen.until("<", 2)
            await asyncio.to_thread(postgresql.sql, "NOTIFY orders")
            await target.until(b"orders\0")
            assert seen.said("<")[-1] == "NOTIFY orders"

    run(play())


def test_a_query_can_be_cancelled_through_the_edge(postgresql: Postgresql) -> None:
    async def play() -> None:
        async with an_edge(postgresql.address) as seen:
            target = await seen.connect()
            await target.send(STARTUP)
            key = (await target.until(frame("Z", b"I")))[-18:-6]
            assert key[:4] == struct.pack("!I", 12)
            await target.send(query("SELECT pg_sleep(20)"))
            while len(seen.said("<")) < 2:  # a request that comes before the query has begun does nothing
                canceller = await seen.connect()
                await canceller.send(first_frame(80877102, key[4:]))
                assert await canceller.end() == (b"", "FIN")
            assert seen.said(">")[-1] == "cancel"
            assert seen.said("<")[-1].startswith("ERROR 57014 canceling statement")

    run(play())


# --- Redis --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "verb", "value"),
    [
        (REQUEST, Verb.RESET, ""),
        (REQUEST, Verb.CLOSE, ""),
        (REQUEST, Verb.CUT, ""),
        (RESPONSE, Verb.RESET, "mine"),
        (RESPONSE, Verb.CLOSE, "mine"),
        (RESPONSE, Verb.CUT, "mine"),
    ],
)
def test_a_fault_decides_what_redis_has_done(redis_server: Redis, place: Place, verb: Verb, value: str) -> None:
    key = f"lock:{uuid.uuid4().hex}"

    async def play() -> None:
        async with an_edge(redis_server.address) as seen:
            seen.arm(place, verb, 2 if verb is Verb.CUT else None, message="SET lock:")
            # With no retry of its own, redis-cli tells what has happened.
            program = [require("redis-cli", "it asks the Redis"), *_at(seen.address), "SET", key, "mine", "NX"]
            cli = await asyncio.create_subprocess_exec(
                *program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
            printed, _ = await cli.communicate()
            assert b"OK" not in printed
            assert "SET lock:… ? NX" in seen.said(">")

    run(play())
    assert redis_server.cli("GET", key) == value


def _at(address: str) -> list[str]:
    host, port = address.split(":")
    return ["-h", host, "-p", port]


def test_redis_answers_as_it_is_read(redis_server: Redis) -> None:
    key = uuid.uuid4().hex

    async def play() -> None:
        async with an_edge(redis_server.address) as seen:
            await _dialogue(
                seen,
                [
                    (_command("HELLO", "3"), 1),
                    (_command("SET", f"lock:{key}", "1", "NX", "PX", "10000") * 2 + _command("GET", key), 3),
                    (_command("MULTI") + _command("INCR", key) + _command("GET", key) + _command("EXEC"), 4),
                    (_command("EVAL", SCRIPT, "1", key), 1),
                    (_command("EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"), 1),
                    (_command("SUBSCRIBE", "orders"), 1),
                    (_command("PUBLISH", "orders", "x"), 2),
                    (_command("LPUSH", key, "x"), 1),
                    (_command("BLPOP", f"{key}-none", "0.01"), 1),
                    (b"PING\r\n", 1),
                ],
            )
            answers = seen.said("<")
            assert answers[1:4] == ["OK for SET lock:… ? NX PX ?", "(nil) for SET lock:… ? NX PX ?", "(nil) for GET ?"]
            assert answers[4:8] == ["OK for MULTI", "QUEUED for INCR ?", "QUEUED for GET ?", "[1, (value)] for EXEC"]
            assert answers[8] == f"[1, (value)] for EVAL {hashlib.sha1(SCRIPT.encode()).hexdigest()[:8]} ? ?"
            assert answers[9].startswith("NOSCRIPT ")
            assert answers[10] == "push subscribe"
            assert sorted(answers[11:13]) == ["1 for PUBLISH ? ?", "push message"]
            assert answers[13].startswith("WRONGTYPE ")
            assert answers[14:] == ["(nil) for BLPOP ? ?", "PONG for PING"]

    run(play())


def _command(*words: str) -> bytes:
    return f"*{len(words)}\r\n".encode() + b"".join(f"${len(w)}\r\n{w}\r\n".encode() for w in words)


def test_a_store_that_is_killed_ends_the_targets_connections_and_may_come_back() -> None:
    async def play() -> None:
        with a_redis() as first:
            async with an_edge(first.address) as seen:
                target = await seen.connect()
                await target.ask(b"PING\r\n", b"+PONG\r\n")
                first.process.kill()
                assert (await target.end())[0] == b""
                await asyncio.to_thread(first.process.wait)
                refused = await seen.connect()
                assert await refused.end() == (b"", "RST")
                with a_redis(port=first.port):
                    again = await seen.connect()
                    await again.ask(b"PING\r\n", b"+PONG\r\n")

    run(play())
