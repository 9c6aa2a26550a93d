"""What a caller meets who moves from one contract to another: claim by claim, how bad it is and in which words. Data.

A rule's sentences stand by the **new** value, or by the pair of old and new where that matters; numbers and lists have
a function. ``{was}`` and ``{now}`` are the values in words, ``{duplicate}``, ``{conflict}`` and ``{in_progress}`` the
new contract's answers; where a sentence does not say ``{was}``, it is added at its end.
"""

from __future__ import annotations

from sendtwice.harness.explain.claim_words import pointers
from sendtwice.harness.explain.diff_rules import (
    COMPARED,
    NOT_COMPARED,
    Harm,
    Rule,
    Told,
    charset,
    fields,
    kept_at_least,
    kept_at_most,
    key_bound,
    less_is,
    marks,
    newly,
    outcome,
    parts,
    same,
    scope,
    start,
)

TWICE, LOST, REFUSED, MISREAD, ADAPT, NONE = Harm

RULES: dict[str, Rule] = {
    "delivery": Rule(
        MISREAD,
        {
            "queued": (MISREAD, "A success only says that the mail is queued: whether it went out is told later"),
            "inline": (NONE, "A success says that the mail was handed over"),
        },
    ),
    "effects": Rule(
        ADAPT,
        {
            "per-message": (ADAPT, "Recipients of one send share one mail"),
            "per-recipient": (ADAPT, "Each recipient gets a mail of his own, which may fail by itself"),
        },
    ),
    "key.first_sent.window": Rule(
        REFUSED,
        less_is(
            REFUSED,
            "A repeat later than {now} after the first attempt is refused and not executed",
            "A repeat may come later after the first attempt: {now}",
        ),
    ),
    "key.presence": Rule(
        TWICE,
        {
            "required": (REFUSED, "A send without a key is refused"),
            ("none", "optional"): (ADAPT, "A send may have a key, and has to have one to be repeated"),
            "optional": (TWICE, "A send whose key was left out is not refused: every repeat of it is a second mail"),
            "generated": (ADAPT, "A send without a key gets one from the server, to be repeated with"),
            "none": (TWICE, "There is no key: every repeat is a second mail"),
        },
    ),
    "key.foreign": Rule(
        TWICE,
        {
            "ignored": (TWICE, "A key on a route that takes none is ignored: a repeat there is done again"),
            "refused": (REFUSED, "A key on a route that takes none is refused"),
        },
    ),
    "key.min": Rule(REFUSED, lambda s: key_bound(s, longest=False)),
    "key.max": Rule(REFUSED, lambda s: key_bound(s, longest=True)),
    "key.unit": Rule(
        REFUSED,
        {
            "bytes": (REFUSED, "The length of a key counts bytes: one beyond ASCII is full sooner"),
            "characters": (NONE, "The length of a key counts characters"),
        },
    ),
    "key.charset": Rule(REFUSED, charset),
    "key.form": Rule(
        REFUSED,
        {
            "quoted": (REFUSED, "A key is written as a quoted string"),
            "bare": (ADAPT, "A key is written bare: quotes would be part of it"),
            "either": (ADAPT, "A key may be bare or quoted, which is the same key"),
        },
    ),
    "key.case": Rule(
        TWICE,
        {
            "folded": (LOST, "Keys that differ only in case are one key: the second mail is not sent"),
            "sensitive": (
                TWICE,
                "Keys that differ only in case are two keys: a repeat in another case is a second mail",
            ),
        },
    ),
    "key.blanks": Rule(
        TWICE,
        {
            "kept": (TWICE, "Blanks around a key are part of it: a repeat without them is a second mail"),
            "trimmed": (LOST, "Blanks around a key are taken off: keys that differ only there are one"),
        },
    ),
    "key.empty": Rule(
        TWICE,
        {
            "absent": (TWICE, "An empty key is the same as none: every repeat with it is a second mail"),
            "invalid": (REFUSED, "An empty key is refused"),
        },
    ),
    "key.repeated": Rule(
        TWICE,
        {
            "invalid": (REFUSED, "A key that is given twice is refused"),
            "first": (ADAPT, "Of a key that is given twice the first one counts"),
            "joined": (TWICE, "A key that is given twice is joined to another key: a repeat may be a second mail"),
        },
    ),
    "key.invalid": Rule(
        TWICE,
        {
            "ignore": (TWICE, "A key that is not valid is ignored and guards nothing: every repeat is a second mail"),
            "refuse": (REFUSED, "A key that is not valid is refused"),
        },
    ),
    "scope": Rule(TWICE, scope),
    "fingerprint.parts": Rule(LOST, parts((REFUSED, COMPARED), (LOST, NOT_COMPARED))),
    "fingerprint.fields": Rule(LOST, fields),
    "fingerprint.excluded": Rule(LOST, parts((LOST, NOT_COMPARED), (REFUSED, COMPARED), show=pointers)),
    "fingerprint.of": Rule(
        REFUSED,
        {
            "rendered": (
                REFUSED,
                "What is generated is compared too: a repeat that renders otherwise is another request",
            ),
            "requested": (NONE, "What is generated is not compared, only what was asked for"),
        },
    ),
    "fingerprint.field_order": Rule(REFUSED, same("its fields in another order")),
    "fingerprint.whitespace": Rule(REFUSED, same("other white space")),
    "fingerprint.number_form": Rule(REFUSED, same("a number written otherwise")),
    "fingerprint.escapes": Rule(REFUSED, same("a text escaped otherwise")),
    "fingerprint.empty_fields": Rule(REFUSED, same("empty fields left out")),
    "fingerprint.recipient_form": Rule(REFUSED, same("its recipient as a list instead of a text")),
    "fingerprint.recipient_order": Rule(REFUSED, same("its recipients in another order")),
    "duplicates": Rule(
        TWICE,
        {
            "replay": (ADAPT, "A repeat gets the first answer again"),
            "replay_current": (ADAPT, "A repeat is told the message as it is by now, not the first answer"),
            "refuse": (
                MISREAD,
                "A repeat is refused with {duplicate}, not replayed: the first answer's id cannot be learnt from it",
            ),
            "redirect": (MISREAD, "A repeat is refused with {duplicate} and the id of the first: it is no failure"),
            "accept": (MISREAD, "A repeat is accepted like a new mail, and nothing tells that none was sent"),
            "execute": (TWICE, "A repeat is sent again"),
            "resume": (ADAPT, "A repeat goes on where the first one stopped"),
        },
    ),
    "mismatch": Rule(
        LOST,
        {
            "refuse": (REFUSED, "Other content under a used key is refused with {conflict}"),
            "replay": (LOST, "Other content under a used key is not sent, and answered as if it were"),
            "execute": (TWICE, "Other content under a used key is sent: a rewritten repeat is a second mail"),
        },
    ),
    "concurrent": Rule(
        TWICE,
        {
            "refuse": (REFUSED, "A repeat while the first runs is refused with {in_progress}: wait, then repeat"),
            "wait": (ADAPT, "A repeat while the first runs waits for it: the time limit of a send has to bear that"),
            "execute": (TWICE, "A repeat while the first runs is sent too"),
        },
    ),
    "waits": Rule(
        ADAPT,
        lambda s: (
            ADAPT if s.before is None or s.after > s.before else NONE,
            "A repeat may wait up to {now} for the first",
        ),
    ),
    "replay.marker": Rule(MISREAD, marks),
    "replay.id": Rule(
        MISREAD,
        {
            "new": (MISREAD, "A replay has an id of its own: it looks like a second mail"),
            "same": (NONE, "A replay has the id of the first"),
        },
    ),
    "replay.status": Rule(
        MISREAD,
        {
            "declared": (ADAPT, "A replay has a status of its own"),
            "same": (ADAPT, "A replay has the status of the first answer"),
        },
    ),
    "replay.body": Rule(
        MISREAD,
        {
            "current": (ADAPT, "A replay tells the state by now, not that of the first answer"),
            "identical": (ADAPT, "A replay tells the first answer, which may be out of date"),
        },
    ),
    "replay.key_echo": Rule(ADAPT, lambda _: (ADAPT, "The key comes back in the header {now}")),
    "outcomes.invalid": Rule(LOST, outcome("a refusal of an invalid request", sent=False)),
    "outcomes.unauthorized": Rule(LOST, outcome("a refusal of who asks", sent=False)),
    "outcomes.rate_limited": Rule(LOST, outcome("a refusal of one too many", sent=False)),
    "outcomes.provider_refused": Rule(LOST, outcome("a refusal of the mail", sent=False)),
    "outcomes.provider_busy": Rule(LOST, outcome("a mail that could not be handed over", sent=False)),
    "outcomes.server_error": Rule(TWICE, outcome("a server error", sent=True)),
    "outcomes.unknown": Rule(TWICE, outcome("an unknown outcome", sent=True)),
    "outcomes.disconnect": Rule(TWICE, outcome("a caller's hanging up", sent=True)),
    "outcomes.crash": Rule(TWICE, outcome("a crash", sent=True)),
    "second_after_unknown": Rule(
        TWICE,
        {
            "permitted": (TWICE, "After an unknown outcome a second mail may be sent"),
            "forbidden": (NONE, "After an unknown outcome no second mail is sent"),
        },
    ),
    "lease.lasts": Rule(
        TWICE,
        less_is(
            TWICE,
            "The claim of a request in flight lapses after {now}: beside a slower first one a repeat may be sent",
            "The claim of a request in flight is held longer, {now}: a repeat after a crash is put off for as long",
            more_is=ADAPT,
        ),
    ),
    "lease.then": Rule(
        TWICE,
        {
            "execute": (
                TWICE,
                "A repeat after the claim of the first has lapsed is sent, even if the first still runs",
            ),
            "refuse": (REFUSED, "A repeat after the claim of the first has lapsed is refused"),
            "resume": (ADAPT, "A repeat after the claim of the first has lapsed goes on where that stopped"),
            "unknown": (
                MISREAD,
                "A repeat after the claim of the first has lapsed is told that the outcome is unknown",
            ),
        },
    ),
    "lease.late_original": Rule(
        TWICE,
        {
            "commits": (TWICE, "A slow first request still sends after its claim has lapsed, beside its repeat"),
            "fenced": (NONE, "A slow first request can no longer send after its claim has lapsed"),
        },
    ),
    "reconciliation.within": Rule(
        ADAPT, lambda _: (ADAPT, "An unknown outcome is matched to events for {now}; after that a person has to look")
    ),
    "reconciliation.marker": Rule(MISREAD, newly(MISREAD, "A reconciled message is known by {now}")),
    "reconciliation.event": Rule(
        ADAPT, lambda _: (ADAPT, "What became of an unknown outcome is told by the event {now}")
    ),
    "retention.at_least": Rule(TWICE, kept_at_least),
    "retention.at_most": Rule(LOST, kept_at_most),
    "retention.from": Rule(TWICE, start),
    "retention.then": Rule(
        TWICE,
        {
            "execute": (TWICE, "A request under a forgotten key is a new mail"),
            "refuse": (REFUSED, "A request under a forgotten key is refused"),
        },
    ),
    "retention.chosen_max": Rule(
        REFUSED,
        less_is(
            REFUSED, "A caller can have a key kept for {now} at most", "A caller can have a key kept longer: {now}"
        ),
    ),
    "store_failure": Rule(
        TWICE,
        {
            "open": (TWICE, "While keys cannot be stored, sends go out unguarded"),
            "closed": (REFUSED, "While keys cannot be stored, sends are refused"),
        },
    ),
    "hints.retry_after": Rule(
        ADAPT,
        parts(
            (NONE, "Retry-After comes with {these} too"),
            (ADAPT, "Retry-After no longer comes with {these}: the caller has to choose when to repeat"),
        ),
    ),
    "hints.documentation": Rule(
        ADAPT,
        parts(
            (NONE, "A link or problem+json comes with {these} too"),
            (ADAPT, "No link or problem+json comes with {these}"),
        ),
    ),
    "hints.should_retry": Rule(MISREAD, newly(MISREAD, "Whether to try again is told by the header {now}")),
    "batch.max": Rule(
        REFUSED, less_is(REFUSED, "A batch of more than {now} mails is refused", "A batch may hold more mails: {now}")
    ),
    "batch.key": Rule(
        TWICE,
        {
            "whole": (TWICE, "One key is for a whole batch: a repeat that is cut otherwise sends mails twice"),
            "item": (TWICE, "Each mail of a batch needs its own key: one for the whole guards none of them"),
        },
    ),
    "batch.partial": Rule(
        TWICE,
        {
            "refuse-all": (LOST, "One bad mail has its whole batch refused: the good ones are not sent"),
            "accept-rest": (
                TWICE,
                "The good mails of a batch with a bad one are sent: a repeat of all sends them twice",
            ),
        },
    ),
    "batch.item_order": Rule(REFUSED, same("a batch's mails in another order")),
    "batch.key_space": Rule(
        TWICE,
        {
            "shared": (LOST, "A batch and a single mail share their keys: one key for both sends only the first"),
            "separate": (TWICE, "A batch and a single mail under one key are two: both are sent"),
        },
    ),
    "approval.own_key": Rule(
        REFUSED,
        {
            "refused": (REFUSED, "The sender's own credential cannot approve a draft: a person has to"),
            "allowed": (NONE, "The sender's own credential can approve a draft"),
        },
    ),
    "approval.creation": Rule(
        TWICE,
        {
            "not-deduplicated": (TWICE, "A repeat makes another draft: both may be approved and sent"),
            "deduplicated": (NONE, "A repeat gets the first draft"),
        },
    ),
    "scheduled.keeps": Rule(
        TWICE,
        less_is(
            TWICE,
            "The key of a scheduled mail is forgotten {now} after its time: a retry after that sends a second mail",
            "The key of a scheduled mail is kept longer after its time: {now}",
        ),
    ),
    "lookup.by": Rule(
        ADAPT,
        parts(
            (NONE, "A message can be asked for by {these} too"),
            (ADAPT, "A message cannot be asked for by {these}: what became of a send has to be found out otherwise"),
        ),
    ),
    "events.ids": Rule(
        TWICE,
        {
            "fresh": (TWICE, "An event that comes again has a fresh id: it cannot be told from a new one"),
            "stable": (NONE, "An event that comes again has the same id"),
        },
    ),
    "events.delivery": Rule(
        TWICE,
        {
            "at-least-once": (TWICE, "An event may come more than once: who takes it has to know its id"),
            "at-most-once": (LOST, "An event may be lost: what it tells has to be asked for"),
        },
    ),
    "events.redrive": Rule(
        TWICE,
        {
            "new-id": (TWICE, "An event redriven by hand has a new id: it is taken for a new one"),
            "same-id": (NONE, "An event redriven by hand has the same id"),
        },
    ),
    "propagation": Rule(
        TWICE,
        {
            "not-forwarded": (
                TWICE,
                "The key is not passed on to the mail provider: a mail handed over twice is not caught there",
            ),
            "forwarded": (NONE, "The key is passed on to the mail provider"),
        },
    ),
}

