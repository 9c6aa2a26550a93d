"""The rule that nothing is lost: what was answered as a success is delivered.

How many mails a group's claims promise is counted by keys, for a repeat's success promises no second mail. A mail
that the provider refused for good, or whose hand-over is in doubt, is not lost where the target answers before it
hands over; and "before" is never read from the order inside an attempt's interval.
"""

from __future__ import annotations

from collections.abc import Iterator

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import weather
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.caller_knows import Knows, knows
from sendtwice.harness.judge.classes import SUCCESS, parsed, pointer
from sendtwice.harness.judge.facts import Attempt, Facts, Kin, Operation
from sendtwice.harness.judge.finding import Finding
from sendtwice.harness.judge.permitted import Left, left_by
from sendtwice.harness.judge.rules import level
from sendtwice.harness.judge.storms import INSTANT, Spell


def judge_losses(facts: Facts) -> Iterator[Finding]:
    """Hold what was claimed against what was delivered."""
    for group in facts.groups:
        yield from _never_lost(facts, group)


def undelivered(facts: Facts, group: str) -> list[Operation]:
    """Return the operations of a group that were answered as successes, when too few of their mails arrived."""
    if group in facts.blurred:
        return []
    claims = {op.name: _claims(facts, op.name) for op in facts.groups[group]}
    served = facts.served(group)
    declared = {r for op in facts.groups[group] for r in op.recipients}
    if not declared & served.keys():  # a target that writes to an address of its own
        declared = set(served)
    lost: list[Operation] = []
    for person in declared:
        meant = [op for op in facts.groups[group] if person in op.recipients or person not in _all(facts, group)]
        mine = [a for op in meant for a in claims[op.name]]
        got = served.get(person, 0)
        promised = _promised(facts, mine, got=got)
        if facts.role == "client":  # for which of several equal mails an attempt was made, nobody can say
            promised = sum(bool(claims[op.name]) for op in meant)
        if got < promised:
            lost += [op for op in meant if claims[op.name] and op not in lost]
    return lost


def awaited(facts: Facts, group: str) -> bool:
    """Whether a promised mail may still arrive: none was refused for good, and no hand-over was cut off."""
    return (
        bool(undelivered(facts, group))
        and _refusal(facts, group) is None
        and weather.doubt(facts, group, in_flight=False) is None
    )


def _all(facts: Facts, group: str) -> set[str]:
    return {r for op in facts.groups[group] for r in op.recipients}


def _promised(facts: Facts, claims: list[Attempt], *, got: int) -> int:
    """Return how many mails these claims promise: one for each key. What equal unkeyed mails become may be open."""
    if facts.role != "api":
        return len({claim.operation for claim in claims})
    known: list[Attempt] = []
    unkeyed = 0
    for claim in claims:
        if claim.key is None:
            unkeyed += 1
        elif not any(facts.may_share_key(claim, other) for other in known):
            known.append(claim)
    if unkeyed and not facts.contract.key.presence.says("optional"):
        unkeyed = 1 if not got else 0
    return len(known) + unkeyed


def _never_lost(facts: Facts, group: str) -> Iterator[Finding]:
    lost = undelivered(facts, group)
    if not lost:
        return
    claims = [a for op in lost for a in _claims(facts, op.name)]
    weight = _weight(facts, group, claims)
    if weight is None:
        return
    names = ", ".join(op.name for op in lost)
    told = [e.seq for e in facts.about(group) if e.kind is Kind.TOLD and e.operation in {op.name for op in lost}]
    count = facts.count(group, min)
    what = f"{len(lost)} sends were answered as successes, {'one' if count == 1 else count or 'none'} was delivered"
    if len(lost) == 1:
        what = "answered as a success and never delivered"
    yield finding(
        facts.contract,
        "no-lost-send",
        f"{names}: {what}",
        tuple(sorted({seq for a in claims for seq in a.events} | set(told))),
        operation=lost[0].name,
        weight=weight,
    )


def _weight(facts: Facts, group: str, claims: list[Attempt]) -> Level | None:
    """Return how much a missing mail weighs; None when nobody could have delivered it."""
    if facts.role == "client":
        return level(facts.contract, "no-lost-send")
    inline = facts.contract.delivery.says("inline") and facts.role == "api"
    first = min((a.start for a in claims), default=0)
    earliest = min((a.start for a in facts.attempts_of(group)), default=first)
    refused = _refusal(facts, group)
    if refused is not None and not inline:
        # A queue answers first and hears of the refusal later; its later answers repeat the first one.
        before = any(a.end is not None and a.end < refused for a in claims)
        return None if before or facts.contract.delivery.says("queued") else _milder(facts)
    if any(e.kind is Kind.REPORTED for e in facts.about(group)):
        return Level.OBSERVE  # its provider told it that the mail was delivered
    doubt = weather.doubt(facts, group)
    if _says_unknown(facts, group):
        return Level.OBSERVE
    if doubt is not None and not inline:
        return Level.OBSERVE if earliest < doubt else _milder(facts)
    if not inline and (_stopped_at_once(facts, group, earliest) or _out_of_store(facts, earliest)):
        return _milder(facts)
    if doubt is not None and any(a.end is not None and a.end < doubt for a in claims):
        return Level.OBSERVE
    return level(facts.contract, "no-lost-send")


