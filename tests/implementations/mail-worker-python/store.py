"""Three tables, and transactions over them: in PostgreSQL, or in SQLite, which is embedded.

    events       what was notified: the id of the event
    jobs         what it asks for: one answer to a message, keyed by the message
    operations   what is sent: the bytes of the request, its key, and what became of it

The statements are the same for both. Times are seconds since 1970 by the worker's clock.
"""

import contextlib
import re
import sqlite3
import sys
import threading

TABLES = (
    "CREATE TABLE IF NOT EXISTS events (event_id TEXT PRIMARY KEY, received_at DOUBLE PRECISION NOT NULL)",
    """CREATE TABLE IF NOT EXISTS jobs (
        operation TEXT PRIMARY KEY,
        message TEXT NOT NULL,
        done INTEGER NOT NULL DEFAULT 0,
        leased_until DOUBLE PRECISION NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE IF NOT EXISTS operations (
        operation TEXT PRIMARY KEY,
        request_hash TEXT NOT NULL,
        body TEXT NOT NULL,  -- the bytes of every attempt
        send_key TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'sent', 'not_sent', 'pending', 'unknown')),
        detail TEXT,  -- the API's id of the mail or the draft, or why there is none
        attempts INTEGER NOT NULL DEFAULT 0,
        maybe_sent INTEGER NOT NULL DEFAULT 0,  -- whether an attempt may have got through
        first_at DOUBLE PRECISION,  -- of the first attempt: from then on the API knows the key
        due_at DOUBLE PRECISION NOT NULL DEFAULT 0,
        owner TEXT,
        leased_until DOUBLE PRECISION NOT NULL DEFAULT 0
    )""",
)


def open_store(url):
    """A store by its URL: `postgresql://...`, or the path of a SQLite file."""
    return Postgres(url) if url.startswith("postgresql:") else Sqlite(url)


class Sqlite:
    Unavailable = sqlite3.OperationalError
    SKIP_LOCKED = ""  # one writer at a time

    def __init__(self, path):
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        for table in TABLES:
            self._db.execute(table)

    @contextlib.contextmanager
    def transaction(self):
        """A function that runs a statement and returns its rows; all that it ran is kept, or nothing."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._run
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.OperationalError):
                    self._db.execute("ROLLBACK")
                raise

    def _run(self, statement, **values):
        return [dict(row) for row in self._db.execute(statement, values).fetchall()]


class Postgres:
    SKIP_LOCKED = " FOR UPDATE SKIP LOCKED"

    def __init__(self, url):
        sys.path.insert(0, "../../targets_common")
        import psycopg
        from pool import Pool

        self.Unavailable = psycopg.OperationalError
        self._pool = Pool(url)
        self._pool.wait()
        with self.transaction() as run:
            run("SELECT pg_advisory_xact_lock(1)")  # two that start at once would both make the tables
            for table in TABLES:
                run(table)

    @contextlib.contextmanager
    def transaction(self):
        with self._pool.transaction() as connection:

            def run(statement, **values):
                cursor = connection.execute(re.sub(r":(\w+)", r"%(\1)s", statement), values)
                return cursor.fetchall() if cursor.description else []

            yield run
