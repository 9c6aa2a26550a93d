"""How a request for a send is built from the contract, the target file and the scenario. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.contracts.model import SEND
from sendtwice.harness import forms, placeholders
from sendtwice.harness.keys import KeyValue
from sendtwice.harness.sends import Change
from sendtwice.harness.target_roles import Sender

#: What a request whose query or type of content is another one says.
OTHER_QUERY, OTHER_TYPE = "sendtwice=other", "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Built:
    """A request, ready for the wire."""

    method: str
    url: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    content: str  # equal for requests that ask for the same thing


def values_for(sender: Sender, **request: Any) -> dict[str, Any]:
    """Return what a template may say: the sender's values over ours, the request's own over both."""
    return {
        "from": "sender@sendtwice.test",
        **sender.values,
        **{k: v for k, v in request.items() if v is not None},
    }


def build(
    contract: Contract,
    base_url: str,
    headers: Mapping[str, str],
    values: Mapping[str, Any],
    key: KeyValue,
    *,
    route: str = SEND,
    items: Sequence[str] | None = None,
    change: Change | None = None,
    first_sent: str | None = None,
    dry_run: bool = False,
) -> Built:
    """Return the request for one attempt: by the contract's own ``route``, with the bytes that ``change`` asks for.

    ``items``: the recipients of a batch, a mail for each. ``first_sent``: what the caller asserts beside the key.
    """
    asked, change = contract.route(route), change or Change()
    written: dict[str, Any] = {**values, "key": key.value or "", "items": items}
    if change.form == "recipient-order" and isinstance(values.get("to"), list):
        written["to"] = list(reversed(values["to"]))
    template = forms.reshaped(asked.body, change.form, values)
    body = placeholders.fill(_for_items(contract, route, template, items, change), written)
    plain = placeholders.fill(_for_items(contract, route, asked.body, items, None), {**values, "key": key.value or ""})
    query = [f"{quote(n)}={quote(placeholders.fill_text(v, values))}" for n, v in asked.query.items()]
    query += [OTHER_QUERY] if change.query else []
    query += [urlencode({contract.dry_run.partition(":")[2]: "true"})] if dry_run and contract.dry_run else []
    lines = [(n, placeholders.fill_text(v, values)) for n, v in {**asked.headers, **headers}.items()]
    if change.content_type:
        lines = [(n, v) for n, v in lines if n.lower() != "content-type"] + [("Content-Type", OTHER_TYPE)]
    elif not any(n.lower() == "content-type" for n, _ in lines):
        lines.append(("Content-Type", "application/json"))
    for place, value, again in (
        (contract.key_at(route), key.sent or key.value, key.twice),
        (contract.key.first_sent.at if contract.key.first_sent else "", first_sent, None),
    ):
        carrier, _, name = place.partition(":")
        if value is None:
            continue
        if carrier == "header":
            lines += [(name, value)] + ([(name, again)] if again is not None else [])
        elif carrier == "query":
            query.append(f"{quote(name)}={quote(value, safe='')}")
        elif carrier == "body":
            body = [_put(one, name, value) for one in body] if isinstance(body, list) else _put(body, name, value)
    if change.excluded:
        body = _put(body, (contract.fingerprint.excluded.value or ["/excluded"])[0], f"other {values.get('token', '')}")
    base = urlsplit(base_url)
    path = placeholders.fill_text(asked.path, values)
    glue = "&" if "?" in path else "?"
    target = base.path.rstrip("/") + path + (glue + "&".join(query) if query else "")
    data = _encoded(body, lines, change, values)
    url = f"{base.scheme}://{base.netloc}{target}"
    return Built(asked.method, url, target, lines, data, _content(contract, route, plain))


def _encoded(body: Any, lines: list[tuple[str, str]], change: Change, values: Mapping[str, Any]) -> bytes:
    kind = next((v for n, v in lines if n.lower() == "content-type"), "").partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded" and isinstance(body, dict):
        return urlencode(body, doseq=True).encode()
    return forms.written(body, change.form, values)


def _for_items(
    contract: Contract, route: str, template: Any, items: Sequence[str] | None, change: Change | None
) -> Any:
    """Return a batch's template with one mail for each of its items; what is no batch stays as it is."""
    if items is None:
        return template
    order = list(reversed(items)) if change is not None and change.form == "item-order" else items
    place = (contract.route(route).mail or contract.mail).items
    listed = template if place is None else _at(template, place)
    if not isinstance(listed, list) or not listed:
        return template
    mails = [_addressed(listed[0], recipient) for recipient in order]
    return mails if place is None else _put(template, place, mails)


def has_mails(contract: Contract, route: str) -> bool:
    """Whether a route's body has a list with a mail in it, which a batch repeats."""
    place = (contract.route(route).mail or contract.mail).items
    body = contract.route(route).body
    listed = body if place is None else _at(body, place)
    return isinstance(listed, list) and bool(listed)


def _addressed(template: Any, recipient: str) -> Any:
    """Return a template whose ``{to}`` is one recipient."""
    if isinstance(template, str):
        return template.replace("{to}", recipient)
    if isinstance(template, dict):
        return {name: _addressed(item, recipient) for name, item in template.items()}
    return [_addressed(item, recipient) for item in template] if isinstance(template, list) else template


def _content(contract: Contract, route: str, body: Any) -> str:
    """Return a digest that is equal for requests that ask for the same thing, whatever their key and their bytes."""
    carrier, _, name = contract.key_at(route).partition(":")
    plain = json.loads(json.dumps(body))
    for place in [*([name] if carrier == "body" else []), *(contract.fingerprint.excluded.value or [])]:
        _drop(plain, place)
    fields = contract.fingerprint.fields
    if fields.judged and isinstance(plain, dict):
        # Where the contract names the fields that count, nothing else does; another route may have none of them.
        counted = {field: value for field in fields.value or () if (value := _at(plain, field)) is not None}
        plain = counted or plain
    canonical = json.dumps(plain, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _at(data: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _put(body: Any, pointer: str, value: Any) -> Any:
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
