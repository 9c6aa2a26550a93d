"""What is told of messages: their words in answers, and their events."""

from __future__ import annotations

from typing import Any

from sendtwice.fake_provider.contracts.model import Contract
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.emulator.records import Event, Message, State

#: What a message that was refused after a person said so is refused for.
NOT_SENT = "resolved_not_sent"

_TYPES = {
    State.SENT: "message.sent",
    State.REFUSED: "message.failed",
    State.UNKNOWN: "message.unknown",
    State.PENDING: "draft.pending",
    State.QUEUED: "draft.approved",
    State.REJECTED: "draft.rejected",
}


class Telling:
    """Words and events in the terms of one contract."""

    def __init__(self, contract: Contract) -> None:
        """Use the words of ``contract``."""
        self._contract = contract
        self._words = contract.lookup.words if contract.lookup is not None else {}

    def word(self, state: State) -> str:
        """Return the vendor's word for a state; what is being handed over is still queued to all others."""
        shown = State.QUEUED if state is State.HANDING else state
        return self._words.get(state, self._words.get(shown, shown))

    def event(self, message: Message, state: State, *, code: str | None = None) -> Event:
        """Return the event that a message has come into a state."""
        return Event(_TYPES[state], self._data(message, state, code))

    def stored(self, message: Message) -> Event | None:
        """Return the event of a message that is stored now: as a draft, or when it is sent already."""
        return self.event(message, message.state) if message.state in (State.PENDING, State.SENT) else None

    def reconciled(self, message: Message, state: State) -> Event:
        """Return the event that a message's outcome has become known."""
        data = self._data(message, state, None)
        marker = self._contract.reconciliation.marker
        shown = marker.play or marker.value
        if shown is not None and shown.at is not None:
            pointers.put(data, shown.at, shown.equals)
        else:
            data["reconciled"] = True
        return Event(self._contract.reconciliation.event.played("message.reconciled"), data)

    def _data(self, message: Message, state: State, code: str | None) -> dict[str, Any]:
        mail = message.mail
        data: dict[str, Any] = {
            "message_id": message.id,
            "from": mail.sender,
            "to": list(mail.recipients),
            "subject": mail.subject,
            "status": self.word(state),
        }
        return data if code is None else data | {"code": code}
