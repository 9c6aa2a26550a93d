"""The rules, as data: what each forbids, why, where it comes from, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sendtwice.fake_provider.contracts import Contract, Level


@dataclass(frozen=True, slots=True)
class Rule:
    """One promise that can be broken."""

    id: str
    title: str
    why: str
    source: str
    remedy: str
    remedies: Mapping[str, str] = field(default_factory=dict)  # where the target of a role needs another one

    def remedy_for(self, role: str) -> str:
        """Return what a target of this role can do about it."""
        return self.remedies.get(role, self.remedy)


_ALL = (
    Rule(
        "at-most-once",
        "One operation under one key is delivered at most once",
        "The caller retried, hung up, sent at once, or the target was killed; the target knew or could have known "
        "that the mail was out, and sent it again.",
        "RFC 9110 section 9.2.2; Postfleet, 'Claim the business action before doing it'",
        "Claim the key in one atomic write before handing the mail over, and answer every repeat from that record.",
        MappingProxyType(
            {
                "client": "Make the key once for each operation, before the retry loop; retry with the same bytes.",
                "consumer": "Record the event's id in one atomic write before acting on it, and acknowledge repeats.",
            }
        ),
    ),
    Rule(
        "at-most-once-after-unknown",
        "A mail whose hand-over has an unknown outcome is not sent again",
        "The target handed the mail over and could not know whether it was accepted; sending again made a second mail.",
        "Postfleet, 'delivery_outcome_unknown'; Pylota decision 0004, item 4; RFC 1047",
        "Record the hand-over before it begins, and treat no answer as unknown: reconcile it, or pass a stable key "
        "to a provider that deduplicates.",
    ),
    Rule(
        "no-lost-send",
        "A send that was answered as a success is delivered",
        "The caller was told that the mail is sent or queued, so it will never ask again.",
        "Pylota decision 0004; Rasket, 'Not retrying drops the first'",
        "Answer success only after the mail is stored durably, and keep it queued until the provider has taken it.",
        MappingProxyType(
            {
                "client": "Report 'sent' only after a definite answer; anything else is unknown or not sent.",
                "consumer": "Tell events apart by their ids, not by content, and acknowledge after the job is stored.",
            }
        ),
    ),
    Rule(
        "replay-fidelity",
        "A repeat is answered like the first, and marked as the contract says",
        "A caller that lost the first answer has only the repeat to learn the id from.",
        "draft-ietf-httpapi-idempotency-key-header-07 section 2.6; Rasket, 'the first answer'",
        "Store the first answer with the key and replay it, with the same id and the declared marker.",
    ),
    Rule(
        "conflict",
        "A used key with other content is refused and sends nothing",
        "The same key with another recipient or body is a bug of the caller; to send or to guess hides it.",
        "Postfleet, idempotency_conflict; Rasket, invalid_idempotent_request; draft-07 section 2.7",
        "Store a fingerprint of the request with the key, compare it on every repeat, and refuse a different one.",
        MappingProxyType(
            {"client": "Stop at a conflict: the key has sent another mail; never try the operation under a fresh key."}
        ),
    ),
    Rule(
        "no-false-conflict",
        "The same request under the same key is never called a conflict",
        "A caller that is told 'conflict' stops, though its retry was right.",
        "Rasket, 'the same fields in a different order still count as a repeat'",
        "Fingerprint only what the caller sent, in canonical form: no times, no generated ids, no field order.",
    ),
    Rule(
        "in-progress",
        "A repeat that meets the first one running waits, replays, or is told so",
        "Anything else (a server error, a fresh success) tells the caller something false.",
        "Postfleet, idempotency_in_progress; draft-07 section 2.7; CONTRACTS rule R11",
        "Catch the lost race on the unique key and answer it as the contract says: in progress, or wait and replay.",
    ),
    Rule(
        "key-syntax",
        "A bad key is refused before any effect; a good one is taken whole",
        "A key that is cut, folded or ignored makes two operations one, or leaves one unguarded.",
        "Rasket, 1 to 256 characters; Pylota, 1 to 255 printable ASCII; CONTRACTS rules R29, R30",
        "Validate the key first, answer an invalid one with the declared error, and compare keys byte for byte.",
    ),
    Rule(
        "isolation",
        "Keys of one sender never meet those of another",
        "A key that is shared over the border of its scope shows one tenant another's answer, or swallows its mail.",
        "draft-ietf-httpapi-idempotency-key-header-07, security considerations; CONTRACTS rules R27, R28",
        "Make the declared scope (tenant, mailbox) part of the unique key.",
    ),
    Rule(
        "refusal-policy",
        "After a refusal the key is released or kept, as the contract says",
        "A caller that repairs its request must know whether the old key still holds the old refusal.",
        "Rasket, 'Refusals leave no key'; Postfleet, 'stores terminal results'; CONTRACTS D13",
        "Store or release the key for this kind of refusal as the contract declares.",
    ),
    Rule(
        "progress",
        "A key is never stuck in progress after a failure that surely sent nothing",
        "Every retry is told to wait, and nothing will ever happen.",
        "CONTRACTS rules R12, R38; WINDOWS 4",
        "Free the claim when a hand-over surely failed, and let a claim of a dead process lapse after its lease.",
    ),
    Rule(
        "status-as-declared",
        "Every answer is one that the contract declares",
        "A caller branches on status and code; an answer that is nowhere declared is handled as anything.",
        "the contract's own table of answers",
        "Answer with the declared status and code, or declare this one.",
    ),
    Rule(
        "expiry",
        "A key is remembered as long as the contract says, and no longer",
        "A caller plans its last retry by the floor, and a new send under an old key by the ceiling.",
        "Rasket, 'Expiry is not exact'; Pylota decision 0004, item 2; CONTRACTS rules R23, R24, R25",
        "Keep a key for the declared time from its declared start, and take it out at the declared end.",
    ),
    Rule(
        "check-order",
        "Several things wrong with one request are told in the declared order",
        "A caller acts on the first thing it is told; a conflict that hides a bad credential, or a wait that hides a "
        "conflict, sends it the wrong way.",
        "CONTRACTS D7, rule R15; Stripe, limiter and authentication before the idempotency layer; Novu",
        "Look at the checks in the order that the contract declares.",
    ),
    Rule(
        "hints",
        "An answer that asks for patience, or explains itself, has the declared header",
        "Callers that obey Retry-After have nothing to obey.",
        "CONTRACTS D16, rules R9, R12; RFC 9110 section 10.2.3; draft-07 section 2.7",
        "Send the declared header with every answer of this class.",
    ),
    Rule(
        "no-effect",
        "What is refused, turned away or only tried sends nothing",
        "The caller was told that nothing happened; it sends again, and there are two.",
        "WINDOWS, 'Told and delivered are two axes'; Pylota amendment 2026-10-10, dry run",
        "Decide before the mail is handed over, and hand nothing over after a refusal.",
    ),
    Rule(
        "approval",
        "A draft leaves only when a person approves it",
        "The approval is the last guard before a mail that cannot be taken back.",
        "Postfleet, 'Approval changes the workflow, not the key'",
        "Send a draft only in the write that takes it from pending to approved, by a credential that may approve.",
    ),
    Rule(
        "reconciliation",
        "An unknown outcome becomes known by its own event, or by a person",
        "Until then nobody knows; taken from another mail's event, or never ended, it misleads the caller.",
        "Pylota decision 0004, items 5 and 6; Postfleet, delivery_outcome_unknown",
        "Match the provider's event by everything that the contract names, and only if exactly one message fits.",
    ),
    Rule(
        "one-order",
        "Some order of events explains every answer under a key",
        "Attempts that meet may each be told that another has the key, and then nobody sends.",
        "CONTRACTS rule R11: exactly one fresh answer",
        "Let exactly one of those that meet win the claim, whatever the others are told.",
    ),
    Rule(
        "expected",
        "What the scenario itself expects",
        "The scenario states more than the contract does.",
        "the scenario file",
        "Compare the scenario's expectation with the timeline.",
    ),
)

RULES = {rule.id: rule for rule in _ALL}


def level(contract: Contract, rule: str) -> Level:
    """Return how much a broken rule weighs under this contract."""
    return contract.levels.get(rule, Level.MUST)
