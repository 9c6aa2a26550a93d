"""``sendtwice explain CONTRACT``: a contract as its vendor would print it, for a terminal, a page or a program.

What a contract does not say is never left out: each group ends with the claims that are not said.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Literal

from sendtwice.fake_provider.contracts.claims import Basis, Claim, Level
from sendtwice.fake_provider.contracts.model import Contract, as_claims
from sendtwice.fake_provider.contracts.wire import Route
from sendtwice.harness.explain import claim_words
from sendtwice.harness.explain.facts import DOES, FACTS, key_of, path_of, routes
from sendtwice.harness.explain.situations import Situation, shape, situations
from sendtwice.harness.explain.tables import escaped, markdown_table, text_table

Format = Literal["text", "markdown", "json"]

_WIDTH = 100
#: The groups of claims and facts, in the order in which a reader asks; a name ends in "." for all that starts so.
GROUPS: dict[str, tuple[str, ...]] = {
    "key": ("key.",),
    "scope": ("scope",),
    "repeats": ("duplicates", "mismatch", "concurrent", "waits", "order"),
    "what makes a request the same": ("fingerprint.",),
    "replays": ("replay.",),
    "outcomes": ("outcomes.", "second_after_unknown", "store_failure"),
    "a request in flight": ("lease.",),
    "retention": ("retention.",),
    "unknown outcomes": ("reconciliation.", "lookup."),
    "hints": ("hints.",),
    "delivery": ("delivery", "effects", "propagation", "dry_run", "dry_run_status", "mail."),
    "batches": ("batch.",),
    "approval": ("approval.",),
    "scheduled sends": ("scheduled.",),
    "events": ("events.",),
    "SDKs": ("variables", "resends."),
}


def group_of(name: str) -> str:
    """Return the group in which a claim or fact is told."""
    for group, members in GROUPS.items():
        if any(name.startswith(member) if member.endswith(".") else name == member for member in members):
            return group
    return name.partition(".")[0].replace("_", " ")


def text(contract: Contract) -> Iterator[str]:
    """Return a contract for a terminal."""
    yield f"{contract.name}  {contract.title}"
    yield "contract" + (f"; extends {contract.extends}" if contract.extends else "")
    yield from _part("what", contract.summary)
    yield from _part("source", _origin(contract))
    yield ""
    yield "answers"
    rows = [(one.name, one.answer(), one.action) for one in situations(contract)]
    yield from text_table([("situation", "answer", "what the caller does"), *rows], most=(38, 30, 46))
    yield ""
    yield "promises"
    for group, claims in _grouped(contract).items():
        told = [
            (name, f"{claim_words.title(name)}: {claim_words.value_of(name, claim)}", claim.basis.value, _where(claim))
            for name, claim in claims.items()
            if _said(claim)
        ]
        told = [(name, f"{FACTS[name].title}: {value}", "", "") for name, value in _facts(contract, group)] + told
        yield f"  {group}"
        if told:
            yield from text_table(told, most=(26, 46, 10, 40), indent="    ")
        unsaid = ", ".join(
            name + (f" ({_where(claim)})" if _where(claim) else "")
            for name, claim in claims.items()
            if not _said(claim)
        )
        if unsaid:
            yield from textwrap.wrap(
                f"not said: {unsaid}", _WIDTH, initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False
            )
    yield ""
    yield "routes"
    yield from text_table([_ROUTES_HEAD, *_routes(contract)], most=(16, 40, 20, 20, 30, 36))
    for fact, value in _request(contract):
        yield from textwrap.wrap(f"{fact}: {value}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    levels = _levels(contract)
    if levels:
        yield ""
        yield "levels other than must"
        yield from text_table(levels, most=(30, 10))


def markdown(contract: Contract) -> Iterator[str]:
    """Return a contract as a page's section, with the table that vendors print first."""
    yield f"# {escaped(contract.title)}"
    if contract.summary.strip():
        yield ""
        yield escaped(contract.summary)
    yield ""
    yield f"Source: {escaped(_origin(contract) or 'not said')}."
    yield ""
    yield from markdown_table(
        ("Situation", "Answer", "What the caller does"),
        [(one.name, one.answer("`"), one.action) for one in situations(contract)],
    )
    for group, claims in _grouped(contract).items():
        told = [(FACTS[name].title, f"`{value}`", "", "") for name, value in _facts(contract, group)]
        told += [
            (claim_words.title(name), claim_words.value_of(name, claim), claim.basis.value, _where(claim))
            for name, claim in claims.items()
            if _said(claim)
        ]
        yield ""
        yield f"## {escaped(_capital(group))}"
        yield ""
        if told:
            yield from markdown_table(
                ("Promise", "Value", "Basis", "Source or note"), [(_capital(row[0]), *row[1:]) for row in told]
            )
        unsaid = [
            claim_words.title(name) + (f" ({_where(claim)})" if _where(claim) else "")
            for name, claim in claims.items()
            if not _said(claim)
        ]
        if unsaid:
            if told:
                yield ""
            yield f"Not said: {escaped('; '.join(unsaid))}."
    yield ""
    yield "## Routes"
    yield ""
    yield from markdown_table(tuple(map(_capital, _ROUTES_HEAD)), _routes(contract, "`"))
    for fact, value in _request(contract):
        yield ""
        yield f"{_capital(fact)}: `{escaped(value)}`."
    levels = _levels(contract)
    if levels:
        yield ""
        yield "## Levels other than must"
        yield ""
        yield from markdown_table(("Rule", "Level"), levels)