#: Claims that need no sentence of their own: their title with both values says all that a caller needs.
FALLBACK: dict[str, Harm] = {
    "order": ADAPT,
    "replay.headers": ADAPT,
    "reconciliation.by": ADAPT,
    "retention.sweep": ADAPT,
}

#: What a caller writes: the harm of a difference in each fact, and its sentence.
FACT_RULES: dict[str, Told] = {
    "request": (ADAPT, "A send is {now}, not {was}"),
    "request.headers": (ADAPT, "A send has these headers: {now}"),
    "request.body": (ADAPT, "A send's body is {now}, not {was}"),
    "mail.required": (REFUSED, "A send without {now} is refused"),
    "mail.items": (ADAPT, "The mails of a batch stand at {now}"),
    "dry_run": (TWICE, "A send that is only tried is asked for by {now}: asked for otherwise it is a real one"),
    "dry_run_status": (ADAPT, "A send that is only tried is answered {now}"),
    "key.at": (TWICE, "The key goes into {now}, not into {was}: there it guards nothing"),
    "key.also_at": (TWICE, "The key may also stand in {now}: elsewhere it guards nothing"),
    "key.first_sent.at": (REFUSED, "The time of the first attempt has to be sent in {now}"),
    "retention.chosen_at": (ADAPT, "How long a key is kept is chosen in {now}"),
    "scheduled.at": (TWICE, "The time of a mail for later stands at {now}: elsewhere it is not seen, and sent at once"),
    "lookup.state": (MISREAD, "A message's state stands at {now}"),
    "lookup.words": (MISREAD, "A message's states are called {now}"),
    "events.id": (TWICE, "An event's id stands at {now}: read elsewhere, a repeated event is not known"),
    "resends.call": (NONE, "The SDK marks the attempts of one call by {now}"),
    "resends.first": (NONE, "The SDK counts its attempts from {now}"),
    "resends.note": (NONE, "How the SDK repeats: {now}"),
    "resends.count": (NONE, "The SDK counts its attempts in {now}"),
    "variables": (ADAPT, "The SDK is pointed elsewhere by {now}"),
}

#: Facts that nobody has to write: where the old contract named none, nothing breaks.
OPTIONAL_FACTS = frozenset({"dry_run", "dry_run_status", "key.also_at", "retention.chosen_at", "lookup.words"})

#: Groups that a contract may lack: what they are about, and what a caller has to know of one that is new to him.
GROUP_RULES: dict[str, tuple[str, Told]] = {
    "batch": ("several mails in one request", (NONE, "There are batches")),
    "approval": (
        "mails that wait for a person",
        (MISREAD, "A send may have to wait for a person, and its answer {pending} says that nothing was sent yet"),
    ),
    "scheduled": ("mails for later", (NONE, "Mails can be sent for later")),
    "lookup": ("what can be asked for afterwards", (NONE, "A message's state can be asked for")),
    "events": ("events of its own", (NONE, "There are events")),
}
