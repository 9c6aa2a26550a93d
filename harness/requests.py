"""How a request for a send is built from the contract, the target file and the scenario. Pure."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.contracts.model import Route
from sendtwice.harness import placeholders
from sendtwice.harness.steps import Key
from sendtwice.harness.target import Sender


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key as it is sent, with what the contract has against it (None: nothing)."""

    value: str | None
    problem: str | None = None
    twice: str | None = None  # a second line of the header


@dataclass(frozen=True, slots=True)
class Built:
    """A request, ready for the wire."""

    method: str
    url: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    content: str  # equal for requests that ask for the same thing


_CHARSETS: dict[str, Callable[[str], bool]] = {
    "printable-ascii": lambda c: " " <= c <= "~",
    "visible-ascii": lambda c: "!" <= c <= "~",
    "uuid": lambda c: c in "0123456789abcdefABCDEF-",
    "token": lambda c: c.isascii() and (c.isalnum() or c in "-_"),
}


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
    return KeyValue(value, key_problem(contract, value, twice=twice is not None), twice)


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
    if key.max.judged and len(value) > (key.max.value or 0):
        return "too long"
    if key.min.judged and len(value) < (key.min.value or 0):
        return "too short"
    charset = key.charset.value if key.charset.judged else None
    fits = _CHARSETS.get(charset or "")
    if fits is not None and not all(fits(c) for c in value):
        return f"not {charset.replace('-', ' ')}" if charset else None
    plain = value.isascii() and all(c.isalnum() or c in "-_" for c in value)
    if not plain and charset is None:
        return "undeclared"
    if not key.max.judged and len(value) > 64:
        return "undeclared"
    return None


def values_for(sender: Sender, **request: Any) -> dict[str, Any]:
    """Return what a template may say: the sender's values over ours, the request's own over both."""
    return {
        "from": "sender@sendtwice.test",
        **sender.values,
        **{k: v for k, v in request.items() if v is not None},
    }


def build(
    contract: Contract,
    route: Route,
    base_url: str,
    headers: Mapping[str, str],
    values: Mapping[str, Any],
    key: KeyValue,
    *,
    reordered: bool = False,
) -> Built:
    """Return the request for one attempt."""
    path = placeholders.fill_text(route.path, values)
    body = placeholders.fill(route.body, {**values, "key": key.value or ""})
    content = _content(contract, body)
    carrier, _, name = contract.key.at.partition(":")
    lines = [(n, placeholders.fill_text(v, values)) for n, v in {**route.headers, **headers}.items()]
    if not any(n.lower() == "content-type" for n, _ in lines):
        lines.append(("Content-Type", "application/json"))
    if key.value is not None:
        sent = f'"{key.value}"' if contract.key.form.says("quoted") else key.value
        if carrier == "header":
            lines.append((name, sent))
            if key.twice is not None:
                lines.append((name, key.twice))
        elif carrier == "query":
            path += ("&" if "?" in path else "?") + f"{quote(name)}={quote(sent, safe='')}"
        else:
            body = _put(body, name, key.value)
    if reordered:
        body = _reordered(body)
    data = json.dumps(body, indent=1 if reordered else None, ensure_ascii=False).encode()
    base = urlsplit(base_url)
    target = base.path.rstrip("/") + path
    return Built(route.method, f"{base.scheme}://{base.netloc}{target}", target, lines, data, content)


def _content(contract: Contract, body: Any) -> str:
    carrier, _, name = contract.key.at.partition(":")
    plain = json.loads(json.dumps(body))
    if carrier == "body":
        _drop(plain, name)
    canonical = json.dumps(plain, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _put(body: Any, pointer: str, value: str) -> Any:
    copy = json.loads(json.dumps(body))
    at = copy
    *parents, last = pointer.split("/")[1:]
    for part in parents:
        at = at.setdefault(part, {})
    at[last] = value
    return copy


def _drop(body: Any, pointer: str) -> None:
    *parents, last = pointer.split("/")[1:]
    for part in parents:
        body = body.get(part, {}) if isinstance(body, dict) else {}
    if isinstance(body, dict):
        body.pop(last, None)


def _reordered(data: Any) -> Any:
    """Return the same JSON with the fields of every object in the opposite order."""
    if isinstance(data, dict):
        return {name: _reordered(data[name]) for name in reversed(data)}
    return [_reordered(item) for item in data] if isinstance(data, list) else data
