"""The file that the emulator's state is in: its layout, its transactions, and the events that they tell of.

An event is written in the transaction that makes what it tells of, so none is lost when a process dies, and none is
told of what did not happen. Whoever listens is called once it is on disk, and reads on from the last that it knows.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.emulator.outbox import EventState, OutEvent, new_id
from sendtwice.fake_provider.emulator.records import Event

#: The layout of the tables, which a file names; another one is not understood.
_LAYOUT = 3
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE entry (
    number      INTEGER PRIMARY KEY,
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    batch       INTEGER NOT NULL,
    route       TEXT NOT NULL,
    claimed     REAL NOT NULL,
    counted     REAL NOT NULL,
    until       REAL,
    answer      TEXT,
    kept        INTEGER NOT NULL DEFAULT 0,
    response    TEXT,
    UNIQUE (scope, key)
) STRICT;
CREATE TABLE message (
    number     INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    entry      INTEGER,
    account    TEXT NOT NULL,
    state      TEXT NOT NULL,
    created    REAL NOT NULL,
    handed     REAL,
    due        REAL,
    mail       TEXT NOT NULL,
    raw        BLOB NOT NULL,
    code       TEXT,
    provider   TEXT,
    reconciled INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX message_entry ON message (entry);
CREATE INDEX message_open ON message (state) WHERE state IN ('queued', 'handing', 'unknown');
CREATE TABLE event (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT NOT NULL,
    type     TEXT NOT NULL,
    created  REAL NOT NULL,
    data     TEXT NOT NULL,
    state    TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE clock (moved REAL NOT NULL) STRICT;
PRAGMA user_version = {_LAYOUT};
COMMIT;
"""


class Database:
    """A file, or memory, with transactions that may tell of events."""

    def __init__(self, path: Path | str = ":memory:", *, keeps_events: bool = True) -> None:
        """Open or make the file; :class:`BadFileError` when that cannot be done.

        Without ``keeps_events`` no event is written: nobody will ever read one.
        """
        self.path, self.keeps_events = str(path), keeps_events
        #: Called with each event's type and data, as soon as they are on disk.
        self.told: Callable[[str, dict[str, Any]], None] | None = None
        self._untold: list[Event] = []
        try:
            # Only one event loop uses it, but a fixture may have made it in another thread.
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            if self.durable:
                # A WAL survives the death of the process without a sync; a power cut is not played here.
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=NORMAL")
            known = self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            layout = self._db.execute("PRAGMA user_version").fetchone()[0] if known else _LAYOUT
            if not known:
                self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise BadFileError(self.path, f"cannot hold the state ({error}); give another file") from None
        if layout != _LAYOUT:
            self._db.close()
            raise BadFileError(self.path, "holds the state of another version, or something else; give another file")

    @property
    def durable(self) -> bool:
        """Whether it outlives this process."""
        return self.path != ":memory:"

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def clear(self) -> None:
        """Forget everything but the time."""
        with self._transaction():
            for table in ("message", "entry", "event"):
                self._db.execute(f"DELETE FROM {table}")  # noqa: S608

    # --- The clock -----------------------------------------------------------------------------------------

    @property
    def moved(self) -> float:
        """By how many seconds the clock was moved, by this process and those before it."""
        return float(self._db.execute("SELECT coalesce(max(moved), 0) FROM clock").fetchone()[0])

    def note_moved(self, seconds: float) -> None:
        """Note by how many seconds the clock is moved: the times in the file are those of that clock."""
        with self._transaction():
            self._db.execute("DELETE FROM clock")
            self._db.execute("INSERT INTO clock (moved) VALUES (?)", (seconds,))

    # --- Events --------------------------------------------------------------------------------------------

    def events_after(self, number: int) -> list[OutEvent]:
        """Return the events after the one with this number, in the order in which they happened."""
        rows = self._db.execute(
            "SELECT number, id, type, created, data, state, attempts FROM event WHERE number > ? ORDER BY number",
            (number,),
        )
        return [
            OutEvent(number, id_, kind, created, json.loads(data), EventState(state), attempts)
            for number, id_, kind, created, data, state, attempts in rows
        ]

    def mark_event(self, event: OutEvent) -> None:
        """Note how far an event has come."""
        with self._transaction():
            self._db.execute(
                "UPDATE event SET id = ?, state = ?, attempts = ? WHERE number = ?",
                (event.id, event.state, event.attempts, event.number),
            )

    def _note(self, event: Event | None, now: float) -> None:
        if event is not None and self.keeps_events:
            self._db.execute(
                "INSERT INTO event (id, type, created, data, state) VALUES (?, ?, ?, ?, ?)",
                (new_id(), event.type, now, json.dumps(event.data), EventState.PENDING),
            )
            self._untold.append(event)

    def together(self) -> contextlib.AbstractContextManager[None]:
        """Make one transaction of all that is done inside."""
        return self._transaction()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        inside = self._db.in_transaction
        if inside:
            yield  # a part of the one around it
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._untold.clear()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        told, self._untold = self._untold, []
        if self.told is not None:
            for event in told:
                self.told(event.type, event.data)


class StoredLog:
    """The events of a store, as an outbox reads them."""

    def __init__(self, store: Database) -> None:
        """Read from and note in ``store``."""
        self._store = store

    def after(self, number: int) -> Sequence[OutEvent]:
        """Return the events after the one with this number."""
        return self._store.events_after(number)

    def mark(self, event: OutEvent) -> None:
        """Note the state, the attempts and the id of an event."""
        self._store.mark_event(event)
