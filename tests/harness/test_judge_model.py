"""A model of a sound send API, played at random: the judge must find nothing; mutated, it must be found out.

The model knows neither the judge nor the emulator. Each request is a generator that does one indivisible thing between
two yields; which goes on next is drawn, so any two requests may overlap in any way that one process allows.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sendtwice.fake_provider.contracts import Contract, Level
from sendtwice.harness.judge import judge
from tests.harness.histories import CONTRACTS, STRICT, HandOver, History, contract_named

Work = Generator[None, None, None]
Answer = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: its key (None: without), content, sender, what the provider and the caller do."""

    key: int | None = 0
    content: int = 0
    sender: str = "main"
    provider: str = "ok"  # ok, busy, refused, silent, deaf
    caller: str = "stays"  # stays, leaves early, leaves late, never arrives


@dataclass(frozen=True, slots=True)
class Habits:
    """What a contract leaves to its target."""

    queued: bool = False
    waits: bool = False
    stores_refusals: bool = False
    eager: bool = False  # whether the queue may hand over before the answer is out
    shared: bool = False  # whether equal contents are asked for under several keys
    flaw: str = ""


@dataclass(slots=True)
class Record:
    """What the model keeps under a key."""

    ask: Ask
    op: str
    number: str
    state: str = "running"  # running, done, refused, unknown
    hands: HandOver | None = None


@dataclass(slots=True)
class Target:
    """The sound send API, or one with a flaw."""

    h: History
    habits: Habits
    records: dict[tuple[object, ...], Record] = field(default_factory=dict)
    couriers: list[Work] = field(default_factory=list)
    lagging: dict[str, Work] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    jobs: list[Record] = field(default_factory=list)
    handing: list[HandOver] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    numbers: int = 0

    def number(self) -> str:
        self.numbers += 1
        return f"m{self.numbers}"

    def slot(self, ask: Ask) -> tuple[object, ...]:
        scope = self.h.contract.scope.value or ["tenant"]
        tenant = "other" if ask.sender == "other-tenant" else "main"
        return (ask.key, tenant, ask.sender if "mailbox" in scope else "")

    def ask(self, n: int, ask: Ask) -> Work:
        h, name = self.h, f"a{n}"
        keyless = ask.key is None
        tenant, mailbox = self.slot(ask)[1:]
        owner = "-".join(str(part) for part in (ask.key, tenant, mailbox) if part != "")
        op = f"none.{n}" if keyless else owner
        content = f"c{ask.content}" if self.habits.shared else f"c{ask.content}-{op}"
        op = f"{content}-{op}"
        problem = "absent" if keyless and h.contract.key.presence.says("required") else None
        group = self.groups.setdefault(content, op)
        h.send(
            name,
            op=op,
            key=None if keyless else f"k{ask.key}",
            content=content,
            sender=ask.sender,
            problem=problem,
            to=[f"{content}@sendtwice.test"],
            group=None if group == op else group,
        )
        self.running.add(name)
        if ask.caller == "never arrives":
            self._ends(name, never_arrived=True)
            return
        yield
        if ask.caller == "leaves early":
            self._ends(name)
        if problem:
            answer: Answer = ("key_missing", None)
        else:
            answer = yield from self._decide(ask, op, name)
        yield
        if ask.caller == "leaves late":
            self._ends(name)
        elif name in self.running:
            self.running.discard(name)
            h.answer(name, answer[0], number=answer[1])
        if name in self.lagging:
            self.couriers.append(self.lagging.pop(name))

    def _ends(self, name: str, *, never_arrived: bool = False) -> None:
        self.running.discard(name)
        self.h.ends(name, "lost", never_arrived=never_arrived)

    def _decide(self, ask: Ask, op: str, name: str) -> Generator[None, None, Answer]:
        while True:
            found = None if ask.key is None else self.records.get(self.slot(ask))
            if found is None or (self.habits.flaw == "no claim" and found.state == "running"):
                return (yield from self._first(ask, op, name))
            if found.ask.content != ask.content:
                if self.habits.flaw == "no fingerprint" and found.state == "done":
                    return (yield from self._first(ask, op, name))
                return "conflict", None
            if self.habits.flaw == "executes twice" and found.state == "done":
                return (yield from self._first(ask, op, name))
            if self.habits.flaw == "hashes the time" and found.state == "done":
                return "conflict", None
            if found.state == "running" and not self.habits.queued:
                if not self.habits.waits:
                    return "in_progress", None
                yield
                continue
            return self._again(found)

    def _again(self, found: Record) -> Answer:
        if found.state == "refused" and not self.habits.queued:
            return "refused", None
        if found.state == "unknown" and not self.habits.queued:
            return "in_progress", None
        if self.habits.flaw == "new id":
            return "replayed", self.number()
        return "replayed", found.number

    def _first(self, ask: Ask, op: str, name: str) -> Generator[None, None, Answer]:
        record = Record(ask, op, self.number())
        self.jobs.append(record)
        if ask.key is not None:
            self.records[self.slot(ask)] = record
        work = self._hand_over(record)
        if self.habits.queued:
            if self.habits.flaw == "drops the mail":
                record.state = "done"
            elif self.habits.eager:
                self.couriers.append(work)
            else:
                self.lagging[name] = work
            yield
            return "accepted", record.number
        yield
        yield from work
        match record.state:
            case "done":
                return "accepted", record.number
            case "refused":
                if not self._stores_refusals:
                    self._forget(record)
                return "refused", None
            case "unknown":
                return "unknown", None
            case _:
                self._forget(record)
                return "failed", None

    @property
    def _stores_refusals(self) -> bool:
        claim = self.h.contract.outcomes.provider_refused
        return claim.value == "stored" if claim.judged else self.habits.stores_refusals

    def _forget(self, record: Record) -> None:
        for slot, known in list(self.records.items()):
            if known is record:
                del self.records[slot]

    def _hand_over(self, record: Record) -> Work:
        h, ask, op = self.h, record.ask, record.op
        weather = [ask.provider]
        if self.habits.queued and ask.provider == "busy":
            weather = ["busy", "ok"]
        for sky in weather:
            made = record.hands = h.hand_over(op)
            self.handing.append(made)
            yield
            if sky == "busy" or sky == "refused":
                h.fired("provider.request", "answer", {"busy": 503, "refused": 422}[sky], op=op)
                h.tell(made, {"busy": 503, "refused": 422}[sky])
                record.state, record.hands = {"busy": "running", "refused": "refused"}[sky], None
            elif sky == "deaf":
                h.fired("provider.request", "reset", op=op)
                record.state = "unknown"
            else:
                h.commit(made)
                yield
                if sky == "silent":
                    h.fired("provider.response", "close", op=op)
                h.tell(made, sent=sky == "ok")
                record.state = "done" if sky == "ok" else "unknown"
            self.handing.remove(made)
            yield

    def crash(self) -> None:
        """All work dies; what is on disk says what was claimed, begun and done."""
        h = self.h
        h.crash(*(made for made in self.handing if made.commit is None), broken=sorted(self.running))
        self.running.clear()
        for made in self.handing:
            if made.commit is not None:
                h.tell(made, sent=False)
        self.handing.clear()
        self.couriers.clear()
        self.lagging.clear()
        for record in self.jobs:
            if record.state != "running":
                continue
            if record.hands is not None:
                record.state = "unknown"
            elif self.habits.queued:
                record.ask = replace(record.ask, provider="ok")
                self.couriers.append(self._hand_over(record))
            else:
                record.state = "forgotten"
                self._forget(record)
        h.restart()


