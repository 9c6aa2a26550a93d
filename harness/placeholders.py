"""Placeholders in target files and request templates: ``{port}``, ``{env:NAME}``, ``{to}``, ``{reply_to?}``.

An unknown one is an error that names the nearest known one. A field whose whole text is ``{x?}`` is dropped when x
is empty; a list of one ``{to}`` grows to the recipients.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"\{(env:[A-Za-z_][A-Za-z0-9_]*|[a-z_][a-z_.0-9]*)(\?)?\}")

#: Filled in when a target is started.
AT_START = frozenset(
    {
        "port",
        "provider_url",
        "smtp_host",
        "smtp_port",
        "api_url",
        "webhook_secret",
        "python",
        "state",
        "folder",
        "replica",
        "clock_offset",
    }
)
#: Filled in for every request, beside the values of the sender.
PER_REQUEST = frozenset(
    {"operation", "to", "from", "subject", "text", "key", "reply_to", "mailbox", "token", "id", "event_id", "seconds"}
)


class UnknownPlaceholderError(Exception):
    """A placeholder that nothing fills in."""

    def __init__(self, name: str, known: frozenset[str] | set[str]) -> None:
        """Name the nearest known one."""
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        listed = ", ".join("{" + k + "}" for k in sorted(known))
        hint = f"did you mean {{{near[0]}}}?" if near else f"known here: {listed}, {{env:NAME}}"
        super().__init__(f"unknown placeholder {{{name}}}; {hint}")
        self.name = name


class MissingEnvironmentError(Exception):
    """``{env:NAME}`` names a variable that is not set."""


def names(template: Any) -> set[str]:
    """Return the placeholders in a template, ``env:`` ones included."""
    if isinstance(template, str):
        return {match[1] for match in _PLACEHOLDER.finditer(template)}
    if isinstance(template, Mapping):
        return {name for item in template.values() for name in names(item)}
    if isinstance(template, list | tuple):
        return {name for item in template for name in names(item)}
    return set()


def check(template: Any, known: frozenset[str] | set[str]) -> None:
    """Raise :class:`UnknownPlaceholderError` for the first placeholder that is not known."""
    for name in sorted(names(template)):
        if not name.startswith("env:") and name not in known:
            raise UnknownPlaceholderError(name, known)


def fill_text(template: str, values: Mapping[str, Any]) -> str:
    """Fill a text; unknown names are left to :func:`check`, which ran when the file was read."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("env:"):
            found = os.environ.get(name[4:])
            if found is None:
                raise MissingEnvironmentError(
                    f"the environment variable {name[4:]} is not set; set it, or take {{{name}}} out"
                )
            return found
        filled = values.get(name)
        if filled is None:
            return "" if match[2] else match[0]
        return ",".join(filled) if isinstance(filled, list) else str(filled)

    return _PLACEHOLDER.sub(value, template)


_DROP = object()


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Fill a template of JSON data."""
    filled = _fill(template, values)
    return None if filled is _DROP else filled


def _fill(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, str):
        only = _PLACEHOLDER.fullmatch(template)
        if only and only[2] and not values.get(only[1]):
            return _DROP
        return fill_text(template, values)
    if isinstance(template, Mapping):
        pairs = ((name, _fill(item, values)) for name, item in template.items())
        return {name: item for name, item in pairs if item is not _DROP}
    if isinstance(template, list):
        if len(template) == 1 and isinstance(values.get("to"), list) and "to" in names(template):
            return [_fill(template[0], {**values, "to": one}) for one in values["to"]]
        return [item for item in (_fill(one, values) for one in template) if item is not _DROP]
    return template


def takes_several_recipients(template: Any) -> bool:
    """Whether a body template has a list that grows with the recipients."""
    if isinstance(template, list) and len(template) == 1 and "to" in names(template):
        return not (isinstance(template[0], Mapping) and "subject" in names(template[0]))
    items = template.values() if isinstance(template, Mapping) else template if isinstance(template, list) else ()
    return any(takes_several_recipients(item) for item in items)


def secrets_in(template: Any) -> set[str]:
    """Return the values of every ``{env:NAME}`` in a template: they are never shown."""
    found = (os.environ.get(name[4:], "") for name in names(template) if name.startswith("env:"))
    return {value for value in found if value}
