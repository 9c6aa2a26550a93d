"""A scenario's history as lines that a person reads in ten seconds. Pure: events in, lines out.

Bookkeeping is left out (declarations, expectations, faults that only say again what an ending says); a
mail with several recipients is one line; runs of like lines are drawn together. Events that a finding
cites stay and are marked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from sendtwice.harness.history import Event, Kind
from sendtwice.harness.report import phrases
from sendtwice.harness.report.phrases import short, short_key

#: More lines than this are not read: the middle is left to the history file.
LIMIT = 40
_TAIL = 10


@dataclass(frozen=True, slots=True)
class Line:
    """What happened at one moment: ``ms`` since the first event, at which ``edge``, in words."""

    seqs: tuple[int, ...]
    ms: float
    edge: str
    text: str
    cited: bool = False
    who: tuple[str, ...] = ()  # attempts or mails that lines drawn together are about
    shape: str = ""  # the text with {who} in the place of the name: like lines have the same
    routine: bool = False  # what a committed mail implies: the first to go when there is too much to read

    def __str__(self) -> str:
        """Return the line as it is printed."""
        return f"{'▶' if self.cited else ' '} {self.ms:>9.1f} ms  {self.edge:<8}  {self.text}"


def timeline(events: Sequence[Event], cited: Collection[int] = ()) -> list[Line]:
    """Return the lines of one scenario's history."""
    story = _Story(events)
    lines = [line for event in events for line in story.tell(event)]
    lines = [replace(line, cited=any(seq in cited for seq in line.seqs)) for line in lines]
    return _drawn_together(lines)


def as_text(lines: Sequence[Line], *, limit: int | None = LIMIT) -> list[str]:
    """Return printed lines; beyond ``limit`` routine goes first, then the middle is counted instead."""
    if limit is None or len(lines) <= limit:
        return [str(line) for line in lines]
    kept = _drawn_together([line for line in lines if line.cited or not line.routine])
    head, tail = kept[: limit - _TAIL], kept[limit - _TAIL :][-_TAIL:]
    shown = {seq for line in (*head, *tail) for seq in line.seqs}
    left_out = sum(not shown.issuperset(line.seqs) for line in lines)
    return [*map(str, head), f"  {'…':>9}     {left_out} more in the history file", *map(str, tail)]


