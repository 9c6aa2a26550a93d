"""What a request asks, in the words of a contract: its mail, its key, and whose key that is.

Reading changes nothing and never fails: whatever is wrong with a request becomes a :class:`Refusal` in the
result, with the class of answer that the contract gives it.  What a contract does not say is read
leniently, and a key that is sent to an API without keys is read too, for the ledger, but claims nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from sendtwice.fake_provider.contracts.model import AnswerClass, Contract, Route
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Request

_ANGLED = re.compile(r"<([^<>]*)>\s*$")
_CHARSETS = {
    "printable-ascii": re.compile(r"[ -~]*"),
    "visible-ascii": re.compile(r"[!-~]*"),
    "token": re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]*"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request goes no further: the class of its answer, and one sentence for a person."""

    kind: AnswerClass
    message: str
    status: int | None = None
    ours: bool = False  # said by the fake provider of itself: no vendor has a code for it


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, understood. ``claims`` says whether its key takes part in deduplication."""

    route: str | None
    path: str
    mails: tuple[Mail, ...] = ()
    batch: bool = False
    key: str | None = None
    claims: bool = False
    scope: str = ""
    fingerprint: str = ""
    refusal: Refusal | None = None

    @property
    def mail(self) -> Mail | None:
        """The mail; of a batch the first."""
        return self.mails[0] if self.mails else None


def read(contract: Contract, request: Request, *, any_path: bool = False) -> Asked:
    """Understand a request."""
    name, route = _route(contract, request, any_path=any_path)
    if route is None:
        status = 405 if name else 404
        return Asked(None, request.path, refusal=Refusal(AnswerClass.REFUSED, "There is nothing here.", status))
    body = _body(request)
    items = body if isinstance(body, list) else [body]
    key, problem = _key(contract, request, body)
    mails = tuple(_mail(contract, item, key, request.body if items == [body] else None) for item in items)
    asked = Asked(
        name,
        request.path,
        mails,
        batch=isinstance(body, list),
        key=key,
        claims=key is not None and problem is None and contract.key.presence.played("optional") != "none",
        scope=_scope(contract, request, mails),
        fingerprint=_fingerprint(contract, request, body),
        refusal=_header_missing(contract, request) or problem or _invalid(contract, items, mails),
    )
    if problem is None or asked.refusal is not problem or contract.key.invalid.played("refuse") == "refuse":
        return asked
    # The contract lets an invalid key pass: the send goes out unguarded.
    return Asked(name, asked.path, mails, asked.batch, key, refusal=_invalid(contract, items, mails), scope=asked.scope)


def _route(contract: Contract, request: Request, *, any_path: bool) -> tuple[str | None, Route | None]:
    """Return the route that is asked for; a name without a route when only the method is wrong.

    A path may have a prefix, because programs are pointed at a base URL that often has one.
    """
    path = request.path.rstrip("/") or "/"
    routes = {"send": contract.request, **contract.routes}
    named = [
        (name, route)
        for name, route in sorted(routes.items(), key=lambda pair: -len(pair[1].path))
        if path.endswith(route.path.rstrip("/"))
    ]
    for name, route in named:
        if route.method == request.method:
            return name, route
    if any_path and request.method == "POST":
        return "send", contract.request
    return (named[0][0] if named else None), None


def _body(request: Request) -> Any:
    kind = (request.header("content-type") or "").partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        fields: dict[str, Any] = {}
        for name, value in parse_qsl(request.body.decode("utf-8", "replace")):
            fields[name] = [*fields[name], value] if isinstance(fields.get(name), list) else value
        return fields
    return request.json()


def _mail(contract: Contract, body: Any, key: str | None, raw: bytes | None) -> Mail:
    places = contract.mail
    recipients = _addresses(pointers.get(body, places.to))
    for copies in ("/cc", "/bcc"):
        recipients += _addresses(pointers.get(body, copies))
    return Mail(
        _text(pointers.get(body, places.sender)),
        tuple(dict.fromkeys(recipients)),
        _text(pointers.get(body, places.subject)),
        _text(pointers.get(body, places.text)),
        _text(pointers.get(body, places.html)),
        key,
        raw if raw is not None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
    )


def _text(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("email") or value.get("address")
    return "" if value is None else str(value)


def _addresses(value: Any) -> list[str]:
    """Return bare addresses from the forms that APIs take: text, a list, objects with an ``email``."""
    if isinstance(value, list):
        return [address for item in value for address in _addresses(item)]
    text = _text(value).strip()
    several = [part.strip() for part in text.split(",")]
    if len(several) > 1 and all("@" in part for part in several):
        return [address for part in several for address in _addresses(part)]
    angled = _ANGLED.search(text)
    return [angled.group(1).strip() if angled else text] if text else []


def _key(contract: Contract, request: Request, body: Any) -> tuple[str | None, Refusal | None]:
    """Return the key as it is compared, and what is wrong with it."""
    rules = contract.key
    carrier, _, name = rules.at.partition(":")
    keyed = rules.presence.played("optional") != "none"
    given: Any
    if carrier == "header":
        values = [_utf8(value) for value in request.all(name)]
        given = values[0] if values else None
        if keyed and len(values) > 1:
            match rules.repeated.played("invalid"):
                case "joined":
                    given = ", ".join(values)
                case "invalid":
                    return given, Refusal(AnswerClass.KEY_INVALID, f"{name} is given more than once.")
    elif carrier == "query":
        given = request.query.get(name)
    else:
        given = pointers.get(body, name)
    if given is not None and not isinstance(given, str):
        return None, Refusal(AnswerClass.KEY_INVALID, f"The key at {name} is not text.") if keyed else None
    if given == "" and rules.empty.played("invalid") == "absent":
        given = None
    if not keyed:
        return given or None, None
    if given is None:
        if rules.presence.played("optional") == "required":
            return None, Refusal(AnswerClass.KEY_MISSING, f"The key ({rules.at}) is missing.")
        return None, None
    key = _unquoted(given) if rules.form.played("bare") in {"quoted", "either"} else given
    return (key.lower() if rules.case.played("sensitive") == "folded" else key), _key_problem(contract, key)


def _utf8(value: str) -> str:
    """Header values arrive as Latin-1; most senders mean UTF-8."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


