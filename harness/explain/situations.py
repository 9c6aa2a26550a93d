"""The table that vendors print: what happens, how it is answered, and what the caller does then.

Which class of answer a situation has is a matter of claims: a repeat is a replay under one contract and a refusal
under another. What the caller does follows from the class, and from what becomes of the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sendtwice.fake_provider.contracts.claims import Claim
from sendtwice.fake_provider.contracts.model import SEND, Contract
from sendtwice.fake_provider.contracts.wire import AnswerClass, AnswerShape
from sendtwice.harness.explain import claim_words

NOT_SAID = "not said"


@dataclass(frozen=True, slots=True)
class Situation:
    """One row: ``answers`` holds the looks of its class by route, the contract's own first."""

    name: str
    kind: AnswerClass | None
    answers: tuple[tuple[str, AnswerShape], ...]
    extra: str
    action: str

    def answer(self, tick: str = "") -> str:
        """Return the answer in words; ``tick`` stands around what is to be read literally."""
        by_route: dict[str, list[str]] = {}
        for route, one in self.answers:
            by_route.setdefault(route, []).append(shape(one, tick))
        texts = [
            text if route == SEND else f"{route}: {text}"
            for route, text in ((route, "; ".join(looks)) for route, looks in by_route.items())
        ]
        told = "; ".join(texts)
        if not told:
            return self.extra or NOT_SAID
        return f"{told}, {self.extra}" if self.extra else told


def shape(one: AnswerShape, tick: str = "") -> str:
    """Return how an answer looks: ``409 idempotency_conflict``."""
    status = claim_words.several(list(one.status), "or")
    if one.code is None:
        return status
    return f"{status} {' or '.join(f'{tick}{code}{tick}' for code in one.code.one_of)}"


#: For each claim that decides a situation: the class of answer and what the caller does, by value. ``None`` is for a
#: contract that does not say.
Choice = tuple[AnswerClass | None, str]
_REPEAT: Mapping[Any, Choice] = {
    "replay": (AnswerClass.REPLAYED, "Take it as the answer to the first send; nothing was sent again."),
    "replay_current": (AnswerClass.REPLAYED, "Take it as news of the first send; nothing was sent again."),
    "resume": (AnswerClass.REPLAYED, "Take it as the answer to the first send, which went on where it had stopped."),
    "refuse": (AnswerClass.DUPLICATE, "It was sent before: no error, and no reason for another key."),
    "redirect": (AnswerClass.DUPLICATE, "It was sent before: read the message that the answer names."),
    "accept": (AnswerClass.ACCEPTED, "Nothing was sent again; do not count it twice."),
    "execute": (AnswerClass.ACCEPTED, "It was sent again: never repeat what may have been sent."),
    None: (AnswerClass.REPLAYED, "Do not rely on a repeat."),
}
_MISMATCH: Mapping[Any, Choice] = {
    "refuse": (AnswerClass.CONFLICT, "Stop: mend the key or the content. What the key sent first stands."),
    "replay": (AnswerClass.REPLAYED, "The content was not looked at and not sent: use another key for another mail."),
    "execute": (AnswerClass.ACCEPTED, "It was sent too: the key does not stop it."),
    None: (AnswerClass.CONFLICT, "Never use a key for another mail."),
}
_CONCURRENT: Mapping[Any, Choice] = {
    "refuse": (AnswerClass.IN_PROGRESS, "Wait, then repeat with the same key."),
    "wait": (AnswerClass.REPLAYED, "Be patient: the repeat is answered when the first one is."),
    "execute": (AnswerClass.ACCEPTED, "Both are sent: do not repeat before the first is answered."),
    None: (AnswerClass.IN_PROGRESS, "Wait, then repeat with the same key."),
}
_NO_KEY: Mapping[Any, Choice] = {
    "optional": (AnswerClass.ACCEPTED, "Every send without a key is a new mail: do not repeat it."),
    "required": (AnswerClass.KEY_MISSING, "Nothing was sent: add the key."),
    "generated": (AnswerClass.ACCEPTED, "The server made a key: keep it, and repeat with it."),
    "none": (AnswerClass.ACCEPTED, "Every send is a new mail: do not repeat it."),
    None: (AnswerClass.KEY_MISSING, "Always give a key."),
}
_BAD_KEY: Mapping[Any, Choice] = {
    "refuse": (AnswerClass.KEY_INVALID, "Nothing was sent: mend the key."),
    "ignore": (AnswerClass.ACCEPTED, "It was sent, and the key guards nothing: never send such a key."),
    None: (AnswerClass.KEY_INVALID, "Nothing was sent: mend the key."),
}
_FORGOTTEN: Mapping[Any, Choice] = {
    "execute": (AnswerClass.ACCEPTED, "It is a new mail: do not repeat that late."),
    "refuse": (AnswerClass.EXPIRED, "Nothing was sent now: find out what became of the first before a new key."),
    None: (AnswerClass.EXPIRED, "Do not repeat that late: it may be a new mail."),
}
_REFUSED: Mapping[Any, Choice] = {
    "stored": (AnswerClass.REFUSED, "Mend the request and send it under a new key: the refusal is stored."),
    "poisoned": (AnswerClass.REFUSED, "Mend the request and send it under a new key: this one is spent."),
    "kept": (AnswerClass.REFUSED, "Mend the request; the key stays in progress."),
    "released": (AnswerClass.REFUSED, "Mend the request; the key is still free."),
    None: (AnswerClass.REFUSED, "Mend the request; whether the key is still free is not said."),
}
_FAILED: Mapping[Any, Choice] = {
    "stored": (AnswerClass.FAILED, "The failure is stored: find out what became of it before a new key."),
    "poisoned": (AnswerClass.FAILED, "The key is spent: find out what became of it before a new one."),
    None: (AnswerClass.FAILED, "Repeat with the same key, later."),
}


