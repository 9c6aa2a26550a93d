"""A target without a file: ``sendtwice run --url URL``, for a first look.

It is the same :class:`Target` that a file would give, and is written beside the run's reports, so that a
failure can be played again and the file can be kept. Credentials are not written: there they become
``{env:NAME}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sendtwice.fake_provider.contracts.model import HEADER_NAME, key_place
from sendtwice.fake_provider.documents import BadFileError, Document, read_text, validate
from sendtwice.harness import placeholders, toml
from sendtwice.harness.redact import is_sensitive
from sendtwice.harness.target import Target
from sendtwice.harness.target_checks import is_address
from sendtwice.harness.target_roles import Api


def build(
    url: str,
    *,
    path: str | None = None,
    body: str | None = None,
    headers: Sequence[str] = (),
    key: str | None = None,
    key_header: str | None = None,
    contract: str | None = None,
) -> Target:
    """Return the target; :class:`BadFileError` names the option that is wrong and the remedy."""
    try:
        given = urlsplit(url if "://" in url else f"http://{url}")
    except ValueError:  # a half of an IPv6 address
        given = urlsplit("")
    if not is_address(given.geturl()):
        raise BadFileError("--url", f"{url!r} is no http address; write http://127.0.0.1:3000")
    own_path = given.path + (f"?{given.query}" if given.query else "")
    request: dict[str, Any] = {}
    chosen = path or (own_path if own_path not in ("", "/") else None)
    if chosen is not None:
        request["path"] = chosen if chosen.startswith("/") else f"/{chosen}"
    if body is not None:
        request["body"] = _body(body)
    if key is not None and key_header is not None:
        raise BadFileError("--key", "and --key-header say the same; keep one")
    if key is not None:
        try:
            request["key"] = key_place(key)
        except ValueError as error:
            raise BadFileError("--key", str(error)) from None
    if key_header is not None:
        if not HEADER_NAME.fullmatch(key_header):
            raise BadFileError("--key-header", f"{key_header!r} is no header name; write Idempotency-Key")
        request["key"] = f"header:{key_header}"
    host = given.netloc.rpartition("@")[2]
    api = {"url": f"{given.scheme}://{host}", "headers": dict(map(_header, headers)), "request": request}
    _check(api, request)
    data = {"name": host, "role": "api", "contract": contract or "universal", "api": api}
    return validate(Target, Document("--url", {"target": data})).read_from("--url")


def write(target: Target, path: Path) -> str:
    """Return the text of a target file that says the same, without credentials."""
    body = target.target
    api = body.api or Api(url="")  # build() made one
    headers, hidden = {}, []
    for name, value in api.headers.items():
        if is_sensitive(name) and not placeholders.names(value):
            variable = re.sub(r"[^A-Z0-9]", "_", name.upper())
            headers[name] = f"{{env:{variable}}}"
            hidden.append(f"{variable} to the value of {name}")
        else:
            headers[name] = value
    request = api.request.model_dump(exclude_defaults=True, exclude_none=True)
    parts = [f"# Written by sendtwice run --url into {path.name}; keep it to run again without the options.\n"]
    parts += [f"# Credentials are not written down: set {' and '.join(hidden)}.\n"] if hidden else []
    parts.append(toml.table("[target]", {"name": body.name, "role": "api", "contract": body.contract}))
    parts.append(toml.table("\n[target.api]", {"url": api.url, **({"headers": headers} if headers else {})}))
    parts += [toml.table("\n[target.api.request]", request)] if request else []
    return "".join(parts)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not HEADER_NAME.fullmatch(name.strip()):
        raise BadFileError("-H", f"{text.partition(':')[0]!r} is no header; write 'Name: value'")
    if "\n" in value or "\r" in value:
        raise BadFileError("-H", f"{name.strip()} has a line break in its value; take it out")
    return name.strip(), value.strip()


def _body(given: str) -> Any:
    """Read ``@FILE`` or the JSON itself."""
    where = given[1:] if given.startswith("@") else "--body"
    text = read_text(where) if given.startswith("@") else given
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadFileError(where, f"is not valid JSON ({error.msg}); mend it there", line=error.lineno) from None
    except RecursionError:
        raise BadFileError(where, "is nested too deeply; write the body of one send") from None
    if not isinstance(data, dict):
        raise BadFileError(where, "is no JSON object; write the body of one send")
    found = placeholders.names(data)
    if "to" not in found:
        raise BadFileError(where, 'has no {to}; write it where the recipient goes, as in {"to": "{to}"}')
    if not found & {"subject", "text"}:
        raise BadFileError(where, "has no {subject} and no {text}; write one of them, so that two mails differ")
    return data


def _check(api: dict[str, Any], request: dict[str, Any]) -> None:
    places = {
        "-H": (api["headers"], placeholders.PER_REQUEST),
        "--body": (request.get("body"), placeholders.PER_REQUEST),
        "--path": (request.get("path"), placeholders.PER_REQUEST),
    }
    for option, (template, known) in places.items():
        try:
            placeholders.check(template, known)
        except placeholders.UnknownPlaceholderError as error:
            raise BadFileError(option, str(error)) from None