class _Story:
    """What must be known of the whole history to tell one event of it."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._zero = events[0].at if events else 0.0
        self._attempts = {e.attempt: e for e in events if e.kind is Kind.ATTEMPT}
        self._requested = {e.attempt for e in events if e.kind is Kind.CLIENT_REQUEST}
        self._notified = {e.attempt for e in events if e.kind is Kind.WEBHOOK_REQUEST}
        self._ends = {e.attempt: str(e.data.get("outcome")) for e in events if e.kind is Kind.ENDED}
        self._several = len({e.operation for e in events if e.operation is not None}) > 1
        self._delays: dict[tuple[str, str | None], list[int]] = defaultdict(list)
        for e in events:
            if e.kind is Kind.FIRED and e.data.get("verb") == "delay":
                self._delays[str(e.data.get("fault")), e.operation].append(e.seq)
        self._mails: dict[Any, int] = {}
        self._recipients: dict[Any, list[str]] = {}
        self._delivered: dict[Any, list[int]] = {}
        for e in events:
            if e.kind is Kind.DELIVERY:
                commit = e.data.get("commit")
                self._mails.setdefault(commit, len(self._mails) + 1)
                self._recipients.setdefault(commit, []).append(str(e.data.get("recipient", "")))
                self._delivered.setdefault(commit, []).append(e.seq)

    def tell(self, event: Event) -> Iterable[Line]:
        teller = _TELLERS.get(event.kind)
        if teller is None:
            return ()
        told = teller(self, event)
        return () if told is None else (told,)

    def line(self, event: Event, edge: str, shape: str, *who: str, seqs: Iterable[int] = ()) -> Line:
        text = shape.format(who=", ".join(who)) if who else shape
        ms = (event.at - self._zero) * 1000
        return Line((event.seq, *seqs), ms, edge, text, who=who, shape=shape)

    # -- callers --------------------------------------------------------------------------------------------

    def attempt(self, event: Event) -> Line | None:
        # The request says the same and when it really left; only one that never left is told by its plan.
        if event.attempt in self._requested | self._notified:
            return None
        return self.line(event, "client", f"{{who}} →{self._particulars(event)}", str(event.attempt))

    def request(self, event: Event) -> Line:
        request = event.data.get("request", event.data)
        plan = self._attempts.get(event.attempt)
        parts = urlsplit(str(request.get("url", "")))
        target = f" {request.get('method', '')} {parts.path}{'?' + parts.query if parts.query else ''}".rstrip()
        target = target or " the API"  # role client: only what the emulator saw is known
        particulars = self._particulars(plan) if plan else ""
        seqs = (plan.seq,) if plan else ()
        shape = f"{{who}} →{_braced(target)}{particulars}"
        return self.line(event, "client", shape, str(event.attempt), seqs=seqs)

    def _particulars(self, plan: Event) -> str:
        data = plan.data
        found = []
        if "key" in data:
            key = f"key={short_key(data['key'])}"
            found.append(f"{key} ({data['key_problem']})" if data.get("key_problem") else key)
        first = next(
            (
                other
                for other in self._attempts.values()
                if other.seq < plan.seq and data.get("key") is not None and other.data.get("key") == data["key"]
            ),
            None,
        )
        if first is not None and first.data.get("content") != data.get("content"):
            found.append(f"other content than {first.attempt}")
        if data.get("sender", "main") != "main":
            found.append(f"by {data['sender']}")
        if data.get("retry_of"):
            found.append(f"retry of {data['retry_of']}")
        if data.get("invalid"):
            found.append("an invalid request")
        return _braced("".join(f"  {part}" for part in found))

    def ended(self, event: Event) -> Line | None:
        data, who = event.data, str(event.attempt)
        outcome = str(data.get("outcome"))
        edge = "webhook" if event.attempt in self._notified else "client"
        if outcome == "answered":
            body = " ".join(_as_text(data.get("body", "")).split())
            shown = body if len(body) <= 60 else body[:57] + "…"
            text = f"{{who}} ← {data.get('status')}{'  ' + _braced(shown) if shown else ''}"
            return self.line(event, edge, text, who)
        shape, detail = phrases.ending(outcome, data, requested=event.attempt in self._requested)
        return self.line(event, edge, f"{shape}: {_braced(detail)}" if detail else shape, who)

    def told(self, event: Event) -> Line:
        return self.line(event, "target", f"says of {event.operation}: {str(event.data.get('told')).replace('_', ' ')}")

    # -- the provider ---------------------------------------------------------------------------------------

    def _of(self, event: Event) -> str:
        return f" of {event.operation}" if self._several and event.operation else ""

    def hand_over(self, event: Event) -> Line:
        to = ", ".join(short(str(r)) for r in event.data.get("recipients", ()))
        key = event.data.get("key")
        shown = f"  key={short_key(key)}" if key else ""
        again = event.data.get("resend")
        shown += f" (attempt {again + 1} of one call: its SDK sends again by itself)" if again else ""
        text = f"the target hands over a mail{self._of(event)} to {to}{shown}"
        return replace(self.line(event, "provider", text), routine=True)

    def delivery(self, event: Event) -> Line | None:
        commit = event.data.get("commit")
        seqs = self._delivered[commit]
        if event.seq != seqs[0]:
            return None
        to = ", ".join(map(short, self._recipients[commit]))
        how = "counted" if event.data.get("counted") else "committed"
        shape = f"mail {{who}}{_braced(self._of(event))} to {_braced(to)} {how}"
        return self.line(event, "provider", shape, str(self._mails[commit]), seqs=seqs)

    def provider_answer(self, event: Event) -> Line:
        data = event.data
        mail = f" (mail {self._mails[data['commit']]})" if data.get("commit") in self._mails else ""
        status = data.get("status")
        if data.get("sent", True):
            line = self.line(event, "provider", f"the target is answered {status}{mail}")
            return replace(line, routine=bool(mail))
        lost = f"✂ the provider's answer {'' if status is None else status}{mail} never reached the target"
        return self.line(event, "provider", " ".join(lost.split()))

    def discarded(self, event: Event) -> Line:
        return self.line(event, "provider", f"a dead caller's mail{self._of(event)} is discarded, not committed")

    def stray(self, event: Event) -> Line:
        to = event.data.get("recipient") or ", ".join(map(str, event.data.get("recipients", ())))
        return self.line(event, "provider", f"a mail that belongs to no operation, to {to or 'somebody'}")

    def webhook(self, event: Event) -> Line:
        plan = self._attempts.get(event.attempt)
        number = event.data.get("event_id") or (plan.data.get("key") if plan else None) or ""
        path = urlsplit(str(event.data.get("url", ""))).path or "the target"
        who = str(event.attempt or event.operation or "")
        seqs = (plan.seq,) if plan else ()
        return self.line(event, "webhook", f"{{who}} → {_braced(path)}  event={_braced(str(number))}", who, seqs=seqs)

    # -- faults and processes -------------------------------------------------------------------------------

    def fired(self, event: Event) -> Line | None:
        place, verb = str(event.data.get("place")), str(event.data.get("verb"))
        # A lost message is told by the ending of its attempt; how a caller of ours lost it is said there too.
        own = event.attempt is not None or not phrases.breaks_off(event.data)
        if verb == "lose" and place.startswith("client.") and own and self._is_lost(event):
            return None
        whose = event.attempt if place.startswith("client") else event.operation if self._several else None
        text = phrases.fault(event.data)
        if verb == "delay":  # of a burst every message is delayed: once is enough
            same = self._delays[str(event.data.get("fault")), event.operation]
            if event.seq != same[0]:
                return None
            text += f" (all {len(same)})" if len(same) > 1 else ""
        return self.line(event, place.partition(".")[0], f"{text} ({whose})" if whose else text)

    def _is_lost(self, event: Event) -> bool:
        if event.attempt is not None:
            return self._ends.get(event.attempt) in ("lost", "never-sent")
        return any(
            self._ends.get(name) == "lost" for name, plan in self._attempts.items() if plan.operation == event.operation
        )

    def asked_store(self, event: Event) -> Line | None:
        return self._store(event, "{store} ← {message}")

    def store_answered(self, event: Event) -> Line | None:
        # What it answers to is told already, by the line before.
        return self._store(event, "{store} → {message}", before=" for ")

    def _store(self, event: Event, shape: str, before: str | None = None) -> Line | None:
        message = str(event.data.get("message") or "")
        if not message:
            return None
        shown = message.partition(before)[0] if before is not None else message
        text = shape.format(store=event.data.get("store"), message=shown)
        return self.line(event, "store", text)

    def pause(self, event: Event) -> Line:
        return self.line(event, "target", f"⏸ {_process(event)} paused (SIGSTOP)")

    def resume(self, event: Event) -> Line:
        return self.line(event, "target", f"{_process(event)} resumed")

    def stop(self, event: Event) -> Line:
        return self.line(event, "target", f"{_process(event)} asked to end (SIGTERM)")

    def unfired(self, event: Event) -> Line:
        return self.line(event, "harness", f"the fault '{event.data.get('fault')}' never fired")

    def crash(self, event: Event) -> Line:
        return self.line(event, "target", f"☠ {_process(event)} killed (SIGKILL)")

    def restart(self, event: Event) -> Line:
        killed = " (it had not ended in its time, and was killed)" if event.data.get("willingly") is False else ""
        return self.line(event, "target", f"{_process(event)} restarted{killed}")

    def died(self, event: Event) -> Line:
        status = event.data.get("status", event.data.get("detail"))
        return self.line(
            event,
            "target",
            f"☠ {_process(event)} ended by itself{f' ({status})' if status is not None else ''}",
        )

    # -- the scenario itself --------------------------------------------------------------------------------

    def asked(self, event: Event) -> Line:
        again = f" ({event.attempt})" if event.attempt not in (None, event.operation) else ""
        known = f"  id={short_key(event.data['id'])}" if event.data.get("id") else ""
        return self.line(event, "target", f"is asked to perform {event.operation}{again}{known}")

    def call(self, event: Event) -> Line:
        status = event.data.get("status")
        name = event.data.get("name") or event.data.get("call") or ""
        return self.line(event, "client", f"call {name}{f' ← {status}' if status is not None else ''}")

    def advanced(self, event: Event) -> Line:
        return self.line(event, "target", f"its clock is moved by {_span(float(event.data.get('seconds', 0)))}")

    def reported(self, event: Event) -> Line:
        return self.line(event, "provider", f"tells the target: {event.data.get('type')} ← {event.data.get('status')}")

    def overlap(self, event: Event) -> Line | None:
        names = _listed([str(name) for name in event.data.get("attempts", ())])
        spread = event.data.get("spread_us")
        if event.data.get("overlapped") and spread is None:
            return None  # the times say it
        within = f" (sent within {spread / 1000:.1f} ms)" if isinstance(spread, int | float) else ""
        verb = "were in flight together" if event.data.get("overlapped") else "did not overlap"
        return self.line(event, "harness", f"{names} {verb}{within}")

    def finished(self, event: Event) -> Line | None:
        if event.data.get("definite"):
            return None
        waited = float(event.data.get("waited", 0))
        after = f" after {waited:.1f} s of retries" if waited >= 0.05 else ""
        return self.line(event, "harness", f"no definite answer{after}")

    def settled(self, event: Event) -> Line | None:
        waited, arrived = float(event.data.get("waited", 0)), event.data.get("arrived")
        if arrived is False or arrived == 0:
            after = f"waited {waited:.1f} s: " if waited >= 0.05 else ""
            return self.line(event, "harness", f"{after}what was promised did not arrive")
        return self.line(event, "harness", f"waited {waited:.1f} s for what was promised") if waited >= 1 else None

    def void(self, event: Event) -> Line:
        return self.line(event, "harness", str(event.data.get("reason", "")))


def _span(seconds: float) -> str:
    """Return a stretch of time in the unit that fits it."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds:g} s"


