"""The three ways to count, each by itself."""

import asyncio
import contextlib
import http.server
import importlib.util
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sendtwice.harness.effects import probe_of
from sendtwice.harness.effects.asked import ProbeError, escaped, parameters, whole
from sendtwice.harness.target import Effects
from tests.servers import Postgresql
from tests.support import missing

ODD = 'Grüße & "more" ? #1 %41\u202e'


def count(settings: dict[str, Any], folder: Path, **values: str) -> int:
    """What a probe of these settings counts."""
    return asyncio.run(probe_of(Effects(**settings), folder).count(values))


@contextlib.contextmanager
def a_resource(body: bytes, status: int = 200) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """A server that answers everything alike: its address, and what it was asked for."""
    asked: list[tuple[str, str | None]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            del args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("body", "pointer", "number"),
    [
        ("7", "", 7),
        ("[1, 2, 3]", "", 3),
        ('{"total": 0}', "/total", 0),
        ('{"a/b": {"n": ["x", "y"]}}', "/a~1b/n", 2),
        ('{"total": "12"}', "/total", 12),
        ('{"total": 2.0}', "/total", 2),
    ],
)
def test_an_answer_is_a_number_or_a_list(tmp_path: Path, body: str, pointer: str, number: int) -> None:
    with a_resource(body.encode()) as (address, _):
        assert count({"http": f"http://{address}/?to={{to}}", "count": pointer}, tmp_path, to="a@x.test") == number


@pytest.mark.parametrize("body", ['{"total": true}', '{"total": -1}', '{"total": 1.5}', '{"total": null}', "{}", "<p>"])
def test_what_is_no_number_is_one_line_with_the_answer(tmp_path: Path, body: str) -> None:
    with a_resource(body.encode()) as (address, _), pytest.raises(ProbeError) as failed:
        count({"http": f"http://{address}/n?to={{to}}", "count": "/total"}, tmp_path, to="a@x.test")
    assert str(failed.value).startswith(f"target.effects.count: GET http://{address}/n has ")
    assert body in str(failed.value)


def test_a_list_too_long_to_be_kept_is_not_counted_short(tmp_path: Path) -> None:
    long = json.dumps(["mail" * 10] * 10_000).encode()
    with a_resource(long) as (address, _), pytest.raises(ProbeError, match="let it give a number, or fewer of them"):
        count({"http": f"http://{address}/?to={{to}}"}, tmp_path, to="a@x.test")


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with a_resource(b"", 302) as (address, _), pytest.raises(ProbeError, match=r"answered 302$"):
        count({"http": f"http://{address}/?to={{to}}"}, tmp_path, to="a@x.test")


def test_odd_words_arrive_whole_in_a_url(tmp_path: Path) -> None:
    with a_resource(b"1") as (address, asked):
        count({"http": f"http://me:word@{address}/{{to}}?s={{subject}}"}, tmp_path, to="a/b@x.test", subject=ODD)
    path, credentials = asked[0]
    assert path.startswith("/a%2Fb%40x.test?s=Gr%C3%BC%C3%9Fe%20%26%20%22more")
    assert credentials == "Basic bWU6d29yZA=="


