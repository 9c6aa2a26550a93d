"""JSON as it was written: with its blanks, the forms of its numbers and the escapes of its texts.

A parser throws away what some contracts compare. Here all of it is kept beside the values, and :class:`Rules` say which
of it counts; two bodies are the same when their canonical forms are equal.
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sendtwice.fake_provider.emulator.pointers import parts

_TOKEN = re.compile(
    r'([ \t\n\r]*)([{}\[\]:,]|"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)',
    re.DOTALL,
)
#: As many digits as anybody sends; the usual context would round.
_EXACT = decimal.Context(prec=10_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])


@dataclass(frozen=True, slots=True)
class Rules:
    """What makes two bodies differ."""

    field_order: bool = False
    whitespace: bool = False
    number_form: bool = False
    escapes: bool = False
    empty_fields: bool = True


@dataclass(frozen=True, slots=True)
class Node:
    """A value as it was written. ``kind``: object, array, string, number or word.

    ``value`` of an object is a tuple of names and nodes, of an array one of nodes. ``blanks`` stand before and after
    its members, one group for each, and in the end before the bracket that closes it.
    """

    kind: str
    value: Any
    written: str = ""
    blanks: tuple[tuple[str, ...], ...] = ()
    names: tuple[str, ...] = ()  # the names of an object's members as they were written


def parse(text: str) -> Node:
    """Read JSON; ValueError when it is none."""
    reader = _Reader(text)
    before, token = reader.take()
    node = reader.value(token)
    rest = text[reader.at :]
    if rest.strip(" \t\n\r"):
        raise ValueError("there is more than one value")
    return replace(node, blanks=(*node.blanks, (before, rest)))


def of(value: Any) -> Node:
    """Return a value that was not written in JSON."""
    return parse(json.dumps(value))


def get(node: Node | None, pointer: str) -> Node | None:
    """Return what stands at a JSON Pointer, or None."""
    for step in parts(pointer):
        if node is None:
            return None
        if node.kind == "object":
            node = next((value for name, value in reversed(node.value) if name == step), None)
        elif node.kind == "array" and step.isdecimal() and step.isascii() and int(step) < len(node.value):
            node = node.value[int(step)]
        else:
            return None
    return node


def change(node: Node, pointer: str, to: Callable[[Node], Node | None]) -> Node:
    """Return ``node`` with what stands at a JSON Pointer changed, or taken out where ``to`` returns None."""
    return _changed(node, parts(pointer), to)


def canonical(node: Node | None, rules: Rules) -> Any:
    """Return a value of plain JSON that is equal for bodies that are the same."""
    if node is None:
        return None
    match node.kind:
        case "object":
            found = [
                (node.names[at] if rules.escapes else name, canonical(value, rules), node.blanks[at])
                for at, (name, value) in enumerate(node.value)
                if rules.empty_fields or not is_empty(value)
            ]
            members = [[name, value] for name, value, _ in found]
            blanks = [*(blanks for _, _, blanks in found), *node.blanks[len(node.value) :]]
            if not rules.field_order:
                members.sort(key=json.dumps)
            return {"o": members, **({"b": blanks} if rules.whitespace else {})}
        case "array":
            items = [canonical(value, rules) for value in node.value]
            return {"a": items, **({"b": node.blanks} if rules.whitespace else {})}
        case "number" if not rules.number_form:
            return {"n": _number(node.written)}
        case "string" if not rules.escapes:
            return node.value
    return {"w": node.written}


def plain(node: Node) -> Any:
    """Return a value as any parser reads it."""
    match node.kind:
        case "object":
            return {name: plain(value) for name, value in node.value}
        case "array":
            return [plain(value) for value in node.value]
        case "string":
            return node.value
    return json.loads(node.written)


def replaced(node: Node, members: tuple[Any, ...]) -> Node:
    """Return a node with other members in the places of its own."""
    return replace(node, value=members)


def is_empty(node: Node | None) -> bool:
    """Whether a value says nothing: there is none, or null, or a text, list or object with nothing in it."""
    if node is None or node.written == "null":
        return True
    return node.kind in ("object", "array", "string") and not node.value


def _number(text: str) -> str:
    """Return a number in one form for all that are equal to it."""
    number = _EXACT.create_decimal(text)
    return "0" if number.is_zero() else str(number.normalize(_EXACT)) if number.is_finite() else text


def _changed(node: Node, steps: Sequence[str], to: Callable[[Node], Node | None]) -> Node:
    first, *rest = steps
    names: list[str] = []
    values: list[Any] = []
    blanks: list[tuple[str, ...]] = []
    members = node.value if node.kind == "object" else enumerate(node.value) if node.kind == "array" else ()
    for at, (name, value) in enumerate(members):
        changed: Node | None = value
        if str(name) == first:
            changed = _changed(value, rest, to) if rest else to(value)
        if changed is not None:
            names += node.names[at : at + 1]
            values.append((name, changed) if node.kind == "object" else changed)
            blanks.append(node.blanks[at])
    if node.kind not in ("object", "array"):
        return node
    blanks += node.blanks[len(node.value) :]
    return replace(node, value=tuple(values), blanks=tuple(blanks), names=tuple(names))


class _Reader:
    """Reads one text, token by token."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def take(self) -> tuple[str, str]:
        """Return the blanks before the next token, and the token."""
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            raise ValueError(f"there is no JSON at {self.at}")
        self.at = found.end()
        return found[1], found[2]

    def value(self, token: str) -> Node:
        if token == "{":
            return self._object()
        if token == "[":
            return self._array()
        if token[0] == '"':
            return Node("string", json.loads(token, strict=False), token)
        if token[0].isalpha():
            return Node("word", token, token)
        if token in "}]:,":
            raise ValueError(f"{token} stands where a value is wanted")
        return Node("number", token, token)

    def _object(self) -> Node:
        members: list[tuple[str, Node]] = []
        names: list[str] = []
        blanks: list[tuple[str, ...]] = []
        before, token = self.take()
        while token != "}":
            name, written = json.loads(token, strict=False) if token[0] == '"' else None, token
            after_name, colon = self.take()
            if not isinstance(name, str) or colon != ":":
                raise ValueError("a name and a colon are wanted")
            before_value, token = self.take()
            members.append((name, self.value(token)))
            names.append(written)
            after, token = self.take()
            if token == ",":
                blanks.append((before, after_name, before_value, after))
                before, token = self.take()
            elif token == "}":
                blanks.append((before, after_name, before_value, ""))
                before = after
            else:
                raise ValueError("a comma or the end of the object is wanted")
        return Node("object", tuple(members), "", (*blanks, (before,)), tuple(names))

    def _array(self) -> Node:
        items: list[Node] = []
        blanks: list[tuple[str, ...]] = []
        before, token = self.take()
        while token != "]":
            items.append(self.value(token))
            after, token = self.take()
            if token == ",":
                blanks.append((before, after))
                before, token = self.take()
            elif token == "]":
                blanks.append((before, ""))
                before = after
            else:
                raise ValueError("a comma or the end of the list is wanted")
        return Node("array", tuple(items), "", (*blanks, (before,)))
