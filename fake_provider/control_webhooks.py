"""The part of the control API that is about the API's own events: what became of each, and to send one again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sendtwice.fake_provider import control_input as given_input
from sendtwice.fake_provider.control_input import BadInputError
from sendtwice.fake_provider.emulator.outbox import EventState, NotPossibleError, Outbox, OutEvent
from sendtwice.fake_provider.messages import Request

_LONGEST_WAIT = 600.0


class WebhookControl:
    """Shows and moves an outbox; there is none where no address was given."""

    def __init__(self, outbox: Outbox | None) -> None:
        """Look at and move ``outbox``."""
        self._outbox = outbox

    async def listed(self, request: Request) -> dict[str, Any]:
        """Return the events; with ``settle``, as soon as none is pending."""
        outbox = self._open()
        query = given_input.query_of(request, ("since", "state", "type", "event_id", "settle"))
        state = query.get("state")
        if state is not None and state not in set(EventState):
            raise BadInputError(f"state must be {', '.join(EventState)}, not {state!r}")
        since = given_input.number(query, "since", 0, whole=True)
        settle = min(given_input.number(query, "settle", 0), _LONGEST_WAIT)
        settled = await outbox.settled(timeout=settle)
        found = [
            event
            for event in outbox.events()
            if event.number > since
            and state in (None, event.state)
            and query.get("type") in (None, event.type)
            and query.get("event_id") in (None, event.id)
        ]
        return {"settled": settled, **_all_shown(outbox, found), "truncated": False}

    def redrive(self, request: Request) -> dict[str, Any]:
        """Send dead events again."""
        outbox = self._open()
        given = given_input.body_of(request, ("event_id", "all"))
        event_id, everything = given_input.text(given, "event_id"), given.get("all")
        if (event_id is None) == (everything is None):
            raise BadInputError('say which: {"event_id": "..."}, or {"all": "dead"}')
        if event_id is None and everything != EventState.DEAD:
            raise BadInputError(f'all must be "dead", not {everything!r}; no other events are redriven')
        return _all_shown(outbox, self._tried(outbox.redrive, event_id) if event_id else outbox.redrive_dead())

    def redeliver(self, request: Request) -> dict[str, Any]:
        """Send a delivered event again."""
        outbox = self._open()
        event_id = given_input.text(given_input.body_of(request, ("event_id",)), "event_id")
        if event_id is None:
            raise BadInputError('say which: {"event_id": "..."}')
        return _all_shown(outbox, self._tried(outbox.redeliver, event_id))

    def _tried(self, ask: Any, event_id: str) -> list[OutEvent]:
        try:
            return [ask(event_id)]
        except NotPossibleError as error:
            raise BadInputError(str(error)) from None

    def _open(self) -> Outbox:
        if self._outbox is None:
            raise BadInputError("events go nowhere; start with --webhook-url, and they go there")
        return self._outbox


def _all_shown(outbox: Outbox, events: Iterable[OutEvent]) -> dict[str, Any]:
    shown = [_shown(outbox, event) for event in events]
    return {"events": shown, "count": len(shown)}


def _shown(outbox: Outbox, event: OutEvent) -> dict[str, Any]:
    last = outbox.last(event)
    return {
        "number": event.number,
        "event_id": event.id,
        "type": event.type,
        "at": event.created,
        "data": event.data,
        "state": event.state,
        "attempts": event.attempts,
        "last": None if last is None else {"status": last.status, "problem": last.problem},
        "next_at": outbox.due(event),
    }
