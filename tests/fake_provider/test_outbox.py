"""The API's own events: at least once, signed, off the path of any request, and again when they were not taken."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from sendtwice.fake_provider import webhooks
from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts.groups import Events
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.emulator.outbox import (
    SCHEDULE,
    EventState,
    MemoryLog,
    NotPossibleError,
    Outbox,
    OutEvent,
)
from sendtwice.fake_provider.faults import Fault, Faults, Place, Verb
from sendtwice.fake_provider.webhook_wire import Notifier, WebhookWire, seconds_of
from tests.fake_provider.consumer import Consumer, consumer
from tests.fake_provider.kit import run

DAY = 86_400.0


class Still(Clock):
    """Moves only by hand."""

    def now(self) -> float:
        return 1e9 + self._offset


class Sender:
    """An outbox over a log in memory, as a fake provider has one."""

    def __init__(self, url: str, log: MemoryLog | None = None, *, timeout: float = 10.0, **settings: Any) -> None:
        self.log, self.faults, self.clock = log or MemoryLog(), Faults(), Still()
        self.secret = webhooks.make_secret()
        rules = settings.get("rules") or Events()
        notifier = Notifier(WebhookWire(url, self.faults, timeout=timeout), self.secret, place=rules.id)
        self.outbox = Outbox(self.log, notifier, clock=self.clock, **settings)

    def happen(self, kind: str = "email.sent", **data: Any) -> OutEvent:
        event = self.log.add(kind, {"from": "shop@example.test", "to": ["ana@example.test"], **data}, now=1000.0)
        self.outbox.wake()
        return event

    def now(self, event: OutEvent) -> OutEvent:
        return self.log.events[event.number]

    async def until(self, event: OutEvent, state: EventState) -> OutEvent:
        assert await self.outbox.wait(lambda: self.now(event).state is state, timeout=15)
        return self.now(event)

    async def waits(self, event: OutEvent) -> float:
        """Wait until the event waits for its next attempt, and return in how many seconds that is."""
        assert await self.outbox.wait(lambda: (self.outbox.due(event) or 0) > self.clock.now(), timeout=15)
        return (self.outbox.due(event) or 0) - self.clock.now()

    async def skip(self, event: OutEvent) -> None:
        """Move the clock to the next attempt."""
        self.clock.advance(await self.waits(event) + 0.001)


@contextlib.asynccontextmanager
async def sender(to: Consumer, log: MemoryLog | None = None, **settings: Any) -> AsyncIterator[Sender]:
    one = Sender(to.url, log, **settings)
    one.outbox.start()
    try:
        yield one
    finally:
        one.faults.withdraw_all()
        await one.outbox.stop()


def test_an_event_is_delivered_signed_under_its_id() -> None:
    async def play() -> None:
        async with consumer() as to, sender(to) as one:
            event = one.happen("email.delivered", message_id="m1")
            delivered = await one.until(event, EventState.DELIVERED)
            (got,) = to.got
            assert got.json == {
                "event_id": event.id,
                "type": "email.delivered",
                "created_at": "1970-01-01T00:16:40.000Z",
                "data": {"from": "shop@example.test", "to": ["ana@example.test"], "message_id": "m1"},
            }
            assert (got.id, got.target) == (event.id, "/hooks?from=test")
            webhooks.verify(one.secret, got.headers, got.body, now=time.time(), tolerance=5)
            assert delivered.attempts == 1

    run(play())


@pytest.mark.parametrize(("place", "where"), [("/id", ["id"]), ("/event/number", ["event", "number"])])
def test_the_id_stands_where_the_contract_says(place: str, where: list[str]) -> None:
    async def play() -> None:
        async with consumer() as to, sender(to, rules=Events(id=place)) as one:
            event = one.happen()
            await one.until(event, EventState.DELIVERED)
            value = to.got[0].json
            for step in where:
                value = value[step]
            assert value == event.id

    run(play())


@pytest.mark.parametrize("failure", [500, 301, 404, "drop", "hang"])
def test_what_was_not_taken_is_sent_again_with_the_same_id_and_a_fresh_signature(failure: int | str) -> None:
    async def play() -> None:
        script = (failure, failure)
        async with consumer(*script) as to, sender(to, schedule=(5, 300, 1800), timeout=0.3) as one:
            event = one.happen()
            for expected in (5, 300):
                assert await one.waits(event) == pytest.approx(expected)
                await one.skip(event)
            delivered = await one.until(event, EventState.DELIVERED)
            assert [got.id for got in to.got] == [event.id] * 3
            assert len({got.body for got in to.got}) == 1
            assert delivered.attempts == 3
            for got in to.got:  # of the consumer's time, although the contract's clock has moved
                webhooks.verify(one.secret, got.headers, got.body, now=time.time(), tolerance=30)

    run(play())


def test_after_the_last_attempt_the_event_is_dead_and_the_others_go_on() -> None:
    async def play() -> None:
        async with consumer(500, 500) as to, sender(to, schedule=(0.0,)) as one:
            dead = await one.until(one.happen(), EventState.DEAD)
            assert dead.attempts == len(to.got) == 2
            last = one.outbox.last(dead)
            assert last is not None
            assert last.status == 500
            await one.until(one.happen(), EventState.DELIVERED)

    run(play())


def test_nobody_who_listens_is_a_failure_like_any_other() -> None:
    async def play() -> None:
        async with consumer() as to:
            gone = to.url
        one = Sender(gone, schedule=())
        one.outbox.start()
        event = await one.until(one.happen(), EventState.DEAD)
        last = one.outbox.last(event)
        assert last is not None
        assert last.status is None
        assert "refused" in (last.problem or "").lower() or "connect" in (last.problem or "").lower()
        await one.outbox.stop()

    run(play())


def test_gone_for_good_ends_it_at_once() -> None:
    async def play() -> None:
        async with consumer(410) as to, sender(to) as one:
            assert (await one.until(one.happen(), EventState.DEAD)).attempts == 1
            assert len(to.got) == 1

    run(play())


def test_retry_after_is_obeyed_where_it_asks_for_more_patience_than_the_schedule() -> None:
    async def play() -> None:
        async with (
            consumer((429, {"Retry-After": "1000"}), (503, {"Retry-After": "1"})) as to,
            sender(to, schedule=(5, 300)) as one,
        ):
            event = one.happen()
            assert await one.waits(event) == pytest.approx(1000)
            await one.skip(event)
            await to.until(lambda: len(to.got) == 2)
            assert await one.waits(event) == pytest.approx(300)
            await one.skip(event)
            await one.until(event, EventState.DELIVERED)

    run(play())


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(None, None), ("7", 7), ("0.5", 0.5), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("-3", None)],
)
def test_a_retry_after_is_seconds_or_a_date(given: str | None, seconds: float | None) -> None:
    assert seconds_of(given) == seconds


def test_a_date_to_come_is_so_many_seconds_away() -> None:
    date = format_datetime(datetime.fromtimestamp(time.time() + 100, UTC), usegmt=True)
    assert 95 < (seconds_of(date) or 0) <= 100


def test_the_schedule_is_that_of_the_specification_when_none_is_given() -> None:
    assert sum(SCHEDULE) > 3 * DAY

    async def play() -> None:
        async with consumer(*[500] * 9) as to, sender(to) as one:
            event = one.happen()
            for number in range(9):
                await to.until(lambda: len(to.got) > number)  # noqa: B023  # it is waited for here
                await one.skip(event)
            assert (await one.until(event, EventState.DELIVERED)).attempts == 10

    run(play())


# --- Claims ---------------------------------------------------------------------------------------------


def test_fresh_ids_are_new_with_each_attempt() -> None:
    async def play() -> None:
        rules = Events.model_validate({"ids": "fresh"})
        async with consumer(500) as to, sender(to, rules=rules, schedule=(0.0,)) as one:
            event = one.happen()
            await one.until(event, EventState.DELIVERED)
            first, second = to.got
            assert len({first.id, second.id, event.id}) == 3
            assert [got.json["event_id"] for got in to.got] == [first.id, second.id]

    run(play())


@pytest.mark.parametrize(("redrive", "same"), [("same-id", True), ("new-id", False)])
def test_a_redrive_keeps_the_id_or_makes_one_as_the_contract_says(redrive: str, same: bool) -> None:
    async def play() -> None:
        rules = Events.model_validate({"redrive": redrive})
        async with consumer(500, 500) as to, sender(to, rules=rules, schedule=(0.0,)) as one:
            event = await one.until(one.happen(), EventState.DEAD)
            again = one.outbox.redrive(event.id)
            assert (again.id == event.id) is same
            assert (await one.until(event, EventState.DELIVERED)).attempts == 3
            assert to.got[2].id == again.id

    run(play())


def test_at_most_once_is_one_attempt_also_over_a_restart() -> None:
    async def play() -> None:
        rules = Events.model_validate({"delivery": "at-most-once"})
        log = MemoryLog()
        async with consumer(500) as to:
            async with sender(to, log, rules=rules) as one:
                await one.until(one.happen(), EventState.DEAD)
                cut = one.happen()
                log.mark(OutEvent(cut.number, cut.id, cut.type, cut.created, cut.data, attempts=1))
            log.mark(OutEvent(cut.number, cut.id, cut.type, cut.created, cut.data, attempts=1))
            got = len(to.got)
            async with sender(to, log, rules=rules) as other:
                await other.until(cut, EventState.DEAD)
                assert len(to.got) == got

    run(play())


# --- By hand --------------------------------------------------------------------------------------------


def test_all_dead_events_are_redriven_with_the_whole_schedule_before_them() -> None:
    async def play() -> None:
        async with consumer(500, 500, 204, 500) as to, sender(to, schedule=()) as one:
            dead = [await one.until(one.happen(), EventState.DEAD) for _ in range(2)]
            alive = await one.until(one.happen(), EventState.DELIVERED)
            assert [event.id for event in one.outbox.redrive_dead()] == [event.id for event in dead]
            assert await one.outbox.settled(timeout=10)
            states = sorted(str(one.now(event).state) for event in dead)
            assert states == ["dead", "delivered"]
            assert [got.id for got in to.got].count(alive.id) == 1

    run(play())


def test_a_delivered_event_is_sent_again_under_its_id() -> None:
    async def play() -> None:
        async with consumer() as to, sender(to) as one:
            event = await one.until(one.happen(), EventState.DELIVERED)
            one.outbox.redeliver(event.id)
            await to.until(lambda: len(to.got) == 2)
            assert {got.id for got in to.got} == {event.id}
            assert (await one.until(event, EventState.DELIVERED)).attempts == 2

    run(play())


def test_what_cannot_be_sent_again_says_why() -> None:
    async def play() -> None:
        async with consumer(500) as to, sender(to, schedule=(DAY,)) as one:
            waiting = one.happen()
            await one.waits(waiting)
            delivered = await one.until(one.happen(), EventState.DELIVERED)
            for ask, name, why in (
                (one.outbox.redrive, "evt_none", "there is no event 'evt_none'"),
                (one.outbox.redrive, waiting.id, "is pending, not dead; it is being sent"),
                (one.outbox.redrive, delivered.id, "is delivered, not dead; redeliver sends it again"),
                (one.outbox.redeliver, waiting.id, "is pending, not delivered; wait until it is"),
            ):
                with pytest.raises(NotPossibleError, match=why):
                    ask(name)

    run(play())


def test_what_was_forgotten_is_not_sent_any_more_and_what_comes_after_it_is() -> None:
    async def play() -> None:
        async with consumer(500) as to, sender(to, schedule=(0.2,)) as one:
            await one.waits(one.happen())
            one.log.events.clear()
            one.outbox.forget()
            event = one.happen()
            await one.until(event, EventState.DELIVERED)
            assert [got.id for got in to.got][1:] == [event.id]

    run(play())


# --- Restarts -------------------------------------------------------------------------------------------


def test_what_a_dead_process_left_is_sent_by_the_next_one() -> None:
    async def play() -> None:
        log = MemoryLog()
        async with consumer(204, 500, "drop") as to:
            async with sender(to, log, schedule=(DAY,)) as one:
                done = await one.until(one.happen(), EventState.DELIVERED)
                failed = one.happen()
                await one.waits(failed)
                one.faults.arm(Fault(Place.WEBHOOK_REQUEST, Verb.HOLD))
            never = log.add("email.sent", {}, now=2.0)
            async with sender(to, log, schedule=(0.0,)) as other:
                for event in (failed, never):
                    await other.until(event, EventState.DELIVERED)
            assert [got.id for got in to.got].count(done.id) == 1

    run(play())


# --- Faults ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [Verb.LOSE, Verb.RESET, Verb.CLOSE, Verb.CUT])
def test_an_event_that_is_lost_on_its_way_arrives_the_next_time(verb: Verb) -> None:
    async def play() -> None:
        async with consumer() as to, sender(to, schedule=(0.0,)) as one:
            armed = one.faults.arm(Fault(Place.WEBHOOK_REQUEST, verb, 40 if verb is Verb.CUT else None))
            event = await one.until(one.happen(), EventState.DELIVERED)
            await to.until(lambda: to.broken == 1)
            assert (armed.fired, event.attempts, len(to.got)) == (1, 2, 1)

    run(play())


def test_an_ack_that_is_lost_makes_a_duplicate_with_the_same_id() -> None:
    async def play() -> None:
        async with consumer() as to, sender(to, schedule=(0.0,)) as one:
            one.faults.arm(Fault(Place.WEBHOOK_RESPONSE, Verb.LOSE))
            event = await one.until(one.happen(), EventState.DELIVERED)
            assert [got.id for got in to.got] == [event.id] * 2

    run(play())


def test_a_gateway_that_answers_for_the_consumer_makes_a_duplicate_with_the_same_id() -> None:
    async def play() -> None:
        async with consumer() as to, sender(to, schedule=(0.0,)) as one:
            one.faults.arm(Fault(Place.WEBHOOK_RESPONSE, Verb.ANSWER, 502))
            event = await one.until(one.happen(), EventState.DELIVERED)
            assert ([got.id for got in to.got], event.attempts) == ([event.id] * 2, 2)

    run(play())


def test_an_event_that_is_sent_twice_is_one_attempt() -> None:
    async def play() -> None:
        async with consumer() as to, sender(to) as one:
            one.faults.arm(Fault(Place.WEBHOOK_REQUEST, Verb.TWICE))
            event = await one.until(one.happen(), EventState.DELIVERED)
            assert ([got.id for got in to.got], event.attempts) == ([event.id] * 2, 1)

    run(play())


def test_events_overtake_one_that_is_held_at_its_gate() -> None:
    async def play() -> None:
        async with consumer() as to, sender(to) as one:
            held = one.faults.arm(Fault(Place.WEBHOOK_REQUEST, Verb.HOLD, to="slow@example.test"))
            first = one.happen(to="slow@example.test")
            await held.reached.wait()
            second = await one.until(one.happen(), EventState.DELIVERED)
            one.faults.withdraw(held)
            await one.until(first, EventState.DELIVERED)
            assert [got.id for got in to.got] == [second.id, first.id]

    run(play())


def test_a_delayed_event_waits_and_a_delayed_ack_too() -> None:
    async def play() -> None:
        async with consumer() as to, sender(to) as one:
            for place in (Place.WEBHOOK_REQUEST, Place.WEBHOOK_RESPONSE):
                one.faults.arm(Fault(place, Verb.DELAY, 0.1))
                begun = time.monotonic()
                await one.until(one.happen(), EventState.DELIVERED)
                assert time.monotonic() - begun >= 0.1
            assert len(to.got) == 2

    run(play())


def test_a_fault_can_be_for_one_event_only() -> None:
    async def play() -> None:
        async with consumer() as to, sender(to, schedule=()) as one:
            first = one.log.add("email.sent", {}, now=1.0)
            one.faults.arm(Fault(Place.WEBHOOK_REQUEST, Verb.LOSE, key=first.id))
            second = one.happen()
            await asyncio.gather(one.until(first, EventState.DEAD), one.until(second, EventState.DELIVERED))

    run(play())


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://h:0/", "http://h:99999/", "nothing", "http://h/a b"])
def test_an_address_that_is_none_is_told_at_once(url: str) -> None:
    with pytest.raises(BadFileError, match="is no http address; write"):
        WebhookWire(url, Faults())


def test_a_secret_that_is_none_is_told_at_once() -> None:
    with pytest.raises(BadFileError, match="webhook-secret: a webhook secret is whsec_ followed by base64"):
        Notifier(WebhookWire("http://127.0.0.1:1/", Faults()), "not base64!")
