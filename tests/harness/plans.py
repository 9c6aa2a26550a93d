"""Scenarios drawn at random: whatever the language can say that a target can play, in any order.

What Hypothesis draws is a list of **moves**, each of a few small numbers; :func:`scenario_of` makes steps of them. A
number that points past the end of what there is begins again at its start, so every list of moves is a plan that can be
played, and to make the list shorter and its numbers smaller is to make the plan simpler: 0 is always the plain choice.

A plan is a sequence of episodes: sends one by one, a crowd that leaves at the same instant, a **window** (a message is
held while others come, hang up, or the target is killed), and what a person, a provider's event or the clock does in
between. Whoever may have to wait for somebody else is not waited for before that one is let go. At the end each
operation is retried until a definite answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness.needs import missing
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.target import TargetBody

Step = dict[str, Any]

#: At most so many attempts and operations in a plan, and so many operations that are retried to their end.
_ATTEMPTS, _OPERATIONS, _FINISHED = 14, 4, 2

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
_PLAIN: dict[str, Step] = {"changed": {"change": {"text": "other"}}, "reworded": {"change": {"form": "field-order"}}}

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
_HELD = ("provider.request", "provider.response", "client.request")
_SENDERS = ("main", "other-mailbox", "other-tenant", "other-credential", "unauthorized", "rate-limited", "over-quota")
#: These are turned away, so that nothing of theirs is ever held and no retry of theirs comes to an end.
_TURNED_AWAY = ("unauthorized", "rate-limited", "over-quota")
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


@dataclass(frozen=True, slots=True)
class Crowd:
    """Attempts at the same instant: these, or so many like one another."""

    asks: tuple[Ask, ...]
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """Messages that are held, what comes meanwhile, and the order in which they are let go."""

    places: tuple[int, ...]
    by: int
    via: int
    inner: tuple[Ask, ...]
    hang_up: int
    time: int
    crash: bool
    patient: bool
    backwards: bool


@dataclass(frozen=True, slots=True)
class Act:
    """What is no send: a call of a person's, a provider's event, the clock, a crash, or a pause for breath."""

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
    crashes: bool
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
            return can({"send": {"as": "b", **_filled(twist, "b")}})

        batch = contract.batch.route if contract.batch is not None else None
        does = {"send": "send", **{name: route.does for name, route in contract.routes.items() if name != batch}}
        times = tuple(time for time in _TIMES if can({"advance": time}))
        return cls(
            senders=tuple(name for name in _SENDERS if name == "main" or sends({"by": name})),
            routes=tuple(name for name in does if does[name] == "send"),
            drafts=tuple(name for name in does if does[name] == "draft"),
            twists={
                relation: (_PLAIN.get(relation, {}), *(twist for twist in twists if sends(twist)))
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
            crashes=can({"crash": "target"}, {"restart": "target"}),
            lease={"by": "lease.lasts", "plus": 1} in times,
        )


def _filled(twist: Step, name: str) -> Step:
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
    return st.builds(Ask, _RELATION, _OF, _BY, _VIA, oddly, rudely, stormily)


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
    _mostly(20, 1).map(bool),
    st.booleans(),
    st.booleans(),
)
ACTS = st.builds(
    Act,
    st.sampled_from((*("settle", "advance", "call", "event") * 4, "crash")),
    st.integers(0, 9),
    _OF,
    st.sampled_from((1, 1, 1, 3)),
)
#: Three times the same strategy would count once.
MOVES: st.SearchStrategy[Move] = st.one_of(ASKS, _asks(), _asks(), CROWDS, WINDOWS, ACTS)


def plans(target: TargetBody, contract: Contract, *, most: int = 7) -> st.SearchStrategy[Scenario]:
    """Scenarios of up to ``most`` moves that this target can play under this contract."""
    words = Vocabulary.of(target, contract)
    return st.lists(MOVES, min_size=1, max_size=most).map(lambda moves: scenario_of(moves, words))


def scenario_of(moves: Sequence[Move], words: Vocabulary) -> Scenario:
    """Return the plan that moves stand for."""
    writer = _Writer(words)
    for move in moves:
        writer.move(move)
    return Scenario.model_validate(
        {"id": "plan", "title": "A plan drawn at random", "role": "api", "steps": writer.ended()}
    )


# --- how it is written ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sent:
    """An attempt as it was written, as far as later ones need to know."""

    name: str
    op: str
    key: Any
    by: str
    route: str
    several: bool
    change: Step | None  # what must be said again in a repeat: it is refused, and so would the repeat be
    stormy: bool


@dataclass(slots=True)
class _Writer:
    """Writes the steps of one plan."""

    words: Vocabulary
    steps: list[Step] = field(default_factory=list)
    sent: list[_Sent] = field(default_factory=list)
    events: int = 0
    troubled: bool = False

    def move(self, move: Move) -> None:
        """Add the steps of a move; one for which there is no room or nothing to do it to adds none."""
        match move:
            case Ask() if len(self.sent) < _ATTEMPTS:
                self.steps.append({"send": self._ask(move)})
            case Crowd() if len(self.sent) < _ATTEMPTS - 6:
                self._crowd(move)
            case Window() if len(self.sent) < _ATTEMPTS - 5:
                self._window(move)
            case Act() if self.sent:
                self._act(move)

    def ended(self) -> list[Step]:
        """Return all steps, with each operation retried to its end."""
        if not self.sent:
            self.move(Ask())
        if self.troubled and self.words.lease:
            # A claim may be held until its lease ends: nobody wants to wait for that.
            self.steps.append({"advance": {"by": "lease.lasts", "plus": 1}})
        firsts = {one.op: one for one in reversed(self.sent) if one.by not in _TURNED_AWAY}
        finished = sorted(firsts.values(), key=lambda one: (not one.stormy, self.sent.index(one)))
        return [*self.steps, *({"finish": one.name} for one in finished[:_FINISHED])]

    # -- attempts ----------------------------------------------------------------------------------------------

    def _ask(self, ask: Ask, *, waits: bool = True, at: Step | None = None, plain: bool = False) -> Step:
        """Write one attempt. ``plain``: without faults and oddities, so that its mail will surely be handed over."""
        name = f"a{len(self.sent) + 1}"
        relation = ask.relation if self.sent else "fresh"
        if relation == "fresh" and not plain and len({one.op for one in self.sent}) >= _OPERATIONS:
            relation = "repeat"
        model = self.sent[-1 - ask.of % len(self.sent)] if self.sent else None
        written: Step = {"as": name}
        if model is not None and relation != "fresh":
            written |= self._like(model, relation, name)
        twists = self.words.twists[relation]
        twist = {} if plain else _filled(twists[ask.twist % len(twists)], name)
        if model is not None and model.change is not None and relation != "repeat":
            twist = {}  # it is repaired, and that is change enough
        if not _fits(twist, model if relation != "fresh" else None):
            twist = _PLAIN.get(relation, {})
        written |= {**twist, **({"change": written["change"]} if "change" in written else {})}
        if ask.by and "by" not in written and not (plain and self._sender(ask.by) in _TURNED_AWAY):
            written["by"] = self._sender(ask.by)
        routes = self.words.routes if plain else (*self.words.routes, *self.words.drafts)
        route = routes[ask.via % len(routes)]
        if route != "send" and relation in ("fresh", "used key") and not {"items", "by", "recipients"} & written.keys():
            written["via"] = route
        faults: Step = {**(at or {})}
        if ask.caller and not plain:
            faults |= CALLERS[(ask.caller - 1) % len(CALLERS)]
        hands_over = relation in ("fresh", "new key") or (model is not None and model.stormy)
        stormy = bool(ask.sky) and not plain and hands_over
        if stormy:
            faults |= SKIES[(ask.sky - 1) % len(SKIES)]
            self.troubled = True
        if faults:
            written["at"] = faults
        if not waits:
            written["wait"] = "none"
        stormy = stormy or bool(faults)
        self.sent.append(self._noted(written, model if "like" in written else None, stormy=stormy))
        return written

    def _sender(self, number: int) -> str:
        return self.words.senders[number % len(self.words.senders)]

    def _like(self, model: _Sent, relation: str, name: str) -> Step:
        """Write how an attempt resembles its model. What was invalid is repeated as it was, or else repaired."""
        if model.change is not None and relation != "repeat":
            return {"like": model.name, "op": name, "content": name}
        match relation:
            case "repeat" if model.change is not None:
                return {"like": model.name, "change": model.change}
            case "repeat" | "reworded":
                return {"like": model.name}
            case "changed":
                return {"like": model.name, "op": name}
            case "new key":
                return {"like": model.name, "op": name, "key": name}
        return {"op": name, "content": name, "key": model.key}

    def _noted(self, written: Step, model: _Sent | None, *, stormy: bool) -> _Sent:
        change = written.get("change")
        again = change if change is not None and {*change.values()} & {"invalid", "one-invalid"} else None
        return _Sent(
            name=written["as"],
            op=written.get("op") or (model.op if model else written["as"]),
            key=written.get("key", model.key if model else written["as"]),
            by=written.get("by") or (model.by if model else "main"),
            route="batch" if "items" in written else written.get("via") or (model.route if model else "send"),
            several="recipients" in written or (model is not None and model.several),
            change=again,
            stormy=stormy or (model is not None and model.stormy),
        )

    # -- episodes ----------------------------------------------------------------------------------------------

    def _crowd(self, crowd: Crowd) -> None:
        if not crowd.burst:
            self.steps.append({"parallel": [self._ask(ask) for ask in crowd.asks]})
            return
        first = crowd.asks[0]
        name = f"a{len(self.sent) + 1}"
        written: Step = {"as": name, "count": crowd.burst}
        model = self.sent[-1 - first.of % len(self.sent)] if self.sent and first.relation != "fresh" else None
        if model is not None and model.change is None:
            written["like"] = model.name
        elif first.sky:
            written["at"] = SKIES[(first.sky - 1) % len(SKIES)]
            self.troubled = True
        self.steps.append({"parallel": written})
        kept = model if "like" in written else None
        key = kept.key if kept else f"{name}.1"
        by, op = (kept.by, kept.op) if kept else ("main", name)
        self.sent += [
            _Sent(f"{name}.{n}", op, key, by, kept.route if kept else "send", several=False, change=None, stormy=False)
            for n in range(1, crowd.burst + 1)
        ]

    def _window(self, window: Window) -> None:
        self.troubled = True
        held, places = [], [_HELD[place % len(_HELD)] for place in window.places]
        for place in places:
            asked = self._ask(Ask(by=window.by, via=window.via), at={place: "hold"}, plain=True)
            self.steps.append({"send": asked})
            held.append(asked["as"])
        crash = window.crash and self.words.crashes
        # Whose key is not yet at the target can be waited for; who may meet one that is held cannot.
        waits = set(places) == {"client.request"}
        left = []
        for ask in window.inner:
            calm = Ask(ask.relation, ask.of, ask.by, ask.via, ask.twist, 0 if crash else ask.caller)
            inner = self._ask(calm, waits=waits)
            self.steps.append({"send": inner})
            left.append(inner["as"])
        if left and window.patient and not waits:
            self.steps.append({"until": {"answered": left[-1], "or_after": 0.05}})
        if window.time and self.words.times:
            self.steps.append({"advance": self.words.times[(window.time - 1) % len(self.words.times)]})
        flying = held if waits else [*held, *left]
        if window.hang_up:
            self.steps.append({"hang_up": flying[(window.hang_up - 1) % len(flying)]})
        if crash:
            self.steps += [{"crash": "target"}, {"restart": "target"}]
        self.steps += [{"release": name} for name in (reversed(held) if window.backwards else held)]
        self.steps += [{"await": name} for name in flying]

    def _act(self, act: Act) -> None:
        words = self.words
        op = self.sent[-1 - act.of % len(self.sent)].op
        match act.kind:
            case "advance" if words.times:
                self.steps.append({"advance": words.times[act.which % len(words.times)]})
            case "call" if words.calls:
                call = {**words.calls[act.which % len(words.calls)], "of": op}
                self.steps.append({"call": call if act.times == 1 else {**call, "times": act.times}})
            case "event" if words.events:
                self.events += 1
                self.steps.append({"notify": {"as": f"n{self.events}", "op": op}})
            case "crash" if words.crashes:
                self.troubled = True
                self.steps += [{"crash": "target"}, {"restart": "target"}]
            case "settle":
                self.steps.append({"settle": None})


#: Other bytes that every request has; the others are of what stands in the contract's own.
_ANYWHERE = ("field-order", "whitespace", "escapes")


def _fits(twist: Step, model: _Sent | None) -> bool:
    """Whether a twist can be had of an attempt like its model: of a batch, of several recipients, on another route."""
    change = twist.get("change", {})
    if model is None or not change:
        return True
    form = change.get("form")
    if "items" in change or form == "item-order":
        return model.route == "batch"
    if form == "recipient-form" and model.several:
        return False
    return model.route == "send" or not ("path" in change or "reply_to" in change or form not in (None, *_ANYWHERE))
