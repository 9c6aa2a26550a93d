"""The attempts of a history: what each asked for, and what it was told.

Order is used only between intervals: an attempt is *before* another when it was answered before the other began. An
attempt that got no answer may still be running, so it is never before anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.contracts.model import SEND
from sendtwice.fake_provider.faults import Verb
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.judge.classes import SUCCESS, Looks

#: The sender whose mails wait for a person's approval.
NEEDS_APPROVAL = "needs-approval"


@dataclass(slots=True, eq=False)
class Attempt:
    """One request made for an operation. ``began`` and ``over`` are seconds on the target's clock."""

    name: str
    operation: str
    key: str | None  # None also where the route takes no key
    key_problem: str | None
    content: str
    sender: str
    scope: dict[str, str]
    path: str
    invalid: bool
    start: int
    began: float
    route: str = SEND
    form: str | None = None
    query: str | None = None
    content_type: str | None = None
    signature: str | None = None  # role consumer: what is wrong with the event's signature
    tells: str | None = None  # role consumer: it tells what became of a mail
    method: str | None = None  # this and the next two: only of a caller's own attempts (role client)
    host: str | None = None
    credential: str | None = None  # a digest of what it was known by
    partly_invalid: bool = False
    too_many: bool = False
    batch: bool = False
    dry_run: bool = False
    end: int | None = None
    over: float | None = None
    outcome: str = "running"
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    classes: set[AnswerClass] = field(default_factory=set)
    id: str | None = None
    garbled: bool = False  # answered in whole, with a body that is no answer of the API
    never_arrived: bool = False
    sent_at: int | None = None
    doubled: bool = False  # the wire delivered it twice
    folded: str = field(init=False)

    def __post_init__(self) -> None:
        """Note what is asked for again and again."""
        self.folded = (self.key or "").casefold()

    @property
    def tenant(self) -> str:
        """The account that asks."""
        return self.scope.get("tenant", "main")

    @property
    def answered(self) -> bool:
        """Whether its caller got the whole answer."""
        return self.outcome == "answered"

    @property
    def succeeded(self) -> bool:
        """Whether its answer can only be a claim of success."""
        return self.answered and bool(self.classes) and self.classes <= SUCCESS

    @property
    def vouched(self) -> bool:
        """Whether an event may cause its message's mail: it can be believed, and tells of no mail that is out."""
        return self.signature is None and self.tells is None

    def before(self, other: Attempt) -> bool:
        """Whether this was answered before the other began."""
        return self.answered and self.end is not None and self.end < other.start

    def overlaps(self, other: Attempt) -> bool:
        """Whether neither was answered before the other began."""
        return not self.before(other) and not other.before(self)

    @property
    def events(self) -> tuple[int, ...]:
        """The events that show this attempt."""
        return tuple(seq for seq in (self.sent_at or self.start, self.end) if seq is not None)


def read_attempts(contract: Contract, events: Sequence[Event], *, approval: bool) -> dict[str, Attempt]:
    """Return every attempt by its name, in the order of its start."""
    found: dict[str, Attempt] = {}
    looks = Looks(contract, approval=approval)
    offset = 0.0
    for event in events:
        name = event.attempt
        if event.kind is Kind.ADVANCED:
            offset += float(event.data["seconds"])
        elif name is None:
            continue
        elif event.kind is Kind.ATTEMPT and event.operation is not None:
            found[name] = _begun(contract, event, event.operation, name, event.at + offset)
        elif name not in found:
            continue
        elif event.kind in (Kind.CLIENT_REQUEST, Kind.WEBHOOK_REQUEST):
            found[name].sent_at = event.seq
        elif event.kind is Kind.FIRED and event.data["verb"] == Verb.TWICE:
            found[name].doubled = True
        elif event.kind is Kind.ENDED:
            _end(looks, found[name], event, event.at + offset)
    return found


def _begun(contract: Contract, event: Event, operation: str, name: str, began: float) -> Attempt:
    data = event.data
    route = str(data.get("route") or _route_at(contract, data.get("path")))
    dry_run = bool(data.get("dry_run"))
    unguarded = dry_run or (route in contract.routes and contract.takes_key(route) == "ignored")
    asserted = {"stale": "stale", "malformed": "malformed", "absent": "undeclared"}.get(str(data.get("first_sent")))
    return Attempt(
        name=name,
        operation=operation,
        key=None if unguarded else data.get("key"),
        key_problem=None if unguarded else data.get("key_problem") or asserted,
        content=str(data.get("content", "")),
        sender=str(data.get("sender", "main")),
        scope=_scope(data),
        path=str(data.get("path", "")),
        invalid=bool(data.get("invalid")),
        start=event.seq,
        began=began,
        route=route,
        form=data.get("form") or ("field-order" if data.get("reordered") else None),
        query=data.get("query"),
        content_type=data.get("content_type"),
        signature=data.get("signature"),
        tells=data.get("tells"),
        method=data.get("method"),
        host=data.get("host"),
        credential=data.get("credential"),
        partly_invalid=bool(data.get("partly_invalid")),
        too_many=bool(data.get("too_many")),
        batch=bool(data.get("batch")),
        dry_run=dry_run,
    )


def _route_at(contract: Contract, path: Any) -> str:
    """Return the route of a history that names only a path."""
    return next((name for name, route in contract.routes.items() if route.path == path), SEND)


def _scope(data: dict[str, Any]) -> dict[str, str]:
    given = data.get("scope")
    if isinstance(given, dict):
        return {str(part): str(value) for part, value in given.items()}
    return {"tenant": str(data.get("tenant", "main")), "mailbox": str(data.get("sender", "main"))}


def _end(looks: Looks, attempt: Attempt, event: Event, over: float) -> None:
    attempt.end, attempt.over, attempt.outcome = event.seq, over, str(event.data["outcome"])
    attempt.never_arrived = bool(event.data.get("never_arrived"))
    attempt.garbled = bool(event.data.get("garbled"))
    if attempt.answered:
        attempt.status = int(event.data["status"])
        attempt.headers = dict(event.data.get("headers", {}))
        attempt.body = event.data.get("body", "")
        if attempt.garbled:
            return  # its status is all that it says
        attempt.classes, attempt.id = looks.read(attempt.status, attempt.body, attempt.headers, route=attempt.route)
        by_sender = looks.contract.approval is not None and attempt.sender != NEEDS_APPROVAL
        if by_sender and AnswerClass.ACCEPTED in attempt.classes:
            attempt.classes.discard(AnswerClass.PENDING)  # nothing of its mail waits for a person
        if attempt.dry_run and attempt.status == looks.contract.dry_run_status:
            attempt.classes = {AnswerClass.ACCEPTED}
