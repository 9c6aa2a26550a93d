"""A model of a sound send API, played at random: the judge must find nothing; mutated, it must be found out.

The model knows neither the judge nor the emulator. Each request is a generator that does one indivisible thing between
two yields; which goes on next is drawn, so any two requests may overlap in any way that one process allows.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Generator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sendtwice.fake_provider.contracts import Claim, Contract
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge import judge
from sendtwice.harness.judge.rules import level
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
    ordered: bool = False  # whether requests are decided in the order in which they were sent
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
        tenant = "other" if ask.sender == "other-tenant" and self.habits.flaw != "one space" else "main"
        return (ask.key, tenant, ask.sender if "mailbox" in scope else "")

    def ask(self, n: int, ask: Ask) -> Work:
        h, name = self.h, f"a{n}"
        keyless = ask.key is None
        owner = f"{ask.key}-{ask.sender}"
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
        if not self.habits.ordered:
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
            if sky in ("busy", "refused"):
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
        # Once nothing more is drawn they go one after the other; who waits for another must not keep it waiting.
        chosen = choices[next(turns, 0 if step < 200 else step) % len(choices)]
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


# --- plans --------------------------------------------------------------------------------------------------

KEYS = st.sampled_from([0, 0, 0, 1, None])
CALLERS = st.sampled_from(["stays", "stays", "stays", "leaves early", "leaves late", "never arrives"])
SKIES = st.sampled_from(["ok", "ok", "ok", "busy", "refused", "silent", "deaf"])
TENANTS = st.sampled_from(["main", "main", "main", "other-tenant"])
ORDERS = st.lists(st.integers(0, 7), max_size=60)
CRASHES = st.none() | st.integers(1, 30)
MAIN = st.just("main")


def plans(
    *,
    keys: st.SearchStrategy[int | None] = KEYS,
    contents: int = 2,
    senders: st.SearchStrategy[str] = TENANTS,
    skies: st.SearchStrategy[str] = SKIES,
    least: int = 1,
) -> st.SearchStrategy[list[Ask]]:
    content = st.integers(0, contents - 1)
    return st.lists(st.builds(Ask, keys, content, senders, skies, CALLERS), min_size=least, max_size=6)


HABITS = st.builds(Habits, queued=st.booleans(), waits=st.booleans(), stores_refusals=st.booleans())


def fitting(habits: Habits, contract: Contract) -> Habits:
    """Return habits with what the contract itself says about queues."""
    declared = contract.delivery.value
    return habits if declared is None else replace(habits, queued=declared == "queued")


def sound(contract: Contract, plan: list[Ask], order: list[int], habits: Habits, crash_at: int | None) -> History:
    habits = fitting(habits, contract)
    return play(contract, plan, order, habits, crash_at)[0]


@pytest.mark.parametrize("name", CONTRACTS)
@settings(max_examples=200, deadline=None)
@given(plan=plans(), order=ORDERS, habits=HABITS, crash_at=CRASHES)
def test_a_sound_target_is_accused_of_nothing(
    name: str, plan: list[Ask], order: list[int], habits: Habits, crash_at: int | None
) -> None:
    history = sound(contract_named(name), plan, order, habits, crash_at)
    assert history.accusations == [], told(history)


@pytest.mark.parametrize("name", CONTRACTS)
@settings(max_examples=60, deadline=None)
@given(plan=plans(), order=ORDERS, habits=HABITS, crash_at=CRASHES)
def test_the_judge_says_the_same_each_time_and_touches_nothing(
    name: str, plan: list[Ask], order: list[int], habits: Habits, crash_at: int | None
) -> None:
    history = play(contract_named(name), plan, order, replace(habits, flaw="executes twice"), crash_at)[0]
    before = [event.as_json() for event in history.events]
    first = judge(history.contract, tuple(history.events))
    assert judge(history.contract, list(history.events)) == first
    assert [event.as_json() for event in history.events] == before


@pytest.mark.parametrize("name", CONTRACTS)
@settings(max_examples=60, deadline=None)
@given(plan=plans(), order=ORDERS, habits=HABITS, crash_at=CRASHES)
def test_every_finding_points_at_events_that_are_there(
    name: str, plan: list[Ask], order: list[int], habits: Habits, crash_at: int | None
) -> None:
    history = play(contract_named(name), plan, order, replace(habits, flaw="executes twice"), crash_at)[0]
    numbers = {event.seq for event in history.events}
    for found in history.judgement.findings:
        assert found.events
        assert set(found.events) <= numbers
        assert list(found.events) == sorted(set(found.events))


@pytest.mark.parametrize("name", CONTRACTS)
@settings(max_examples=200, deadline=None)
@given(plan=plans(), order=ORDERS, habits=HABITS, crash_at=CRASHES, data=st.data())
def test_a_slow_network_makes_nobody_guilty(
    name: str, plan: list[Ask], order: list[int], habits: Habits, crash_at: int | None, data: st.DataObject
) -> None:
    history = sound(contract_named(name), plan, order, habits, crash_at)
    slowed = History(history.contract, events=stretched(history.events, data))
    assert slowed.accusations == [], told(slowed)


def stretched(events: list[Event], data: st.DataObject) -> list[Event]:
    """Return a history in which requests left earlier and answers were read later: what the target did stays."""
    moved = list(events)
    for event in events:
        if event.kind is Kind.ENDED and event.data["outcome"] == "answered":
            at = moved.index(event)
            moved.insert(at + data.draw(st.integers(0, 4)), moved.pop(at))
        elif event.kind is Kind.CLIENT_REQUEST:
            at = moved.index(event)
            opening = [e for e in moved[:at] if e.attempt == event.attempt or _declares(e, event)]
            earlier = max(0, at - data.draw(st.integers(0, 6)))
            for e in opening:
                moved.remove(e)
            at = moved.index(event)
            earlier = min(earlier, at)
            moved.remove(event)
            moved[earlier:earlier] = [*opening, event]
    return [replace(event, seq=seq) for seq, event in enumerate(moved, 1)]


def _declares(e: Event, event: Event) -> bool:
    return e.kind is Kind.OPERATION and e.operation == event.operation


# --- flaws --------------------------------------------------------------------------------------------------

ONE_KEY = st.sampled_from([0, 0, 1])
GOOD_SKIES = st.sampled_from(["ok", "ok", "busy"])


def commits(history: History) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in history.events:
        if event.kind is Kind.DELIVERY and event.operation is not None:
            found[event.operation] = found.get(event.operation, 0) + 1
    return found


@dataclass(frozen=True, slots=True)
class Said:
    """An answer that a caller got."""

    operation: str
    kind: str
    number: str | None
    start: int
    end: int


def answers(history: History) -> list[Said]:
    starts = {e.attempt: e.seq for e in history.events if e.kind is Kind.ATTEMPT}
    found = []
    for e in history.events:
        if e.kind is Kind.ENDED and e.data["outcome"] == "answered":
            body, status = json.loads(e.data["body"]), e.data["status"]
            kind = "conflict" if status in (409, 422) and "id" not in body else "success" if status < 300 else "else"
            found.append(Said(str(e.operation), kind, body.get("id"), starts[e.attempt], e.seq))
    return found


@pytest.mark.parametrize("flaw", ["no claim", "executes twice"])
@pytest.mark.parametrize("name", CONTRACTS)
@settings(max_examples=80, deadline=None)
@given(plan=plans(keys=ONE_KEY, contents=1, skies=GOOD_SKIES, least=2), order=ORDERS, habits=HABITS)
def test_whoever_sends_twice_is_found(name: str, flaw: str, plan: list[Ask], order: list[int], habits: Habits) -> None:
    contract = contract_named(name)
    history = play(contract, plan, order, fitting(replace(habits, flaw=flaw), contract))[0]
    twice = any(count > 1 for count in commits(history).values())
    assert ("at-most-once" in history.rules()) is twice, told(history)


@pytest.mark.parametrize("name", CONTRACTS)
@settings(max_examples=100, deadline=None)
@given(plan=plans(keys=ONE_KEY, senders=MAIN, skies=st.just("ok"), least=2), order=ORDERS, habits=HABITS)
def test_whoever_sends_two_contents_under_one_key_is_found(
    name: str, plan: list[Ask], order: list[int], habits: Habits
) -> None:
    contract = contract_named(name)
    habits = replace(habits, flaw="no fingerprint")
    history = play(contract, plan, order, fitting(habits, contract))[0]
    owners = [operation.partition("-")[2] for operation in commits(history)]
    assert ("conflict" in history.rules(level(contract, "conflict"))) is (len(set(owners)) < len(owners)), told(history)


@pytest.mark.parametrize("name", STRICT)
@settings(max_examples=100, deadline=None)
@given(plan=plans(keys=ONE_KEY, contents=1, senders=MAIN, skies=GOOD_SKIES, least=2), order=ORDERS, habits=HABITS)
def test_whoever_calls_an_equal_request_a_conflict_is_found(
    name: str, plan: list[Ask], order: list[int], habits: Habits
) -> None:
    contract = contract_named(name)
    habits = fitting(replace(habits, flaw="hashes the time", waits=True), contract)
    history = play(contract, plan, order, habits)[0]
    false = [said for said in answers(history) if said.kind == "conflict"]
    assert ("no-false-conflict" in history.rules()) is bool(false), told(history)


@pytest.mark.parametrize("name", STRICT)
@settings(max_examples=100, deadline=None)
@given(plan=plans(keys=ONE_KEY, contents=1, senders=MAIN, skies=GOOD_SKIES, least=2), order=ORDERS, habits=HABITS)
def test_whoever_replays_another_id_than_the_first_is_found(
    name: str, plan: list[Ask], order: list[int], habits: Habits
) -> None:
    contract = contract_named(name)
    habits = replace(habits, flaw="new id")
    history = play(contract, plan, order, fitting(habits, contract))[0]
    said = [a for a in answers(history) if a.kind == "success"]
    new = any(a.operation == b.operation and a.number != b.number for a in said for b in said)
    assert ("replay-fidelity" in history.rules()) is new, told(history)


@pytest.mark.parametrize("name", sorted(set(CONTRACTS) - {"postfleet"}))
@settings(max_examples=100, deadline=None)
@given(plan=plans(keys=ONE_KEY, contents=1, senders=MAIN, skies=GOOD_SKIES), order=ORDERS)
def test_whoever_forgets_a_mail_after_claiming_success_is_found(name: str, plan: list[Ask], order: list[int]) -> None:
    history = play(contract_named(name), plan, order, Habits(queued=True, flaw="drops the mail"))[0]
    lost = any(said.kind == "success" for said in answers(history))
    assert ("no-lost-send" in history.rules()) is lost, told(history)


@pytest.mark.parametrize("name", CONTRACTS)
@settings(max_examples=100, deadline=None)
@given(plan=plans(keys=ONE_KEY, contents=1, skies=st.just("ok"), least=2), order=ORDERS, habits=HABITS)
def test_whoever_shows_a_tenant_the_answer_of_another_is_found(
    name: str, plan: list[Ask], order: list[int], habits: Habits
) -> None:
    contract = contract_named(name)
    scope: Claim[list[str]] = Claim(value=["tenant"])
    judged = contract.model_copy(update={"scope": scope}) if contract.scope.judged else contract
    history = play(judged, plan, order, fitting(replace(habits, flaw="one space", waits=True), contract))[0]
    said = [a for a in answers(history) if a.kind == "success"]
    served = commits(history)
    pairs = [(a, b) for a in said for b in said if a.operation != b.operation and a.number == b.number]
    shown = any(a.end < b.start and b.operation not in served for a, b in pairs)
    found = "isolation" in history.rules()
    assert found or not shown, told(history)
    assert not found or len({ask.sender for ask in plan}) > 1, told(history)
