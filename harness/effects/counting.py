"""When effects are counted, and what becomes of a count: each increase is as many deliveries.

A count says how many, not when: an effect came about after the look before (``since``) and before this one, and the
judge is told no more than that. So there is a look before each step, while what was promised is awaited, when a
scenario settles, and at the end of the run. A look that fails while the target lies dead or asleep shows nothing, for
the target itself may be what counts; one that fails when the scenario has settled leaves nothing to judge by.

Who asks by the recipient alone cannot tell two contents apart that go to the same person. Such a delivery is marked,
as a mail is whose content the target swallowed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sendtwice.harness.attribution import Identity, token
from sendtwice.harness.effects import probe_of
from sendtwice.harness.effects.asked import ProbeError
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.history import Event, Kind

if TYPE_CHECKING:
    from sendtwice.harness.bench import Bench
    from sendtwice.harness.live import Plan

#: Seconds between two looks for what is awaited: nothing announces an effect. The pause is doubled up to the second.
_PAUSE, _LONGEST = 0.03, 0.4
#: Seconds for which a count that fails is tried again, when it has worked before.
_PATIENCE = 1.0
#: So many counts are taken at once.
_AT_ONCE = 8
_DOWN = {Kind.CRASH: Kind.RESTART, Kind.STOP: Kind.RESTART, Kind.PAUSE: Kind.RESUME}


@dataclass(slots=True, eq=False)
class _Counter:
    """What was counted of one question. ``owners`` are the operations that it is asked for, by their wire's names."""

    values: dict[str, str]
    recipient: str
    since: int
    owners: list[str] = field(default_factory=list)
    counted: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Counting:
    """The counts of a whole run; where the target file names none, every method does nothing."""

    def __init__(self, bench: Bench) -> None:
        """Nothing is counted before an operation is expected."""
        self.bench = bench
        settings = bench.target.effects
        self.probe = probe_of(settings, bench.folder) if settings is not None else None
        self._counters: dict[tuple[str, ...], _Counter] = {}
        self._failures: dict[str, str] = {}  # by scenario: why it could not be counted
        self._numbers = itertools.count(1)
        self._last = 0
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        if self.probe is not None:
            bench.recorder.subscribe(self._heard)

    @property
    def elsewhere(self) -> bool:
        """Whether effects are counted elsewhere than at the fake provider."""
        return self.probe is not None

    def said(self) -> list[str]:
        """Return in a line where effects are counted, when that is elsewhere."""
        if self.probe is None:
            return []
        return [f"effects are counted by {self.probe.described}; mails at the fake provider are not"]

    def _heard(self, event: Event) -> None:
        self._last = event.seq

    # -- what is counted -----------------------------------------------------------------------------------------------

    def expect(self, plan: Plan, words: Mapping[str, Any]) -> None:
        """Count the effects of an operation from now on; its recipients are fresh, so there are none yet.

        ``words`` are those in which a send API or a client is given it.
        """
        if self.probe is None:
            return
        for recipient in plan.recipients:
            values = _values(self.bench.target.role, plan, recipient, words)
            question = tuple(values[name] for name in sorted(self.probe.names))
            counter = self._counters.get(question)
            if counter is None:
                counter = self._counters[question] = _Counter(values, recipient, self._last)
            if plan.uid not in counter.owners:
                counter.owners.append(plan.uid)
        identity = self.bench.identity(plan.uid)
        recorder = self.bench.recorder
        if identity is not None and not any(e.kind is Kind.ELSEWHERE for e in recorder.of(identity.scenario)):
            recorder.record(Kind.ELSEWHERE, scenario=identity.scenario)

    def _owners(self, counter: _Counter) -> list[Identity]:
        found = (self.bench.identity(uid) for uid in counter.owners)
        return [identity for identity in found if identity is not None]

    def _of(self, scenario: str) -> list[_Counter]:
        return [c for c in self._counters.values() if any(one.scenario == scenario for one in self._owners(c))]

    # -- looking -------------------------------------------------------------------------------------------------------

    async def look(self, scenario: str, *, final: bool = False) -> None:
        """Count what a scenario has brought about so far; a ``final`` look that fails voids it."""
        if self.probe is None or (not final and self._down(scenario)):
            return
        failure = await self._look(self._of(scenario))
        if final and failure is not None:
            self._failed(scenario, failure)

    async def wait(self, scenario: str, done: Callable[[], bool], *, timeout: float) -> bool:
        """Wait until ``done()`` holds; False after ``timeout`` seconds. A ledger wakes who waits, a count is asked."""
        if self.probe is None:
            return await self.bench.provider.ledger.wait(done, timeout=timeout)
        now = self.bench.recorder.now
        until, pause, failing = now() + timeout, _PAUSE, None
        patience = timeout if scenario == "canary" else min(timeout, _PATIENCE)
        while True:
            failure = await self._look(self._of(scenario))
            failing = None if failure is None else failing or now()
            if failure is None and done() and not self._unseen(scenario):
                return True
            if now() >= until or (failing is not None and now() >= failing + patience and not self._down(scenario)):
                if failure is not None:
                    self._failed(scenario, failure)
                return failure is None and done()
            # An effect elsewhere wakes nobody: there is nothing to await but time.
            await asyncio.sleep(min(pause, max(0.0, until - now())))
            pause = min(2 * pause, _LONGEST)

    def _failed(self, scenario: str, failure: str) -> None:
        """Note that a scenario could not be counted when it should: by one that is dead or asleep nobody is counted."""
        self._failures[scenario] = failure
        if not self._down(scenario):
            self._void(scenario, failure, uncounted=True)

    async def everything(self) -> None:
        """Count once more for all that was played: what came late finds its scenario."""
        if self.probe is None:
            return
        self._counters = {question: c for question, c in self._counters.items() if self._owners(c)}
        failure = await self._look(self._counters.values())
        if failure is not None:
            for scenario in sorted({one.scenario for c in self._counters.values() for one in self._owners(c)}):
                self._void(scenario, failure, uncounted=True)

    async def _look(self, counters: Iterable[_Counter]) -> str | None:
        """Count; return why that failed, when it did. Of one failure the others need not be tried as well."""
        failures: list[str] = []

        async def one(counter: _Counter) -> None:
            async with self._at_once:
                if not failures:
                    try:
                        await self._count(counter)
                    except ProbeError as error:
                        failures.append(str(error))

        await asyncio.gather(*(one(counter) for counter in counters))
        return failures[0] if failures else None

    async def _count(self, counter: _Counter) -> None:
        assert self.probe is not None
        async with counter.lock:  # an older count must not come after a newer one
            began = self._last
            number = await self.probe.count(self._filled(counter.values))
            owners = self._owners(counter)
            if not owners:
                return
            if number < counter.counted:
                self._void(
                    owners[-1].scenario,
                    f"target.effects counted {counter.counted} for {counter.recipient}, and {number} later; let what "
                    "it counts outlive a restart, and never be deleted",
                )
            groups = {(one.scenario, one.operation) for one in owners}
            for _ in range(number - counter.counted):
                self.bench.recorder.record(
                    Kind.DELIVERY,
                    scenario=owners[-1].scenario,
                    operation=owners[-1].operation,
                    recipient=counter.recipient,
                    commit=next(self._numbers),
                    swallowed=len(groups) > 1,
                    ambiguous=len(groups) > 1,
                    counted=True,
                    since=counter.since,
                )
            counter.counted = max(number, counter.counted)
            counter.since = began

    def _filled(self, values: Mapping[str, str]) -> dict[str, str]:
        state = getattr(self.bench.launcher, "state", None)
        return {**self.bench.values, **({"state": str(state)} if state is not None else {}), **values}

    def _unseen(self, scenario: str) -> bool:
        """Whether a client said that it has sent a mail of which nothing is seen yet: its attempts are elsewhere."""
        if self.bench.target.role != "client":
            return False
        facts = self.bench.facts(scenario)
        told = {e.operation for e in facts.events if e.kind is Kind.TOLD and e.data.get("told") == "sent"}
        return any(facts.count(facts.group_of(operation)) == 0 for operation in told if operation is not None)

    def _down(self, scenario: str) -> bool:
        """Whether a process of the target is dead or asleep."""
        down: list[tuple[Kind, str]] = []
        for event in self.bench.recorder.of(scenario):
            name = str(event.data.get("process", ""))
            if event.kind in _DOWN:
                down.append((_DOWN[event.kind], name))
            elif event.kind in _DOWN.values():
                down = [
                    (ends, who)
                    for ends, who in down
                    if ends is not event.kind or not (who == name or who.startswith(f"{name}."))
                ]
        return bool(down)

    def _void(self, scenario: str, reason: str, **data: Any) -> None:
        known = any(e.kind is Kind.VOID and e.data["reason"] == reason for e in self.bench.recorder.of(scenario))
        if not known:
            self.bench.recorder.record(Kind.VOID, scenario=scenario, reason=reason, **data)

    # -- the canary ----------------------------------------------------------------------------------------------------

    @property
    def uncounted(self) -> tuple[str, str] | None:
        """Return what became of a canary that was accepted and not counted, and the remedy; None without a count."""
        if self.probe is None:
            return None
        failure = self._failures.get("canary")
        if failure is not None:
            return "could not be counted", failure
        within = self.bench.target.timing.delivers_within
        how = f"was not counted by {self.probe.described} within {within:g} s"
        remedy = "let target.effects count what the target sends, or raise target.timing.delivers_within"
        return how, f"nothing more is sent: {remedy}"

    async def check_impartial(self) -> None:
        """Raise when effects are counted that cannot be: whoever counts does not look for whom they are."""
        if self.probe is None:
            return
        stranger = token("r")
        content = {"subject": token("s"), "text": token("t"), "operation": token("o")}
        values = {**content, "to": f"{stranger}@sendtwice.test", "from": "sender@sendtwice.test", "token": stranger}
        try:
            number = await self.probe.count(self._filled(values))
        except ProbeError as error:
            raise HarnessError(f"the canary was counted, and another one could not be: {error}") from None
        if number:
            raise HarnessError(
                f"{self.probe.described} counted {number} for a recipient to whom nothing was sent; let target.effects "
                "count only what went to {to}"
            )


def _values(role: str, plan: Plan, recipient: str, words: Mapping[str, Any]) -> dict[str, str]:
    """Return what can be asked of an operation, in the words in which the target was given it."""
    found = {
        "to": recipient,
        "token": recipient.partition("@")[0],
        "operation": plan.operation if role == "api" else plan.known_as,
        **{name: str(words.get(name) or "") for name in ("from", "subject", "text")},
    }
    if role == "consumer":  # it answers a question: see the driver's event
        found["from"] = "inbox@sendtwice.test"
        if plan.words is None:
            found["subject"] = f"Question {plan.content.subject}"
            found["text"] = f"Where is my order {plan.content.text}?"
    return found
