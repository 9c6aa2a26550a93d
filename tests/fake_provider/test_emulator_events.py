"""Events: told once what they tell of is on disk, and none is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.emulator.database import StoredLog
from sendtwice.fake_provider.emulator.outbox import EventState, OutEvent
from sendtwice.fake_provider.emulator.records import Event, State, new_messages
from sendtwice.fake_provider.emulator.store import Store
from sendtwice.fake_provider.ledger import Mail
from tests.fake_provider.kit import Scripted, ask, call, emulator, mine, run, said

PENDING = {"status": 202, "id": "/id"}


@pytest.mark.parametrize(
    ("script", "delivery", "types"),
    [
        (["sent"], "inline", ["message.sent"]),
        (["sent"], "queued", ["message.sent"]),
        (["refused"], "inline", ["message.failed"]),
        (["lost"], "inline", ["message.unknown"]),
        (["busy", "sent"], "queued", ["message.sent"]),
        (["busy", "busy"], "inline", []),
    ],
)
def test_what_becomes_of_a_mail_is_told_once(script: list[str], delivery: str, types: list[str]) -> None:
    async def play() -> None:
        told: list[tuple[str, dict[str, Any]]] = []
        upstream = Scripted(script=script)
        contract = mine(delivery=delivery)
        async with emulator(contract, upstream, emit=lambda *event: told.append(event)) as (engine, _):
            await ask(engine, call())
            await engine.settled()
            await ask(engine, call(text="other"))
            assert [kind for kind, _ in told] == types
            stored = engine.store.events_after(0)
            assert [(event.type, event.data) for event in stored] == told
            if types == ["message.sent"]:
                assert told[0][1] == {
                    "message_id": said(await ask(engine, call()))["id"],
                    "from": "shop@example.test",
                    "to": ["ana@example.test"],
                    "subject": "Receipt",
                    "status": "sent",
                }

    run(play())


def test_drafts_resolutions_and_reconciliations_are_told() -> None:
    async def play() -> None:
        told: list[tuple[str, dict[str, Any]]] = []
        contract = mine(approval={}, answers__pending=PENDING, reconciliation={"event": "message.reconciled"})
        upstream = Scripted(script=["unknown", "lost"])
        async with emulator(contract, upstream, emit=lambda *event: told.append(event)) as (engine, _):

            async def draft(key: str, what: str) -> str:
                waiting = await ask(engine, call(key=key, sender="needs-approval@example.test"))
                number: str = said(waiting)["id"]
                await ask(engine, call(f"/drafts/{number}/{what}", {}, credential="one:person", key=None))
                return number

            number = await draft("k1", "approve")
            data = {"from": "needs-approval@example.test", "to": ["ana@example.test"], "subject": "Receipt"}
            await ask(engine, call("/hooks/provider", {"type": "email.sent", "data": data}, key=None))
            await draft("k2", "reject")
            other = await draft("k3", "approve")
            await ask(engine, call(f"/emails/{other}/resolve", {"outcome": "not_sent"}, key=None))
            assert [kind for kind, _ in told] == [
                *("draft.pending", "draft.approved", "message.unknown", "message.reconciled"),
                *("draft.pending", "draft.rejected"),
                *("draft.pending", "draft.approved", "message.unknown", "message.failed"),
            ]
            assert told[3][1] | data == told[3][1]
            assert (told[3][1]["message_id"], told[3][1]["reconciled"]) == (number, True)
            assert told[-1][1]["code"] == "resolved_not_sent"

    run(play())


def test_an_event_is_told_after_the_transaction_and_is_in_it() -> None:
    store = Store()
    seen: list[State] = []
    mail = Mail("a@example.test", ("b@example.test",), "s", "t")
    messages = new_messages([mail], now=1.0)
    store.add(messages, now=1.0)

    def told(kind: str, data: dict[str, Any]) -> None:
        assert not store._db.in_transaction
        found = store.message(messages[0].id)
        assert found is not None
        seen.append(found.state)

    store.told = told

    def dies() -> None:
        with store.together():
            store.mark(messages[0], State.SENT, now=2.0, event=Event("message.sent", {}))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        dies()
    assert (seen, store.events_after(0)) == ([], [])
    store.mark(messages[0], State.SENT, now=2.0, event=Event("message.sent", {}))
    assert seen == [State.SENT]
    store.close()


def test_events_survive_the_process_with_their_ids(tmp_path: Path) -> None:
    async def play() -> None:
        state = tmp_path / "state.db"
        async with emulator(mine(), state=state) as (engine, _):
            await ask(engine, call())
            first = engine.store.events_after(0)
        async with emulator(mine(), state=state) as (engine, _):
            assert engine.store.events_after(0) == first
            assert [event.state for event in first] == [EventState.PENDING]
            log = StoredLog(engine.store)
            done = OutEvent(
                first[0].number, first[0].id, first[0].type, first[0].created, first[0].data, EventState.DELIVERED, 2
            )
            log.mark(done)
            assert log.after(0) == [done]
            assert log.after(first[0].number) == []

    run(play())


def test_a_state_of_another_version_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = Store(path)
    store._db.execute("PRAGMA user_version = 1")
    store.close()
    with pytest.raises(BadFileError, match=r"state\.db: holds the state of another version.*give another file"):
        Store(path)