@pytest.fixture
def app(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database beside the target file, in the mode that servers use."""
    with contextlib.closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as made:
        made.execute("pragma journal_mode=wal")
        made.execute("create table sent (recipient text, subject text)")
        made.execute("insert into sent values ('a@x.test', ?), ('a@x.test', 'x'), ('b@x.test', 'x')", (ODD,))
        yield made


QUERY = "select count(*) from sent where recipient = :to"


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize("database", ["sqlite:///app.db", "sqlite:///{folder}/app.db"])
def test_a_file_is_asked_by_what_differs(tmp_path: Path, database: str) -> None:
    assert count({"sql": QUERY, "database": database}, tmp_path, to="a@x.test") == 2
    by_subject = {"sql": f"{QUERY} and subject = :subject and ':x' <> ''", "database": database}
    assert count(by_subject, tmp_path, to="a@x.test", subject=ODD) == 1
    assert count({"sql": "select count(*) from sent where recipient = :to", "database": database}, tmp_path, to="") == 0


def test_a_file_is_only_read(tmp_path: Path, app: sqlite3.Connection) -> None:
    """A query that would write is refused by the file itself, whatever it begins with."""
    settings = {"sql": "with gone as (select :to) delete from sent", "database": "sqlite:///app.db"}
    with pytest.raises(ProbeError, match="attempt to write a readonly database"):
        count(settings, tmp_path, to="a@x.test")
    assert app.execute("select count(*) from sent").fetchone() == (3,)


def test_a_file_that_is_locked_is_waited_for_and_then_told(tmp_path: Path, app: sqlite3.Connection) -> None:
    app.execute("pragma journal_mode=delete")
    app.execute("begin exclusive")
    with pytest.raises(ProbeError, match="database is locked"):
        count({"sql": QUERY, "database": "sqlite:///app.db", "timeout": 0.1}, tmp_path, to="a@x.test")


@pytest.mark.usefixtures("app")
def test_what_is_selected_must_be_a_count(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match=r"is 'a@x\.test', no whole number; write select count"):
        count({"sql": "select recipient from sent where recipient = :to", "database": "sqlite:///app.db"}, tmp_path,
              to="a@x.test")  # fmt: skip


def _need(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        missing(module, "databases other than SQLite are read through it")


@pytest.mark.usefixtures("app")
def test_any_other_database_is_read_through_sqlalchemy(tmp_path: Path) -> None:
    _need("sqlalchemy")
    database = "sqlite+pysqlite:///{folder}/app.db"
    settings = {"sql": f"{QUERY} and subject = :subject and 'a:to' <> ':b'", "database": database}
    assert count(settings, tmp_path, to="a@x.test", subject=ODD) == 1
    with pytest.raises(ProbeError, match=r"target\.effects\.sql: sqlite: no such table: snet; mend the query"):
        count({"sql": QUERY.replace("sent", "snet"), "database": database}, tmp_path, to="a@x.test")
    with pytest.raises(ProbeError, match=r"target\.effects\.database: SQLAlchemy's driver 'oracledb' is not installed"):
        count({"sql": QUERY, "database": "oracle+oracledb://127.0.0.1/app"}, tmp_path, to="a@x.test")


def test_a_postgresql_is_read_and_not_written(tmp_path: Path, postgresql: Postgresql) -> None:
    _need("sqlalchemy")
    _need("psycopg")
    made = ("create table sent (recipient text)", "insert into sent values ('a@x.test'), ('a@x.test')")
    with postgresql.database(*made) as name:
        database = f"postgresql+psycopg://postgres:hidden@127.0.0.1:{postgresql.port}/{name}"
        sql = "select count(*)::text from sent where recipient = :to"
        assert count({"sql": sql, "database": database}, tmp_path, to="a@x.test") == 2
        written = "with made as (insert into sent values (:to) returning 1) select count(*) from made"
        with pytest.raises(ProbeError, match="read-only transaction"):
            count({"sql": written, "database": database}, tmp_path, to="a@x.test")
        with pytest.raises(ProbeError, match=r"target\.effects\.database") as failed:
            count({"sql": sql, "database": database.replace(name, "nowhere")}, tmp_path, to="a@x.test")
    assert "hidden" not in str(failed.value)
    assert "\n" not in str(failed.value)


def test_a_program_is_run_beside_the_target_file(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(
        "import sys; print(len(sys.argv[1]), file=sys.stdout); print('x', file=sys.stderr)"
    )
    assert count({"command": ["{python}", "count.py", "{subject}"]}, tmp_path, subject=ODD) == len(ODD)


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    program = "import os, subprocess, sys; subprocess.Popen(['sleep', '60']); print('up', flush=True); os.wait()"
    with pytest.raises(ProbeError, match=r"did not end within 0\.5 s; mend it, or raise target\.effects\.timeout"):
        count({"command": ["{python}", "-c", program, "{to}"], "timeout": 0.5}, tmp_path, to="a@x.test")


def test_parameters_are_found_where_they_are_ones() -> None:
    sql = "select ':a', \":b\", `:c`, x::int, '''it''s :d' -- :e\n/* :f */ from t where r=:to and s = :subject"
    assert parameters(sql) == {"to", "subject"}
    assert escaped("select ':a', x::int where r = :to") == r"select '\:a', x\:\:int where r = :to"


@pytest.mark.parametrize(
    ("given", "number"), [(" 12\n", 12), ("", None), ("1.0", None), ("²", None), (float("nan"), None)]
)
def test_whole(given: object, number: int | None) -> None:
    assert whole(given) == number
