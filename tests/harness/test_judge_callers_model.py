"""A caller that does all that it should is accused of nothing, whatever it meets: drawn at random.

The model of the API is a set of keys; the model of the caller is the few lines that every page on the subject asks
for. What is drawn is what happens to each attempt, how often the caller is killed, and how many workers it has.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.harness.history import Kind
from tests.harness.callings import Calling

CONTRACTS = ("rasket", "resend", "postfleet", "pylota", "universal", "ietf-07", "emailit", "nylas", "novu", "loops")

#: What can befall an attempt: lost on the way there or back, another answer before or after the mail is out.
FATES = (
    "lost-there",
    "lost-back",
    "garbled-there",
    "garbled-back",
    "error-there",
    "error-back",
    "busy",
    "in-progress",
    "killed-there",
    "killed-back",
    "slow",
    "well",
)


@dataclass
class World:
    """The API's memory, and the caller's."""

    h: Calling
    out: bool = False
    may_be_out: bool = False
    dead: bool = False
    late: list[str] = field(default_factory=list)

    def attempt(self, fate: str, pause: float) -> str | None:
        """One attempt under the one key; the word that ends the operation, or None where it goes on."""
        h = self.h
        name = h.tries(key="shop-1042", after=pause)
        if fate.endswith("there"):
            self.not_arrived(name, fate)
            return None
        if fate in ("busy", "in-progress"):
            h.answers(name, A.RATE_LIMITED if fate == "busy" else A.IN_PROGRESS)
            self.may_be_out |= fate == "in-progress"
            return None
        first = not self.out
        if first:
            h.delivers()
            self.out = True
        self.may_be_out = True
        match fate:
            case "lost-back":
                h.loses(name)
            case "garbled-back":
                h.answers(name, 200, garbled=True, body="<html>")
            case "error-back":
                h.answers(name, 502)
            case "killed-back":
                self.killed()
            case "slow":
                self.late.append(name)
            case _:
                # Under an API that refuses repeats, a repeat tells that there was a first one, and no more.
                refuses = h.contract.duplicates.says("refuse")
                h.answers(name, A.ACCEPTED if first else A.DUPLICATE if refuses else A.REPLAYED)
                return "sent" if first or not refuses else "unknown"
        return None

    def not_arrived(self, name: str, fate: str) -> None:
        self.may_be_out = True
        match fate:
            case "lost-there":
                self.h.fired("client.request", "reset", op="first", attempt=name)
            case "garbled-there":
                self.h.answers(name, 200, garbled=True, body="")
            case "error-there":
                self.h.answers(name, 500)
            case _:
                self.killed()

    def killed(self) -> None:
        self.h.note(Kind.CRASH, process="target")
        self.h.note(Kind.RESTART, process="target", willingly=True)
        self.dead = True

    def answers_come_late(self) -> None:
        for name in self.late:
            self.h.answers(name, A.ACCEPTED)
        self.late.clear()


def run(world: World, ask: str, fates: list[str]) -> None:
    """One run of the caller: at most so many attempts, with a pause that is longer than any API here asks for."""
    world.dead = False
    world.h.ask(ask)
    told = None
    for number, fate in enumerate(fates):
        told = world.attempt(fate, 1.5 + number)
        if told is not None or world.dead:
            break
    if not world.dead:
        world.h.says(told or ("unknown" if world.may_be_out else "not_sent"), ask)
    world.answers_come_late()


@pytest.mark.parametrize("contract", CONTRACTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs=st.lists(st.lists(st.sampled_from(FATES), min_size=1, max_size=5), min_size=1, max_size=3))
def test_a_caller_that_keeps_its_key_and_its_word_is_not_accused(contract: str, runs: list[list[str]]) -> None:
    h = Calling.of(contract, ask=False)
    h.max_attempts, h.attempt_timeout = 5, 60.0
    world = World(h)
    for number, fates in enumerate(runs):
        run(world, f"ask-{number}", fates)
    assert h.found == {}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    order=st.lists(st.sampled_from(("a", "b")), min_size=2, max_size=8),
    fates=st.lists(st.sampled_from(("lost", "in-progress", "well")), min_size=8, max_size=8),
)
def test_two_workers_with_one_key_are_not_accused(order: list[str], fates: list[str]) -> None:
    h = Calling.of()
    h.ask("second")
    told = {"a": "unknown", "b": "unknown"}
    out = False
    for worker, fate in zip(order, fates, strict=False):
        name = h.tries(after=0.001)
        if fate == "in-progress":
            h.answers(name, A.IN_PROGRESS)
            continue
        if not out:
            h.delivers()
        if fate == "lost":
            h.loses(name)
        else:
            h.answers(name, A.REPLAYED if out else A.ACCEPTED)
            told[worker] = "sent"
        out = True
    h.says(told["a"])
    h.says(told["b"], "second")
    assert h.found == {}


@pytest.mark.parametrize("contract", CONTRACTS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    fates=st.lists(st.sampled_from(("lost-there", "lost-back", "error-back", "garbled-back")), min_size=1, max_size=3)
)
def test_a_key_for_each_attempt_is_always_found(contract: str, fates: list[str]) -> None:
    h = Calling.of(contract)
    for number, fate in enumerate([*fates, "well"]):
        name = h.tries(key=f"k{number}")
        if fate != "lost-there":
            h.delivers()
        match fate:
            case "lost-there" | "lost-back":
                h.loses(name)
            case "error-back":
                h.answers(name, 502)
            case "garbled-back":
                h.answers(name, 200, garbled=True, body="<html>")
            case _:
                h.answers(name)
    h.says("sent")
    wanted = "at-most-once" if set(fates) - {"lost-there"} else "one-key"
    assert h.found == {wanted: "must"}
