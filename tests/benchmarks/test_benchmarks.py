"""The benchmarks compare what they say they compare. How fast anything is, no test says."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks import judge, load, servers, throughput
from benchmarks.measure import Aim, Row, by_round, table
from sendtwice.fake_provider.provider import FakeProvider


def test_a_row_shows_the_middle_of_its_ratios_and_whether_that_is_as_aimed_at() -> None:
    ratios = by_round([10, 20, 90], [10, 10, 10])
    assert list(ratios) == [1, 2, 9]
    assert Row("w", "o", "t", ratios, Aim(2)).cells()[3:] == ("2.00 (1.50..5.50)", ">= 2", "yes")
    assert Row("w", "o", "t", ratios, Aim(1.9, at_most=True)).cells()[4:] == ("<= 1.9", "no")
    assert Row("w", "o", "t", ratios).cells()[4:] == ("-", "-")


def test_what_could_not_be_measured_is_in_the_table_with_its_reason() -> None:
    last = table([Row("sends", "5", "it is not installed", aim=Aim(3))]).splitlines()[-1]
    assert re.split(r"\s{2,}", last) == ["sends", "5", "it is not installed", "-", ">= 3", "not measured"]


def test_a_missing_rival_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(servers, "RIVALS", tmp_path)
    for rival in (servers.uvicorn("h11"), servers.mountebank()):
        with ExitStack() as stack, pytest.raises(servers.MissingRivalError, match=r"run benchmarks/install\.sh"):
            stack.enter_context(rival)


def test_the_load_client_sends_each_message_once_and_reads_each_answer() -> None:
    async def play() -> None:
        fake = FakeProvider("resend")
        await fake.start()
        try:
            plan = load.Plan(fake.port, 50, 4, servers._head("/emails", keys=True), throughput._BODY, "k")
            told = await asyncio.to_thread(load.run, plan)
            again = await asyncio.to_thread(load.run, plan)
        finally:
            await fake.stop()
        assert told["statuses"] == again["statuses"] == {200: 50}
        # The second time every key is a repeat.
        assert {delivery.mail.key for delivery in fake.ledger.deliveries} == {f"k-{n:012}" for n in range(50)}
        assert fake.ledger.commits == 50

    asyncio.run(play())


def test_arrivals_are_counted_and_their_distance_measured() -> None:
    with servers.arrivals(3) as server:
        told = load.run(load.Plan(server.port, 6, 3, servers._head("/x", keys=False), "{}"))
        seen = servers.call(server.port, "/arrivals")
        assert told["statuses"] == {200: 6}
        assert seen["count"] == 6
        assert 0 < seen["microseconds"] <= told["seconds"] * 1e6
        assert servers.call(server.port, "/arrivals") == {"count": 0, "microseconds": 0}


@pytest.mark.parametrize("power", [1, 1.5, 2])
def test_the_exponent_is_that_of_the_growth(power: float) -> None:
    assert judge._exponent({size: 3e-6 * size**power for size in (1_000, 10_000, 100_000)}) == pytest.approx(power)


def test_the_judges_histories_have_the_size_and_the_keys_that_they_say() -> None:
    history = judge._history(1_000)
    attempts = [event for event in history.events if event.kind == "attempt"]
    assert 900 <= len(history.events) <= 1_100
    assert len({event.data["key"] for event in attempts}) == len(attempts) / 2 == 100
    assert history.accusations == []


def test_a_plan_survives_the_way_to_the_load_clients_process() -> None:
    plan = load.Plan(1, 2, 3, "POST / HTTP/1.1\r\nidempotency-key: {key}\r\n", '{"a": "{}"}', "k")
    assert load.Plan(**json.loads(load.as_input(plan))) == plan
    assert plan.message(7).endswith(b'\r\nidempotency-key: k-000000000007\r\ncontent-length: 11\r\n\r\n{"a": "{}"}')
