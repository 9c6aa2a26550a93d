"""A model of a send API on a store, in bad weather: sound, it is accused of nothing; flawed, it is found out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness.history import Kind
from tests.harness.histories import CONTRACTS, History, contract_named
from tests.harness.storm_model import LEASE, Ask, Habits, StoreFault, Storm, play
from tests.harness.test_judge_model import commits
from tests.harness.test_judge_model import told as shown

# --- plans ----------------------------------------------------------------------------------------------------------

ASKS = st.lists(
    st.builds(
        Ask,
        st.sampled_from([0, 0, 0, 1]),
        st.integers(0, 1),
        st.sampled_from([False, False, False, True]),
        st.sampled_from(["stays", "stays", "stays", "leaves"]),
    ),
    min_size=1,
    max_size=4,
)
FAULTS = st.lists(
    st.builds(
        StoreFault,
        st.integers(1, 8),
        st.sampled_from(["store.request", "store.response"]),
        st.sampled_from(["reset", "close", "lose", "hold", "delay"]),
        st.integers(1, 12),
        st.booleans(),
    ),
    max_size=2,
)
STORMS = st.lists(
    st.builds(
        Storm,
        st.integers(2, 30),
        st.sampled_from(["crash", "pause", "stop"]),
        st.sampled_from([None, 0, 1]),
        st.integers(1, 15),
        st.sampled_from([0.0, 0.0, 1.0, LEASE + 1]),
        st.booleans(),
    ),
    max_size=2,
)
ORDERS = st.lists(st.integers(0, 7), max_size=60)
HABITS = st.builds(Habits, st.booleans(), st.integers(1, 2), st.booleans(), st.booleans())


def fitting(habits: Habits, contract: Contract) -> Habits:
    """Return habits with what the contract itself says about queues."""
    declared = contract.delivery.value
    queued = habits.queued if declared is None else declared == "queued"
    return replace(habits, queued=queued)


@pytest.mark.parametrize("name", CONTRACTS)
@settings(max_examples=80, deadline=None)
@given(asks=ASKS, order=ORDERS, habits=HABITS, faults=FAULTS, storms=STORMS)
def test_a_sound_target_is_accused_of_nothing_in_any_weather(
    name: str, asks: list[Ask], order: list[int], habits: Habits, faults: list[StoreFault], storms: list[Storm]
) -> None:
    contract = contract_named(name)
    history = play(contract, asks, order, fitting(habits, contract), faults, storms)
    assert history.accusations == [], shown(history)


# --- flaws ----------------------------------------------------------------------------------------------------------

#: Contracts that permit no second mail in any weather.
STRICTEST = ("universal", "postfleet")
CLEAR_ASKS = ASKS.map(lambda asks: [replace(ask, busy=False) for ask in asks])


@pytest.mark.parametrize(
    "flaw",
    [
        "sends unguarded",
        "frees what it cannot note",
        "takes over what was sent",
        "wakes as a zombie",
    ],
)
@pytest.mark.parametrize("name", STRICTEST)
@settings(max_examples=60, deadline=None)
@given(asks=CLEAR_ASKS, order=ORDERS, habits=HABITS, faults=FAULTS, storms=STORMS)
def test_no_weather_excuses_a_second_mail(
    name: str,
    flaw: str,
    asks: list[Ask],
    order: list[int],
    habits: Habits,
    faults: list[StoreFault],
    storms: list[Storm],
) -> None:
    contract = contract_named(name)
    history = play(contract, asks, order, fitting(replace(habits, flaw=flaw), contract), faults, storms)
    twice = any(count > 1 for count in commits(history).values())
    found = history.rules() & {"at-most-once", "at-most-once-after-unknown"}
    assert bool(found) is twice, shown(history)


@settings(max_examples=60, deadline=None)
@given(asks=CLEAR_ASKS, order=ORDERS, habits=HABITS, faults=FAULTS)
def test_a_failing_store_excuses_no_mail_that_was_claimed_and_never_sent(
    asks: list[Ask], order: list[int], habits: Habits, faults: list[StoreFault]
) -> None:
    contract = contract_named("postfleet")
    asks = [replace(ask, content=0) for ask in asks]  # or a success might be the replay of the other
    habits = fitting(replace(habits, flaw="takes a claim for a send"), contract)
    history = play(contract, asks, order, habits, faults, [])
    assert ("no-lost-send" in history.rules()) is bool(claimed(history) - commits(history).keys()), shown(history)


def claimed(history: History) -> set[str]:
    """The operations of which somebody was told that they are done."""
    return {
        str(event.operation)
        for event in history.events
        if event.kind is Kind.ENDED and 200 <= int(event.data.get("status", 0)) < 300
    }
