"""What makes two requests under one key the same request (D6).

A fingerprint is a digest of the parts of a request that the contract compares. Which other bytes are the same request
is a claim for each way of writing them; where the contract does not say, bytes that any JSON parser reads alike are the
same, and all else is another request.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

from sendtwice.fake_provider.contracts.model import Contract, MailPlaces
from sendtwice.fake_provider.dialects.mails import addresses
from sendtwice.fake_provider.emulator import canonical, keys
from sendtwice.fake_provider.emulator.callers import version_of
from sendtwice.fake_provider.emulator.canonical import Node
from sendtwice.fake_provider.messages import Request


def fingerprint(contract: Contract, name: str, request: Request, body: Any, places: MailPlaces) -> str:
    """Return the fingerprint of a request for the route ``name``; ``body`` is what its body says."""
    found: dict[str, Any] = {}
    for part in contract.fingerprint.parts.played(["body"]):
        match part:
            case "path":
                found[part] = request.path
            case "method":
                found[part] = request.method
            case "query":
                found[part] = sorted(request.query.items())
            case "version":
                found[part] = version_of(request)
            case "content-type":
                found[part] = (request.header("content-type") or "").partition(";")[0].strip().lower()
            case "raw":
                found[part] = request.body.decode("latin-1")
            case "body":
                found[part] = _content(contract, name, request, body, places)
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _content(contract: Contract, name: str, request: Request, body: Any, places: MailPlaces) -> Any:
    try:
        node = canonical.parse(request.body.decode()) if request.json() is not None else canonical.of(body)
        return _compared(contract, name, node, places)
    except (ValueError, TypeError, RecursionError):  # what is no JSON is the same only byte for byte
        return request.body.decode("latin-1")


def _compared(contract: Contract, name: str, node: Node, places: MailPlaces) -> Any:
    """Return what counts of a body; of a batch for each of its mails."""
    # A key in the body is not what is asked for; in one of a batch's mails it may be.
    for pointer in keys.body_places(contract, name):
        node = canonical.change(node, pointer, lambda _: None)
    items = node if places.items is None else canonical.get(node, places.items)
    one = functools.partial(_mail, contract, places)
    if items is None or items.kind != "array":
        return one(node)
    found = [one(item) for item in items.value]
    if contract.batch is not None and contract.batch.item_order.played("different") == "same":
        found.sort(key=json.dumps)
    rules = _rules(contract)
    around = (
        None if places.items is None else canonical.canonical(canonical.change(node, places.items, _emptied), rules)
    )
    return [found, around, items.blanks if rules.whitespace else None]


def _mail(contract: Contract, places: MailPlaces, node: Node) -> Any:
    rules, claims = _rules(contract), contract.fingerprint
    for pointer in claims.excluded.played([]):
        node = canonical.change(node, pointer, lambda _: None)
    if claims.of.played("requested") == "rendered":
        # What comes of a list of recipients is their addresses, however they were written.
        for pointer in (places.to, *places.copies):
            node = canonical.change(node, pointer, _resolved)
    if claims.recipient_form.played("different") == "same":
        for pointer in (places.to, *places.copies):
            node = canonical.change(node, pointer, _listed)
    if claims.recipient_order.played("different") == "same":
        for pointer in (places.to, *places.copies):
            node = canonical.change(node, pointer, functools.partial(_sorted, rules))
    fields = claims.fields.played([])
    if not fields:
        return canonical.canonical(node, rules)
    values = {pointer: canonical.get(node, pointer) for pointer in fields}
    return {
        pointer: canonical.canonical(value, rules)
        for pointer, value in values.items()
        if rules.empty_fields or not canonical.is_empty(value)
    }


def _rules(contract: Contract) -> canonical.Rules:
    claims = contract.fingerprint
    return canonical.Rules(
        field_order=claims.field_order.played("same") == "different",
        whitespace=claims.whitespace.played("same") == "different",
        number_form=claims.number_form.played("same") == "different",
        escapes=claims.escapes.played("same") == "different",
        empty_fields=claims.empty_fields.played("different") == "different",
    )


def _listed(node: Node) -> Node:
    """Return one recipient as a list of one."""
    return Node("array", (node,), "", (("", ""), ("",))) if node.kind == "string" else node


def _resolved(node: Node) -> Node:
    return canonical.of(addresses(canonical.plain(node)))


def _sorted(rules: canonical.Rules, node: Node) -> Node:
    """Return recipients in an order that does not depend on the order they were given in; the blanks stay."""
    if node.kind != "array":
        return node
    ordered = sorted(node.value, key=lambda item: json.dumps(canonical.canonical(item, rules)))
    return canonical.replaced(node, tuple(ordered))


def _emptied(node: Node) -> Node:
    return Node("array", (), "", node.blanks[-1:])