def play(
    contract: Contract, asks: list[Ask], order: list[int], habits: Habits, crash_at: int | None = None
) -> tuple[History, Target]:
    """Let the model work through all requests, in the drawn order."""
    h = History(contract)
    target = Target(h, habits)
    work: list[Work] = [target.ask(n, ask) for n, ask in enumerate(asks)]
    turns = iter(order)
    step = 0
    while work or target.couriers:
        step += 1
        if step == crash_at:
            work = [w for w in work if inspect.getgeneratorstate(w) == inspect.GEN_CREATED]
            target.crash()
            continue
        choices = [*work, *target.couriers]
        # Who waits for another is asked in turn once nothing more is drawn.
        chosen = choices[next(turns, step) % len(choices)]
        try:
            next(chosen)
        except StopIteration:
            if chosen in work:
                work.remove(chosen)
            else:
                target.couriers.remove(chosen)
    return h, target


def told(history: History) -> str:
    """Return a history in short lines, for whoever reads a failure."""
    lines = []
    for e in history.events:
        shown = {k: v for k, v in e.data.items() if k in ("key", "status", "sent", "outcome", "body", "verb", "commit")}
        lines.append(f"{e.seq:3} {e.kind.value:18} {e.operation or ''} {e.attempt or ''} {shown}")
    return "\n".join([history.contract.name, *lines])


# --- plans ----------------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from([0, 0, 0, 1, None])
CALLERS = st.sampled_from(["stays", "stays", "stays", "leaves early", "leaves late", "never arrives"])
SKIES = st.sampled_from(["ok", "ok", "ok", "busy", "refused", "silent", "deaf"])
SENDERS = st.sampled_from(["main", "main", "main", "other-mailbox", "other-tenant"])
ORDERS = st.lists(st.integers(0, 7), max_size=60)


def asks(skies: st.SearchStrategy[str] = SKIES) -> st.SearchStrategy[list[Ask]]:
    one = st.builds(Ask, KEYS, st.sampled_from([0, 0, 1]), SENDERS, skies, CALLERS)
    return st.lists(one, min_size=1, max_size=6)


def habits_of(contract: Contract, *, queued: bool, waits: bool, stores: bool, flaw: str = "") -> Habits:
    declared = contract.delivery.value
    return Habits(queued if declared is None else declared == "queued", waits, stores, flaw=flaw)


@pytest.mark.parametrize("name", CONTRACTS)
@settings(max_examples=300, deadline=None)
@given(
    plan=asks(), order=ORDERS, queued=st.booleans(), waits=st.booleans(), stores=st.booleans(),
    crash_at=st.none() | st.integers(1, 30),
)
def test_a_sound_target_is_accused_of_nothing(
    name: str, plan: list[Ask], order: list[int], queued: bool, waits: bool, stores: bool, crash_at: int | None
) -> None:
    contract = contract_named(name)
    habits = habits_of(contract, queued=queued, waits=waits, stores=stores)
    history, _ = play(contract, plan, order, habits, crash_at)
    assert history.accusations == [], told(history)