_TELLERS = {
    Kind.ATTEMPT: _Story.attempt,
    Kind.CLIENT_REQUEST: _Story.request,
    Kind.ENDED: _Story.ended,
    Kind.ASKED: _Story.asked,
    Kind.TOLD: _Story.told,
    Kind.PROVIDER_REQUEST: _Story.hand_over,
    Kind.PROVIDER_RESPONSE: _Story.provider_answer,
    Kind.DELIVERY: _Story.delivery,
    Kind.DISCARDED: _Story.discarded,
    Kind.STRAY: _Story.stray,
    Kind.WEBHOOK_REQUEST: _Story.webhook,
    Kind.STORE_REQUEST: _Story.asked_store,
    Kind.STORE_RESPONSE: _Story.store_answered,
    Kind.PAUSE: _Story.pause,
    Kind.RESUME: _Story.resume,
    Kind.STOP: _Story.stop,
    Kind.FIRED: _Story.fired,
    Kind.UNFIRED: _Story.unfired,
    Kind.CRASH: _Story.crash,
    Kind.RESTART: _Story.restart,
    Kind.DIED: _Story.died,
    Kind.CALL: _Story.call,
    Kind.ADVANCED: _Story.advanced,
    Kind.REPORTED: _Story.reported,
    Kind.OVERLAP: _Story.overlap,
    Kind.FINISHED: _Story.finished,
    Kind.SETTLED: _Story.settled,
    Kind.VOID: _Story.void,
}


