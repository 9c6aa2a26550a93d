"""Every claim of a contract in words: a title, and a phrase for each value that it can have. Data, and no judgement.

A title and a phrase read as one line: "a repeat after completion: the first answer again".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sendtwice.fake_provider.contracts.claims import Claim
from sendtwice.fake_provider.contracts.wire import Marker

Phrase = Mapping[Any, str] | Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Words:
    """What a claim is about, and what its values say."""

    title: str
    values: Phrase


def duration(seconds: float) -> str:
    """Return seconds as a vendor's page says them: 24 h, 30 days, 1 h 30 min."""
    if seconds > 86_400 and seconds % 86_400 == 0:
        return f"{seconds / 86_400:.0f} days"
    parts, rest = [], seconds
    for size, unit in ((3600, "h"), (60, "min")):
        whole, rest = divmod(rest, size)
        parts += [f"{whole:.0f} {unit}"] if whole else []
    parts += [f"{rest:g} s"] if rest or not parts else []
    return " ".join(parts)


def several(items: list[Any], last: str = "and") -> str:
    """Return ``a, b and c``."""
    texts = [str(item).replace("_", " ") for item in items]
    return f" {last} ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part) if texts else "nothing"


def pointers(items: list[str]) -> str:
    """Return places in a body, as they are written."""
    return ", ".join(items) or "none"


def marker(one: Marker) -> str:
    """Return a marker as it is seen: ``Idempotent-Replayed: true``."""
    value = str(one.equals).lower() if isinstance(one.equals, bool) else str(one.equals)
    text = f"{one.header or one.at}: {value}"
    return text if one.otherwise is None else f"{text} (else {str(one.otherwise).lower()})"


def markers(items: list[Marker]) -> str:
    """Return several markers, which come together."""
    return " and ".join(map(marker, items)) or "none"


_SAME = {"same": "the same request", "different": "another request"}
_STORED = {
    "stored": "stored and replayed",
    "released": "not stored, the key is free again",
    "kept": "in progress until something else ends it",
    "poisoned": "the key is refused from then on",
}