def data(contract: Contract) -> dict[str, Any]:
    """Return a contract for a program: its claims by their dotted names."""
    return {
        "contract": contract.name,
        "title": contract.title,
        "extends": contract.extends,
        "source": contract.source,
        "as_of": contract.as_of,
        "summary": " ".join(contract.summary.split()),
        "situations": [_situation(one) for one in situations(contract)],
        "claims": {name: _claim(name, claim) for name, claim in as_claims(contract).items()},
        "facts": {name: fact.read(contract) for name, fact in FACTS.items() if fact.read(contract)},
        "routes": {
            name: {
                "method": route.method,
                "path": route.path,
                "does": route.does,
                "key": contract.takes_key(name),
                "key_at": contract.key_at(name) if contract.takes_key(name) != "ignored" else None,
                "asks": route.asks,
                "answers": {
                    kind.value: [
                        one.model_dump(by_alias=True, include={"status", "code"}, mode="json") for one in shapes
                    ]
                    for kind, shapes in route.answers.items()
                },
                "note": route.note,
            }
            for name, route in routes(contract)
        },
        "levels": {rule: level.value for rule, level in contract.levels.items()},
    }


# -- parts ---------------------------------------------------------------------------------------------------------


def _origin(contract: Contract) -> str:
    return ", as of ".join(part for part in (contract.source, contract.as_of) if part)


def _said(claim: Claim[Any]) -> bool:
    return claim.basis is not Basis.UNKNOWN and claim.value is not None


def _where(claim: Claim[Any]) -> str:
    return "; ".join(part for part in (claim.source, claim.note) if part)


def _grouped(contract: Contract) -> dict[str, dict[str, Claim[Any]]]:
    """Return the claims by group; groups of which a contract has nothing, not even a claim, are left out."""
    found: dict[str, dict[str, Claim[Any]]] = {group: {} for group in GROUPS}
    for name, claim in as_claims(contract).items():
        found.setdefault(group_of(name), {})[name] = claim
    return {group: claims for group, claims in found.items() if claims or _facts(contract, group)}


def _facts(contract: Contract, group: str) -> list[tuple[str, str]]:
    return [
        (name, fact.read(contract))
        for name, fact in FACTS.items()
        if not name.startswith("request") and group_of(name) == group and fact.read(contract)
    ]


def _request(contract: Contract) -> list[tuple[str, str]]:
    """Return what a send holds besides its method and path, which are told with the routes."""
    facts = (FACTS["request.headers"], FACTS["request.body"])
    return [(fact.title, fact.read(contract)) for fact in facts if fact.read(contract)]


_ROUTES_HEAD = ("route", "request", "what it does", "key", "answers of its own", "note")


def _routes(contract: Contract, tick: str = "") -> list[tuple[str, ...]]:
    return [
        (
            name,
            f"{tick}{path_of(route)}{tick}",
            DOES[route.does],
            key_of(contract, name),
            "; ".join(
                f"{kind.value.replace('_', ' ')} {' or '.join(shape(one, tick) for one in shapes)}"
                for kind, shapes in route.answers.items()
            ),
            _note(route),
        )
        for name, route in routes(contract)
    ]


def _note(route: Route) -> str:
    parts = [f"a key counts per {claim_words.several(list(route.scope))}"] if route.scope else []
    parts += ["needs a person's credential"] if route.asks == "person" else []
    return "; ".join([*parts, *([route.note] if route.note else [])])


def _levels(contract: Contract) -> list[tuple[str, str]]:
    return [(rule, level.value) for rule, level in contract.levels.items() if level is not Level.MUST]


def _situation(one: Situation) -> dict[str, Any]:
    answers = [
        {"route": route, **look.model_dump(by_alias=True, include={"status", "code", "id"}, mode="json")}
        for route, look in one.answers
    ]
    return {
        "situation": one.name,
        "class": one.kind.value if one.kind is not None else None,
        "answer": one.answer(),
        "answers": answers,
        "action": one.action,
    }


def _claim(name: str, claim: Claim[Any]) -> dict[str, Any]:
    given = claim.model_dump(by_alias=True, exclude={"play"}, mode="json")
    return {**given, "words": f"{claim_words.title(name)}: {claim_words.value_of(name, claim)}"}


def _capital(title: str) -> str:
    return title[:1].upper() + title[1:]


def _part(title: str, body: str) -> Iterator[str]:
    if body.strip():
        yield ""
        yield title
        yield from textwrap.wrap(" ".join(body.split()), _WIDTH, initial_indent="  ", subsequent_indent="  ")
