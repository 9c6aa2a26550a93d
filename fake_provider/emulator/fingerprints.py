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


class Fingerprints:
    """The fingerprints of the requests for one route."""

    def __init__(self, contract: Contract, name: str, places: MailPlaces) -> None:
        """Compare what ``contract`` compares; ``places``: where the route ``name`` has its mail."""
        claims = contract.fingerprint
        self._places = places
        self._parts = claims.parts.played(["body"])
        self._about_key = keys.body_places(contract, name)
        self._excluded = claims.excluded.played([])
        self._fields = claims.fields.played([])
        self._rendered = claims.of.played("requested") == "rendered"
        self._one_form = claims.recipient_form.played("different") == "same"
        self._any_order = claims.recipient_order.played("different") == "same"
        self._any_item_order = contract.batch is not None and contract.batch.item_order.played("different") == "same"
        self._rules = canonical.Rules(
            field_order=claims.field_order.played("same") == "different",
            whitespace=claims.whitespace.played("same") == "different",
            number_form=claims.number_form.played("same") == "different",
            escapes=claims.escapes.played("same") == "different",
            empty_fields=claims.empty_fields.played("different") == "different",
        )
        leave_out = self._about_key or self._excluded or self._fields or not self._rules.empty_fields
        other_forms = self._rendered or self._one_form or self._any_order or self._any_item_order
        self._as_parsed = not (leave_out or other_forms or self._rules.whitespace or self._rules.escapes)

    def of(self, request: Request, body: Any) -> str:
        """Return the fingerprint of a request; ``body`` is what its body says."""
        found: dict[str, Any] = {}
        for part in self._parts:
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
                    found[part] = self._content(request, body)
        return hashlib.sha256(json.dumps(found, sort_keys=not self._rules.field_order).encode()).hexdigest()

    def _content(self, request: Request, body: Any) -> Any:
        try:
            text = request.body.decode()
            if self._as_parsed and (plain := _plain(text)) is not None:
                return plain
            node = canonical.parse(text) if request.json() is not None else canonical.of(body)
            return self._compared(node)
        except (ValueError, TypeError, RecursionError):  # what is no JSON is the same only byte for byte
            return request.body.decode("latin-1")

    def _compared(self, node: Node) -> Any:
        """Return what counts of a body; of a batch for each of its mails."""
        # A key in the body is not what is asked for; in one of a batch's mails it may be.
        for pointer in self._about_key:
            node = canonical.change(node, pointer, lambda _: None)
        listed, rules = self._places.items, self._rules
        items = node if listed is None else canonical.get(node, listed)
        if items is None or items.kind != "array":
            return self._mail(node)
        found = [self._mail(item) for item in items.value]
        if self._any_item_order:
            found.sort(key=json.dumps)
        around = None if listed is None else canonical.canonical(canonical.change(node, listed, _emptied), rules)
        return [found, around, items.blanks if rules.whitespace else None]

    def _mail(self, node: Node) -> Any:
        rules, recipients = self._rules, (self._places.to, *self._places.copies)
        for pointer in self._excluded:
            node = canonical.change(node, pointer, lambda _: None)
        if self._rendered:
            # What comes of a list of recipients is their addresses, however they were written.
            for pointer in recipients:
                node = canonical.change(node, pointer, _resolved)
        if self._one_form:
            for pointer in recipients:
                node = canonical.change(node, pointer, _listed)
        if self._any_order:
            for pointer in recipients:
                node = canonical.change(node, pointer, functools.partial(_sorted, rules))
        if not self._fields:
            return canonical.canonical(node, rules)
        values = {pointer: canonical.get(node, pointer) for pointer in self._fields}
        return {
            pointer: canonical.canonical(value, rules)
            for pointer, value in values.items()
            if rules.empty_fields or not canonical.is_empty(value)
        }


class _NotPlainError(ValueError):
    """A body in which a parser loses something that is compared: the form of a number, or a second field."""


def _plain(text: str) -> Any:
    """Return a body as a parser reads it, in a fraction of the time; None where that is not enough.

    It is enough where there is no number in it and no name twice, which is so for all that are the same, or for none.
    """
    try:
        return {"plain": _DECODER.decode(text)}
    except ValueError:
        return None


def _not_plain(_: str) -> Any:
    raise _NotPlainError


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _NotPlainError
    return found


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_not_plain, parse_float=_not_plain, parse_constant=_not_plain
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
