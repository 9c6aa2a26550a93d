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
                "consumer": "Record the message by its own id in one atomic write before acting; acknowledge repeats.",
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
        MappingProxyType(
            {"consumer": "Acknowledge an event that is done or that you do not want; refuse only what may come again."}
        ),
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
        "unverified",
        "An event whose signature does not fit, or is old, has no effect",
        "Whoever knows the address of a webhook can write to it; the signature alone tells its provider from others, "
        "and its time a new event from one that was recorded.",
        "Standard Webhooks, 'Verifying webhooks'; CONTRACTS rule R41",
        "Verify the signature over the raw body, with its time, before anything else is done with an event, and refuse "
        "what does not fit.",
    ),
    Rule(
        "one-key",
        "All attempts of one operation carry one key",
        "An attempt without a definite answer may have sent the mail; under another key the next one is a second mail.",
        "Rasket, 'The common bug is calling crypto.randomUUID() inside the retry loop'; CONTRACTS C1, C4, C5, C25",
        "Two attempts, two keys: make the key before the retry loop, and store it with the operation before the first "
        "attempt.",
    ),
    Rule(
        "same-request",
        "What is sent again under a key is the same request",
        "An API that compares takes the second one for other content and refuses it, and the caller learns nothing of "
        "the first; one that does not compare sends what it likes.",
        "Rasket, 'Build the payload once'; CONTRACTS C2, C24",
        "Build the body once for each operation, before the retry loop, and send the same bytes each time: no new "
        "time, template, order or boundary.",
    ),
    Rule(
        "unkeyed-retry",
        "What may be out already is not tried again without a key",
        "Nothing guards a send without a key: if the first one was accepted, the second is another mail.",
        "RFC 9110 section 9.2.2; CONTRACTS C3",
        "Send a key with every attempt, the first one too; where the API takes none, stop at a lost answer and say "
        "unknown.",
    ),
    Rule(
        "usable-key",
        "A key names one operation",
        "An empty key guards nothing; a shared one, or a missing value made a text, makes one mail swallow another.",
        "Rasket, invalid_idempotency_key; Stripe, no personal data in keys; CONTRACTS C17, C22",
        "Make the key of the operation's own id, refuse to send when that is missing, and keep addresses out of it.",
    ),
    Rule(
        "wait-for-first",
        "Who is told that the first one is in progress waits for it",
        "The first one may yet succeed: to call it a failure, or to hammer at it, helps nobody.",
        "Postfleet, idempotency_in_progress; Rasket, concurrent_idempotent_requests; CONTRACTS C7, C9, C13",
        "In progress is neither sent nor failed: ask again under the same key after a growing pause, and say unknown "
        "in the end.",
    ),
    Rule(
        "draft-retried",
        "A draft that waits for a person is not sent again",
        "It is stored and will leave when it is approved; under another key there are two to approve.",
        "Postfleet, 'Approval changes the workflow, not the key'",
        "Store the id of a pending send, report it as pending, and wait for its event or read its state.",
    ),
    Rule(
        "retry-after",
        "The next attempt begins when the time is over that the API asked for",
        "A limit that is not kept is prolonged, and an API that is too busy stays so.",
        "RFC 9110 section 10.2.3; CONTRACTS C11, C13",
        "Read Retry-After, in seconds with or without a fraction and as a date, and sleep that long before the next "
        "attempt.",
    ),
    Rule(
        "should-retry",
        "What an answer says of trying again is believed",
        "The API knows what the status does not show: whether the same request can ever succeed.",
        "Stripe, Stripe-Should-Retry; CONTRACTS C12",
        "Let the header decide where there is one, before the status does.",
    ),
    Rule(
        "bounded-retries",
        "The number of attempts is bounded, over all layers",
        "Three tries of an SDK, in three of a job, in three of a queue are 27: an outage makes a flood of them.",
        "CONTRACTS C16, C23; Google, Site Reliability Engineering, chapter 22",
        "Retry in one layer, with a limit that counts every attempt of the operation, and turn the SDK's own retries "
        "off.",
    ),
    Rule(
        "told",
        "What is said of an operation is what became of it",
        "Whoever hears 'not sent' asks for it again, and there are two mails; whoever hears 'sent' never does.",
        "WINDOWS, 'Told and delivered are two axes'; Postfleet, delivery_outcome_unknown; CONTRACTS C19, C20",
        "Report three outcomes: sent after a whole success answer, not sent after a refusal, unknown after anything "
        "else that may have got through.",
    ),
    Rule(
        "same-sender",
        "All attempts of one operation come from one sender and go to one place",
        "Another credential, account or region has its own keys: there the same key is a new one.",
        "Adyen and Amazon EC2, keys by region; Svix, token rotation; CONTRACTS C15",
        "Choose the host and the credential before the retry loop, and keep them until the outcome is known.",
    ),
    Rule(
        "redirect",
        "A redirect keeps the method, the key and the body, and stays with the origin",
        "A follow-up without its key is an unguarded send; one to another origin shows that the key, and may be lost.",
        "RFC 9110 sections 15.4.8 and 15.4.9; CONTRACTS C26",
        "Follow 307 and 308 with the same method, headers and body, and no redirect to another origin.",
    ),
    Rule(
        "gives-up",
        "An attempt that is not answered is given up in time",
        "A call without a timeout hangs for as long as the other side likes, and nobody retries or reports.",
        "CONTRACTS C18",
        "Give each attempt a timeout of its own, and treat its end as unknown: try again under the same key.",
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

#: The rules that are held against the caller of a send API alone, and the one that it shares with the API.
OF_CALLERS = (
    "one-key",
    "same-request",
    "unkeyed-retry",
    "usable-key",
    "conflict",
    "wait-for-first",
    "draft-retried",
    "retry-after",
    "should-retry",
    "bounded-retries",
    "told",
    "same-sender",
    "redirect",
    "gives-up",
)


def level(contract: Contract, rule: str) -> Level:
    """Return how much a broken rule weighs under this contract."""
    return contract.levels.get(rule, Level.MUST)
