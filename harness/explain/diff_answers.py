"""Answers under two contracts: the same news in other words, and the same words for other news.

The second is what bites: a caller who reads an answer as the old contract taught him takes it for something else. How
that caller reads is what :func:`reading` returns; like the judge, he goes by a code where one fits, else by the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sendtwice.fake_provider.contracts.model import Contract
from sendtwice.fake_provider.contracts.wire import AnswerClass, AnswerShape
from sendtwice.harness.explain.claim_words import several
from sendtwice.harness.explain.diff_rules import Harm
from sendtwice.harness.explain.situations import shape as shown

#: What each class tells, and what a caller does then; two classes with the same deed cannot be mistaken for harm.
CLASSES: dict[AnswerClass, tuple[str, str]] = {
    AnswerClass.ACCEPTED: ("a first success", "done"),
    AnswerClass.REPLAYED: ("a replay", "known"),
    AnswerClass.DUPLICATE: ("a repeat that is refused", "known"),
    AnswerClass.PENDING: ("a mail that waits for approval", "waits"),
    AnswerClass.CONFLICT: ("other content under a used key", "stops"),
    AnswerClass.IN_PROGRESS: ("a repeat while the first runs", "repeats"),
    AnswerClass.UNKNOWN: ("an unknown outcome", "finds out"),
    AnswerClass.REFUSED: ("a refusal", "mends"),
    AnswerClass.FAILED: ("a failure", "repeats"),
    AnswerClass.KEY_MISSING: ("a missing key", "mends"),
    AnswerClass.KEY_INVALID: ("a key that is not valid", "mends"),
    AnswerClass.EXPIRED: ("a forgotten or late key", "finds out"),
    AnswerClass.UNAUTHORIZED: ("a caller who is not known", "mends"),
    AnswerClass.RATE_LIMITED: ("one request too many", "repeats"),
}

_SENT = {AnswerClass.ACCEPTED, AnswerClass.REPLAYED, AnswerClass.DUPLICATE}
_NOT_SENT = {kind for kind, (_, deed) in CLASSES.items() if deed == "mends"} | {
    AnswerClass.FAILED,
    AnswerClass.RATE_LIMITED,
}


#: Status, place of the code, code.
Sign = tuple[int, str | None, str | int | None]


#: More statuses of one hundred than a person lists.
_MANY = 8


@dataclass(frozen=True, slots=True)
class AnswerDifference:
    """One difference; ``lost``: the new contract does not say what the old one did."""

    name: str
    harm: Harm
    text: str
    before: str = ""
    after: str = ""
    lost: bool = False


def differences(old: Contract, new: Contract) -> Iterator[AnswerDifference]:
    """Return what differs in answers."""
    for kind, (what, _) in CLASSES.items():
        before, after = old.answers.get(kind, []), new.answers.get(kind, [])
        yield from _told_otherwise(old, new, kind, before, after)
        for name in sorted(old.routes.keys() & new.routes.keys()):
            own = [contract.routes[name].answers.get(kind) for contract in (old, new)]
            here = own[0] or before, own[1] or after
            if any(own) and looks(here[0]) != looks(here[1]):
                was, now = map(answers, here)
                text = f"On the route {name} {what} is answered {now}, not {was}"
                yield AnswerDifference(f"routes.{name}.answers.{kind.value}", Harm.ADAPT, text, was, now)
    yield from _collisions(old, new)


def answers(shapes: Iterable[AnswerShape]) -> str:
    """Return how a class is answered, in words."""
    return "; ".join(shown(one) for one in shapes) or "not said"


def looks(shapes: Iterable[AnswerShape]) -> set[tuple[object, ...]]:
    """Return what a caller can see of these shapes."""
    return {
        (frozenset(one.status), one.code.at, frozenset(one.code.one_of)) if one.code else (frozenset(one.status),)
        for one in shapes
    }


def _told_otherwise(
    old: Contract, new: Contract, kind: AnswerClass, before: Sequence[AnswerShape], after: Sequence[AnswerShape]
) -> Iterator[AnswerDifference]:
    what, name = CLASSES[kind][0], f"answers.{kind.value}"
    start, was, now = what[:1].upper() + what[1:], answers(before), answers(after)
    if before and not after:
        text = f"{new.name} does not say how it tells {what} ({old.name}: {was})"
        yield AnswerDifference(name, Harm.MISREAD, text, was, "", lost=True)
    elif after and not before:
        text = f"{start} is answered {now} ({old.name} has no such answer)"
        yield AnswerDifference(name, Harm.ADAPT, text, "", now)
    elif looks(before) != looks(after):
        places = [{one.code.at for one in side if one.code} for side in (before, after)]
        where = f", and the code stands at {several(sorted(places[1]))}" if places[1] and places[0] != places[1] else ""
        fits = all(kind in reading(old, *sign) for one in after for sign in _signs_of(one))
        text = f"{start} is answered {now}, {'which fits' if fits else 'not'} {was}{'' if fits else where}"
        yield AnswerDifference(name, Harm.NONE if fits else Harm.ADAPT, text, was, now)
    ids = [{one.id for one in side if one.id} for side in (before, after)]
    if all(ids) and ids[0] != ids[1]:
        was, now = (several(sorted(side), "or") for side in ids)
        text = f"The id in the answer for {what} stands at {now}, not {was}"
        yield AnswerDifference(f"{name}.id", Harm.MISREAD, text, was, now)


# -- the same answer for other news ----------------------------------------------------------------------------------


def reading(contract: Contract, status: int, at: str | None, code: str | int | None) -> frozenset[AnswerClass]:
    """Return every class that an answer with this status and code may belong to."""
    exact, loose = set(), set()
    for kind, shapes in contract.answers.items():
        for one in shapes:
            if status not in _statuses(one):
                continue
            if one.code is None:
                loose.add(kind)
            elif one.code.at == at and code in one.code.one_of:
                exact.add(kind)
    return frozenset(exact or loose)


def _statuses(one: AnswerShape) -> set[int]:
    found: set[int] = set()
    for pattern in one.status:
        found |= {pattern} if isinstance(pattern, int) else {int(pattern[0]) * 100 + n for n in range(100)}
    return found


def _signs_of(one: AnswerShape) -> Iterator[Sign]:
    """Return every answer of this look: its status, and the place and value of its code."""
    for code in one.code.one_of if one.code else (None,):
        for status in sorted(_statuses(one)):
            yield status, one.code.at if one.code else None, code


def _lists(contract: Contract, kind: AnswerClass, status: int) -> bool:
    return any(one.code is None and status in one.status for one in contract.answers.get(kind, ()))


def _collisions(old: Contract, new: Contract) -> Iterator[AnswerDifference]:
    found: dict[tuple[frozenset[AnswerClass], AnswerClass], dict[str, None]] = {}
    for kind, shapes in new.answers.items():
        for one in shapes:
            for status, at, code in _signs_of(one):
                read = reading(old, status, at, code)
                if status not in one.status and any(_lists(new, other, status) for other in read):
                    continue  # 4xx is all but the statuses that are listed for themselves
                if read and all(CLASSES[other][1] != CLASSES[kind][1] for other in read):
                    sign = f"{status} {code}" if code is not None else str(status)
                    found.setdefault((read, kind), {})[sign] = None
    for (read, kind), signs in found.items():
        was = several([CLASSES[other][0] for other in CLASSES if other in read], "or")
        told, now = _signs(list(signs)), CLASSES[kind][0]
        text = f"{told} was {was}, and may be {now}{_outcome(read, kind)}"
        yield AnswerDifference(f"answers.{kind.value}.read", _harm(read, kind), text, was, now)


def _signs(signs: list[str]) -> str:
    """Return statuses and codes; of a hundred that is meant as one, only its name."""
    short: dict[str, None] = {}
    for sign in signs:
        like = sum(" " not in other and other[0] == sign[0] for other in signs)
        whole = "" if " " in sign or like <= _MANY else f"{sign[0]}xx" if like == 100 else f"most {sign[0]}xx"
        short[whole or sign] = None
    return several(list(short), "or")


def _harm(read: frozenset[AnswerClass], kind: AnswerClass) -> Harm:
    """Return the worst that comes of taking ``kind`` for what was ``read``."""
    deeds = {CLASSES[other][1] for other in read}
    if "mends" in deeds and kind not in _NOT_SENT:
        return Harm.TWICE  # what is mended is sent under a new key, beside the first
    if deeds & {"done", "known"} and kind not in _SENT:
        return Harm.LOST
    return Harm.MISREAD


def _outcome(read: frozenset[AnswerClass], kind: AnswerClass) -> str:
    return {
        Harm.TWICE: ": who mends it and sends it under a new key sends twice",
        Harm.LOST: ": nothing may have been sent",
    }.get(_harm(read, kind), "")
