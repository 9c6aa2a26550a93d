"""Tables of JSON documents in one SQLite file, for the programs in tests/flawed and tests/sound."""

import json
import sqlite3
import threading

from plumbing import Answer


class Store:
    """Tables of JSON documents; what is written inside of one ``with`` is written together."""

    def __init__(self, path):
        self._lock, self._depth = threading.RLock(), 0
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = OFF")  # enough for a process that is killed
        self._db.execute("CREATE TABLE IF NOT EXISTS docs (kind TEXT, name TEXT, doc TEXT, PRIMARY KEY (kind, name))")

    def __enter__(self):
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, *problem):
        self._depth -= 1
        if self._depth == 0:
            self._db.execute("ROLLBACK" if problem[1] and not isinstance(problem[1], Answer) else "COMMIT")
        self._lock.release()

    def get(self, kind, name):
        with self._lock:
            row = self._db.execute("SELECT doc FROM docs WHERE kind = ? AND name = ?", (kind, name)).fetchone()
        return row and json.loads(row[0])

    def put(self, kind, name, doc):
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO docs VALUES (?, ?, ?)", (kind, name, json.dumps(doc)))

    def drop(self, kind, name):
        with self._lock:
            self._db.execute("DELETE FROM docs WHERE kind = ? AND name = ?", (kind, name))

    def all(self, kind):
        with self._lock:
            rows = self._db.execute("SELECT name, doc FROM docs WHERE kind = ? ORDER BY rowid", (kind,)).fetchall()
        return [(name, json.loads(doc)) for name, doc in rows]
