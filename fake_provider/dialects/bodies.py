"""Bodies of requests, whatever they are written in: JSON, a form, or a form in parts.

A form's fields become a mapping; a field that is given several times becomes a list. Nothing here fails: what cannot be
read is None, which no contract takes for a mail.
"""

from __future__ import annotations

from collections.abc import Iterable
from email import message_from_bytes
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl

from sendtwice.fake_provider.messages import Request

#: The content type of a form that is not in parts.
FORM = "application/x-www-form-urlencoded"


def read(request: Request) -> Any:
    """Return what the body of a request says."""
    given = request.header("content-type") or ""
    match given.partition(";")[0].strip().lower():
        case "application/x-www-form-urlencoded":
            return _fields(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
        case "multipart/form-data":
            return _parts(given, request.body)
        case _:
            return request.json()


def _parts(kind: str, body: bytes) -> dict[str, Any] | None:
    """Read multipart/form-data (RFC 7578); a part that is a message or a form itself stays whole."""
    boundary = _head(f"Content-Type: {kind}".encode("latin-1", "replace")).get_param("boundary")
    if not isinstance(boundary, str) or not boundary:
        return None
    line = b"\r\n--" + boundary.encode("latin-1", "replace")
    # The first one may stand at the very start; what comes before it, and after the last, is no part.
    _, *parts = (b"\r\n" + body).split(line)
    if not parts:
        return None
    fields = []
    for part in parts:
        if part.startswith(b"--"):
            break
        head, _, content = part.partition(b"\r\n\r\n")
        name = _head(head.lstrip(b" \t\r\n")).get_param("name", header="content-disposition")
        if isinstance(name, str):
            fields.append((name, _text(content)))
    return _fields(fields)


def _head(lines: bytes) -> Message[Any, Any]:
    return message_from_bytes(lines + b"\r\n\r\n")


def _text(content: bytes) -> str:
    """Return the text of a part; a file's bytes are kept one for one, as Latin-1, when they are no UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _fields(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields
