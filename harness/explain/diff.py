"""What breaks for a caller who moves from one contract to another: ``sendtwice explain OLD --against NEW``.

Every claim that differs makes one difference, in the caller's words, by the rules of :mod:`diff_table`; one without a
rule is told by its title and both values, so nothing is dropped. The same list says, when a target is judged by another
contract than its own, what the verdicts are about.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sendtwice.fake_provider.contracts.claims import Basis, Claim
from sendtwice.fake_provider.contracts.model import SEND, Contract, as_claims
from sendtwice.fake_provider.contracts.wire import AnswerClass
from sendtwice.harness.explain import claim_words, diff_answers
from sendtwice.harness.explain.diff_rules import Harm, Sides, Told, Weight
from sendtwice.harness.explain.diff_table import FACT_RULES, FALLBACK, GROUP_RULES, OPTIONAL_FACTS, RULES
from sendtwice.harness.explain.facts import DOES, FACTS, key_of, path_of
from sendtwice.harness.explain.tables import markdown_table

_WIDTH = 100
_SECTIONS = {
    Weight.BREAKS: "breaks",
    Weight.CHANGES: "must be adapted",
    Weight.UNKNOWN: "not said any more",
    Weight.EASES: "nothing to do",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is otherwise under the new contract; ``harm`` is the worst that comes of not knowing it."""

    name: str
    weight: Weight
    harm: Harm
    text: str
    before: str
    after: str


def differences(old: Contract, new: Contract) -> list[Difference]:
    """Return what differs, the worst first; of two that are as bad, the contract's order stands."""
    found = [*_claims(old, new), *_facts(old, new), *_answers(old, new), *_routes(old, new)]
    order = list(Weight)
    return sorted(found, key=lambda one: (order.index(one.weight), one.harm))


def lines(declared: Contract, judged_by: Contract, *, limit: int = 12) -> Iterator[str]:
    """Return what a run says when it judges by another contract than the target's own: the worst, up to a limit."""
    found = differences(declared, judged_by)
    telling = [one for one in found if one.weight in (Weight.BREAKS, Weight.CHANGES)][:limit]
    yield f"judged by {judged_by.name}, not by {declared.name}, the target's own; under {judged_by.name}:"
    for one in telling:
        yield f"  {one.harm.words}: {one.text}"
    if not telling:
        yield "  nothing that a caller would meet is otherwise"
    if len(found) > len(telling):
        more = len(found) - len(telling)
        yield f"  and {more} more: sendtwice explain {declared.name} --against {judged_by.name}"


def text(old: Contract, new: Contract) -> Iterator[str]:
    """Return the differences for a terminal."""
    found = differences(old, new)
    yield f"{old.name} -> {new.name}  what a caller meets who moves from {old.title} to {new.title}"
    yield from textwrap.wrap(_counts(found), _WIDTH)
    for weight, title in _SECTIONS.items():
        chosen = [one for one in found if one.weight is weight]
        if chosen:
            yield ""
            yield f"{title} ({len(chosen)})"
        harm = None
        for one in chosen:
            if weight is Weight.BREAKS and one.harm is not harm:
                harm = one.harm
                yield f"  {harm.words}"
            indent = "    " if weight is Weight.BREAKS else "  "
            yield from textwrap.wrap(
                f"- {one.text}.",
                _WIDTH,
                initial_indent=indent,
                subsequent_indent=f"{indent}  ",
                break_on_hyphens=False,
                break_long_words=False,
            )


def markdown(old: Contract, new: Contract) -> Iterator[str]:
    """Return the differences as tables that can be pasted into a page."""
    found = differences(old, new)
    yield f"# From {old.name} to {new.name}"
    yield ""
    yield f"{_counts(found)}."
    for weight, title in _SECTIONS.items():
        rows = [(one.harm.words, f"{one.text}.") for one in found if one.weight is weight]
        if rows:
            yield ""
            yield f"## {title[:1].upper()}{title[1:]}"
            yield ""
            if weight is Weight.BREAKS:
                yield from markdown_table(("A caller", "Because"), rows)
            else:
                yield from markdown_table(("Difference",), [(row[1],) for row in rows])


def data(old: Contract, new: Contract) -> dict[str, Any]:
    """Return the differences for a program."""
    found = differences(old, new)
    return {
        "from": old.name,
        "to": new.name,
        "counts": {weight.value: sum(one.weight is weight for one in found) for weight in Weight},
        "differences": [
            {
                "name": one.name,
                "weight": one.weight.value,
                "harm": one.harm.name.lower(),
                "text": f"{one.text}.",
                "before": one.before or None,
                "after": one.after or None,
            }
            for one in found
        ],
    }


def _counts(found: list[Difference]) -> str:
    if not found:
        return "no difference that a caller can meet"
    return ", ".join(f"{sum(one.weight is weight for one in found)} {title}" for weight, title in _SECTIONS.items())


# -- claims ----------------------------------------------------------------------------------------------------------