WORDS: dict[str, Words] = {
    "delivery": Words(
        "what a success says", {"inline": "the mail was handed over", "queued": "the mail is queued for later"}
    ),
    "effects": Words(
        "what counts as one mail",
        {"per-message": "a message with all its recipients", "per-recipient": "each recipient"},
    ),
    "key.first_sent.window": Words("how late after the first attempt a repeat is taken", duration),
    "key.presence": Words(
        "presence of a key",
        {
            "optional": "optional; every send without one is a new mail",
            "required": "required",
            "generated": "made by the server where none is given",
            "none": "there is none; every send is a new mail",
        },
    ),
    "key.foreign": Words(
        "a key on a route that takes none", {"ignored": "ignored, it guards nothing", "refused": "refused"}
    ),
    "key.min": Words("shortest key", str),
    "key.max": Words("longest key", str),
    "key.unit": Words("what a key's length counts", {"characters": "characters", "bytes": "bytes"}),
    "key.charset": Words(
        "what a key may hold",
        {
            "any": "any text",
            "printable-ascii": "printable ASCII",
            "visible-ascii": "visible ASCII, no blanks",
            "token": "an RFC 9110 token",
            "word": "letters, digits, - and _",
            "dotted-word": "letters, digits, -, _ and .",
            "uuid": "a UUID",
        },
    ),
    "key.form": Words(
        "how a key is written",
        {"bare": "bare", "quoted": "as a quoted string", "either": "bare or quoted, which is the same key"},
    ),
    "key.case": Words(
        "upper and lower case in a key", {"sensitive": "two keys", "folded": "one key, case does not count"}
    ),
    "key.blanks": Words("blanks around a key", {"kept": "part of the key", "trimmed": "taken off"}),
    "key.empty": Words("an empty key", {"invalid": "not valid", "absent": "the same as none"}),
    "key.repeated": Words(
        "a key that is given twice",
        {"invalid": "not valid", "first": "the first one counts", "joined": "joined to one key"},
    ),
    "key.invalid": Words("a key that is not valid", {"refuse": "refused", "ignore": "ignored, it guards nothing"}),
    "scope": Words("a key counts per", several),
    "fingerprint.parts": Words("what is compared", several),
    "fingerprint.fields": Words("fields that are compared", pointers),
    "fingerprint.excluded": Words("fields that are not compared", pointers),
    "fingerprint.of": Words(
        "generated content", {"requested": "compared as asked for", "rendered": "compared as rendered"}
    ),
    "fingerprint.field_order": Words("fields in another order", _SAME),
    "fingerprint.whitespace": Words("other white space between fields", _SAME),
    "fingerprint.number_form": Words("a number written otherwise (1 and 1.0)", _SAME),
    "fingerprint.escapes": Words("a text escaped otherwise", _SAME),
    "fingerprint.empty_fields": Words("empty fields beside left out ones", _SAME),
    "fingerprint.recipient_form": Words("one recipient as a text or as a list", _SAME),
    "fingerprint.recipient_order": Words("recipients in another order", _SAME),
    "duplicates": Words(
        "a repeat after completion",
        {
            "replay": "the first answer again",
            "replay_current": "the message as it is by now",
            "refuse": "refused",
            "redirect": "refused, with the id of the first",
            "accept": "accepted without a word of the first",
            "execute": "sent again",
            "resume": "goes on where the first stopped",
        },
    ),
    "mismatch": Words(
        "other content under a used key",
        {"refuse": "refused", "replay": "the first answer again, the content is not compared", "execute": "sent"},
    ),
    "concurrent": Words(
        "a repeat while the first runs",
        {"refuse": "refused, to be tried again", "wait": "waits for the first", "execute": "sent too"},
    ),
    "waits": Words("how long a repeat waits for the first", duration),
    "order": Words("order of checks", lambda checks: ", then ".join(str(c).replace("_", " ") for c in checks)),
    "replay.marker": Words("what marks a replay", markers),
    "replay.id": Words("id in a replay", {"same": "the first one's", "new": "a new one"}),
    "replay.status": Words("status of a replay", {"same": "the first one's", "declared": "one of its own"}),
    "replay.body": Words("body of a replay", {"identical": "the first one's", "current": "the state by now"}),
    "replay.headers": Words("headers of a replay", {"stored": "the first one's", "fresh": "fresh"}),
    "replay.key_echo": Words("header that names the key again", str),
    "outcomes.invalid": Words("the key after an invalid request", _STORED),
    "outcomes.unauthorized": Words("the key after a caller who is not known", _STORED),
    "outcomes.rate_limited": Words("the key after one request too many", _STORED),
    "outcomes.provider_refused": Words("the key after a refusal of the mail", _STORED),
    "outcomes.provider_busy": Words("the key after a mail that could not be handed over", _STORED),
    "outcomes.server_error": Words("the key after a server error", _STORED),
    "outcomes.unknown": Words("the key after an unknown outcome", _STORED),
    "outcomes.disconnect": Words("the key after the caller hung up", _STORED),
    "outcomes.crash": Words("the key after a crash", _STORED),
    "second_after_unknown": Words(
        "a second mail after an unknown outcome", {"forbidden": "never", "permitted": "may be sent"}
    ),
    "lease.lasts": Words("how long a claim in flight is held", duration),
    "lease.then": Words(
        "a repeat after a claim in flight has lapsed",
        {
            "execute": "sent anew",
            "refuse": "refused",
            "resume": "goes on where the first stopped",
            "unknown": "told that the outcome is unknown",
        },
    ),
    "lease.late_original": Words(
        "a slow first request after its claim has lapsed", {"commits": "still sends", "fenced": "can no longer send"}
    ),
    "reconciliation.within": Words("how long an unknown outcome is matched to events", duration),
    "reconciliation.by": Words(
        "what an unknown outcome is matched by", lambda fields: several(fields).replace("message-id", "message id")
    ),
    "reconciliation.marker": Words("what marks a reconciled message", marker),
    "reconciliation.event": Words("event that tells of a reconciled message", str),
    "retention.at_least": Words("how long a key is remembered, at least", duration),
    "retention.at_most": Words("how long a key is remembered, at most", duration),
    "retention.sweep": Words("how often old keys are taken out", duration),
    "retention.from": Words(
        "from when a key's time is counted",
        {
            "first-receipt": "the first request's receipt",
            "first-success": "the first success",
            "completion": "the first request's completion",
            "last-use": "the last use of the key",
            "scheduled-time": "the time for which the mail is scheduled",
            "first-sent": "the first attempt, as the caller states it",
        },
    ),
    "retention.then": Words("a request under a forgotten key", {"execute": "a new mail", "refuse": "refused"}),
    "retention.chosen_max": Words("longest time that a caller can choose", duration),
    "store_failure": Words(
        "while keys cannot be stored", {"closed": "sends are refused", "open": "sends go out unguarded"}
    ),
    "hints.retry_after": Words("answers with Retry-After", several),
    "hints.documentation": Words("answers with a link or problem+json", several),
    "hints.should_retry": Words("header that says whether to try again", str),
    "batch.max": Words("most mails in a batch", str),
    "batch.key": Words("key of a batch", {"whole": "one for the whole", "item": "one for each mail"}),
    "batch.partial": Words(
        "a batch with one bad mail", {"refuse-all": "refused whole", "accept-rest": "the good ones are sent"}
    ),
    "batch.item_order": Words("mails of a batch in another order", _SAME),
    "batch.key_space": Words(
        "one key for a batch and a single mail", {"shared": "one and the same", "separate": "two keys"}
    ),
    "approval.own_key": Words("the sender's own credential", {"refused": "cannot approve", "allowed": "can approve"}),
    "approval.creation": Words(
        "a repeat that makes a draft", {"deduplicated": "gets the first draft", "not-deduplicated": "makes another"}
    ),
    "scheduled.keeps": Words("how long after the scheduled time a key is kept", duration),
    "lookup.by": Words("a message can be asked for by", several),
    "events.ids": Words("id of an event that comes again", {"stable": "the same", "fresh": "a fresh one"}),
    "events.delivery": Words(
        "an event is delivered", {"at-least-once": "at least once", "at-most-once": "at most once"}
    ),
    "events.redrive": Words("id of an event redriven by hand", {"same-id": "the same", "new-id": "a new one"}),
    "propagation": Words(
        "the key towards the mail provider", {"forwarded": "passed on", "not-forwarded": "not passed on"}
    ),
}


def title(name: str) -> str:
    """Return what a claim is about; one that has no words is told by its name."""
    return WORDS[name].title if name in WORDS else name.replace(".", ", ").replace("_", " ")


def phrase(name: str, value: Any) -> str:
    """Return a claim's value in words."""
    found = WORDS.get(name)
    if found is None:
        return several(value) if isinstance(value, list) else str(value)
    return found.values(value) if callable(found.values) else found.values[value]


def value_of(name: str, claim: Claim[Any]) -> str:
    """Return what a claim says, and what else was seen."""
    if claim.value is None:
        return "not said"
    also = several([phrase(name, seen) for seen in claim.also], "or")
    return phrase(name, claim.value) + (f" (also seen: {also})" if claim.also else "")
