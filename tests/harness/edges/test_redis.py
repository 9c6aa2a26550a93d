"""What a Redis connection says, command by command, however the bytes are cut."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendtwice.harness.edges.chunks import LONGEST
from sendtwice.harness.edges.redis import Redis
from tests.harness.edges.wires import Said, asks, expected, hear, splits, tells


def command(*words: str | bytes) -> bytes:
    given = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(given) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in given)


SCRIPT = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"
SHA = hashlib.sha1(SCRIPT.encode()).hexdigest()
TOKEN = "st-kab2cdefghjk-first"

DIALOGUES: dict[str, list[Said]] = {
    "a lock": [
        asks(command("SET", f"lock:{TOKEN}", "me", "NX", "px", "30000"), "SET lock:… ? NX PX ?"),
        tells(b"+OK\r\n", "OK for SET lock:… ? NX PX ?"),
        asks(command("set", f"lock:{TOKEN}", "NX\r\n$3", "NX"), "SET lock:… ? NX"),
        tells(b"$-1\r\n", "(nil) for SET lock:… ? NX"),
        asks(command("GET", TOKEN), "GET ?"),
        tells(b"$7\r\na\r\nb\r\nc\r\n", "(value) for GET ?"),
    ],
    "a pipeline": [
        asks(command("INCR", "n") + command("TTL", "n") + command("DEL", "a", "b"), "INCR ?", "TTL ?", "DEL ? ?"),
        tells(b":17\r\n:-1\r\n:0\r\n", "(integer) for INCR ?", "-1 for TTL ?", "0 for DEL ? ?"),
    ],
    "a transaction": [
        asks(
            command("MULTI") + command("HSET", "job:1", "f", "v") + command("EXEC"), "MULTI", "HSET job:… ? ?", "EXEC"
        ),
        tells(b"+OK\r\n+QUEUED\r\n*1\r\n:1\r\n", "OK for MULTI", "QUEUED for HSET job:… ? ?", "[1] for EXEC"),
        asks(command("EXEC"), "EXEC"),
        tells(b"*-1\r\n", "(nil) for EXEC"),
    ],
    "scripts": [
        asks(command("EVAL", SCRIPT, "1", "lock:a", TOKEN), f"EVAL {SHA[:8]} ? ? ?"),
        tells(b":1\r\n", f"1 for EVAL {SHA[:8]} ? ? ?"),
        asks(command("EVALSHA", SHA, "1", "lock:a", TOKEN), f"EVALSHA {SHA[:8]} ? ? ?"),
        tells(b"-NOSCRIPT No matching script.\r\n", f"NOSCRIPT No matching script. for EVALSHA {SHA[:8]} ? ? ?"),
        asks(command("FCALL", "claim", "1", "lock:a"), "FCALL claim ? ?"),
        tells(b"*2\r\n*1\r\n$1\r\na\r\n#t\r\n", "[[(value)], true] for FCALL claim ? ?"),
    ],
    "secrets": [
        asks(command("AUTH", "me", "get"), "AUTH ? ?"),
        tells(b"+OK\r\n", "OK for AUTH ? ?"),
        asks(command("HELLO", "3", "AUTH", "me", "secret", "SETNAME", "app"), "HELLO ? AUTH ? ? SETNAME ?"),
        tells(b"%1\r\n$5\r\nproto\r\n:3\r\n", "[(value), (integer)] for HELLO ? AUTH ? ? SETNAME ?"),
        asks(command("CONFIG", "SET", "requirepass", "secret"), "CONFIG SET ? ?"),
        tells(b"-NOPERM no\r\n", "NOPERM no for CONFIG SET ? ?"),
    ],
    "what the server says unasked, RESP 2": [
        asks(command("SUBSCRIBE", "jobs", "mails"), "SUBSCRIBE ? ?"),
        tells(
            b"*3\r\n$9\r\nsubscribe\r\n$4\r\njobs\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$5\r\nmails\r\n:2\r\n",
            "push subscribe",
            "push subscribe",
        ),
        tells(b"*3\r\n$7\r\nmessage\r\n$4\r\njobs\r\n$1\r\nx\r\n", "push message"),
        asks(command("PING"), "PING"),
        tells(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", "[(value), (value)] for PING"),
    ],
    "what the server says unasked, RESP 3": [
        asks(command("GET", "a"), "GET ?"),
        tells(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n", "push invalidate"),
        tells(b"_\r\n", "(nil) for GET ?"),
        asks(command("ZSCORE", "z", "m") + command("SMEMBERS", "s"), "ZSCORE ? ?", "SMEMBERS ?"),
        tells(
            b",1.5\r\n~2\r\n$1\r\na\r\n=5\r\ntxt:b\r\n",
            "(number) for ZSCORE ? ?",
            "[(value), (value)] for SMEMBERS ?",
        ),
        asks(command("GET", "b"), "GET ?"),
        tells(b"|1\r\n+ttl\r\n:9\r\n$1\r\nx\r\n", "(value) for GET ?"),
        asks(command("GET", "c"), "GET ?"),
        tells(b"!8\r\nERR a\r\nb\r\n", "ERR a b for GET ?"),
    ],
    "by hand": [
        asks(b"SET lock:a 1 NX\r\n\r\nGET lock:a\n", "SET lock:… ? NX", "GET lock:…"),
        tells(b"+OK\r\n$1\r\n1\r\n", "OK for SET lock:… ? NX", "(value) for GET lock:…"),
    ],
    "some commands are not answered": [
        asks(command("CLIENT", "REPLY", "SKIP") + command("INCR", "n"), "CLIENT REPLY ?", "INCR ?"),
        asks(command("GET", "n"), "GET ?"),
        tells(b"$1\r\n1\r\n", "(value) for GET ?"),
        asks(command("CLIENT", "REPLY", "OFF") + command("INCR", "n"), "CLIENT REPLY ?", "INCR ?"),
        asks(command("CLIENT", "REPLY", "ON"), "CLIENT REPLY ?"),
        tells(b"+OK\r\n", "OK for CLIENT REPLY ?"),
    ],
    "streams": [
        asks(command("XADD", "jobs:mail", "MAXLEN", "~", "1000", "*", "to", "x"), "XADD jobs:… MAXLEN ? ? ? ? ?"),
        tells(b"$15\r\n1700000000000-0\r\n", "(value) for XADD jobs:… MAXLEN ? ? ? ? ?"),
        asks(
            command("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "jobs:mail", ">"),
            "XREADGROUP ? ? ? BLOCK ? STREAMS ? ?",
        ),
    ],
    "nothing at all": [
        asks(command()),
        asks(b"*-1\r\n"),
        asks(command("PING"), "PING"),
        tells(b"+PONG\r\n", "PONG for PING"),
    ],
}


@pytest.mark.parametrize("name", DIALOGUES)
def test_a_dialogue_is_read_as(name: str) -> None:
    reader = Redis()
    assert hear(reader, DIALOGUES[name]) == expected(DIALOGUES[name])
    assert reader.unanswered == 0


@given(st.sampled_from(sorted(DIALOGUES)), splits())
def test_it_is_the_same_however_the_bytes_are_cut(name: str, pieces: list[int]) -> None:
    assert hear(Redis(), DIALOGUES[name], pieces) == expected(DIALOGUES[name])


@given(st.lists(st.lists(st.binary(max_size=80), min_size=1, max_size=40), max_size=8), splits())
def test_whatever_is_in_the_arguments_the_commands_are_counted(commands: list[list[bytes]], pieces: list[int]) -> None:
    said = b"".join(command(*words) for words in commands)
    (heard,) = hear(Redis(), [asks(said)], pieces)
    assert len(heard) == len(commands)


@given(st.binary(max_size=300), st.binary(max_size=300), splits())
def test_bytes_that_are_no_resp_pass_all_the_same(asked: bytes, told: bytes, pieces: list[int]) -> None:
    hear(Redis(), [asks(asked), tells(told)], pieces)


def test_a_key_that_is_made_for_one_run_is_never_shown() -> None:
    reader = Redis()
    shown = {
        "lock:abc": "lock:…",
        "my-app.locks/abc": "my-app.locks/…",
        "idempotency:abc": "idempotency:…",
        f"{TOKEN}:lock": "?",
        "kabcdefghjkm:lock": "?",  # a token of letters alone
        "abcdefghijkl": "?",
        "42:lock": "?",
        "": "?",
    }
    for key, text in shown.items():
        assert [chunk.says for chunk in reader.asked(command("GET", key))] == [f"GET {text}"]


def test_commands_that_wait_for_an_event_do_not_count_as_unanswered() -> None:
    reader = Redis()
    reader.asked(command("BLPOP", "q", "0"))
    assert reader.unanswered == 0
    reader.asked(command("GET", "a"))
    assert reader.unanswered == 1


def test_a_long_value_passes_before_its_end() -> None:
    reader = Redis()
    data = command("SET", "page:1", b"x" * 2 * LONGEST)
    first, *rest = [*reader.asked(data[: LONGEST + 50]), *reader.asked(data[LONGEST + 50 :])]
    assert (first.says, first.ends) == ("SET page:… …", False)
    assert [(chunk.says, chunk.ends) for chunk in rest] == [(None, True)]
    reader.answered(b"+OK\r\n")
    reader.asked(command("GET", "page:1"))
    answer = b"$%d\r\n" % (2 * LONGEST) + b"x" * 2 * LONGEST + b"\r\n"
    first, *rest = [*reader.answered(answer[: LONGEST + 50]), *reader.answered(answer[LONGEST + 50 :])]
    assert first.says == "(value) for GET page:…"
    assert [(chunk.says, chunk.ends) for chunk in rest] == [(None, True)]


def test_a_replica_is_not_read() -> None:
    reader = Redis()
    assert [chunk.says for chunk in reader.asked(command("PSYNC", "?", "-1"))] == ["PSYNC ? ?"]
    assert [chunk.says for chunk in reader.answered(b"+FULLRESYNC abc 0\r\n$5\r\nREDIS")] == ["replication"]
