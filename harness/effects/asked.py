"""What the probes share: by what they may ask, how a number is read, and the error when there is none."""

from __future__ import annotations

import re
from typing import Any

#: What is known of an operation. ``token`` is the part of its recipient that nothing else has.
PER_OPERATION = frozenset({"to", "from", "subject", "text", "operation", "token"})
#: What is an operation's own in every run. (A name of a scenario, as ``operation`` is for an API, comes again.)
OWN = frozenset({"to", "subject", "text", "token"})

_WORD = re.compile(r":([A-Za-z_]\w*)")
#: What a query has that is none of its parameters: texts, names in quotes, comments, and casts.
_QUOTED = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | --[^\n]* | /\*.*?\*/ | ::\s*\w+""", re.DOTALL | re.VERBOSE
)


class ProbeError(Exception):
    """One line: why no count could be had, the setting, and the remedy."""


def parameters(sql: str) -> frozenset[str]:
    """Return the named parameters of a query."""
    return frozenset(_WORD.findall(_QUOTED.sub(" ", sql)))


def escaped(sql: str) -> str:
    """Return a query whose only colons are those of its parameters, as SQLAlchemy wants it."""
    return _QUOTED.sub(lambda match: match[0].replace(":", "\\:"), sql)


def whole(data: Any) -> int | None:
    """Return the count that an answer is: a number, its digits (as drivers give what may be large), or a list."""
    if isinstance(data, list):
        return len(data)
    if isinstance(data, str) and data.strip().isascii() and data.strip().isdecimal():
        return int(data)
    if isinstance(data, bool) or not isinstance(data, int | float) or data != data // 1 or data < 0:
        return None
    return int(data)


def without_password(url: str) -> str:
    """Return a URL as it may be shown."""
    return re.sub(r"//([^:/@?#]*):[^/?#]*@", r"//\1:***@", url)


def shown(text: object, limit: int = 120) -> str:
    """Return what somebody else said, as part of one line."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
