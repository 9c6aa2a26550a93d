"""Scenarios drawn at random: whatever the language can say that a target can play, in any order.

What Hypothesis draws is a list of :mod:`moves <tests.harness.moves>`; :func:`scenario_of` makes the steps of them. A
plan is a sequence of episodes: sends one by one, a crowd that leaves at the same instant, a **window** (a message is
held while others come, hang up, or the target is killed), and what a person, a provider's event or the clock does in
between. Whoever may have to wait for somebody else is not waited for before that one is let go. At the end operations
are retried until a definite answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from sendtwice.fake_provider.contracts import Contract
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.target import TargetBody
from tests.harness.moves import (
    BEFALLS,
    CALLERS,
    HELD,
    MOVES,
    PLAIN,
    SKIES,
    STORES,
    TURNED_AWAY,
    Act,
    Ask,
    Crowd,
    Move,
    Step,
    Vocabulary,
    Window,
    filled,
)

#: At most so many attempts and operations in a plan, and so many operations that are retried to their end.
_ATTEMPTS, _OPERATIONS, _FINISHED = 14, 4, 2


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
    waiting: list[str] = field(default_factory=list)  # whose faults may still lie on the wires to the stores

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
        firsts = {one.op: one for one in reversed(self.sent) if one.by not in TURNED_AWAY}
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
        twist = {} if plain else filled(twists[ask.twist % len(twists)], name)
        if model is not None and model.change is not None and relation != "repeat":
            twist = {}  # it is repaired, and that is change enough
        if not _fits(twist, model if relation != "fresh" else None):
            twist = PLAIN.get(relation, {})
        written |= {**twist, **({"change": written["change"]} if "change" in written else {})}
        if ask.by and "by" not in written and not (plain and self._sender(ask.by) in TURNED_AWAY):
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
        if ask.store and self.words.stores and not plain:
            faults |= STORES[(ask.store - 1) % len(STORES)]
            self.troubled = True
            self.waiting.append(name)
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
        held, places = [], [HELD[place % len(HELD)] for place in window.places]
        for place in places:
            asked = self._ask(Ask(by=window.by, via=window.via), at={place: "hold"}, plain=True)
            self.steps.append({"send": asked})
            held.append(asked["as"])
        befalls = BEFALLS[window.befalls] if self.words.processes else ""
        process = self.words.processes[window.process % len(self.words.processes)] if befalls else ""
        # Whose key is not yet at the target can be waited for; who may meet one that is held, or asleep, cannot.
        waits = set(places) == {"client.request"} and befalls != "pause"
        if window.hang_up > 2:
            self.steps.append({"hang_up": held[window.hang_up % len(held)]})
        if window.time and self.words.times and befalls == "pause":
            self.steps.append({"advance": self.words.times[(window.time - 1) % len(self.words.times)]})
        if befalls == "pause":
            self.steps.append({"pause": process})
        left = []
        for ask in window.inner:
            calm = Ask(ask.relation, ask.of, ask.by, ask.via, ask.twist, 0 if befalls else ask.caller)
            inner = self._ask(calm, waits=waits)
            self.steps.append({"send": inner})
            left.append(inner["as"])
        if left and window.patient and not waits:
            self.steps.append({"until": {"answered": left[-1], "or_after": 0.05}})
        if window.time and self.words.times and befalls != "pause":
            self.steps.append({"advance": self.words.times[(window.time - 1) % len(self.words.times)]})
        flying = held if waits else [*held, *left]
        if window.hang_up in (1, 2):
            self.steps.append({"hang_up": flying[(window.hang_up - 1) % len(flying)]})
        if befalls in ("crash", "stop"):
            self._mend_stores()
        if befalls == "crash":
            self.steps += [{"crash": process}, {"restart": process}]
        if befalls == "stop":
            self.steps.append({"stop": process})
        self.steps += [{"release": name} for name in (reversed(held) if window.backwards else held)]
        if befalls == "stop":
            self.steps.append({"restart": process})
        if befalls == "pause":
            self.steps.append({"resume": process})
        self.steps += [{"await": name} for name in flying]

    def _mend_stores(self) -> None:
        """Take away what has not fired yet: a target that cannot reach its store need not start."""
        self.steps += [{"release": name} for name in self.waiting]
        self.waiting.clear()

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
            case "crash" | "pause" | "stop" if words.processes:
                self.troubled = True
                process = words.processes[act.which % len(words.processes)]
                self._mend_stores()
                self.steps += [{act.kind: process}, {"resume" if act.kind == "pause" else "restart": process}]
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
