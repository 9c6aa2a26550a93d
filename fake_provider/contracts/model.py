"""What a send API promises about keys, as data that the judge, the emulator and the docs all read.

A contract is a set of **claims** (:mod:`claims`), in **groups** (:mod:`groups`), with the looks of its requests and
answers (:mod:`wire`). Where the dimensions of real contracts have their place:

======================================  ============================================================================
dimension                               field
======================================  ============================================================================
D1 duplicate model                      ``duplicates``
D2 carrier, D3 presence, D4 syntax      ``key.at`` ``key.also_at`` ``key.first_sent``; ``key.presence``
                                        ``key.foreign`` ``routes.*.key``; the rest of ``key``
D5 scope                                ``scope`` ``routes.*.scope``
D6 fingerprint, D22 generated content   ``fingerprint.*``
D7 order of checks                      ``order``
D8 fidelity, D9 marker                  ``replay.*``
D10 mismatch                            ``mismatch`` ``answers.conflict``
D11 concurrent                          ``concurrent`` ``waits`` ``answers.in_progress``
D12 lease in flight                     ``lease.*``
D13 outcome storage                     ``outcomes.*``
D14 retention                           ``retention.*``
D15 store failures                      ``store_failure`` ``answers.failed``
D16 hints                               ``hints.*``
D17 batch                               ``batch.*`` and its route
D18 propagation                         ``propagation``
D19 lookup, reconciliation              ``lookup`` ``reconciliation.*``, routes that read, resolve or reconcile
D20 effects                             ``effects``
D21 scheduled sends                     ``scheduled.*`` ``retention.from: scheduled-time``
approval and drafts                     ``approval.*``, routes that draft, launch or reject
events out                              ``events.*``
======================================  ============================================================================
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from sendtwice.fake_provider.contracts.claims import Basis, Claim, Level, Seconds, Strict, unsaid
from sendtwice.fake_provider.contracts.groups import (
    CHARSETS,
    Approval,
    Batch,
    Events,
    Fingerprint,
    Hints,
    Key,
    Lease,
    Lookup,
    Outcomes,
    Reconciliation,
    Replay,
    Resends,
    Retention,
    Scheduled,
    ScopePart,
    Storage,
)
from sendtwice.fake_provider.contracts.wire import (
    HEADER_NAME,
    AnswerClass,
    Answers,
    AnswerShape,
    Code,
    MailPlaces,
    Marker,
    Route,
    Status,
    header_lines,
    key_place,
    several,
)

__all__ = [
    "CHARSETS",
    "HEADER_NAME",
    "AnswerClass",
    "AnswerShape",
    "Basis",
    "Check",
    "Claim",
    "Code",
    "Contract",
    "Key",
    "Level",
    "MailPlaces",
    "Marker",
    "Route",
    "Status",
    "Storage",
    "key_place",
]

#: What a server looks at before it sends, and may do in any order (D7).
Check = Literal["auth", "rate_limit", "key", "validation", "in_progress", "mismatch", "replay"]

#: The name of the route that is the contract's ``request``.
SEND = "send"


class Contract(Strict):
    """A send API's promises. Read one with :func:`sendtwice.fake_provider.contracts.load`."""

    name: str
    title: str
    extends: str | None = None
    source: str | None = None
    as_of: str | None = None
    summary: str = ""
    request: Route
    routes: dict[str, Route] = {}
    mail: MailPlaces = MailPlaces()
    dry_run: str | None = None  # "query:NAME" or "body:/POINTER": such a request stores, reserves and sends nothing
    dry_run_status: Status | None = None  # with what it is answered, where that is not what a send is answered with
    delivery: Claim[Literal["inline", "queued"]] = unsaid()
    effects: Claim[Literal["per-message", "per-recipient"]] = unsaid()
    key: Key = Key()
    scope: Claim[list[ScopePart]] = unsaid()
    fingerprint: Fingerprint = Fingerprint()
    duplicates: Claim[Literal["replay", "replay_current", "refuse", "redirect", "accept", "execute", "resume"]] = (
        unsaid()
    )
    mismatch: Claim[Literal["refuse", "replay", "execute"]] = unsaid()
    concurrent: Claim[Literal["refuse", "wait", "execute"]] = unsaid()
    waits: Claim[Seconds] = unsaid()  # how long a repeat waits for the first, at most
    order: Claim[list[Check]] = unsaid()
    replay: Replay = Replay()
    outcomes: Outcomes = Outcomes()
    second_after_unknown: Claim[Literal["forbidden", "permitted"]] = unsaid()
    lease: Lease = Lease()
    reconciliation: Reconciliation = Reconciliation()
    retention: Retention = Retention()
    store_failure: Claim[Literal["closed", "open"]] = unsaid()
    hints: Hints = Hints()
    batch: Batch | None = None
    approval: Approval | None = None
    scheduled: Scheduled | None = None
    lookup: Lookup | None = None
    events: Events | None = None
    propagation: Claim[Literal["forwarded", "not-forwarded"]] = unsaid()
    resends: Resends | None = None
    variables: list[str] = []  # the environment variables by which the vendor's SDKs are pointed elsewhere
    answers: Answers
    levels: dict[str, Level] = {}
    capabilities: list[str] = []

    _shapes = field_validator("answers", mode="before")(several)

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if AnswerClass.ACCEPTED not in self.answers:
            raise ValueError("answers has no 'accepted'; say how a first successful send is answered")
        if SEND in self.routes:
            raise ValueError(f"routes has a route {SEND!r}, which is the name of request; give it another name")
        if self.batch is not None and self.batch.route not in self.routes:
            raise ValueError(f"batch.route is {self.batch.route!r}, and routes has none of that name; add it")
        for name in (self.replay.key_echo.value, self.hints.should_retry.value):
            header_lines({name: ""} if name else {})
        shortest, longest = self.key.min.value, self.key.max.value
        if shortest is not None and longest is not None and shortest > longest:
            raise ValueError(f"key.min is {shortest} and key.max {longest}; no key would fit")
        checks = self.order.value or []
        if len(set(checks)) < len(checks):
            raise ValueError(f"order names a check twice ({', '.join(checks)}); name each once")
        low, high = self.retention.at_least.value, self.retention.at_most.value
        if low is not None and high is not None and low > high:
            raise ValueError(f"retention.at_least is {low:g} and at_most {high:g}; a floor lies below its ceiling")
        return self

    def shapes(self, kind: AnswerClass, route: str = SEND) -> list[AnswerShape]:
        """Return the declared looks of one class of answer on a route; empty when the contract names none."""
        own = self.routes[route].answers if route in self.routes else {}
        return own.get(kind) or self.answers.get(kind, [])

    def route(self, name: str) -> Route:
        """Return a route by its name; :data:`SEND` is the contract's request."""
        return self.request if name == SEND else self.routes[name]

    def takes_key(self, name: str) -> Literal["optional", "required", "ignored", "unknown"]:
        """Return whether a route takes a key; ``ignored`` where none guards anything."""
        own = self.route(name).key
        if own is not None:
            return own
        if self.route(name).does not in ("send", "draft"):
            return "ignored"
        presence = self.key.presence
        if not presence.judged:
            return "unknown"
        match presence.value:
            case "none":
                return "ignored"
            case "required":
                return "required"
        return "optional"

    def key_at(self, name: str) -> str:
        """Return where a route has its key."""
        return self.route(name).key_at or self.key.at

    def equivalence(self, form: str) -> Claim[Any]:
        """Return the claim that says whether other bytes of this form (``field-order``, ...) are the same request."""
        group = self.batch if form == "item-order" else self.fingerprint
        claim: Claim[Any] | None = getattr(group, form.replace("-", "_"), None)
        return claim if claim is not None else Claim(basis=Basis.UNKNOWN)

    def can_do(self) -> set[str]:
        """Return what targets of this contract can do beyond plain sends."""
        own = {"batch": self.batch, "approval": self.approval}
        in_body = {"key-in-body"} if self.key.at.startswith("body:") else set()
        return {*self.capabilities, *(name for name, group in own.items() if group is not None), *in_body}


def as_claims(contract: Contract) -> dict[str, Claim[Any]]:
    """Return every claim of a contract by its dotted name, in the order of the file."""
    found: dict[str, Claim[Any]] = {}

    def walk(model: Strict, prefix: str) -> None:
        for field, info in type(model).model_fields.items():
            item, name = getattr(model, field), f"{prefix}{info.alias or field}"
            if isinstance(item, Claim):
                found[name] = item
            elif isinstance(item, Strict) and field not in ("request", "mail"):
                walk(item, f"{name}.")

    walk(contract, "")
    return found