def _claims(old: Contract, new: Contract) -> Iterator[Difference]:
    before, after = as_claims(old), as_claims(new)
    whole = {group for group in GROUP_RULES if (getattr(old, group) is None) != (getattr(new, group) is None)}
    for group in GROUP_RULES:
        if group in whole:
            yield _group(old, new, group)
    unsaid: Claim[Any] = Claim(basis=Basis.UNKNOWN)
    for name in [*before, *(name for name in after if name not in before)]:
        if name.partition(".")[0] not in whole:
            one = _claim(old, new, name, before.get(name, unsaid), after.get(name, unsaid))
            if one is not None:
                yield one


def _group(old: Contract, new: Contract, group: str) -> Difference:
    about, (harm, sentence) = GROUP_RULES[group]
    side = old if getattr(new, group) is None else new
    claims = {name: claim for name, claim in as_claims(side).items() if name.startswith(f"{group}.")}
    said = "; ".join(
        f"{claim_words.title(name)}: {claim_words.value_of(name, claim)}"
        for name, claim in claims.items()
        if claim.value is not None and claim.basis is not Basis.UNKNOWN
    )
    if side is old:
        text = f"{new.name} says nothing about {about}" + (f" ({old.name}: {said})" if said else "")
        return Difference(group, Weight.UNKNOWN, Harm.REFUSED, text, said or about, "")
    text = _filled(sentence, new) + (f" ({said})" if said else "") + f"; {old.name} has none"
    return Difference(group, harm.weight, harm, text, "", said or about)


def _claim(old: Contract, new: Contract, name: str, before: Claim[Any], after: Claim[Any]) -> Difference | None:
    ordered = name == "order"
    same = _equal(before.value, after.value, ordered=ordered) and _equal(before.also, after.also, ordered=False)
    if Basis.UNKNOWN is before.basis is after.basis or (same and before.basis is after.basis):
        return None
    title = claim_words.title(name)
    was, now = (claim_words.value_of(name, side) if side.basis is not Basis.UNKNOWN else "" for side in (before, after))
    stake = RULES[name].stake if name in RULES else FALLBACK.get(name, Harm.ADAPT)
    if not after.judged:
        promised = f"{old.name}: {was}" if before.judged else f"{old.name} was seen to: {was}" if was else ""
        seen = f"; it was seen: {now}" if now else ""
        verb = "promise" if now else "say"
        text = f"{new.name} does not {verb}{_about(title)}{seen}" + (f" ({promised})" if promised else "")
        return Difference(name, Weight.UNKNOWN, stake, f"{text}{_at_worst(stake)}", was, now)
    if _equal(before.value, after.value, ordered=ordered):
        return _beside(old, new, name, before, after)
    sides = Sides(old, new, before.value if before.judged else None, after.value)
    told = RULES[name].judge(sides) if name in RULES else None
    harm, sentence = told or (FALLBACK.get(name, Harm.ADAPT), "{title}: {now}")
    if not before.judged and harm is Harm.ADAPT:
        harm = Harm.NONE  # nothing was promised that a caller could have built on
    if after.value in before.also:
        harm = Harm.NONE  # it was seen before: a caller bears it already
    shown_was = claim_words.phrase(name, before.value) if before.judged else "what is not said"
    text = _filled(sentence, new, title=_capital(title), was=shown_was, now=claim_words.phrase(name, after.value))
    if after.also:
        text += f"; also seen: {_seen(name, after.also)}"
    if "{was}" not in sentence:
        text += f" ({old.name}: {was})" if before.judged else f" ({old.name} does not say)"
    return Difference(name, harm.weight, harm, text, was, now)


def _equal(one: Any, other: Any, *, ordered: bool) -> bool:
    if isinstance(one, list) and isinstance(other, list) and not ordered:
        return all(item in other for item in one) and all(item in one for item in other)
    return bool(one == other)


def _beside(old: Contract, new: Contract, name: str, before: Claim[Any], after: Claim[Any]) -> Difference:
    """Tell of two claims with the same value, of which one is not promised or was seen to be otherwise too."""
    was, now = claim_words.value_of(name, before), claim_words.value_of(name, after)
    come = [one for one in after.also if one not in before.also]
    gone = [one for one in before.also if one not in after.also]
    text, harm = f"{_capital(claim_words.title(name))}: {claim_words.phrase(name, after.value)}", Harm.NONE
    if come:
        harm = Harm.ADAPT
        text += f", but {new.name} was also seen to do otherwise: {_seen(name, come)}"
    elif gone:
        text += f", and nothing else ({old.name} was also seen to do otherwise: {_seen(name, gone)})"
    else:
        text += f", and it is promised ({old.name} does not promise it)"
    return Difference(name, harm.weight, harm, text, was, now)


def _seen(name: str, values: list[Any]) -> str:
    return claim_words.several([claim_words.phrase(name, one) for one in values], "or")


def _about(title: str) -> str:
    return f" {title}" if title.startswith(("how ", "what ", "where ")) else f": {title}"


def _at_worst(stake: Harm) -> str:
    return {
        Harm.TWICE: "; at worst a mail goes out twice",
        Harm.LOST: "; at worst a mail is lost",
    }.get(stake, "")