def situations(contract: Contract) -> list[Situation]:
    """Return the rows of a contract's table."""
    return list(_rows(contract))


def _rows(contract: Contract) -> Iterator[Situation]:
    def row(name: str, kind: AnswerClass | None, action: str, extra: str = "") -> Situation:
        return Situation(name, kind, _looks(contract, kind), extra, action)

    def chosen(name: str, table: Mapping[Any, Choice], claim: Claim[Any], extra: str = "") -> Situation:
        kind, action = table.get(claim.value, table[None])
        return row(name, kind, action, extra)

    answers = contract.answers
    yield row("First send", AnswerClass.ACCEPTED, "Keep the id with the operation.")
    if contract.key.presence.value != "none":
        seen = contract.replay.marker
        mark = f"marked {claim_words.markers(seen.value)}" if seen.value else ""
        yield chosen("Same key, same request, after completion", _REPEAT, contract.duplicates, mark)
        yield chosen("Same key, other content", _MISMATCH, contract.mismatch)
        yield _concurrent(contract, chosen("Same key while the first request runs", _CONCURRENT, contract.concurrent))
    if contract.approval is not None or AnswerClass.PENDING in answers:
        yield row("Approval is required", AnswerClass.PENDING, "Keep the draft's id. Nothing was sent: do not repeat.")
    yield row("The outcome is unknown", AnswerClass.UNKNOWN, _after_unknown(contract))
    yield chosen("No key", _NO_KEY, contract.key.presence)
    if contract.key.presence.value != "none":
        yield chosen("A key that is not valid", _BAD_KEY, contract.key.invalid)
        yield chosen(_forgotten(contract), _FORGOTTEN, contract.retention.then)
    invalid, mail = contract.outcomes.invalid, contract.outcomes.provider_refused
    if None not in (invalid.value, mail.value) and invalid.value != mail.value:
        yield chosen("Refused, the request is not valid", _REFUSED, invalid)
        yield chosen("Refused, the mail cannot be sent", _REFUSED, mail)
    else:
        yield chosen("Refused", _REFUSED, mail if invalid.value is None else invalid)
    yield row("Who asks is not known", AnswerClass.UNAUTHORIZED, "Nothing was sent: mend the credential.")
    after = contract.hints.retry_after.value or []
    when = "after Retry-After" if AnswerClass.RATE_LIMITED in after else "later"
    stored = contract.outcomes.rate_limited.value in ("stored", "poisoned")
    again = "under a new key: this one is spent" if stored else "with the same key"
    yield row("Too many requests", AnswerClass.RATE_LIMITED, f"Nothing was sent: repeat {when}, {again}.")
    yield chosen("Failed", _FAILED, contract.outcomes.server_error)


def _looks(contract: Contract, kind: AnswerClass | None) -> tuple[tuple[str, AnswerShape], ...]:
    if kind is None:
        return ()
    own = contract.answers.get(kind)
    if own is None and kind is AnswerClass.REPLAYED:
        own = contract.answers[AnswerClass.ACCEPTED]  # one that is not told apart
    found = [(SEND, one) for one in own or ()]
    for name, route in contract.routes.items():
        if route.does in ("send", "draft"):  # what other routes answer is no answer to a send
            found += [(name, one) for one in route.answers.get(kind, ()) if one not in (own or ())]
    return tuple(found)


def _concurrent(contract: Contract, row: Situation) -> Situation:
    claim, waits = contract.concurrent, contract.waits.value
    if claim.value == "wait":
        extra = "when the first is answered" + (f", after {claim_words.duration(waits)} at most" if waits else "")
        return Situation(row.name, row.kind, row.answers, extra, row.action)
    if claim.value == "refuse" and "wait" in claim.also:
        return Situation(row.name, row.kind, row.answers, "or it waits for the first", row.action)
    return row


def _forgotten(contract: Contract) -> str:
    least, most = contract.retention.at_least.value, contract.retention.at_most.value
    known = most if most is not None else least
    return "Same key after it was forgotten" + (f" ({claim_words.duration(known)})" if known is not None else "")


def _after_unknown(contract: Contract) -> str:
    text = "Keep the key and find out"
    if contract.reconciliation.within.value:
        text += f" (events settle it within {claim_words.duration(contract.reconciliation.within.value)})"
    resolving = next((name for name, route in contract.routes.items() if route.does == "resolve"), None)
    text += f", or let a person settle it (route {resolving})" if resolving else ""
    return f"{text}; never send under another key."
