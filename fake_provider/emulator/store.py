"""What the emulator remembers: messages, and the keys under which they were asked for.

Two tables. A **message** is one mail on its way::

    queued -> handing -> sent | refused | unknown
       ^---------'  the provider was busy: certainly not taken, so it may be handed over again

``handing`` is written before the first byte goes out, so a process that dies leaves either ``queued``
(certainly not handed over) or ``handing`` (nobody can know).  An **entry** is a claimed key; it is written
in the transaction that stores its messages, and holds its answer once there is one.  To release a key is to
delete the entry with its messages: then nothing was asked and nothing was sent.

Every public method is one transaction, begun with BEGIN IMMEDIATE, so what a method has returned survives the
process. The lock is exclusive: two processes on one file would each recover what the other is doing.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sendtwice.fake_provider.contracts.model import AnswerClass
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.ledger import Mail

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    batch       INTEGER NOT NULL,
    counted     REAL NOT NULL,
    answer      TEXT,
    note        TEXT,
    UNIQUE (scope, key)
) STRICT;
CREATE TABLE IF NOT EXISTS message (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT NOT NULL UNIQUE,
    entry    INTEGER,
    state    TEXT NOT NULL,
    created  REAL NOT NULL,
    mail     TEXT NOT NULL,
    raw      BLOB NOT NULL,
    provider TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS message_entry ON message (entry);
CREATE INDEX IF NOT EXISTS message_open ON message (state) WHERE state IN ('queued', 'handing');
"""


class State(StrEnum):
    """How far a message has come."""

    QUEUED = "queued"
    HANDING = "handing"
    SENT = "sent"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Message:
    """One stored mail. Its id is also the key that it has towards a provider that takes keys."""

    id: str
    entry: int | None
    state: State
    created: float
    mail: Mail


