"""A model of a send API on a store, in bad weather of every kind.

Its instances share a store of records. Every step of a request is an exchange with the store or the provider, and one
indivisible thing between two yields; which goes on next is drawn. So are the exchanges that fail (before they are
executed, after it, or by being held until somebody gives up), and the instances that are killed, stopped or put to
sleep meanwhile. The model knows neither the judge nor the implementations on real stores.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from sendtwice.fake_provider.contracts import Contract
from tests.harness.histories import HandOver, History

Work = Generator[None, None, Any]
Answer = tuple[str, str | None]
LEASE = 5.0
PROCESSES = ("target.1", "target.2")


class StoreError(Exception):
    """The store could not be asked, or did not answer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request."""

    content: int = 0
    process: int = 0
    busy: bool = False  # the provider turns its mail away once
    caller: str = "stays"  # stays, leaves


@dataclass(frozen=True, slots=True)
class StoreFault:
    """What befalls the n-th message to the store."""

    nth: int
    place: str
    verb: str
    turns: int  # how long a message is held
    gives_up: bool


@dataclass(frozen=True, slots=True)
class Storm:
    """What befalls a process at a step; None: all of them."""

    step: int
    kind: str
    process: int | None
    turns: int
    seconds: float
    impatient: bool  # whether those who wait for it give up, and it too when it wakes


@dataclass(frozen=True, slots=True)
class Habits:
    """What is left to a target."""

    queued: bool = False
    tries: int = 1
    claims_sent: bool = False  # what it says when the mail is out and nobody could note it
    says_unknown: bool = True  # of an outcome that nobody knows; or that it is in progress
    flaw: str = ""


@dataclass(slots=True)
class Record:
    """What stands under the key."""

    owner: int
    content: int
    number: str
    until: float
    process: int
    state: str = "claimed"  # claimed, sending, done, unknown


@dataclass(slots=True)
class Mail:
    """One on its way to the provider."""

    made: HandOver
    process: int
    outcome: str | None = None
    missed: bool = False  # the process slept when the answer came


@dataclass(slots=True, eq=False)
class Task:
    """Something that goes on: in a process, or in nobody's that can be killed."""

    work: Work
    process: int | None = None
    arrives: int | None = None  # the process that it belongs to from its next step on
    mail: Mail | None = None


