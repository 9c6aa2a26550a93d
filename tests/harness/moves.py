"""What drawn plans are made of: a vocabulary for each target, and moves of a few small numbers.

A number that points past the end of what there is begins again at its start, so that every list of moves is a plan that
can be played; to make the list shorter and its numbers smaller is to make the plan simpler: 0 is the plain choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness.needs import missing
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.target import TargetBody

Step = dict[str, Any]

#: How an attempt resembles an earlier one; the first is what all are while there is none.
RELATIONS = ("fresh", "repeat", "changed", "new key", "used key", "reworded")

#: What is asked for otherwise than plainly, for each relation. The first that a target can play is 1.
_TWISTS: dict[str, list[Step]] = {
    "fresh": [
        {"key": "none"},
        {"recipients": 2},
        {"items": 3},
        {"change": {"to": "invalid"}},
        {"dry_run": True},
        {"items": 3, "change": {"items": "one-invalid"}},
        {"by": "needs-approval"},
        {"key": {"of": "long", "size": "max", "tail": "{name}"}},
        {"key": {"of": "{name}", "case": "upper"}},
        {"key": {"of": "mixed", "case": "lower"}},
        {"key": {"of": "mixed", "case": "upper"}},
        {"key": {"of": "{name}", "size": "max+1"}},
        {"key": {"of": "{name}", "quoted": True}},
        {"key": {"of": "{name}", "twice": "same"}},
        {"key": {"of": "{name}", "twice": "different"}},
        {"key": {"of": "{name}", "padded": True}},
        {"key": {"of": "{name}", "text": "{unique}/a:b é"}},
        {"key": {"text": ""}},
        {"change": {"first_sent": "absent"}},
    ],
    "repeat": [
        {"by": "other-credential"},
        {"key": "none"},
        {"change": {"first_sent": "stale"}},
    ],
    "changed": [
        {"change": {"subject": "other"}},
        {"change": {"to": "other"}},
        {"change": {"reply_to": "other"}},
        {"change": {"items": "fewer"}},
        {"change": {"items": "more"}},
    ],
    "new key": [{"key": "none"}],
    "used key": [{"items": 2}, {"dry_run": True}, {"change": {"to": "invalid"}}, {"recipients": 3}],
    "reworded": [
        {"change": {"form": "whitespace"}},
        {"change": {"form": "escapes"}},
        {"change": {"form": "number-form"}},
        {"change": {"form": "empty-fields"}},
        {"change": {"form": "recipient-form"}},
        {"change": {"form": "item-order"}},
        {"change": {"excluded": "other"}},
        {"change": {"query": "other"}},
        {"change": {"content_type": "other"}},
        {"change": {"path": "other"}},
    ],
}
PLAIN: dict[str, Step] = {"changed": {"change": {"text": "other"}}, "reworded": {"change": {"form": "field-order"}}}

#: What happens on the caller's wire.
CALLERS: tuple[Any, ...] = (
    {"client.response": "lose"},
    {"client.response": {"lose": "first-byte"}},
    {"client.response": {"lose": "in-body"}},
    {"client.response": {"cut": 20}},
    {"client.request": "lose"},
    {"client.request": {"cut": 40}},
    {"client.request": "close"},
    {"client.request": {"answer": 502}},
    {"client.request": "twice"},
)
#: What the mail provider does, before it takes the mail and after it.
SKIES: tuple[Any, ...] = (
    *({"provider.request": {"answer": status}} for status in (422, 503, 500, 429, 400)),
    {"provider.request": "close"},
    {"provider.request": "reset"},
    {"provider.response": "close"},
    {"provider.response": "reset"},
    {"provider.response": {"cut": 20}},
    {"provider.response": {"answer": 500}},
    {"provider.response": {"answer": 503}},
    {"provider.request": {"answer": 503, "times": 3}},
    {"provider.request": {"lose": None, "times": 2}},
)
#: What befalls the n-th message to a store that comes from then on.
STORES: tuple[Step, ...] = tuple(
    {crossing: {verb: argument, "nth": nth}}
    for nth in (1, 2, 3, 4)
    for crossing in ("store.request", "store.response")
    for verb, argument in (("reset", None), ("close", None), ("delay", 0.02), ("cut", 3))
)
HELD = ("provider.request", "provider.response", "client.request")
#: What can befall a process while messages are held; 0 is nothing.
BEFALLS = ("", "crash", "pause", "stop")
_SENDERS = ("main", "other-mailbox", "other-tenant", "other-credential", "unauthorized", "rate-limited", "over-quota")
#: These are turned away, so that nothing of theirs is ever held and no retry of theirs comes to an end.
TURNED_AWAY = ("unauthorized", "rate-limited", "over-quota")
_PROCESSES = ("target", "target.1", "target.2")
_CALLS = ("approve", "reject", "resolve-sent", "resolve-not-sent", "broadcast-send")
_TIMES: tuple[Step, ...] = (
    {"by": 60},
    {"by": "retention.at_least", "plus": -30},
    {"by": "retention.at_least", "plus": 30},
    {"by": "retention.at_most", "plus": 30},
    {"by": "lease.lasts", "plus": -1},
    {"by": "lease.lasts", "plus": 1},
    {"by": "reconciliation.within", "plus": -30},
    {"by": "reconciliation.within", "plus": 30},
)


@dataclass(frozen=True, slots=True)
class Ask:
    """One attempt. ``of`` counts back from the latest attempt; the other numbers choose from lists of this module."""

    relation: str = "fresh"
    of: int = 0
    by: int = 0
    via: int = 0
    twist: int = 0
    caller: int = 0
    sky: int = 0
    store: int = 0


@dataclass(frozen=True, slots=True)
class Crowd:
    """Attempts at the same instant: these, or so many like one another."""

    asks: tuple[Ask, ...]
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """Messages that are held, what comes meanwhile, and the order in which they are let go.

    ``hang_up``: 1 and 2 are hung up after what comes meanwhile, greater numbers before it. ``befalls`` is one of
    :data:`BEFALLS`, which befalls the ``process`` of this number.
    """

    places: tuple[int, ...]
    by: int
    via: int
    inner: tuple[Ask, ...]
    hang_up: int
    time: int
    befalls: int
    patient: bool
    backwards: bool
    process: int = 0


@dataclass(frozen=True, slots=True)
class Act:
    """What is no send: a call of a person's, a provider's event, the clock, what befalls a process, or to settle."""

    kind: str
    which: int = 0
    of: int = 0
    times: int = 1


Move = Ask | Crowd | Window | Act


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a target can play under its contract."""

    senders: tuple[str, ...]
    routes: tuple[str, ...]
    drafts: tuple[str, ...]
    twists: dict[str, tuple[Step, ...]]
    calls: tuple[Step, ...]
    times: tuple[Step, ...]
    events: bool
    processes: tuple[str, ...]  # that can be killed, stopped and put to sleep
    stores: bool
    lease: bool

    @classmethod
    def of(cls, target: TargetBody, contract: Contract) -> Vocabulary:
        """Try each word on the target."""

        def can(*steps: Step) -> bool:
            drawn = Scenario.model_validate(
                {"id": "plan", "title": "A word", "role": target.role, "steps": [{"send": {"as": "a"}}, *steps]}
            )
            return not missing(drawn, target, contract)

        def sends(twist: Step) -> bool:
            return can({"send": {"as": "b", **filled(twist, "b")}})

        batch = contract.batch.route if contract.batch is not None else None
        does = {"send": "send", **{name: route.does for name, route in contract.routes.items() if name != batch}}
        times = tuple(time for time in _TIMES if can({"advance": time}))
        return cls(
            senders=tuple(name for name in _SENDERS if name == "main" or sends({"by": name})),
            routes=tuple(name for name in does if does[name] == "send"),
            drafts=tuple(name for name in does if does[name] == "draft"),
            twists={
                relation: (PLAIN.get(relation, {}), *(twist for twist in twists if sends(twist)))
                for relation, twists in _TWISTS.items()
            },
            calls=tuple(
                call
                for name in _CALLS
                for call in ({"name": name}, {"name": name, "by": "main"})
                if can({"call": {**call, "of": "a"}})
            ),
            times=times,
            events=can({"notify": {"as": "n", "op": "a"}}),
            processes=tuple(name for name in _PROCESSES if can({"crash": name}, {"restart": name})),
            stores=sends({"at": STORES[0]}),
            lease={"by": "lease.lasts", "plus": 1} in times,
        )