def _unquoted(given: str) -> str:
    """Read an sf-string (RFC 8941, 3.3.3); a bare key stays as it is."""
    if len(given) >= 2 and given[0] == given[-1] == '"':
        return re.sub(r'\\(["\\])', r"\1", given[1:-1])
    return given


def _key_problem(contract: Contract, key: str) -> Refusal | None:
    rules = contract.key
    least, most = rules.min.played(1), rules.max.played(-1)
    if len(key) < least or 0 <= most < len(key):
        bounds = f"{least} to {most}" if most >= 0 else f"at least {least}"
        return Refusal(AnswerClass.KEY_INVALID, f"The key must have {bounds} characters.")
    try:
        key.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can carry and nothing can store
        return Refusal(AnswerClass.KEY_INVALID, "The key must be Unicode text.")
    pattern = _CHARSETS.get(rules.charset.played("any"))
    if pattern is not None and not pattern.fullmatch(key):
        return Refusal(AnswerClass.KEY_INVALID, f"The key must be {rules.charset.played('any')}.")
    return None


def _header_missing(contract: Contract, request: Request) -> Refusal | None:
    """Some vendors refuse a request without a User-Agent; a contract that shows one means that."""
    shown = {name.lower() for name in contract.request.headers}
    if "user-agent" in shown and not request.header("user-agent"):
        return Refusal(AnswerClass.REFUSED, "A User-Agent is required.", 403)
    return None


def _invalid(contract: Contract, items: list[Any], mails: tuple[Mail, ...]) -> Refusal | None:
    if not items:
        return Refusal(AnswerClass.REFUSED, "The batch is empty.")
    for item, mail in zip(items, mails, strict=True):
        if not isinstance(item, dict):
            return Refusal(AnswerClass.REFUSED, "The body is not a JSON object.")
        for pointer in contract.mail.required:
            if pointers.get(item, pointer) in (None, "", []):
                return Refusal(AnswerClass.REFUSED, f"{pointer[1:]} is missing.")
        if not mail.recipients:
            return Refusal(AnswerClass.REFUSED, f"There is no recipient at {contract.mail.to}.")
        for recipient in mail.recipients:
            if "@" not in recipient:
                return Refusal(AnswerClass.REFUSED, f"{recipient!r} is not an address.")
    return None


def _scope(contract: Contract, request: Request, mails: tuple[Mail, ...]) -> str:
    values = {
        "tenant": request.header("authorization") or "",
        "mailbox": mails[0].sender if mails else "",
        "path": request.path,
        "method": request.method,
    }
    return json.dumps({part: values[part] for part in sorted(contract.scope.played(["tenant"]))})


def _fingerprint(contract: Contract, request: Request, body: Any) -> str:
    rules = contract.fingerprint
    parts: dict[str, str] = {}
    for part in sorted(rules.parts.played(["body"])):
        match part:
            case "path":
                parts[part] = request.path
            case "method":
                parts[part] = request.method
            case "query":
                parts[part] = json.dumps(request.query, sort_keys=True)
            case "body" if body is not None and rules.field_order.played("same") == "same":
                carrier, _, name = contract.key.at.partition(":")
                parts[part] = json.dumps(pointers.without(body, name) if carrier == "body" else body, sort_keys=True)
            case _:
                parts[part] = request.body.decode("latin-1")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