@dataclass(slots=True)
class Model:
    """The target, its store and its provider."""

    h: History
    habits: Habits
    faults: list[StoreFault]
    store: dict[str, Record] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    running: dict[str, int] = field(default_factory=dict)
    mails: list[Mail] = field(default_factory=list)
    asleep: set[int] = field(default_factory=set)
    impatient: set[int] = field(default_factory=set)
    down: set[int] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    messages: int = 0
    numbers: int = 0

    @property
    def now(self) -> float:
        return len(self.h.events) / 1000 + self.h._waited  # the history's own clock

    @property
    def ready(self) -> list[Task]:
        return [task for task in self.tasks if task.process not in self.asleep]

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    # -- the store ---------------------------------------------------------------------------------------------

    def exchange(self, process: int, change: Callable[[], Any]) -> Work:
        """Ask the store for something, as often as this target does."""
        for left in reversed(range(self.habits.tries)):
            try:
                return (yield from self._exchange(process, change))
            except StoreError:
                if not left:
                    raise
        raise AssertionError

    def _exchange(self, process: int, change: Callable[[], Any]) -> Work:
        self.messages += 1
        nth, wire = self.messages, 1000 + self.messages
        self.h.asks_store(wire=wire)
        yield from self._meets("store.request", nth)
        yield
        result = change()
        self.h.store_says(wire=wire)
        yield from self._meets("store.response", nth)
        yield
        return result

    def _meets(self, place: str, nth: int) -> Work:
        fault = next((f for f in self.faults if f.place == place and f.nth == nth), None)
        if fault is None:
            return
        self.h.fired(place, fault.verb)
        if fault.verb not in ("hold", "delay"):
            raise StoreError
        for _ in range(fault.turns):
            yield
        if fault.gives_up:  # what it had sent is dropped
            raise StoreError

    # -- one request -------------------------------------------------------------------------------------------

    def ask(self, name: str, ask: Ask, op: str) -> Work:
        self.h.send(name, op=op, key="k", content=f"c{ask.content}")
        process = ask.process
        if process in self.down:
            self.h.ends(name, "unreachable", never_arrived=True)
            return
        self.running[name] = process
        if ask.busy:
            self.busy.add(op)
        yield
        if ask.caller == "leaves":
            self._end(name, "hung-up")
        answer = yield from self._decide(ask, op, process)
        if name in self.running:
            del self.running[name]
            self.h.answer(name, answer[0], number=answer[1])

    def _end(self, name: str, outcome: str) -> None:
        if self.running.pop(name, None) is not None:
            self.h.ends(name, outcome)

    def _decide(self, ask: Ask, op: str, process: int) -> Generator[None, None, Answer]:
        me = self.number()
        try:
            known: Answer | None = yield from self.exchange(process, lambda: self._claim(me, ask))
            if known is not None:
                return known
            if not self.habits.queued and not (yield from self.exchange(process, lambda: self._begin(me))):
                return "in_progress", None
        except StoreError:
            if self.habits.flaw == "sends unguarded":
                yield from self._hand_over(op, process)
            return "failed", None
        number = f"m{me}"
        if self.habits.queued:
            return "accepted", number
        return (yield from self._deliver(me, op, process, number))

    def _deliver(self, me: int, op: str, process: int, number: str) -> Generator[None, None, Answer]:
        outcome = yield from self._hand_over(op, process)
        try:
            yield from self.exchange(process, lambda: self._finish(me, outcome))
        except StoreError:
            if self.habits.flaw == "frees what it cannot note":
                self.store.clear()
            if outcome == "sent" and self.habits.claims_sent:
                return "accepted", number
            return "unknown", None
        match outcome:
            case "sent":
                return "accepted", number
            case "busy":
                return "failed", None
        return "unknown", None

    def _courier(self, me: int, op: str, process: int) -> Work:
        """Hand over what was queued, again while the provider is busy; an outcome that is not known stays so."""
        try:
            if not (yield from self.exchange(process, lambda: self._begin(me))):
                return
            while (outcome := (yield from self._hand_over(op, process))) == "busy":
                yield
            yield from self.exchange(process, lambda: self._finish(me, outcome))
        except StoreError:
            return

    def _claim(self, me: int, ask: Ask) -> Answer | None:
        """Take the key or say who has it; one's own claim is found again."""
        found = self.store.get("k")
        if found is not None and found.owner == me:
            return None
        lapsed = found is not None and found.until < self.now and not self.habits.queued
        if found is None or (lapsed and found.state == "claimed" and found.content == ask.content):
            self.store["k"] = Record(me, ask.content, f"m{me}", self.now + LEASE, ask.process)
            if self.habits.queued:  # what is committed is queued, whoever hears of it
                self.tasks.append(Task(self._courier(me, op_of(ask.content), ask.process), ask.process))
            return None
        if lapsed and found.state == "sending" and self.habits.flaw == "takes over what was sent":
            self.store["k"] = Record(me, ask.content, f"m{me}", self.now + LEASE, ask.process)
            return None
        if found.content != ask.content:
            return "conflict", None
        if found.state == "done" or self.habits.queued:
            return "replayed", found.number
        if found.state == "unknown" or (found.state == "sending" and lapsed):
            return ("unknown" if self.habits.says_unknown else "in_progress"), None
        if self.habits.flaw == "takes a claim for a send":
            return "replayed", found.number
        return "in_progress", None

    def _begin(self, me: int) -> bool:
        found = self.store.get("k")
        if self.habits.flaw == "wakes as a zombie":
            return True
        if found is None or found.owner != me:
            return False
        found.state = "sending"
        return True

    def _finish(self, me: int, outcome: str) -> None:
        found = self.store.get("k")
        if found is None or found.owner != me:
            return
        if outcome == "busy":
            del self.store["k"]
        else:
            found.state = {"sent": "done", "unknown": "unknown"}[outcome]

    # -- the provider ------------------------------------------------------------------------------------------

    def _hand_over(self, op: str, process: int) -> Generator[None, None, str]:
        mail = Mail(self.h.hand_over(op), process)
        self.mails.append(mail)
        self.tasks.append(Task(self._provider(mail, op), mail=mail))
        while mail.outcome is None:
            yield
        yield
        if mail.missed and process in self.impatient:
            return "unknown"
        return mail.outcome

    def _provider(self, mail: Mail, op: str) -> Work:
        yield
        sent = mail in self.mails
        if op in self.busy and sent:
            self.busy.discard(op)
            self.h.fired("provider.request", "answer", 503, op=op)
            self.h.tell(mail.made, 503)
            outcome = "busy"
        else:
            self.h.commit(mail.made)
            yield
            sent = mail in self.mails
            self.h.tell(mail.made, sent=sent)
            outcome = "sent"
        if sent:
            mail.outcome, mail.missed = outcome, mail.process in self.asleep
            self.mails.remove(mail)

    # -- storms ------------------------------------------------------------------------------------------------

    def befall(self, storm: Storm) -> Iterator[tuple[int, Callable[[], None]]]:
        """Begin a storm, and yield in how many steps it ends and how."""
        alive = {0, 1} - self.down - self.asleep
        hit = alive if storm.process is None else alive & {storm.process}
        if not hit or (storm.process is None and len(alive) < 2):
            return
        name = "target" if storm.process is None else PROCESSES[storm.process]
        lives = sorted(name for name, process in self.running.items() if process in hit)
        if storm.kind == "pause":
            self.h.pause(name)
            self.asleep |= hit
            if storm.impatient:
                self.impatient |= hit
                for live in lives:
                    self._end(live, "timed-out")
        else:
            self.down |= hit
            self._die(name, hit, lives, killed=storm.kind == "crash")
        self.h.wait(storm.seconds)
        yield storm.turns, lambda: self._recover(storm.kind, name, hit)

    def _die(self, name: str, hit: set[int], lives: list[str], *, killed: bool) -> None:
        theirs = [mail for mail in self.mails if mail.process in hit]
        untaken = [mail for mail in theirs if mail.made.commit is None]
        for mail in theirs:
            self.mails.remove(mail)
        self.tasks = [task for task in self.tasks if task.process not in hit]
        for live in lives:
            del self.running[live]
        if not killed:
            self.h.stop(broken=lives, process=name)
            return
        self.h.crash(*(mail.made for mail in untaken), broken=lives, process=name)
        self.tasks = [task for task in self.tasks if task.mail not in untaken]

    def _recover(self, kind: str, name: str, hit: set[int]) -> None:
        if kind == "pause":
            self.h.resume(name)
            self.asleep -= hit
            return
        self.h.restart(name)
        self.down -= hit
        if self.habits.queued:
            found = self.store.get("k")
            if found is None or found.process not in hit:
                return
            if found.state == "claimed":
                courier = self._courier(found.owner, op_of(found.content), found.process)
                self.tasks.append(Task(courier, found.process))
            elif found.state == "sending":
                found.state = "unknown"


