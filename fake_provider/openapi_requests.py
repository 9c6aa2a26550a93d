"""The requests of a contract, as OpenAPI describes them: parameters, bodies, examples.

A body's schema is its template, narrowed to what the emulator takes for certain: one that fits is never refused for its
form. Others may be taken too, because what a contract does not say is read leniently.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

from sendtwice.fake_provider.contracts.model import CHARSETS, Contract, MailPlaces, Route
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.emulator.keys import use_of
from sendtwice.fake_provider.emulator.upstream import render
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.openapi_schemas import TEXT, Schema, optional, require

#: Routes that are asked with a mail.
MAILS = ("send", "draft")
JSON = "application/json"
#: A step of a path that is filled.
STEP = re.compile(r"\{(\w+)\}")

_PLACEHOLDER = re.compile(r"\{(\w+)(\??)\}")
_BODYLESS = frozenset({"GET", "HEAD", "DELETE"})
#: A bare address, in the part of its grammar (RFC 5321) that every vendor takes.
_ADDRESS: Schema = {
    "type": "string",
    "format": "email",
    "pattern": r"^[A-Za-z0-9][A-Za-z0-9_+-]{0,29}@[A-Za-z0-9][A-Za-z0-9-]{0,29}\.test$",
}
#: RFC 9110, 5.6.7, as far as a pattern can say it.
_HTTP_DATE: Schema = {
    "type": "string",
    "pattern": "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-2][0-9] (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
    "20[0-9]{2} [01][0-9]:[0-5][0-9]:[0-5][0-9] GMT$",
}
_DATE_TIME: Schema = {"type": "string", "format": "date-time"}
#: What a person says of a mail whose outcome is unknown.
_RESOLUTION: Schema = {
    "type": "object",
    "properties": {"outcome": {"enum": ["sent", "not_sent"]}},
    "required": ["outcome"],
}
#: What the mail provider says of a mail that it took.
_PROVIDER_EVENT: Schema = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "minLength": 1, "examples": ["email.delivered"]},
        "data": {
            "type": "object",
            "properties": {
                "from": {"type": "string"},
                "to": {"type": "array", "items": {"type": "string"}},
                "subject": {"type": "string"},
                "message_id": {"type": "string"},
            },
        },
    },
    "required": ["type", "data"],
}


def parameters(contract: Contract, name: str, route: Route) -> list[dict[str, Any]]:
    """Return what a request has beside its body."""
    found = {
        ("path", step): _parameter("path", step, {"type": "string", "minLength": 1}, required=True)
        for step in STEP.findall(route.path)
    }
    for header in (*contract.request.headers, *route.headers):
        if header.lower() == "user-agent":  # a contract that shows one means that a request without is refused
            schema: Schema = {"type": "string", "pattern": "^[!-~]+$"}
            found["header", header.lower()] = _parameter("header", header, schema, required=True)
    for field in route.query:
        found["query", field] = _parameter("query", field, {"type": "string"}, required=False)
    for carrier, field, schema, required in _beside(contract, name, route):
        if carrier != "body":
            found[carrier, field.lower()] = _parameter(carrier, field, schema, required=required)
    return list(found.values())


def _beside(contract: Contract, name: str, route: Route) -> Iterator[tuple[str, str, Schema, bool]]:
    """Yield what a request carries beside its mail: carrier, name or pointer, schema, and whether it must be there."""

    def at(place: str, schema: Schema, *, required: bool = False) -> tuple[str, str, Schema, bool]:
        carrier, _, field = place.partition(":")
        return carrier, field, schema, required

    use = use_of(contract, name)
    if use != "ignored":
        own = route.key_at
        others = [] if own is not None else contract.key.also_at
        required = use == "required" and not others
        for place in (contract.key_at(name), *others):
            yield at(place, _of_key(contract, place.partition(":")[0]), required=required)
        if contract.key.first_sent is not None:
            place = contract.key.first_sent.at
            schema = _HTTP_DATE if place.startswith("header:") else _DATE_TIME
            yield at(place, schema, required=required)
        if contract.retention.chosen_at is not None:
            yield at(contract.retention.chosen_at, _DATE_TIME)
    if contract.dry_run is not None and route.does in MAILS:
        in_body = contract.dry_run.startswith("body:")
        yield at(contract.dry_run, {"type": "boolean"} if in_body else {"enum": ["true", "false"]})


def _parameter(where: str, name: str, schema: Schema, *, required: bool) -> dict[str, Any]:
    return {"name": name, "in": where, "required": required, "schema": schema}


def is_batch(contract: Contract, name: str, route: Route) -> bool:
    """Whether a route takes several mails."""
    declared = contract.batch is not None and contract.batch.route == name
    return route.does in MAILS and (declared or isinstance(route.body, list))


def body(contract: Contract, name: str, route: Route) -> Schema | None:
    """Return the schema of a request's body; None where there is none."""
    if route.method in _BODYLESS:
        return None
    if route.does == "resolve":
        return _RESOLUTION
    if route.does == "reconcile":
        return _PROVIDER_EVENT
    if route.does not in MAILS:
        return _of_template(route.body) if route.body else None
    places = route.mail or contract.mail
    if not is_batch(contract, name, route):
        return _carrying(contract, name, route, _of_mail(route.body, places))
    most = contract.batch.max.played(0) if contract.batch is not None else 0
    bounds = {"minItems": 1, **({"maxItems": most} if most else {})}
    if isinstance(route.body, list):
        mail = _of_mail(route.body[0] if route.body else {}, places)
        return {"type": "array", "items": _carrying(contract, name, route, mail), **bounds}
    at = places.items or "/messages"
    template = pointers.get(route.body, at)
    mail = _of_mail(template[0] if isinstance(template, list) and template else {}, places)
    schema = _of_template(route.body)
    require(schema, at, {"type": "array", "items": mail, **bounds})
    return _carrying(contract, name, route, schema)


