"""The contract language as its models have it: every claim with its values, and contracts that say just one thing."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, Literal

from sendtwice.fake_provider.contracts.claims import Claim, Strict
from sendtwice.fake_provider.contracts.model import Contract
from sendtwice.fake_provider.contracts.wire import AnswerClass, Marker

_MARKERS = [{"header": "X-Replayed", "is": "true"}, {"at": "/replayed", "is": True}, {"header": "X-Other", "is": "1"}]


def claims() -> dict[str, Any]:
    """Every claim by its dotted name, with the type of its value."""
    return {name: kind for name, kind in _fields(Contract, "") if kind is not None}


def plain_fields() -> set[str]:
    """Every field by its dotted name that is no claim and no group."""
    return {name for name, kind in _fields(Contract, "") if kind is None}


def _fields(model: type[Strict], prefix: str) -> Iterator[tuple[str, Any]]:
    for field, info in model.model_fields.items():
        name = f"{prefix}{info.alias or field}"
        inner = _model_of(info.annotation)
        if inner is not None and issubclass(inner, Claim):
            yield name, inner.__pydantic_generic_metadata__["args"][0]
        elif inner is not None and field != "request":
            yield from _fields(inner, f"{name}.")
        else:
            yield name, None


def _model_of(annotation: Any) -> type[Strict] | None:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        annotation = next(inner for inner in typing.get_args(annotation) if inner is not type(None))
    return annotation if isinstance(annotation, type) and issubclass(annotation, Strict) else None


def values(kind: Any) -> list[Any]:
    """Values that a claim of this kind can have, as a file gives them: all there are, or three of many."""
    if typing.get_origin(kind) is Literal:
        return list(typing.get_args(kind))
    if typing.get_origin(kind) is list:
        (item,) = typing.get_args(kind)
        one, two, *_ = values(item)
        return [[one], [two], [one, two]]
    if typing.get_origin(kind) is typing.Annotated:
        return ["/one", "/two"] if typing.get_args(kind)[0] is str else [3600, 60, 7200]
    if kind is Marker:
        return _MARKERS
    if kind is AnswerClass:
        return [one.value for one in AnswerClass]
    assert kind is str, kind
    return ["one", "two"]


def contract(said: dict[str, Any], *, name: str = "mine", **parts: Any) -> Contract:
    """A contract that says these claims, by their dotted names, and nothing else."""
    data: dict[str, Any] = {
        "name": name,
        "title": name.capitalize(),
        "request": {"path": "/send"},
        "answers": {"accepted": {"status": 200, "id": "/id"}},
        **parts,
    }
    for claim, value in said.items():
        *groups, last = claim.split(".")
        place = data
        for group in groups:
            place = place.setdefault(group, {"at": "header:First-Sent"} if group == "first_sent" else {})
        place[last] = value
    if "batch" in data:
        data.setdefault("routes", {})["batch"] = {"path": "/batch"}
    return Contract.model_validate(data)