def _stopped_at_once(facts: Facts, group: str, asked: int) -> bool:
    """Whether a queue was killed, stopped or put to sleep and may just have been handing the mail over.

    What it noted before the first byte left is "handing over", which nobody may repeat; and who takes over from one
    that sleeps cannot know. It surely was not when the provider had answered that it is busy, or when for some time
    nothing had been seen of the mail; a message to a store that was held when it was killed is seen.
    """
    return any(spell.start > asked and _may_have_begun(facts, group, asked, spell) for spell in facts.storms.spells)


def _may_have_begun(facts: Facts, group: str, asked: int, spell: Spell) -> bool:
    told = [e.at for e in facts.about(group) if e.kind is Kind.ENDED and asked < e.seq < spell.start]
    working = any(asked < event.seq < spell.start for event in facts.storms.store_faults)
    if told and spell.at - min(told) > INSTANT and not working:
        return False
    return not any(
        e.kind is Kind.PROVIDER_RESPONSE and e.operation is not None and asked < e.seq < spell.start
        for e in facts.about(group)
    )


def _out_of_store(facts: Facts, asked: int) -> bool:
    """Whether a store failed when a queue may just have noted that it hands the mail over.

    A fault that failed a request is told of: by the answer of one who was in flight then. The others hit the queue.
    """
    failed = [a for a in facts.attempts if a.answered and a.classes & {A.FAILED, A.UNKNOWN} and not a.classes & SUCCESS]
    failed.sort(key=lambda a: a.end or 0)
    for event in facts.storms.store_faults:
        told = next((a for a in failed if a.start < event.seq < (a.end or 0)), None)
        if told is not None:
            failed.remove(told)
        elif event.seq > asked:
            return True
    return False


def _milder(facts: Facts) -> Level:
    """Return the level where a queue could be right and a target that answers inline could not."""
    return Level.SHOULD if level(facts.contract, "no-lost-send") is Level.MUST else Level.OBSERVE


def _refusal(facts: Facts, group: str) -> int | None:
    """Return the event by which the provider refused a mail of the group for good."""
    return next(
        (
            e.seq
            for e in facts.about(group)
            if e.kind is Kind.PROVIDER_RESPONSE
            and 400 <= int(e.data.get("status", 0)) < 500
            and int(e.data["status"]) not in (408, 409, 429)
        ),
        None,
    )


def _says_unknown(facts: Facts, group: str) -> bool:
    """Whether a target that met a storm no longer claims success, but says that it does not know."""
    storm = max((spell.start for spell in facts.storms.spells), default=None)
    last = [a for a in facts.attempts_of(group) if a.answered and storm is not None and a.start > storm]
    return bool(last) and bool(last[-1].classes & {A.UNKNOWN, A.IN_PROGRESS}) and not last[-1].classes & SUCCESS


def _claims(facts: Facts, operation: str) -> list[Attempt]:
    """Return the attempts that were told 'done' for this operation, and may take it as said of their own content."""
    mine = facts.attempts_for(operation)
    if facts.role == "client":
        told = [e for e in facts.about(facts.group_of(operation)) if e.kind is Kind.TOLD and e.operation == operation]
        group = facts.group_of(operation)
        alone = len(facts.groups.get(group, ())) < 2
        if alone and any(knows(facts, a) is Knows.DONE for a in mine):
            return []  # it only says what the API had told it
        mine = facts.attempts_of(group)
        return mine if any(e.data["told"] == "sent" for e in told) else []
    if facts.role == "consumer":
        return [a for a in mine if a.answered and 200 <= (a.status or 0) < 300 and a.vouched]
    return [
        a
        for a in mine
        if a.succeeded
        and not a.invalid
        and not a.dry_run
        and facts.sends(a)
        and not _of_another(facts, a)
        and not _draft(facts, a)
        and not _in_part(facts, a)
    ]


def _draft(facts: Facts, claim: Attempt) -> bool:
    """Whether a success repeats the answer of a draft that nobody has approved: it promises no mail."""
    drafts = [
        a for a in facts.attempts_for(claim.operation) if a.classes == {A.PENDING} and a.id == claim.id is not None
    ]
    return bool(drafts) and not facts.decisions(claim.operation)


def _in_part(facts: Facts, claim: Attempt) -> bool:
    """Whether the answer of a batch tells of each mail, and some have no id: it promises less than the whole."""
    if not claim.batch:
        return False
    for shape in facts.contract.shapes(A.ACCEPTED, claim.route):
        body = parsed(claim.body)
        listed = pointer(body, shape.items) if shape.items else body
        if isinstance(listed, list) and shape.id is not None and shape.id.startswith("/"):
            return any(pointer(entry, shape.id) is None for entry in listed)
    return False


def _of_another(facts: Facts, claim: Attempt) -> bool:
    """Whether a success may be the replay of other content that took the key: the conflict rule's business.

    A success with an id of its own is no replay.
    """
    holders = [
        r
        for r in facts.rivals(claim)
        if (facts.kin(r, claim) is not Kin.SAME or facts.group_of(r.operation) != facts.group_of(claim.operation))
        and left_by(facts, r) is not Left.NOTHING
        and (not r.answered or r.classes & SUCCESS)
    ]
    fresh = claim.id is not None and all(r.id not in (None, claim.id) for r in holders)
    return bool(holders) and not fresh