def _carrying(contract: Contract, name: str, route: Route, schema: Schema) -> Schema:
    """Add to a body what it carries beside the mail."""
    for carrier, pointer, leaf, required in _beside(contract, name, route):
        if carrier == "body" and required:
            require(schema, pointer, leaf)
        elif carrier == "body":
            optional(schema, pointer, leaf)
    return schema


def examples(contract: Contract, name: str, route: Route) -> dict[str, Any]:
    """Return bodies to begin with, in which the whole template is filled."""
    if route.does not in MAILS or not route.body:
        return {}
    senders = {"mail": "shop@example.test"}
    if contract.approval is not None:
        senders["waits"] = "needs-approval@example.test"
    found: dict[str, Any] = {}
    for label, sender in senders.items():
        body = render(route.body, Mail(sender, ("ana@example.test",), "Your receipt", "Thanks for your order."))
        carrier, _, pointer = contract.key_at(name).partition(":")
        if carrier == "body" and isinstance(body, dict) and use_of(contract, name) != "ignored":
            pointers.put(body, pointer, str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name}/{label}")))
        found[label] = {"value": body}
    return {"examples": found}


def content_type(route: Route) -> str:
    """Return what a request's body is written in."""
    shown = next((value for name, value in route.headers.items() if name.lower() == "content-type"), JSON)
    return shown.partition(";")[0].strip()


# --- Schemas ----------------------------------------------------------------------------------------------


def _of_template(template: Any) -> Schema:
    """Return the schema of a body that is written by a template; nothing in it is required yet."""
    if isinstance(template, dict):
        return {"type": "object", "properties": {name: _of_template(value) for name, value in template.items()}}
    if isinstance(template, list):
        items = [_of_template(item) for item in template]
        return {"type": "array", "items": items[0] if len(items) == 1 else {"anyOf": items} if items else {}}
    if not isinstance(template, str):
        return {"const": template}
    named = _PLACEHOLDER.findall(template)
    if not named:
        return {"const": template}
    return dict(_ADDRESS if template == "{to}" else TEXT)


def _of_mail(template: Any, places: MailPlaces) -> Schema:
    """Return the schema of one mail in a request, with whatever it cannot do without."""
    schema = _of_template(template)
    for pointer in (*places.required, places.to):
        require(schema, pointer)
    _require_recipients(schema)
    return schema


def _require_recipients(schema: Schema) -> bool:
    """Make every recipient of a template required, and whatever leads to one; whether there is any."""
    if schema == _ADDRESS:
        return True
    if schema.get("type") == "array":
        found = _require_recipients(schema.get("items", {}))
        if found:
            schema["minItems"] = 1
        return found
    leading = [name for name, part in schema.get("properties", {}).items() if _require_recipients(part)]
    if leading:
        schema["required"] = list(dict.fromkeys([*schema.get("required", []), *leading]))
    return bool(leading)


def _of_key(contract: Contract, carrier: str) -> Schema:
    """Return the schema of a key that is taken, as it stands in a header, a query or a body."""
    rules = contract.key
    least = max(rules.min.played(1), 1)
    most = rules.max.played(0) or None
    charset = CHARSETS.get(rules.charset.played("any"))
    schema: Schema = {"type": "string", "minLength": least}
    if most is not None:
        schema["maxLength"] = most
    if charset is CHARSETS["uuid"]:
        return {"type": "string", "format": "uuid", "pattern": f"^{charset.pattern}$"}
    if rules.form.played("bare") == "quoted":
        # RFC 8941, 3.3.3, without escapes.
        inner = f"{{{least},{'' if most is None else most}}}"
        return {"type": "string", "pattern": f'^"[ !#-\\[\\]-~]{inner}"$'}
    if charset is not None and charset is not CHARSETS["printable-ascii"]:
        schema["pattern"] = f"^{charset.pattern}$"
    elif carrier != "body":
        # HTTP takes blanks off the ends of a header, and says nothing of what is not ASCII.
        schema["pattern"] = "^[!-~]([ -~]*[!-~])?$"
    elif charset is not None:
        schema["pattern"] = f"^{charset.pattern}$"
    return schema
