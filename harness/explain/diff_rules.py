"""How a difference between two contracts is weighed, and the judgements that numbers and lists share.

See :mod:`diff_table` for the claims themselves, and :mod:`diff` for what is made of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from sendtwice.fake_provider.contracts.model import Contract
from sendtwice.harness.explain import claim_words


class Weight(StrEnum):
    """How much a difference asks of a caller."""

    BREAKS = "breaks"
    CHANGES = "changes"
    UNKNOWN = "unknown"
    EASES = "eases"


class Harm(IntEnum):
    """What comes of a difference for a caller who does not know of it, the worst first."""

    TWICE = 0
    LOST = 1
    REFUSED = 2
    MISREAD = 3
    ADAPT = 4
    NONE = 5

    @property
    def words(self) -> str:
        """Return the harm as the head of a line."""
        return _HARMS[self]

    @property
    def weight(self) -> Weight:
        """Return the section in which it is told."""
        return Weight.EASES if self is Harm.NONE else Weight.CHANGES if self is Harm.ADAPT else Weight.BREAKS


_HARMS = {
    Harm.TWICE: "may send twice",
    Harm.LOST: "may lose mail",
    Harm.REFUSED: "may be refused",
    Harm.MISREAD: "may misread an answer",
    Harm.ADAPT: "must be adapted",
    Harm.NONE: "nothing to do",
}


@dataclass(frozen=True, slots=True)
class Sides:
    """A claim under both contracts; ``before`` is None when the old one does not promise anything."""

    old: Contract
    new: Contract
    before: Any
    after: Any


Told = tuple[Harm, str]
Judge = Callable[[Sides], Told]


@dataclass(frozen=True, slots=True)
class Rule:
    """How a difference in one claim is told. ``stake``: at worst, when the new contract says nothing."""

    stake: Harm
    told: Judge | Mapping[Any, Told] = field(default_factory=dict)

    def judge(self, sides: Sides) -> Told | None:
        """Return harm and sentence, or None where no sentence fits these values."""
        if callable(self.told):
            return self.told(sides)
        pair = (_hashable(sides.before), _hashable(sides.after))
        return self.told.get(pair) or self.told.get(pair[1])


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# -- numbers and lists -----------------------------------------------------------------------------------------------


def less_is(harm: Harm, less: str, more: str, *, more_is: Harm = Harm.NONE) -> Judge:
    """Judge a number; one that was not said before counts as no bound."""
    return lambda s: (harm, less) if s.before is None or s.after < s.before else (more_is, more)


COMPARED = "Compared too: {these}; a repeat that differs there is another request"
NOT_COMPARED = "Not compared: {these}; another mail that differs only there is taken for a repeat"


def parts(gained: Told, lost: Told, *, show: Callable[[list[Any]], str] = claim_words.several) -> Judge:
    """Judge a list: what is in it only now, and what is no longer; the worse one is told first."""

    def judge(sides: Sides) -> Told:
        before, after = sides.before or [], sides.after
        come, gone = [x for x in after if x not in before], [x for x in before if x not in after]
        told = [
            (harm, text.replace("{these}", show(items)))
            for (harm, text), items in ((gained, come), (lost, gone))
            if items
        ]
        told.sort(key=lambda one: one[0])
        return (told[0][0], "; ".join(text for _, text in told)) if told else (Harm.NONE, "{title}: {now}")

    return judge


def fields(sides: Sides) -> Told:
    """Judge the fields that are compared; where none were named, all were."""
    if sides.before is None:
        return (
            Harm.LOST,
            "Only these fields are compared: {now}; another mail that differs elsewhere is taken for a repeat",
        )
    return parts((Harm.REFUSED, COMPARED), (Harm.LOST, NOT_COMPARED), show=claim_words.pointers)(sides)


def key_bound(sides: Sides, *, longest: bool) -> Told:
    """Judge the least or the greatest length of a key."""
    word, unit = "longer" if longest else "shorter", sides.new.key.unit.value or "characters"
    before = sides.before if sides.before is not None else (float("inf") if longest else 0)
    if (sides.after >= before) if longest else (sides.after <= before):
        return Harm.NONE, f"Keys may be {word}: {{now}} {unit}"
    if sides.new.key.invalid.value == "ignore":
        return Harm.TWICE, f"Keys {word} than {{now}} {unit} are ignored and guard nothing"
    return Harm.REFUSED, f"Keys {word} than {{now}} {unit} are refused"


#: Each charset holds every one after it.
_NARROWER = ("any", "printable-ascii", "visible-ascii", "token", "dotted-word", "word", "uuid")


def charset(sides: Sides) -> Told:
    """Judge what a key may hold."""
    before = _NARROWER.index(sides.before) if sides.before is not None else 0
    if _NARROWER.index(sides.after) <= before:
        return Harm.NONE, "A key may hold more: {now}"
    if sides.new.key.invalid.value == "ignore":
        return Harm.TWICE, "A key with anything but {now} is ignored and guards nothing"
    return Harm.REFUSED, "A key with anything but {now} is refused"


def scope(sides: Sides) -> Told:
    """Judge within what two equal keys are one key."""
    before, after = sides.before or [], sides.after
    if sides.before is None:
        return Harm.TWICE, "A key counts per {now}: the same key elsewhere is another mail"
    come, gone = [p for p in after if p not in before], [p for p in before if p not in after]
    text = "Keys are compared per {now}, not per {was}"
    if come:
        text += f": a repeat with another {claim_words.several(come, 'or')} is a second mail"
    if gone:
        joint = "; " if come else ": "
        text += f"{joint}one key counts for every {claim_words.several(gone)}, and of two mails only the first is sent"
    return (Harm.TWICE if come else Harm.LOST if gone else Harm.NONE), text


def kept_at_least(sides: Sides) -> Told:
    """Judge the floor of a key's time: before it a retry is surely a repeat."""
    if sides.before is None:
        return Harm.NONE, "A key is remembered for {now} at least"
    if sides.after > sides.before:
        return Harm.NONE, "A key is remembered longer: {now} at least, not {was}"
    harm, late = _when_forgotten(sides.new)
    return harm, f"A key is forgotten after {{now}}, not {{was}}: a retry after that {late}"