def filled(twist: Step, name: str) -> Step:
    """Return a twist for an attempt of this name, which names a key that is its own."""
    key = twist.get("key")
    if not isinstance(key, dict):
        return twist
    return {**twist, "key": {part: name if value == "{name}" else value for part, value in key.items()}}


# --- what is drawn --------------------------------------------------------------------------------------------


def _mostly(plain: int, most: int) -> st.SearchStrategy[int]:
    """A number up to ``most``, which is 0 in so many cases of each other one."""
    return st.sampled_from((0,) * plain * most + tuple(range(1, most + 1)))


_RELATION = st.sampled_from(
    (*("fresh", "repeat") * 3, *("changed", "used key") * 2, "new key", "new key", "reworded", "reworded")
)
_BY, _VIA, _OF = _mostly(1, 6), _mostly(1, 12), st.integers(0, 4)


def _asks() -> st.SearchStrategy[Move]:
    oddly, rudely, stormily = _mostly(1, 24), _mostly(2, len(CALLERS)), _mostly(1, len(SKIES))
    return st.builds(Ask, _RELATION, _OF, _BY, _VIA, oddly, rudely, stormily, _mostly(1, len(STORES)))


ASKS = _asks()
_INNER = st.builds(Ask, _RELATION, _OF, _mostly(2, 6), _mostly(3, 12), _mostly(2, 24), _mostly(4, len(CALLERS)))
CROWDS = st.builds(Crowd, st.lists(ASKS, min_size=2, max_size=4).map(tuple), st.sampled_from((0, 0, 2, 3, 6)))
WINDOWS = st.builds(
    Window,
    st.lists(st.integers(0, 2), min_size=1, max_size=2).map(tuple),
    st.sampled_from((0, 0, 0, 1, 2)),
    _mostly(2, 12),
    st.lists(_INNER, max_size=3).map(tuple),
    _mostly(1, 4),
    _mostly(1, len(_TIMES)),
    _mostly(4, len(BEFALLS) - 1),
    st.booleans(),
    st.booleans(),
    st.integers(0, len(_PROCESSES) - 1),
)
ACTS = st.builds(
    Act,
    st.sampled_from((*("settle", "advance", "call", "event") * 4, "crash", "pause", "stop")),
    st.integers(0, 9),
    _OF,
    st.sampled_from((1, 1, 1, 3)),
)
#: Three times the same strategy would count once.
MOVES: st.SearchStrategy[Move] = st.one_of(ASKS, _asks(), _asks(), CROWDS, WINDOWS, ACTS)
