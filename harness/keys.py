"""The key that an attempt sends, and what the contract has against it. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.contracts.model import CHARSETS
from sendtwice.harness.sends import Key


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key, how it is written on the wire, and what the contract has against it (None: nothing)."""

    value: str | None
    problem: str | None = None
    twice: str | None = None  # a second line of the header
    sent: str | None = None  # where it is written otherwise than it reads: in quotes


def make_key(contract: Contract, spec: str | Key | None, base: Mapping[str, str]) -> KeyValue:
    """Return the key for a spec; ``base`` maps names of keys to their run-unique texts."""
    if contract.key.presence.says("none"):
        return KeyValue(None)
    if spec is None or spec == "none":
        return KeyValue(None, "absent" if contract.key.presence.says("required") else None)
    key = Key(of=spec) if isinstance(spec, str) else spec
    if key.absent:
        return KeyValue(None, "absent" if contract.key.presence.says("required") else None)
    text = base.get(key.of or "", key.of or "")
    if contract.key.charset.says("uuid"):
        text = str(uuid.uuid5(uuid.NAMESPACE_URL, text))
    value = key.text.replace("{unique}", text) if key.text is not None else text
    value = _sized(contract, key, value)
    if key.case is not None:
        value = value.upper() if key.case == "upper" else value.lower()
    twice = {"same": value, "different": value + "-2"}.get(key.twice or "")
    problem = key_problem(contract, value, twice=twice is not None)
    if key.padded:
        return _padded(contract, value)
    return _written(contract, key, KeyValue(value, problem, twice))


def _written(contract: Contract, key: Key, plain: KeyValue) -> KeyValue:
    """Write a key with or without quotes (RFC 8941, 3.3.3): where either form is good, both are the same key."""
    form = contract.key.form
    quoted = form.says("quoted") if key.quoted is None else key.quoted
    if key.quoted is None or form.says("either"):
        return replace(plain, sent=f'"{plain.value}"') if quoted else plain
    if form.says("quoted"):
        return replace(plain, sent=f'"{plain.value}"') if quoted else replace(plain, problem="not quoted")
    if form.says("bare") and quoted:
        # The quotes are a part of it: another key, of characters that are not everybody's.
        return KeyValue(f'"{plain.value}"', key_problem(contract, f'"{plain.value}"'))
    return replace(plain, sent=f'"{plain.value}"' if quoted else None, problem="undeclared")


def _padded(contract: Contract, value: str) -> KeyValue:
    """Write a key with blanks around it: the same key where they are trimmed."""
    blanks = contract.key.blanks
    if blanks.says("trimmed"):
        return KeyValue(value, key_problem(contract, value), sent=f"  {value} ")
    padded = f"  {value} "
    return KeyValue(padded, key_problem(contract, padded) if blanks.says("kept") else "undeclared")


def _sized(contract: Contract, key: Key, value: str) -> str:
    match key.size:
        case None:
            return value
        case "min":
            size = contract.key.min.value or 1
        case "max":
            size = contract.key.max.value or 255
        case "max+1":
            size = (contract.key.max.value or 255) + 1
        case "max+long":
            size = (contract.key.max.value or 255) + 4096
        case number:
            size = number
    tail = key.tail
    body = value[: max(0, size - len(tail))]
    return body + "x" * (size - len(body) - len(tail)) + tail if size >= len(tail) else value[:size]


def key_problem(contract: Contract, value: str, *, twice: bool = False) -> str | None:
    """Return what the contract has against a key, None when it is good, 'undeclared' when nobody says."""
    key = contract.key
    if twice:
        return {"invalid": "repeated"}.get(key.repeated.value or "") if key.repeated.judged else "undeclared"
    if value == "":
        return "empty"
    length = len(value.encode()) if key.unit.says("bytes") else len(value)
    if key.max.judged and length > (key.max.value or 0):
        return "too long"
    if key.min.judged and length < (key.min.value or 0):
        return "too short"
    charset = key.charset.value if key.charset.judged else None
    fits = CHARSETS.get(charset or "")
    if fits is not None and not fits.fullmatch(value):
        return f"not {charset.replace('-', ' ')}" if charset else None
    plain = value.isascii() and all(c.isalnum() or c in "-_" for c in value)
    if not plain and charset is None:
        return "undeclared"
    if not key.max.judged and len(value) > 64:
        return "undeclared"
    return None
