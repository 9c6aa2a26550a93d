"""Rules about what a caller sends again: the same request, by the same sender, to the same place."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from sendtwice.fake_provider.contracts import AnswerClass as A
from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.judge.answers import finding
from sendtwice.harness.judge.caller_asks import Calls
from sendtwice.harness.judge.caller_forms import CONTENT, differing, media_differs
from sendtwice.harness.judge.caller_keys import keyed
from sendtwice.harness.judge.caller_knows import aged, redirected, same_key, unresolved
from sendtwice.harness.judge.facts import Attempt, Facts
from sendtwice.harness.judge.finding import Finding

#: Redirects that keep the method and the body (RFC 9110, 15.4.8 and 15.4.9).
_KEEPING = frozenset({307, 308})
_PORTS = {"http": 80, "https": 443}


def same_request(calls: Calls, operation: str) -> Iterator[Finding]:
    """What is sent again under a key is the same request, byte for byte (C2, C24)."""
    facts = calls.facts
    tries = [a for a in calls.tries(operation) if keyed(facts, a)]
    heaviest: Finding | None = None
    for attempt in tries:
        # What was refused may be mended under its key, where that was released; no more is asked of it here.
        earlier = [a for a in tries if a.start < attempt.start and same_key(facts, a, attempt)]
        for first in unresolved(facts, earlier, attempt.start):
            if aged(facts, first, attempt):
                continue
            told = _differs(facts, first, attempt)
            if told is not None and (heaviest is None or told.level is Level.MUST is not heaviest.level):
                heaviest = told
    if heaviest is not None:
        yield heaviest


def _differs(facts: Facts, first: Attempt, later: Attempt) -> Finding | None:
    weights: dict[str, Level] = {}
    forms = differing(facts.contract, first.content, later.content, first.content_type, later.content_type)
    weight = _weight_of(facts, forms)
    if weight is not None:
        weights["body" if CONTENT in forms else f"form of the body ({', '.join(sorted(forms))})"] = weight
    for part, differs in (
        ("method", first.method != later.method),
        ("path", first.path != later.path and not _sent_there(facts, later)),
        ("query", (first.query or "") != (later.query or "")),
        ("content-type", media_differs(first.content_type, later.content_type)),
    ):
        weight = _weight_of_part(facts, part) if differs else None
        if weight is not None:
            weights[part] = weight
    if not weights:
        return None
    called = later.answered and later.classes == {A.CONFLICT}
    note = ", which the API called a conflict" if called else ""
    return finding(
        facts.contract,
        "same-request",
        f"{later.name} has the key of {first.name}, and another {' and '.join(weights)}{note}",
        (*first.events, *later.events),
        operation=later.operation,
        weight=Level.MUST if called or Level.MUST in weights.values() else Level.SHOULD,
    )


def _weight_of(facts: Facts, forms: set[str]) -> Level | None:
    """Return how much it weighs that two bodies differ in these forms."""
    contract = facts.contract
    parts = contract.fingerprint.parts
    counted = parts.value or []
    if not forms or (parts.judged and not {"body", "raw"} & set(counted)):
        return None
    if parts.judged and "raw" in counted:
        return Level.MUST
    if CONTENT in forms:
        ignored = contract.mismatch.judged and not contract.mismatch.permits("refuse")
        return Level.SHOULD if ignored else Level.MUST
    claims = [contract.equivalence(form) for form in forms]
    if any(claim.says("different") for claim in claims):
        return Level.MUST
    return None if all(claim.says("same") for claim in claims) else Level.SHOULD


def _weight_of_part(facts: Facts, part: str) -> Level | None:
    """Return how much it weighs that something beside the body differs."""
    parts, scope = facts.contract.fingerprint.parts, facts.contract.scope
    if (parts.judged and part in (parts.value or ())) or (scope.judged and part in (scope.value or ())):
        return Level.MUST
    if part == "content-type":
        return None if parts.judged else Level.SHOULD
    # To ask another resource, or by another method, is another request, whatever the key's owner compares.
    return Level.SHOULD


def _sent_there(facts: Facts, attempt: Attempt) -> bool:
    """Whether an attempt's place is one to which an earlier answer had sent its caller."""
    return any(
        redirected(a) and a.before(attempt) and urlsplit(a.headers["location"]).path == attempt.path
        for a in facts.attempts_for(attempt.operation)
    )


