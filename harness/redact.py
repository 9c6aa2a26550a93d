"""What must never be shown: values of ``{env:...}``, credentials in headers, and key material.

Everything that a run prints or writes passes through one :class:`Redactor`: console, JUnit, JSON,
histories, saved scenarios, and the target's own output. A secret is found in the forms it takes on its
way: as it is, inside JSON, inside a URL, and in base64.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from sendtwice.harness import placeholders

MASK = "***"

#: Headers whose value is a credential, whatever it is.
SENSITIVE = frozenset(
    {
        "api-key",
        "apikey",
        "authorization",
        "cookie",
        "proxy-authorization",
        "set-cookie",
        "x-access-token",
        "x-amz-security-token",
        "x-api-key",
        "x-auth-token",
        "x-csrf-token",
        "x-postmark-account-token",
        "x-postmark-server-token",
        "x-server-api-key",
    }
)

_HEADER_IN_TEXT = re.compile(
    # The name, its separator, then the rest of the line; inside JSON or a dict's repr only the quoted value.
    rf"""(?ix) \b(?P<name>{"|".join(sorted(map(re.escape, SENSITIVE), key=len, reverse=True))})
        (?P<sep> \\?["']? \s* [:=] \s* )
        (?: (?P<quote>\\?["']) (?:(?!(?P=quote)).)* (?P=quote)
          | [^\s"',;\\][^\r\n"'\\]* )""",
)
_BEARER = re.compile(r"(?i)\b(Bearer|Basic)\s+(?=\S*[0-9=])[A-Za-z0-9._~+/=-]{8,}")
_WEBHOOK_SECRET = re.compile(r"\bwhsec_[A-Za-z0-9+/=_-]+")
_PASSWORD = re.compile(r"://[^:/@?#\s]*:([^/@?#\s]+)@")
#: Below this length a secret is replaced only where it stands alone: `1` must not eat every number, nor `other` an id.
_SHORT = 8


class Redactor:
    """Replaces secrets by ``***``."""

    def __init__(self, secrets: Iterable[str] = (), *, variables: Mapping[str, str] | None = None) -> None:
        """Hide ``secrets``; ``variables`` names the environment variables some of them came from."""
        self.variables = {value: name for name, value in (variables or {}).items() if value}
        known = {secret for secret in (*secrets, *self.variables) if secret.strip()}
        forms = {form for secret in known for form in _forms(secret)}
        ordered = sorted(forms, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(_pattern, ordered))) if ordered else None

    def text(self, text: str) -> str:
        """Return the text without secrets and without credentials in headers."""
        if self._secrets is not None:
            text = self._secrets.sub(MASK, text)
        text = _HEADER_IN_TEXT.sub(_masked_header, text)
        text = _BEARER.sub(rf"\1 {MASK}", text)
        return _WEBHOOK_SECRET.sub(MASK, text)

    def data(self, data: Any) -> Any:
        """Return JSON data without secrets; names of fields stay, values of credential headers go."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            return {
                name: MASK if is_sensitive(name) and item is not None else self.data(item)
                for name, item in data.items()
            }
        if isinstance(data, list | tuple):
            return [self._pair(item) for item in data]
        return data

    def _pair(self, item: Any) -> Any:
        """Headers also come as pairs: ``[["Authorization", "Bearer ..."]]``."""
        if isinstance(item, list | tuple) and len(item) == 2 and is_sensitive(item[0]):
            return [item[0], MASK]
        return self.data(item)

    def shell(self, header: str, value: str) -> str:
        """Return a header's value for a shell line, in double quotes: ``${NAME}`` for a known variable."""
        if self.variables:
            found = re.compile("|".join(map(re.escape, sorted(self.variables, key=len, reverse=True))))
            parts, end = [], 0
            for match in found.finditer(value):
                parts += [
                    self._masked(header, value[end : match.start()]),
                    f"${{{self.variables[match[0]]}}}",
                ]
                end = match.end()
            if parts:
                return '"' + "".join((*parts, self._masked(header, value[end:]))) + '"'
        return '"' + self._masked(header, value) + '"'

    def _masked(self, header: str, part: str) -> str:
        # "Bearer " beside a variable says how it is used, and is no secret.
        if is_sensitive(header) and not re.fullmatch(r"(?i)\s*|(bearer|basic|token|key)\s+", part):
            return MASK
        return re.sub(r'([\\"$`])', r"\\\1", self.text(part))


def is_sensitive(name: Any) -> bool:
    """Whether a header of this name holds a credential."""
    return isinstance(name, str) and name.lower() in SENSITIVE


def secrets_of(target: Any) -> dict[str, str]:
    """Return the variables that a target file (as plain data) reads by ``{env:NAME}``, with their values."""
    named = {name[4:] for name in placeholders.names(target) if name.startswith("env:")}
    return {name: value for name in named if (value := os.environ.get(name, ""))}


def credentials_in(data: Any) -> set[str]:
    """Return what a target file writes out: values of credential headers, without their scheme, and URLs' passwords."""
    if isinstance(data, str):
        return {secret for secret in _PASSWORD.findall(data) if not placeholders.names(secret)}
    if isinstance(data, Mapping):
        found: set[str] = set()
        for name, item in data.items():
            if is_sensitive(name) and isinstance(item, str) and not placeholders.names(item):
                found |= {item, item.split()[-1]} if item.strip() else set()
            else:
                found |= credentials_in(item)
        return found
    if isinstance(data, list | tuple):
        return {secret for item in data for secret in credentials_in(item)}
    return set()


def _forms(secret: str) -> set[str]:
    raw = secret.encode()
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret, safe=""),
        quote_plus(secret),
    } | ({base64.b64encode(raw).decode()} if len(secret) >= _SHORT else set())


def _pattern(secret: str) -> str:
    escaped = re.escape(secret)
    return escaped if len(secret) >= _SHORT else rf"(?<![A-Za-z0-9-]){escaped}(?![A-Za-z0-9-])"


def _masked_header(match: re.Match[str]) -> str:
    mark = match["quote"] or ""
    return f"{match['name']}{match['sep']}{mark}{MASK}{mark}"
