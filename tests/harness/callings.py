"""Histories of callers (role client), told in a few words: what a harness that plays the send API would have recorded.

The attempts of an operation are numbered as they arrive, and are a tenth of a second apart unless it is said otherwise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Self

from sendtwice.fake_provider.contracts import AnswerClass, Level
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import Judgement, judge
from sendtwice.harness.judge.finding import Finding
from tests.harness.histories import History, contract_named, rendered

#: When the first event was, in seconds of the epoch.
MORNING = 1_790_000_000.0
BODY = {"from": "shop@house.example", "to": ["first@sendtwice.test"], "subject": "Receipt", "text": "Thank you."}


@dataclass(slots=True)
class Calling(History):
    """Writes the history of a caller event by event."""

    max_attempts: int | None = None
    attempt_timeout: float | None = None

    _numbers: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, contract: str = "rasket", *, ask: bool = True, approval: bool = False) -> Self:
        """Begin a history; ``ask``: the target is asked for the operation ``first`` at once."""
        history = cls(contract_named(contract), "client", approval)
        if ask:
            history.ask()
        return history

    def ask(self, name: str = "first", op: str = "first", *, known_as: str | None = None) -> None:
        """The target is asked to perform an operation."""
        self.operation(op)
        self.note(Kind.ASKED, op=op, attempt=name, id=known_as or f"id-{op}")

    def tries(
        self,
        op: str = "first",
        *,
        key: str | None = "k1",
        body: str | dict[str, Any] = BODY,
        after: float = 0.1,
        connection: int | None = None,
        **more: Any,
    ) -> str:
        """An attempt arrives; its name is returned. ``more``: path, method, query, host, credential, content_type."""
        self.wait(after)
        number = self._numbers[op] = self._numbers.get(op, 0) + 1
        name = f"{op}#{number}"
        shown = {
            "method": "POST",
            "path": self.contract.request.path,
            "query": None,
            "content_type": "application/json",
            "host": "127.0.0.1:9",
            "credential": "c1",
            **more,
        }
        content = body if isinstance(body, str) else json.dumps(body)
        self.note(Kind.ATTEMPT, op=op, attempt=name, key=key, content=content, **shown)
        self.note(Kind.CLIENT_REQUEST, op=op, attempt=name, connection=connection or 100 + number, key=key)
        return name

    def answers(
        self,
        attempt: str,
        kind: AnswerClass | str | int = "accepted",
        *,
        headers: dict[str, str] | None = None,
        body: Any = None,
        garbled: bool = False,
        commit: int | None = None,
        replaced: bool = False,
        played: bool | None = None,
    ) -> None:
        """Its caller gets a whole answer: of a class, in the contract's look, or a bare status.

        ``replaced``: it is another than the API's own, which had made ``commit``. ``played``: a fault is the reason; by
        default it is that of a conflict which nothing else explains.
        """
        op = attempt.partition("#")[0]
        first = sum(e.kind is Kind.ATTEMPT for e in self.events) == 1
        if (kind == "conflict" and first) if played is None else played:
            self.fired("client.request", "answer", "conflict", op=op)
        shown: dict[str, str] = {}
        content: dict[str, Any] = {}
        if isinstance(kind, int):
            status = kind
        else:
            status, shown, content = rendered(self.contract, AnswerClass(kind), "m1")
        self.note(Kind.CLIENT_RESPONSE, op=op, attempt=attempt, status=status, sent=not replaced, commit=commit)
        at = self.events[-1].at
        self.note(
            Kind.ENDED,
            op=op,
            attempt=attempt,
            outcome="answered",
            status=status,
            headers={**shown, **(headers or {})},
            body=json.dumps(content) if body is None else body,
            garbled=garbled,
            time=MORNING + at,
        )

    def loses(self, attempt: str, status: int = 200) -> None:
        """What the API answers does not reach its caller."""
        op = attempt.partition("#")[0]
        self.note(Kind.CLIENT_RESPONSE, op=op, attempt=attempt, status=status, sent=False, commit=None)
        self.note(Kind.ENDED, op=op, attempt=attempt, outcome="lost", status=status, headers={}, body="{}")

    def delivers(self, op: str = "first") -> int:
        """The API takes the mail; the number of the commit is returned."""
        self._commits += 1
        for recipient in self._recipients[op]:
            self.note(Kind.DELIVERY, op=self._groups[op], recipient=recipient, commit=self._commits)
        return self._commits

    def says(self, told: str, name: str = "first", op: str = "first") -> None:
        """The target says what became of an operation."""
        self.note(Kind.TOLD, op=op, attempt=name, told=told, status=0)

    @property
    def judgement(self) -> Judgement:
        """All that the judge has to say."""
        return judge(
            self.contract,
            self.events,
            role=self.role,
            approval=self.approval,
            max_attempts=self.max_attempts,
            attempt_timeout=self.attempt_timeout,
        )

    @property
    def found(self) -> dict[str, str]:
        """The rules that are broken, each with its level."""
        return {finding.rule: finding.level.value for finding in self.judgement.findings}

    def finding(self, rule: str) -> Finding:
        """The finding of a rule."""
        return next(finding for finding in self.judgement.findings if finding.rule == rule)

    @property
    def broken(self) -> set[str]:
        """The rules that are broken at ``must`` or ``should``."""
        return {f.rule for f in self.judgement.findings if f.level in (Level.MUST, Level.SHOULD)}


def lost_then(**again: Any) -> Calling:
    """A first attempt whose answer is lost, with its mail delivered, and a second one that is answered as a replay."""
    return first_then("lost", delivered=True, **again)


def first_then(how: str | int, *, delivered: bool = False, contract: str = "rasket", **again: Any) -> Calling:
    """A first attempt that ends in a way, and a second one, of which ``again`` says how it differs."""
    h = Calling.of(contract)
    first = h.tries()
    if delivered:
        h.delivers()
    if how == "lost":
        h.loses(first)
    elif how != "held":
        h.answers(first, how)
    second = h.tries(**{"after": 2.0, **again})
    if not delivered:
        h.delivers()
    h.answers(second, "replayed" if delivered else "accepted")
    if how == "held":
        h.answers(first, "replayed")
    h.says("sent")
    return h
