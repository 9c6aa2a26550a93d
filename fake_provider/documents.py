"""Files that people write (contracts, scenarios, target files), read with errors that name the place.

A YAML file is composed once into plain data and a map from each path in it to its line. Validation errors of
pydantic carry the same paths, so every message can say ``file:line: where: what is wrong; what to do``.
"""

from __future__ import annotations

import difflib
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

Loc = tuple[int | str, ...]
M = TypeVar("M", bound=BaseModel)


class BadFileError(Exception):
    """A file that cannot be used. Its text is one line: file, place, and remedy."""

    def __init__(self, path: str, message: str, *, line: int | None = None, where: str = "") -> None:
        """Say what is wrong with ``path``, at ``line`` (1-based) or at the key path ``where``."""
        self.path, self.line, self.where, self.message = path, line, where, message
        place = path if line is None else f"{path}:{line}"
        super().__init__(": ".join(part for part in (place, where, message) if part))


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data read from a file, with the line of every path in it."""

    path: str
    data: Any
    lines: dict[Loc, int] = field(default_factory=dict)

    def line_of(self, loc: Loc) -> int | None:
        """Return the line of the deepest known ancestor of ``loc``."""
        for end in range(len(loc), -1, -1):
            line = self.lines.get(loc[:end])
            if line is not None:
                return line
        return None


def read_text(path: Path | str) -> str:
    """Read a file that a user named; :class:`BadFileError` when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadFileError(str(path), "is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise BadFileError(str(path), f"cannot be read ({reason}); check the path") from None


def load_yaml(path: Path | str) -> Document:
    """Read one YAML document without running any tag in it."""
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, path: str) -> Document:
    """Parse YAML text; sequences used as mapping keys become tuples (``[m1, m2]: 2``)."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise BadFileError(path, f"is not valid YAML ({error.problem}); mend it there", line=line) from None
    except yaml.YAMLError as error:
        raise BadFileError(path, f"is not valid YAML ({' '.join(str(error).split())}); mend it") from None
    lines: dict[Loc, int] = {}
    if node is None:
        raise BadFileError(path, "is empty; write a mapping into it")
    constructor = yaml.SafeLoader("")
    try:
        data = _plain(node, (), lines, constructor, path)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise BadFileError(path, f"{error.problem}; mend it", line=mark.line + 1 if mark else None) from None
    except ValueError as error:
        raise BadFileError(path, f"holds a value that cannot be read ({error}); mend it") from None
    finally:
        constructor.dispose()
    return Document(path, data, lines)


def _plain(node: yaml.Node, loc: Loc, lines: dict[Loc, int], make: yaml.SafeLoader, path: str) -> Any:
    lines.setdefault(loc, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _plain_key(key_node, make)
            at = (*loc, key if isinstance(key, int | str) else str(key))
            if key in found:
                line = key_node.start_mark.line + 1
                raise BadFileError(path, f"{key!r} is given twice; keep one", line=line)
            lines[at] = key_node.start_mark.line + 1
            found[key] = _plain(value_node, at, lines, make, path)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*loc, i), lines, make, path) for i, item in enumerate(node.value)]
    return make.construct_object(node, deep=True)


def _plain_key(node: yaml.Node, make: yaml.SafeLoader) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return tuple(_plain_key(item, make) for item in node.value)
    key = make.construct_object(node, deep=True)
    return key if isinstance(key, str | int) and not isinstance(key, bool) else str(key)


def load_toml(path: Path | str) -> Document:
    """Read a TOML file; its syntax errors already name line and column."""
    try:
        return Document(str(path), tomllib.loads(read_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise BadFileError(str(path), f"is not valid TOML ({error}); mend it there") from None


def validate(model: type[M], document: Document) -> M:
    """Turn a document into ``model``, or raise one :class:`BadFileError` for its first mistake."""
    try:
        return model.model_validate(document.data)
    except ValidationError as failed:
        raise _bad_file(model, document, failed) from None


def _bad_file(model: type[BaseModel], document: Document, failed: ValidationError) -> BadFileError:
    # An unknown key explains a missing one beside it ("titel" for "title"), so it is told first.
    errors = sorted(failed.errors(), key=lambda e: e["type"] != "extra_forbidden")
    first = errors[0]
    # Union tags stand in pydantic's paths but not in the file.
    loc: Loc = tuple(part for part in first["loc"] if not (isinstance(part, str) and part.startswith("~")))
    where = ".".join(str(part) for part in loc)
    if first["type"] == "extra_forbidden":
        name = str(loc[-1])
        known = _known_keys(model, first["loc"][:-1])
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}"
        return BadFileError(document.path, f"unknown key; {hint}", line=document.line_of(loc), where=where)
    if first["type"] == "missing":
        message = "is missing; add it"
    elif first["type"] == "value_error":
        message = str(first["ctx"]["error"])
    else:
        given = first.get("input")
        shown = f", not {given!r}" if isinstance(given, str | int | float | bool) else ""
        message = first["msg"][:1].lower() + first["msg"][1:] + shown
    return BadFileError(document.path, message, line=document.line_of(loc), where=where)


def _known_keys(model: Any, loc: Loc) -> list[str]:
    """Field names a mapping at ``loc`` may have, following the annotations of ``model``."""
    candidates = list(_models_in(model))
    for part in loc:
        if isinstance(part, int) or part.startswith("~"):
            tag = part[1:] if isinstance(part, str) else None
            narrowed = [m for m in candidates if tag in m.model_fields] if tag else []
            candidates = narrowed or candidates
            continue
        following: list[type[BaseModel]] = []
        for candidate in candidates:
            for name, info in candidate.model_fields.items():
                if part in (name, info.alias):
                    following += _models_in(info.annotation)
        candidates = following or candidates
    return [info.alias or name for m in candidates for name, info in m.model_fields.items()]


def _models_in(annotation: Any) -> typing.Iterator[type[BaseModel]]:
    if isinstance(annotation, types.GenericAlias | types.UnionType) or typing.get_origin(annotation):
        for inner in typing.get_args(annotation):
            yield from _models_in(inner)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