@dataclass(frozen=True, slots=True)
class Entry:
    """A claimed key; ``answer`` is None until its outcome is definite."""

    number: int
    fingerprint: str
    batch: bool
    counted: float
    answer: AnswerClass | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Who asks, under which key, for what."""

    scope: str
    key: str
    fingerprint: str
    batch: bool = False


class Store:
    """The emulator's state, in memory or in a file."""

    def __init__(self, path: Path | str = ":memory:") -> None:
        """Open or make the file; :class:`BadFileError` when that cannot be done."""
        self.path = str(path)
        try:
            # Only one event loop uses it, but a fixture may have made it in another thread.
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            if self.path != ":memory:":
                # A WAL survives the death of the process without a sync; a power cut is not played here.
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise BadFileError(self.path, f"cannot hold the state ({error}); give another file") from None

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def claim(
        self,
        claim: Claim,
        mails: Sequence[Mail],
        *,
        now: float,
        forget_before: float | None = None,
        answer: AnswerClass | None = None,
        note: str | None = None,
    ) -> Entry | tuple[int, list[Message]]:
        """Return the entry that has the key already, or else claim it and store its messages."""
        with self._transaction():
            found = self._find(claim, forget_before)
            if found is not None:
                return found
            row = self._db.execute(
                "INSERT INTO entry (scope, key, fingerprint, batch, counted, answer, note)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING number",
                (claim.scope, claim.key, claim.fingerprint, int(claim.batch), now, answer, note),
            ).fetchone()
            number = int(row[0])
            return number, self._insert(number, mails, now)

    def add(self, mails: Sequence[Mail], *, now: float) -> list[Message]:
        """Store messages that no key guards."""
        with self._transaction():
            return self._insert(None, mails, now)

    def mark(self, message: Message, state: State, *, provider: str | None = None) -> None:
        """Note how far a message has come."""
        with self._transaction():
            self._db.execute(
                "UPDATE message SET state = ?, provider = coalesce(?, provider) WHERE id = ?",
                (state, provider, message.id),
            )

    def settle(self, entry: int, answer: AnswerClass, *, note: str | None = None, counted: float | None = None) -> None:
        """Store the answer that repeats will get."""
        with self._transaction():
            self._db.execute(
                "UPDATE entry SET answer = ?, note = ?, counted = coalesce(?, counted) WHERE number = ?",
                (answer, note, counted, entry),
            )

    def touch(self, entry: int, now: float) -> None:
        """Start the retention of an entry anew."""
        with self._transaction():
            self._db.execute("UPDATE entry SET counted = ? WHERE number = ?", (now, entry))

    def release(self, entry: int | None, messages: Sequence[Message]) -> None:
        """Delete messages and free their key: nothing was asked, nothing was sent."""
        with self._transaction():
            self._db.executemany("DELETE FROM message WHERE id = ?", [(message.id,) for message in messages])
            if entry is not None:
                self._db.execute("DELETE FROM entry WHERE number = ?", (entry,))

    def messages(self, entry: int) -> list[Message]:
        """Return the messages of an entry, in the order of the request."""
        return self._read("WHERE entry = ? ORDER BY number", (entry,))

    def message(self, number: str) -> Message | None:
        """Return one message by its id."""
        return next(iter(self._read("WHERE id = ?", (number,))), None)

    def unfinished(self) -> list[Message]:
        """Return what a process that died has left: open messages, and those without a stored answer."""
        return self._read(
            "WHERE state IN ('queued', 'handing')"
            " OR entry IN (SELECT number FROM entry WHERE answer IS NULL) ORDER BY number",
            (),
        )

    def entry(self, number: int) -> Entry | None:
        """Return one entry by its number."""
        row = self._db.execute(f"SELECT {_ENTRY} FROM entry WHERE number = ?", (number,)).fetchone()  # noqa: S608
        return _entry(row) if row else None

    def clear(self) -> None:
        """Forget everything."""
        with self._transaction():
            self._db.execute("DELETE FROM message")
            self._db.execute("DELETE FROM entry")

    def _find(self, claim: Claim, forget_before: float | None) -> Entry | None:
        row = self._db.execute(
            f"SELECT {_ENTRY} FROM entry WHERE scope = ? AND key = ?",  # noqa: S608
            (claim.scope, claim.key),
        ).fetchone()
        if row is None:
            return None
        found = _entry(row)
        if forget_before is not None and found.counted <= forget_before and not self._running(found):
            # Its messages stay: to forget a key takes no mail back, and one that waits must still go out.
            self._db.execute("UPDATE message SET entry = NULL WHERE entry = ?", (found.number,))
            self._db.execute("DELETE FROM entry WHERE number = ?", (found.number,))
            return None
        return found

    def _running(self, entry: Entry) -> bool:
        """Whether the first request is still being worked on: such a key is never forgotten."""
        if entry.answer is not None:
            return False
        row = self._db.execute(
            "SELECT 1 FROM message WHERE entry = ? AND state IN ('queued', 'handing')", (entry.number,)
        ).fetchone()
        return row is not None

    def _insert(self, entry: int | None, mails: Sequence[Mail], now: float) -> list[Message]:
        messages = [Message(str(uuid.uuid4()), entry, State.QUEUED, now, mail) for mail in mails]
        self._db.executemany(
            "INSERT INTO message (id, entry, state, created, mail, raw) VALUES (?, ?, ?, ?, ?, ?)",
            [(m.id, entry, m.state, now, _packed(m.mail), m.mail.raw) for m in messages],
        )
        return messages

    def _read(self, where: str, values: tuple[object, ...]) -> list[Message]:
        rows = self._db.execute(
            f"SELECT id, entry, state, created, mail, raw FROM message {where}",  # noqa: S608
            values,
        )
        return [
            Message(number, entry, State(state), created, _unpacked(mail, raw))
            for number, entry, state, created, mail, raw in rows
        ]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


_ENTRY = "number, fingerprint, batch, counted, answer, note"


def _entry(row: tuple[int, str, int, float, str | None, str | None]) -> Entry:
    number, fingerprint, batch, counted, answer, note = row
    return Entry(number, fingerprint, bool(batch), counted, AnswerClass(answer) if answer else None, note)


def _packed(mail: Mail) -> str:
    # Lone surrogates are legal in JSON and not in SQLite's text; escapes carry them.
    return json.dumps([mail.sender, mail.recipients, mail.subject, mail.text, mail.html, mail.key])


def _unpacked(text: str, raw: bytes) -> Mail:
    sender, recipients, subject, body, html, key = json.loads(text)
    return Mail(sender, tuple(recipients), subject, body, html, key, raw)
