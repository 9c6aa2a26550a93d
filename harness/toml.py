"""The little TOML that sendtwice itself writes: accepted deviations, and a target that had no file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def value(data: Any) -> str:
    """Return a value: text, number, truth, list or inline table."""
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, int | float):
        return repr(data)
    if isinstance(data, Mapping):
        inner = ", ".join(f"{key(name)} = {value(item)}" for name, item in data.items() if item is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(data, list | tuple):
        return f"[{', '.join(map(value, data))}]"
    # JSON's escapes are TOML's, but for DEL and what is no character by itself.
    return json.dumps(str(data), ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    """Return a key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else value(name)


def table(header: str, data: Mapping[str, Any]) -> str:
    """Return a table with one line for each value."""
    return "\n".join([header, *(f"{key(name)} = {value(item)}" for name, item in data.items())]) + "\n"