def _drawn_together(lines: Sequence[Line]) -> list[Line]:
    """Three or more like lines in a row become one: ``burst.1 … burst.20 (20) ← 200``."""
    found: list[Line] = []
    start = 0
    while start < len(lines):
        first, end = lines[start], start + 1
        while end < len(lines) and first.who and (lines[end].edge, lines[end].shape) == (first.edge, first.shape):
            end += 1
        run = lines[start:end]
        if len(run) >= 3:
            who = tuple(name for line in run for name in line.who)
            first = replace(
                first,
                seqs=tuple(seq for line in run for seq in line.seqs),
                text=first.shape.format(who=_listed(who)),
                who=who,
                cited=any(line.cited for line in run),
            )
            found.append(first)
        else:
            found += run
        start = end
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 3 else f"{names[0]} … {names[-1]} ({len(names)})"


def _process(event: Event) -> str:
    name = event.data.get("process") or "target"
    return "the target" if name == "target" else f"process {name}"


def _as_text(body: Any) -> str:
    if isinstance(body, bytes):
        return body.decode("utf-8", "replace")
    return str(body or "")


def _braced(text: str) -> str:
    """Keep braces of the target's own (JSON bodies) from being taken for a place to fill."""
    return text.replace("{", "{{").replace("}", "}}")
