"""What the emulator remembers, on disk: messages, and claimed keys.

A message is stored before anybody is told of it, and ``handing`` is written before its first byte goes out, so a
process that dies leaves either ``queued`` (certainly not handed over) or ``handing`` (nobody can know). An entry is
written in the transaction that stores its messages. To release a key is to delete the entry with its messages: then
nothing was asked and nothing was sent; to free it is to delete the entry alone.

Every public method is one transaction, begun with BEGIN IMMEDIATE, so what a method has returned survives the
process. The lock is exclusive: two processes on one file would each recover what the other is doing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sendtwice.fake_provider.contracts.model import AnswerClass
from sendtwice.fake_provider.emulator.database import Database
from sendtwice.fake_provider.emulator.records import (
    OPEN,
    Claim,
    Entry,
    Event,
    Message,
    State,
    Stored,
    packed,
    unpacked,
)

_ENTRY = "number, fingerprint, batch, route, claimed, counted, until, answer, kept, response"
_FIND = f"SELECT {_ENTRY} FROM entry WHERE scope = ? AND key = ?"  # noqa: S608
_CLAIM = (
    "INSERT INTO entry (number, scope, key, fingerprint, batch, route, claimed, counted, until, answer, kept, response)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (scope, key) DO NOTHING"
)
_MESSAGE = "id, entry, state, created, mail, raw, account, handed, due, code, provider, reconciled"


class Store(Database):
    """The emulator's state, in memory or in a file."""

    def __init__(self, path: Path | str = ":memory:", *, keeps_events: bool = True) -> None:
        """Open or make the file; :class:`BadFileError` when that cannot be done."""
        super().__init__(path, keeps_events=keeps_events)
        # While a process lives no number means two entries, also when the first of them is deleted.
        (last,) = self._db.execute("SELECT coalesce(max(number), 0) FROM entry").fetchone()
        self._numbers = itertools.count(int(last) + 1)

    # --- Keys ----------------------------------------------------------------------------------------------

    def find(self, scope: str, key: str) -> Entry | None:
        """Return the entry of a key."""
        row = self._db.execute(_FIND, (scope, key)).fetchone()
        return None if row is None else _entry(row)

    def entry(self, number: int) -> Entry | None:
        """Return one entry by its number."""
        row = self._db.execute(f"SELECT {_ENTRY} FROM entry WHERE number = ?", (number,)).fetchone()  # noqa: S608
        return None if row is None else _entry(row)

    def claim(
        self,
        claim: Claim,
        messages: Sequence[Message],
        *,
        now: float,
        answer: AnswerClass | None = None,
        kept: bool = False,
        response: Stored | None = None,
        event: Callable[[Message], Event | None] | None = None,
    ) -> Entry | int:
        """Return the entry that has the key already, or else claim it, store its messages and return its number."""
        with self._transaction():
            number: int = next(self._numbers)
            claimed = self._db.execute(
                _CLAIM,
                (
                    *(number, claim.scope, claim.key, claim.fingerprint, int(claim.batch), claim.route, now),
                    now if claim.counted is None else claim.counted,
                    *(claim.until, answer, int(kept), response.packed() if response else None),
                ),
            )
            if claimed.rowcount == 0:
                found = self.find(claim.scope, claim.key)
                assert found is not None  # it was there a moment ago, in the same transaction
                return found
            self._insert(number, messages, now, event)
            return number

    def settle(
        self,
        entry: int,
        answer: AnswerClass | None,
        response: Stored | None = None,
        *,
        counted: float | None = None,
    ) -> None:
        """Store the answer that repeats will get; None makes the key run again."""
        with self._transaction():
            self._db.execute(
                "UPDATE entry SET answer = ?, response = coalesce(?, response), kept = 0,"
                " counted = coalesce(?, counted) WHERE number = ?",
                (answer, response.packed() if response else None, counted, entry),
            )

    def keep(self, entry: int) -> None:
        """Keep a key in progress until somebody ends that."""
        with self._transaction():
            self._db.execute("UPDATE entry SET kept = 1 WHERE number = ?", (entry,))

    def count_from(self, entry: int, now: float) -> None:
        """Start the retention of an entry anew."""
        with self._transaction():
            self._db.execute("UPDATE entry SET counted = ? WHERE number = ?", (now, entry))

    def free(self, entry: int, *, fence: bool = False) -> None:
        """Forget a key. Its messages stay, and one that waits still goes out, unless they are fenced off."""
        with self._transaction():
            if fence:
                self._db.execute(
                    "UPDATE message SET state = 'refused', code = 'fenced' WHERE entry = ? AND state = 'queued'",
                    (entry,),
                )
            self._db.execute("UPDATE message SET entry = NULL WHERE entry = ?", (entry,))
            self._db.execute("DELETE FROM entry WHERE number = ?", (entry,))

    def release(self, entry: int | None, messages: Sequence[Message]) -> None:
        """Delete messages and free their key: nothing was asked, nothing was sent."""
        with self._transaction():
            self._db.executemany("DELETE FROM message WHERE id = ?", [(message.id,) for message in messages])
            if entry is not None:
                self._db.execute("UPDATE message SET entry = NULL WHERE entry = ?", (entry,))
                self._db.execute("DELETE FROM entry WHERE number = ?", (entry,))

    def strand(self, entry: int) -> None:
        """Keep a key in progress, whatever becomes of its messages."""
        with self._transaction():
            self._db.execute("UPDATE message SET entry = NULL WHERE entry = ?", (entry,))
            self._db.execute("UPDATE entry SET kept = 1 WHERE number = ?", (entry,))

    # --- Messages ------------------------------------------------------------------------------------------

    def add(
        self,
        messages: Sequence[Message],
        *,
        now: float,
        event: Callable[[Message], Event | None] | None = None,
    ) -> None:
        """Store messages that no key guards."""
        with self._transaction():
            self._insert(None, messages, now, event)

    def begin(self, message: Message, now: float) -> bool:
        """Note that a message is about to be handed over; False when it no longer may be."""
        with self._transaction():
            changed = self._db.execute(
                "UPDATE message SET state = 'handing', handed = coalesce(handed, ?)"
                " WHERE id = ? AND state IN ('queued', 'handing')",
                (now, message.id),
            )
            return changed.rowcount == 1

    def mark(
        self,
        message: Message,
        state: State,
        *,
        now: float = 0.0,
        provider: str | None = None,
        code: str | None = None,
        event: Event | None = None,
    ) -> None:
        """Note how far a message has come, and what is to be told of it."""
        with self._transaction():
            self._db.execute(
                "UPDATE message SET state = ?, provider = coalesce(?, provider), code = coalesce(?, code) WHERE id = ?",
                (state, provider, code, message.id),
            )
            self._note(event, now)

    def move(
        self,
        messages: Sequence[Message],
        before: State,
        after: State,
        *,
        now: float,
        code: str | None = None,
        reconciled: bool = False,
        settle: tuple[AnswerClass | None, Stored] | None = None,
        event: Callable[[Message], Event | None],
    ) -> bool:
        """Move messages of one request from a state to another, and with them the answer of their key.

        Nothing changes, and the answer is False, when they are not in that state.
        """
        with self._transaction():
            for message in messages:
                changed = self._db.execute(
                    "UPDATE message SET state = ?, code = coalesce(?, code), reconciled = reconciled OR ?"
                    " WHERE id = ? AND state = ?",
                    (after, code, int(reconciled), message.id, before),
                )
                if changed.rowcount != 1:
                    return False  # the first of them tells for all: they are moved together only
                self._note(event(message), now)
            if settle is not None:
                answer, response = settle
                self._db.execute(
                    "UPDATE entry SET answer = ?, response = ?, kept = 0, claimed = ? WHERE number = ?",
                    (answer, response.packed(), now, messages[0].entry),
                )
            return True

    def messages(self, entry: int) -> list[Message]:
        """Return the messages of an entry, in the order of the request."""
        return self._read("WHERE entry = ? ORDER BY number", (entry,))

    def message(self, number: str) -> Message | None:
        """Return one message by its id."""
        return next(iter(self._read("WHERE id = ?", (number,))), None)

    def of_account(self, account: str) -> list[Message]:
        """Return the messages of one account, the newest first."""
        return self._read("WHERE account = ? ORDER BY number DESC", (account,))

    def unsure(self, since: float) -> list[Message]:
        """Return the messages of which nobody knows, or not yet, what became of them, handed over since then."""
        return self._read("WHERE state IN ('unknown', 'handing') AND handed >= ? ORDER BY number", (since,))

    def named(self, provider: str) -> Message | None:
        """Return the message that a provider calls by this id."""
        return next(iter(self._read("WHERE provider = ?", (provider,))), None)

    def unfinished(self) -> list[Message]:
        """Return what a process that died has left: open messages, and those without a stored answer."""
        return self._read(
            "WHERE state IN ('queued', 'handing')"
            " OR entry IN (SELECT number FROM entry WHERE answer IS NULL AND kept = 0) ORDER BY number",
            (),
        )

    def running(self, entry: Entry) -> bool:
        """Whether the first request is still being worked on."""
        return any(message.state in OPEN for message in self.messages(entry.number))

    # --- Inside --------------------------------------------------------------------------------------------

    def _insert(
        self,
        entry: int | None,
        messages: Sequence[Message],
        now: float,
        event: Callable[[Message], Event | None] | None,
    ) -> None:
        for message in messages:
            mail = message.mail
            if message.state is State.SENT:  # it is delivered already: what it says is in the ledger
                mail = replace(mail, text="", html="", raw=b"")
            self._db.execute(
                "INSERT INTO message (id, entry, account, state, created, handed, due, mail, raw)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(message.id, entry, message.account, message.state, message.created, message.handed, message.due),
                    *(packed(mail), mail.raw),
                ),
            )
            if event is not None and self.keeps_events:
                self._note(event(message), now)

    def _read(self, where: str, values: tuple[object, ...]) -> list[Message]:
        rows = self._db.execute(f"SELECT {_MESSAGE} FROM message {where}", values)  # noqa: S608
        return [_message(row) for row in rows]


def _message(row: tuple[Any, ...]) -> Message:
    number, entry, state, created, mail, raw, account, handed, due, code, provider, reconciled = row
    return Message(
        number,
        entry,
        State(state),
        created,
        unpacked(mail, raw),
        account,
        handed,
        due,
        code,
        provider,
        bool(reconciled),
    )


def _entry(row: tuple[Any, ...]) -> Entry:
    number, fingerprint, batch, route, claimed, counted, until, answer, kept, response = row
    return Entry(
        number,
        fingerprint,
        bool(batch),
        route,
        claimed,
        counted,
        until,
        AnswerClass(answer) if answer else None,
        bool(kept),
        Stored.unpacked(response) if response else None,
    )
