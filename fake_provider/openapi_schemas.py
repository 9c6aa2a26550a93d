"""JSON Schemas (2020-12) in the making: parts that are required, optional, or one of several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sendtwice.fake_provider.emulator import pointers

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FILLED: Schema = {"type": "string", "minLength": 1}


def require(schema: Schema, pointer: str, leaf: Schema | None = None) -> None:
    """Make what stands at ``pointer`` required, all the way to it; ``leaf`` says what it is."""
    _enter(schema, pointers.parts(pointer), leaf)


def optional(schema: Schema, pointer: str, leaf: Schema) -> None:
    """Say what may stand at ``pointer``, with whatever is on the way to it."""
    place = schema
    *way, last = pointers.parts(pointer)
    for step in way:
        place = place.setdefault("properties", {}).setdefault(step, {"type": "object"})
    place.setdefault("properties", {})[last] = leaf


def any_of(schemas: Iterable[Schema]) -> Schema:
    """Return the schema of what is one of several; the same one counts once."""
    found: list[Schema] = []
    for schema in schemas:
        if schema not in found:
            found.append(schema)
    return found[0] if len(found) == 1 else {"anyOf": found}


def _enter(schema: Schema, steps: Sequence[str], leaf: Schema | None) -> None:
    if not steps:
        if leaf is not None:
            schema.clear()
            schema.update(leaf)
        elif schema.get("type") == "string":
            schema["minLength"] = 1
        elif schema.get("type") == "array":
            schema["minItems"] = 1
        return
    step, *rest = steps
    if schema.get("type") == "array":
        schema["minItems"] = 1
        _enter(schema.setdefault("items", {}), rest if step == "*" or "=" in step or step.isdecimal() else steps, leaf)
        return
    schema.setdefault("type", "object")
    required = schema.setdefault("required", [])
    if step not in required:
        required.append(step)
    _enter(schema.setdefault("properties", {}).setdefault(step, {}), rest, leaf)
