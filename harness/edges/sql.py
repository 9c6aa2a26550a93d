"""A statement as a message says it: the same text for every key, and short.

Values go (``'x'``, ``$$x$$``, ``17``), as do comments, which carry trace ids; what is left is what the statement does.
Libraries that put values into the text themselves are so read like those that send them beside it. No secret that
stands in a statement is shown.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeVar

from sendtwice.harness.edges.chunks import TEXT

#: So much of a statement is looked at: what it does stands at its beginning.
LOOKED_AT = 8 * 1024
#: Of a long one, this much of its end is shown too: what it is about (FROM, WHERE) may come after many columns.
_TAIL = 70

#: A client that never closes its statements must not fill our memory.
_REMEMBERED = 4096
_Name = TypeVar("_Name")

_COMMON = r"""
    (?P<comment>   --[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<escaped>   [eE]'(?:[^'\\]|''|\\.)*(?:'|\Z) )
  | (?P<string>    [bBxXnN]?'%s(?:'|\Z) )
  | (?P<dollars>   (?P<fence>\$(?:[A-Za-z_]\w*)?\$).*?(?:(?P=fence)|\Z) )
  | (?P<parameter> \$\d+ )
  | %s
  | (?P<word>      [A-Za-z_\u0080-\uffff][\w$]* )
  | (?P<number>    0[xX][0-9A-Fa-f]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)? )
  | (?P<space>     \s+ )
"""
_PIECES = {
    "postgresql": re.compile(
        _COMMON % (r"(?:[^']|'')*", r"""(?P<quoted> "(?:[^"]|"")*(?:"|\Z) )"""), re.VERBOSE | re.DOTALL
    ),
    "mysql": re.compile(
        _COMMON
        % (
            r"(?:[^'\\]|''|\\.)*",
            r"""(?P<double> "(?:[^"\\]|""|\\.)*(?:"|\Z) ) | (?P<quoted> `[^`]*(?:`|\Z) )""",
        ),
        re.VERBOSE | re.DOTALL,
    ),
}
_VALUES = ("escaped", "string", "dollars", "double", "number")
#: A name that was made for this moment: the number of a thread or of a connection is in it.
_NUMBERED = re.compile(r"\d{6,}")


def statement(sql: bytes, dialect: str = "postgresql") -> str:
    """Return what a statement does, without its values."""
    return _statement(sql[:LOOKED_AT], dialect)


@lru_cache(maxsize=512)
def _statement(sql: bytes, dialect: str) -> str:
    return shortened(_PIECES[dialect].sub(_piece, sql.decode("utf-8", "replace")))


def shortened(text: str) -> str:
    """Return a text on one line; of a long one, the beginning and the end."""
    text = " ".join(text.split())
    if len(text) <= TEXT:
        return text
    return f"{text[: TEXT - _TAIL - 3].rstrip()} … {text[-_TAIL:].lstrip()}"


def unnumbered(text: str) -> str:
    """Return a text without the long numbers that differ from run to run."""
    return _NUMBERED.sub("?", text)


def remember(names: dict[_Name, str], name: _Name, text: str) -> None:
    """Keep what a prepared statement says; of too many, the oldest is forgotten."""
    names.pop(name, None)
    names[name] = text
    if len(names) > _REMEMBERED:
        names.pop(next(iter(names)))


def _piece(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind == "fence":  # a group inside of another
        kind = "dollars"
    if kind in _VALUES:
        return "?"
    if kind in ("comment", "space"):
        return " "
    return unnumbered(found.group())