def same_sender(calls: Calls, operation: str) -> Iterator[Finding]:
    """While an attempt is open the next one goes to the same host, with the same credential (C15)."""
    facts = calls.facts
    tries = calls.tries(operation)
    for attempt in tries:
        for first in unresolved(facts, [a for a in tries if a.start < attempt.start], attempt.start):
            what = []
            if _other_host(facts, first, attempt):
                what.append(f"to another host ({attempt.host} instead of {first.host})")
            if _other_credential(calls, first, attempt):
                what.append("with another credential")
            if not what or aged(facts, first, attempt):
                continue
            yield finding(
                facts.contract,
                "same-sender",
                f"{attempt.name} went {' and '.join(what)}, while what became of {first.name} was open: "
                "keys of one sender are not known to another",
                (*first.events, *attempt.events),
                operation=operation,
                weight=Level.SHOULD,
            )
            return


def _other_host(facts: Facts, first: Attempt, later: Attempt) -> bool:
    if first.host is None or later.host is None or first.host.lower() == later.host.lower():
        return False
    hosts = {
        urlsplit(a.headers["location"]).netloc.lower()
        for a in facts.attempts_for(later.operation)
        if redirected(a) and a.start < later.start
    }
    return not hosts & {first.host.lower(), later.host.lower()}


def _other_credential(calls: Calls, first: Attempt, later: Attempt) -> bool:
    """Whether the credential changed, unless it was turned away, or another process may have a fresh one."""
    if None in (first.credential, later.credential) or first.credential == later.credential:
        return False
    turned_away = any(
        a.answered and (a.status in (401, 403) or A.UNAUTHORIZED in a.classes) and a.before(later)
        for a in calls.tries(later.operation)
    )
    return not turned_away and calls.one_ask(first, later)


def redirects(calls: Calls, operation: str) -> Iterator[Finding]:
    """A redirect that keeps the method keeps the key and the body, and stays with the origin (C26)."""
    facts = calls.facts
    for attempt in calls.tries(operation):
        if not redirected(attempt) or attempt.status not in _KEEPING or not calls.in_turn(operation):
            continue
        follow = calls.next_after(attempt)
        if follow is None or not calls.follows(follow, attempt):
            continue
        if _elsewhere(attempt, follow):
            if keyed(facts, follow):
                yield _redirect(facts, attempt, follow, "to another origin, with the key", Level.SHOULD)
            continue
        if keyed(facts, attempt) and not keyed(facts, follow):
            what = "without the key"
        elif _moved(attempt) and keyed(facts, attempt) and not same_key(facts, attempt, follow):
            what = "with another key"
        elif attempt.content != follow.content:
            what = "with another body"
        elif attempt.method != follow.method:
            what = f"with {follow.method} instead of {attempt.method}"
        else:
            continue
        yield _redirect(facts, attempt, follow, what, Level.MUST)


def _moved(attempt: Attempt) -> bool:
    """Whether a redirect leads to another path: one to the same is not told from a retry, which may have a new key."""
    return urlsplit(attempt.headers["location"]).path != attempt.path


def _redirect(facts: Facts, attempt: Attempt, follow: Attempt, what: str, weight: Level) -> Finding:
    return finding(
        facts.contract,
        "redirect",
        f"{attempt.name} was answered {attempt.status}, and {follow.name} followed it {what}",
        (*attempt.events, *follow.events),
        operation=attempt.operation,
        weight=weight,
    )


def _elsewhere(attempt: Attempt, follow: Attempt) -> bool:
    """Whether a redirect left the origin: the Host header says so, a name without a port meaning the usual one."""
    target = urlsplit(attempt.headers["location"])
    if not target.netloc or attempt.host is None or follow.host is None:
        return False
    port = _PORTS.get(target.scheme, 80)
    return _with_port(attempt.host, port) != _with_port(follow.host, port)


def _with_port(host: str, port: int) -> str:
    name, colon, number = host.lower().rpartition(":")
    return f"{name}:{number}" if colon and number.isdigit() else f"{host.lower()}:{port}"