_HOLE = re.compile(r"\{(\w+)\}")


def _filled(sentence: str, new: Contract, **values: str) -> str:
    """Fill a sentence's holes: words of its own, or the new contract's answer for a class."""

    def fill(hole: re.Match[str]) -> str:
        name = hole[1]
        return values[name] if name in values else diff_answers.answers(new.answers.get(AnswerClass(name), []))

    return _HOLE.sub(fill, sentence)


def _capital(title: str) -> str:
    return title[:1].upper() + title[1:]


# -- facts, answers and routes ---------------------------------------------------------------------------------------


def _facts(old: Contract, new: Contract) -> Iterator[Difference]:
    for name, fact in FACTS.items():
        was, now = fact.read(old), fact.read(new)
        group = name.partition(".")[0]
        if was == now or (group in GROUP_RULES and None in (getattr(old, group), getattr(new, group))):
            continue
        if not now:
            text = f"{new.name} names nothing for this: {fact.title} ({old.name}: {was})"
            yield Difference(name, Weight.UNKNOWN, Harm.ADAPT, text, was, "")
            continue
        harm, sentence = _fact(name, was, now, new)
        text = _filled(sentence, new, was=was or "nothing", now=now)
        if "{was}" not in sentence:
            text += f" ({old.name}: {was})" if was else f" ({old.name} names nothing)"
        yield Difference(name, harm.weight, harm, text, was, now)


def _fact(name: str, was: str, now: str, new: Contract) -> Told:
    harm, sentence = FACT_RULES[name]
    if name == "key.at" and new.key.presence.value == "required":
        return Harm.REFUSED, "The key goes into {now}, not into {was}: a send without it there is refused"
    if name == "mail.required" and set(now.split(", ")) <= set(was.split(", ")):
        return Harm.NONE, "A send needs only {now}"
    return (Harm.NONE, sentence) if not was and name in OPTIONAL_FACTS else (harm, sentence)


def _answers(old: Contract, new: Contract) -> Iterator[Difference]:
    for one in diff_answers.differences(old, new):
        weight = Weight.UNKNOWN if one.lost else one.harm.weight
        yield Difference(one.name, weight, one.harm, one.text, one.before, one.after)


def _routes(old: Contract, new: Contract) -> Iterator[Difference]:
    gone = [name for name in old.routes if name not in new.routes]
    come = [name for name in new.routes if name not in old.routes]
    if gone:
        told = ", ".join(f"{name} ({path_of(old.routes[name])})" for name in gone)
        text = f"{new.name} names no route like these of {old.name}: {told}"
        yield Difference("routes", Weight.UNKNOWN, Harm.ADAPT, text, told, "")
    for name in old.routes:
        if name in new.routes:
            yield from _route(old, new, name)
    if old.request.key != new.request.key:
        yield from _route_key(old, new, SEND)
    if come:
        told = ", ".join(f"{name} ({path_of(new.routes[name])})" for name in come)
        yield Difference(
            "routes", Weight.EASES, Harm.NONE, f"There are routes that {old.name} has not: {told}", "", told
        )


def _route(old: Contract, new: Contract, name: str) -> Iterator[Difference]:
    before, after = old.routes[name], new.routes[name]
    scopes = [
        claim_words.several(list(route.scope or contract.scope.value or []))
        for route, contract in ((before, old), (after, new))
    ]
    parts = [
        ("path", Harm.ADAPT, path_of(before), path_of(after), "The route {name} is {now}, not {was}"),
        ("does", Harm.MISREAD, DOES[before.does], DOES[after.does], "The route {name} {now} ({was} before)"),
        ("asks", Harm.REFUSED, before.asks, after.asks, "The route {name} needs a {now}'s credential, not a {was}'s"),
    ]
    if before.scope or after.scope:
        sentence = "On the route {name} a key counts per {now}, not per {was}"
        parts.append(("scope", Harm.TWICE, scopes[0], scopes[1], sentence))
    for part, harm, was, now, sentence in parts:
        if was != now:
            text = _filled(sentence, new, name=name, was=was, now=now)
            yield Difference(f"routes.{name}.{part}", harm.weight, harm, text, was, now)
    yield from _route_key(old, new, name)


def _route_key(old: Contract, new: Contract, name: str) -> Iterator[Difference]:
    was, now = old.takes_key(name), new.takes_key(name)
    if was == now:
        return
    told = (key_of(old, name), key_of(new, name))
    if now == "unknown":
        text = f"{new.name} does not say whether the route {name} takes a key ({old.name}: {told[0]})"
        yield Difference(f"routes.{name}.key", Weight.UNKNOWN, Harm.TWICE, text, *told)
        return
    harm, text = {
        "ignored": (Harm.TWICE, f"The route {name} takes no key: every repeat there is done again"),
        "required": (Harm.REFUSED, f"The route {name} needs a key, and refuses a request without one"),
    }.get(now, (Harm.TWICE if was == "required" else Harm.NONE, f"On the route {name} a key is optional"))
    yield Difference(f"routes.{name}.key", harm.weight, harm, f"{text} ({old.name}: {told[0]})", *told)