def kept_at_most(sides: Sides) -> Told:
    """Judge the ceiling of a key's time: after it a key is surely free."""
    floor = sides.old.retention.at_least
    if floor.judged and floor.value is not None and sides.after < floor.value:
        harm, late = _when_forgotten(sides.new)
        return harm, f"After {{now}} every key is forgotten: a retry after that {late}"
    if sides.before is not None and sides.after > sides.before:
        text = "A key may be remembered for {now}, not {was}: another mail under it before then is not sent"
        return Harm.LOST, text
    return Harm.ADAPT, "A key is remembered for {now} at most"


def _when_forgotten(contract: Contract) -> Told:
    refused = contract.retention.then.value == "refuse"
    return (Harm.REFUSED, "is refused") if refused else (Harm.TWICE, "sends a second mail")


#: When the clock of a key starts, the earliest first.
_STARTS = ("first-sent", "first-receipt", "first-success", "completion", "last-use", "scheduled-time")


def start(sides: Sides) -> Told:
    """Judge from when a key's time is counted."""
    text = "How long a key is remembered is counted from {now}"
    if sides.before is not None and _STARTS.index(sides.after) < _STARTS.index(sides.before):
        return Harm.TWICE, f"{text}, which is earlier: a late retry may send a second mail"
    return Harm.NONE, text


def same(what: str) -> Mapping[Any, Told]:
    """Return the judgement of a claim that says whether a repeat with ``what`` is the same request."""
    return {
        "different": (Harm.REFUSED, f"A repeat with {what} is another request, and no repeat"),
        "same": (Harm.NONE, f"A repeat with {what} is the same request"),
    }


def outcome(after: str, *, sent: bool) -> Mapping[Any, Told]:
    """Return what becomes of the key ``after`` something; ``sent``: whether a mail may have gone out by then."""
    free = f"After {after} the key is free: a repeat may send a second mail"
    fresh = f"After {after} nothing is stored: a repeat under the same key is tried anew"
    again = f"After {after} the same answer comes again: a repeat does not find out more"
    spent = f"After {after} the answer is stored: the corrected request needs a new key"
    return {
        "stored": (Harm.REFUSED, again) if sent else (Harm.LOST, spent),
        "released": (Harm.TWICE, free) if sent else (Harm.ADAPT, fresh),
        "kept": (Harm.REFUSED, f"After {after} the key stays in progress until something else ends it"),
        "poisoned": (Harm.REFUSED, f"After {after} the key is refused from then on: it needs a new one"),
    }


def marks(sides: Sides) -> Told:
    """Judge what marks a replay: who looks for all that the old contract showed must still find it."""
    if not sides.after:
        return Harm.MISREAD, "Nothing marks a replay"
    seen = all(one in sides.after for one in sides.before or [])
    return Harm.NONE if seen else Harm.MISREAD, "A replay is known by {now}"


def newly(harm: Harm, sentence: str) -> Judge:
    """Judge something that has another name; where it had none before, nobody looked for it."""
    return lambda s: (Harm.NONE if s.before is None else harm, sentence)