def op_of(content: int) -> str:
    """Return the operation that a content belongs to."""
    return f"o{content}"


def play(
    contract: Contract,
    asks: list[Ask],
    order: list[int],
    habits: Habits,
    faults: list[StoreFault],
    storms: list[Storm],
) -> History:
    """Let the model work through all requests in the drawn order, then retry until it knows or nothing helps."""
    h = History(contract, lease=LEASE)
    model = Model(h, habits, faults)
    model.tasks = [arriving(model, f"a{n}", ask) for n, ask in enumerate(asks)]
    run(model, order, storms)
    retried(model, asks[0])
    return h


def arriving(model: Model, name: str, ask: Ask) -> Task:
    return Task(model.ask(name, ask, op_of(ask.content)), arrives=ask.process)


def run(model: Model, order: list[int], storms: list[Storm]) -> None:
    turns, step = iter(order), 0
    ends: list[tuple[int, Callable[[], None]]] = []
    while True:
        step += 1
        for storm in storms:
            if storm.step == step:
                ends += [(step + after, end) for after, end in model.befall(storm)]
        for end in [end for end in ends if end[0] <= step or not model.ready]:
            ends.remove(end)
            end[1]()
        ready = model.ready
        if not ready:
            if not ends:
                return
            continue
        # Once nothing more is drawn they go one after the other.
        task = ready[next(turns, step) % len(ready)]
        try:
            next(task.work)
        except StopIteration:
            model.tasks.remove(task)
        if task.arrives is not None:
            task.process, task.arrives = task.arrives, None


def retried(model: Model, first: Ask) -> None:
    """Retry the first request, past its lease at last."""
    h, began = model.h, model.now
    for n in range(3):
        if n == 2:
            h.wait(LEASE + 1)
        model.tasks = [arriving(model, f"a0~{n}", Ask(first.content, n % 2))]
        run(model, [], [])
    definite = h.events[-1].data.get("status", 500) < 300
    h.finish(op_of(first.content), "a0~2", definite=definite, waited=model.now - began)
