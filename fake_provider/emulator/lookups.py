"""What is asked of a message afterwards (D19): how it is, and what became of one whose outcome is not known.

An unknown outcome becomes known by a person, who says so, or by a provider's event, which is matched by what the
contract names. An event that fits several messages is taken for none of them: to guess would be to send twice or never.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sendtwice.fake_provider.contracts.model import SEND, AnswerClass
from sendtwice.fake_provider.dialects.mails import addresses
from sendtwice.fake_provider.emulator.answers import Told, render
from sendtwice.fake_provider.emulator.asked import Asked
from sendtwice.fake_provider.emulator.courier import Courier
from sendtwice.fake_provider.emulator.events import NOT_SENT
from sendtwice.fake_provider.emulator.records import Entry, Message, State, Stored
from sendtwice.fake_provider.emulator.replays import Replays
from sendtwice.fake_provider.messages import Response

_OUTCOMES = {"sent": State.SENT, "not_sent": State.REFUSED}

#: What a provider's event says of the hand-over, by the last word of its type. A mail that bounced was sent before.
_EVENTS = {
    **dict.fromkeys(
        ("sent", "accepted", "delivered", "delivery_delayed", "delayed", "bounced", "complained", "opened", "clicked"),
        State.SENT,
    ),
    **dict.fromkeys(("failed", "rejected", "dropped"), State.REFUSED),
}
_UNSURE = frozenset({State.UNKNOWN, State.HANDING})


class Lookups:
    """Reads, resolves and reconciles the messages of one store."""

    def __init__(self, courier: Courier, replays: Replays) -> None:
        """Look in the courier's store."""
        self._telling, self._replays = courier.telling, replays
        self._contract, self._store, self._clock = courier.contract, courier.store, courier.clock

    # --- Reading -------------------------------------------------------------------------------------------

    def read(self, asked: Asked) -> Told:
        """Return how it is with a message, or with all of the account's."""
        if asked.id is None:
            return self._listed(asked)
        message = self.found(asked)
        return self.nothing(asked) if message is None else self.shown(asked, message.id)

    def found(self, asked: Asked) -> Message | None:
        """Return the message that a path names, if it is the account's."""
        message = self._store.message(asked.id or "")
        return message if message is not None and message.account == asked.account else None

    def shown(self, asked: Asked, number: str) -> Told:
        """Return how it is with one message."""
        message = self._store.message(number)
        if message is None:
            return self.nothing(asked)
        extra = {"from": message.mail.sender, "to": list(message.mail.recipients), "subject": message.mail.subject}
        told = render(
            self._contract,
            AnswerClass.ACCEPTED,
            route=asked.route or SEND,
            ids=[message.id],
            recipients=[message.mail.recipients],
            code=message.code if message.state is State.REFUSED else None,
            extra=extra,
        )
        return self._replays.shown(told, message)

    def nothing(self, asked: Asked) -> Told:
        """Return that there is no such message."""
        return self.refused(asked, "There is no such message.", status=404)

    def refused(self, asked: Asked, message: str, *, status: int | None = None) -> Told:
        """Return that what is asked for cannot be done."""
        return render(self._contract, AnswerClass.REFUSED, route=asked.route or SEND, message=message, status=status)

    def _listed(self, asked: Asked) -> Told:
        messages = self._store.of_account(asked.account)
        if "key" in asked.query:
            messages = [message for message in messages if message.mail.key == asked.query["key"]]
        place = self._contract.lookup.state if self._contract.lookup is not None else "/status"
        name = place.rpartition("/")[2]
        data = [{"id": message.id, name: self._telling.word(message.state)} for message in messages]
        plain = Response.of(200, {"data": data})
        return Told(plain.status, plain.body, plain.headers, AnswerClass.ACCEPTED)

    # --- Unknown outcomes ----------------------------------------------------------------------------------

    def resolve(self, asked: Asked) -> Told:
        """Take a person's word for what became of a message."""
        message = self.found(asked)
        if message is None:
            return self.nothing(asked)
        said = asked.body.get("outcome") if isinstance(asked.body, dict) else None
        state = _OUTCOMES.get(said) if isinstance(said, str) else None
        if state is None:
            return self.refused(asked, f"outcome must be {' or '.join(_OUTCOMES)}.")
        code = NOT_SENT if state is State.REFUSED else None
        moved = self._store.move(
            [message],
            State.UNKNOWN,
            state,
            now=self._clock.now(),
            code=code,
            settle=self._settled(message, state, AnswerClass.FAILED),
            event=lambda m: self._telling.event(m, state, code=code),
        )
        if not moved:
            return self.refused(asked, f"The outcome is known: it is {self._telling.word(message.state)}.")
        return self.shown(asked, message.id)

    def reconcile(self, asked: Asked) -> Told:
        """Take a provider's event for what became of the one message that it fits."""
        event = asked.body if isinstance(asked.body, dict) else {}
        inner = event.get("data")
        state = _EVENTS.get(str(event.get("type", "")).rpartition(".")[2])
        message = self._match(inner if isinstance(inner, dict) else event) if state is not None else None
        if message is not None and state is not None:
            self._store.move(
                [message],
                message.state,
                state,
                now=self._clock.now(),
                reconciled=True,
                # What is still being handed over is settled by the courier, who finds the outcome here.
                settle=None if message.state is State.HANDING else self._settled(message, state, AnswerClass.REFUSED),
                event=lambda m: self._telling.reconciled(m, state),
            )
        told = render(self._contract, AnswerClass.ACCEPTED, route=asked.route or SEND)
        plain = Response.of(told.status, {"received": True, "matched": None if message is None else message.id})
        return Told(plain.status, plain.body, plain.headers, AnswerClass.ACCEPTED)

    def _match(self, event: Mapping[str, Any]) -> Message | None:
        """Return the only message of unknown outcome that an event fits."""
        rules = self._contract.reconciliation
        number = event.get("message_id")
        named = self._store.named(number) if isinstance(number, str) and number else None
        if named is not None and named.state not in _UNSURE:
            return None  # it tells of a message that is known, and of no other that may look like it
        since = self._clock.now() - rules.within.played(math.inf)
        by = rules.by.played(["sender", "recipient", "subject"])
        fitting = [m for m in self._store.unsure(since) if _fit([_fits(part, m, event) for part in by])]
        return fitting[0] if len(fitting) == 1 else None

    def _settled(self, message: Message, state: State, otherwise: AnswerClass) -> tuple[AnswerClass, Stored] | None:
        """Return what the key of a message answers from now on; None while others of its request are unknown."""
        entry = None if message.entry is None else self._store.entry(message.entry)
        if entry is None or entry.poisoned:
            return None
        messages = self._store.messages(entry.number)
        states = [state if m.id == message.id else m.state for m in messages]
        if _UNSURE & set(states):
            return None
        kind = AnswerClass.ACCEPTED if State.SENT in states else otherwise
        if kind is AnswerClass.ACCEPTED and entry.answer is kind and entry.response is not None:
            return kind, entry.response
        return kind, self._answer(entry, messages, kind)

    def _answer(self, entry: Entry, messages: list[Message], kind: AnswerClass) -> Stored:
        failed = kind is AnswerClass.FAILED
        return render(
            self._contract,
            kind,
            route=entry.route,
            ids=[message.id for message in messages],
            recipients=[message.mail.recipients for message in messages],
            batch=entry.batch,
            message="A person has said that this was not sent; to send it takes a new key." if failed else None,
            code=NOT_SENT if failed else None,
        ).stored()


def _fit(found: list[bool | None]) -> bool:
    """Whether something fits and nothing does not."""
    return True in found and False not in found


def _fits(part: str, message: Message, event: Mapping[str, Any]) -> bool | None:
    """Whether an event fits a message in one part; None where that cannot be told."""
    match part:
        case "sender":
            return _same(addresses(event.get("from")), addresses(message.mail.sender))
        case "recipient":
            told = {address.casefold() for address in addresses(event.get("to"))}
            return bool(told) and told <= {address.casefold() for address in message.mail.recipients}
        case "subject":
            return event.get("subject") == message.mail.subject
    number = event.get("message_id")
    if number is None or number in (message.id, message.provider):
        return None if number is None else True
    # After an outcome that is not known, the provider's own id is seldom known either.
    return None if message.provider is None else False


def _same(one: list[str], other: list[str]) -> bool:
    return [address.casefold() for address in one] == [address.casefold() for address in other]
