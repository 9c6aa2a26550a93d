"""The groups of claims: one for each matter that a contract may speak of."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from sendtwice.fake_provider.contracts.claims import Basis, Claim, Length, Pointer, Seconds, Strict, unsaid
from sendtwice.fake_provider.contracts.wire import AnswerClass, Marker, key_place

#: What each declared charset takes. ``token`` is RFC 9110's (5.6.2), ``uuid`` RFC 9562's text form.
CHARSETS: dict[str, re.Pattern[str]] = {
    "printable-ascii": re.compile(r"[ -~]*"),
    "visible-ascii": re.compile(r"[!-~]*"),
    "token": re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]*"),
    "word": re.compile(r"[A-Za-z0-9_-]*"),
    "dotted-word": re.compile(r"[A-Za-z0-9._-]*"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
}


class FirstSent(Strict):
    """The time of the first attempt, asserted by the caller beside the key (Repeatable Requests).

    Outside of ``window`` seconds from it a request is refused as expired, and nothing is executed.
    """

    at: str
    window: Claim[Seconds] = unsaid()

    _known_carrier = field_validator("at")(key_place)


class Key(Strict):
    """The key: its carriers (D2), presence (D3) and syntax (D4). ``also_at`` are further places, in order.

    ``foreign`` is what becomes of a key that is sent to a route that takes none.
    """

    at: str = "header:Idempotency-Key"
    also_at: list[str] = []
    first_sent: FirstSent | None = None
    presence: Claim[Literal["optional", "required", "generated", "none"]] = unsaid()
    foreign: Claim[Literal["ignored", "refused"]] = unsaid()
    min: Claim[Length] = unsaid()
    max: Claim[Length] = unsaid()
    unit: Claim[Literal["characters", "bytes"]] = unsaid()
    charset: Claim[Literal["any", "printable-ascii", "visible-ascii", "token", "word", "dotted-word", "uuid"]] = (
        unsaid()
    )
    form: Claim[Literal["bare", "quoted", "either"]] = unsaid()
    case: Claim[Literal["sensitive", "folded"]] = unsaid()
    blanks: Claim[Literal["kept", "trimmed"]] = unsaid()
    empty: Claim[Literal["invalid", "absent"]] = unsaid()
    repeated: Claim[Literal["invalid", "first", "joined"]] = unsaid()
    invalid: Claim[Literal["refuse", "ignore"]] = unsaid()

    _known_carrier = field_validator("at")(key_place)

    @field_validator("also_at")
    @classmethod
    def _known_carriers(cls, given: list[str]) -> list[str]:
        return [key_place(at) for at in given]


#: The parts of a scope (D5). The harness can vary each of the first eight.
ScopePart = Literal[
    "tenant", "credential", "user", "mailbox", "domain", "environment", "region", "path", "method", "query", "version"
]
Same = Claim[Literal["same", "different"]]


class Fingerprint(Strict):
    """What makes two requests under one key the same request (D6), and which other bytes are no other request.

    ``fields`` narrows ``body`` to these pointers; ``excluded`` are fields that do not count. ``of``: whether what was
    asked for is compared, or what came of it when rendered (D22).
    """

    parts: Claim[list[Literal["body", "raw", "path", "method", "query", "version", "content-type"]]] = unsaid()
    fields: Claim[list[Pointer]] = unsaid()
    excluded: Claim[list[Pointer]] = unsaid()
    of: Claim[Literal["requested", "rendered"]] = unsaid()
    field_order: Same = unsaid()
    whitespace: Same = unsaid()
    number_form: Same = unsaid()
    escapes: Same = unsaid()
    empty_fields: Same = unsaid()
    recipient_form: Same = unsaid()
    recipient_order: Same = unsaid()


class Replay(Strict):
    """How a replay resembles the first answer (D8) and is marked (D9). ``key_echo``: a header that names the key."""

    marker: Claim[list[Marker]] = unsaid()
    id: Claim[Literal["same", "new"]] = unsaid()
    status: Claim[Literal["same", "declared"]] = unsaid()
    body: Claim[Literal["identical", "current"]] = unsaid()
    headers: Claim[Literal["stored", "fresh"]] = unsaid()
    key_echo: Claim[str] = unsaid()


#: ``stored``: replayed; ``released``: the key is free; ``kept``: in progress until something else ends it;
#: ``poisoned``: the key is refused from then on.
Storage = Literal["stored", "released", "kept", "poisoned"]


class Outcomes(Strict):
    """What becomes of the key after each kind of first outcome (D13)."""

    invalid: Claim[Storage] = unsaid()
    unauthorized: Claim[Storage] = unsaid()
    rate_limited: Claim[Storage] = unsaid()
    provider_refused: Claim[Storage] = unsaid()
    provider_busy: Claim[Storage] = unsaid()
    server_error: Claim[Storage] = unsaid()
    unknown: Claim[Storage] = unsaid()
    disconnect: Claim[Storage] = unsaid()
    crash: Claim[Storage] = unsaid()


class Lease(Strict):
    """The record in flight (D12): after how many seconds its claim lapses, and what a repeat is then.

    ``late_original``: whether the slow first one still takes effect. A bare number is ``lasts``.
    """

    lasts: Claim[Seconds] = unsaid()
    then: Claim[Literal["execute", "refuse", "resume", "unknown"]] = unsaid()
    late_original: Claim[Literal["commits", "fenced"]] = unsaid()

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, given: Any) -> Any:
        if isinstance(given, Lease):
            return given
        if not isinstance(given, dict) or given.keys() & {"value", "basis", "play"}:
            return {"lasts": given}
        return given


class Retention(Strict):
    """How long a key is remembered, in seconds: a floor, a ceiling, and from when it counts (D14).

    ``sweep``: how often what is old is taken out. ``then``: what a request under a forgotten key is. ``chosen_at``:
    where a caller may say the time itself, up to ``chosen_max``.
    """

    at_least: Claim[Seconds] = unsaid()
    at_most: Claim[Seconds] = unsaid()
    sweep: Claim[Seconds] = unsaid()
    start: Claim[
        Literal["first-receipt", "first-success", "completion", "last-use", "scheduled-time", "first-sent"]
    ] = Field(default_factory=lambda: Claim(basis=Basis.UNKNOWN), alias="from")
    then: Claim[Literal["execute", "refuse"]] = unsaid()
    chosen_at: str | None = None
    chosen_max: Claim[Seconds] = unsaid()


class Batch(Strict):
    """Several mails in one request (D17). ``route`` is the name of its route."""

    route: str = "batch"
    max: Claim[Length] = unsaid()
    key: Claim[Literal["whole", "item"]] = unsaid()
    partial: Claim[Literal["refuse-all", "accept-rest"]] = unsaid()
    item_order: Same = unsaid()
    key_space: Claim[Literal["shared", "separate"]] = unsaid()


class Approval(Strict):
    """A send that waits for a person.

    ``own_key``: whether the sender's own credential can approve; ``creation``: whether making a draft deduplicates.
    """

    own_key: Claim[Literal["refused", "allowed"]] = unsaid()
    creation: Claim[Literal["deduplicated", "not-deduplicated"]] = unsaid()


class Reconciliation(Strict):
    """How an unknown outcome becomes known. ``within`` seconds a provider's event is matched ``by`` these.

    ``marker`` is what a reconciled message shows, ``event`` the name of the event that tells of it. A bare number is
    ``within``.
    """

    within: Claim[Seconds] = unsaid()
    by: Claim[list[Literal["sender", "recipient", "subject", "message-id"]]] = unsaid()
    marker: Claim[Marker] = unsaid()
    event: Claim[str] = unsaid()

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, given: Any) -> Any:
        if isinstance(given, Reconciliation):
            return given
        if not isinstance(given, dict) or given.keys() & {"value", "basis", "play"}:
            return {"within": given}
        return given


class Lookup(Strict):
    """What can be asked afterwards (D19): where a message's state stands in the answer of the route that reads.

    ``words``: the vendor's words for ``queued sent refused unknown pending rejected``, where they differ.
    """

    state: Pointer = "/status"
    words: dict[str, str] = {}
    by: Claim[list[Literal["id", "key", "list", "event"]]] = unsaid()


class Scheduled(Strict):
    """Sends for later (D21): where the time stands in a request, and how long after it the key is kept."""

    at: Pointer | None = None
    keeps: Claim[Seconds] = unsaid()


class Events(Strict):
    """The API's own events, by webhook: delivered at least once, with a stable id."""

    id: Pointer = "/event_id"
    ids: Claim[Literal["stable", "fresh"]] = unsaid()
    delivery: Claim[Literal["at-least-once", "at-most-once"]] = unsaid()
    redrive: Claim[Literal["same-id", "new-id"]] = unsaid()


class Hints(Strict):
    """What an answer says about trying again (D16): the classes that carry it.

    ``documentation``: a ``Link`` or a problem+json body (RFC 9457). ``should_retry``: a header that says true or false.
    """

    retry_after: Claim[list[AnswerClass]] = unsaid()
    documentation: Claim[list[AnswerClass]] = unsaid()
    should_retry: Claim[str] = unsaid()


class Resends(Strict):
    """How attempts that a vendor's own SDK makes by itself are known on the wire.

    ``call``: a header that is the same for all attempts of one call; ``count``: one that counts them, the first number
    in it, from ``first`` on. ``note``: which SDKs resend, and after what.
    """

    call: str | None = None
    count: str | None = None
    first: int = Field(default=0, ge=0)
    note: str | None = None
