"""Files that people write (contracts, scenarios, target files), read with errors that name the place.

A YAML file is composed once into plain data and a map from each path in it to its line. Validation errors of
pydantic carry the same paths, so every message can say ``file:line: where: what is wrong; what to do``.

A file may come from anyone, so its size, its depth and what its aliases grow to have bounds.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

Loc = tuple[int | str, ...]

#: No contract, scenario or target file comes near these.
MOST_BYTES, MOST_NODES, DEEPEST = 1024 * 1024, 100_000, 100
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
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise BadFileError(str(path), "is larger than 1 MiB; name the right file")
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise BadFileError(str(path), "is not UTF-8 text; save it as UTF-8") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise BadFileError(str(path), f"cannot be read ({reason}); check the path") from None


def load_yaml(path: Path | str, *, shipped: bool = False) -> Document:
    """Read one YAML document without running any tag in it; ``shipped``: one of ours, of which there are hundreds."""
    return parse_yaml(read_text(path), str(path), shipped=shipped)


def parse_yaml(text: str, path: str, *, shipped: bool = False) -> Document:
    """Parse YAML text; sequences used as mapping keys become tuples (``[m1, m2]: 2``)."""
    try:
        # libyaml is five times as fast, and says less of a mistake.
        node = yaml.compose(text, Loader=_QUICK if shipped else yaml.SafeLoader)
        if node is None:
            raise BadFileError(path, "is empty; write a mapping into it")
        reader = _YamlReader(path)
        try:
            data = reader.plain(node, ())
        finally:
            reader.make.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise BadFileError(path, f"is not valid YAML ({error.problem}); mend it there", line=line) from None
    except yaml.YAMLError as error:
        raise BadFileError(path, f"is not valid YAML ({' '.join(str(error).split())}); mend it") from None
    except RecursionError:
        raise BadFileError(path, _TOO_DEEP) from None
    except ValueError as error:
        raise BadFileError(path, f"holds a value that cannot be read ({error}); mend it") from None
    return Document(path, data, reader.lines)


_QUICK: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TOO_DEEP = f"is nested deeper than {DEEPEST} levels; flatten it"


class _YamlReader:
    """Makes plain data of composed nodes. An alias is expanded where it stands, so nodes are counted."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: dict[Loc, int] = {}
        self.make = yaml.SafeLoader("")
        self._nodes = 0

    def plain(self, node: yaml.Node, loc: Loc) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(loc, line)
        self._count(line, len(loc))
        if isinstance(node, yaml.MappingNode):
            found: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                key = self._key(key_node, len(loc) + 1)
                at = (*loc, key if isinstance(key, int | str) else str(key))
                if key in found:
                    raise BadFileError(
                        self.path, f"{key!r} is given twice; keep one", line=key_node.start_mark.line + 1
                    )
                self.lines[at] = key_node.start_mark.line + 1
                found[key] = self.plain(value_node, at)
            return found
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item, (*loc, i)) for i, item in enumerate(node.value)]
        return self.make.construct_object(node, deep=True)

    def _key(self, node: yaml.Node, depth: int) -> Any:
        self._count(node.start_mark.line + 1, depth)
        if isinstance(node, yaml.SequenceNode):
            return tuple(self._key(item, depth + 1) for item in node.value)
        if isinstance(node, yaml.MappingNode):  # nothing has such a key: it only has to be shown
            pairs = [(self._key(key, depth + 1), self._key(value, depth + 1)) for key, value in node.value]
            return str(dict(pairs))
        key = self.make.construct_object(node, deep=True)
        return key if isinstance(key, str | int) and not isinstance(key, bool) else str(key)

    def _count(self, line: int, depth: int) -> None:
        self._nodes += 1
        if depth > DEEPEST:
            raise BadFileError(self.path, _TOO_DEEP, line=line)
        if self._nodes > MOST_NODES:
            raise BadFileError(
                self.path, f"grows to more than {MOST_NODES} values by its aliases; write less", line=line
            )


def load_toml(path: Path | str) -> Document:
    """Read a TOML file; its syntax errors already name line and column."""
    return parse_toml(read_text(path), str(path))


def parse_toml(text: str, path: str) -> Document:
    """Parse TOML text."""
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise BadFileError(path, _TOO_DEEP) from None
    except ValueError as error:  # TOMLDecodeError is one; a number of 5000 digits is a plain one
        raise BadFileError(path, f"is not valid TOML ({error}); mend it there") from None
    level: list[Any] = [data]
    for _ in range(DEEPEST):
        level = [item for value in level if isinstance(value, dict | list) for item in _items(value)]
        if not level:
            return Document(path, data)
    raise BadFileError(path, _TOO_DEEP)  # a.a.a.a = 1 needs no recursion to be read, but to be looked at


def _items(value: dict[str, Any] | list[Any]) -> typing.Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


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
    loc = _place(document.data, first)

    def bad(message: str, at: Loc = loc) -> BadFileError:
        return BadFileError(document.path, message, line=document.line_of(at), where=".".join(map(str, at)))

    if first["type"] == "extra_forbidden":
        return bad(_unknown_key(str(loc[-1]), _known_keys(model, first["loc"][:-1])))
    if first["type"] == "missing":
        return bad("is missing; add it")
    if first["type"] == "value_error":
        message = str(first["ctx"]["error"])
        named = loc or _named_first(document.data, message)
        return bad(message.removeprefix(f"{'.'.join(map(str, named))} "), named)
    given = first.get("input")
    if first["loc"][-1:] == ("value",) and loc[-1:] != ("value",) and isinstance(given, dict):
        # The long form of what has a short one, without its value.
        known = _known_keys(model, first["loc"][:-1])
        unknown = [key for key in map(str, given) if key not in known]
        if not unknown:
            return bad("has no 'value'; add it")
        near = next((key for key in unknown if difflib.get_close_matches(key, known, n=1)), None)
        if near is not None:
            return bad(_unknown_key(near, known), (*loc, near))
    # Where several kinds of value are possible there is an error for each of them.
    same = [error for error in errors if _place(document.data, error) == loc]
    wanted = list(dict.fromkeys(_wanted(error) for error in same))
    shown = f", not {given!r}" if isinstance(given, str | int | float | bool) else ""
    message = wanted[0] if len(wanted) == 1 else f"input should be {', or '.join(w.removeprefix(_BE) for w in wanted)}"
    return bad(f"{message}{shown}{_hint(same, wanted, given)}")


def _unknown_key(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}"
    return f"unknown key; {hint}"


_BE = "input should be "
_MAPPING, _LIST, _TEXT, _NUMBER, _WHOLE, _SWITCH = (
    f"{_BE}{what}" for what in ("a mapping", "a list", "a text", "a number", "a whole number", "true or false")
)
#: What is wanted, by the type of pydantic's error; the others say it well enough.
_WANTED = {
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), _MAPPING),
    **dict.fromkeys(("list_type", "tuple_type"), _LIST),
    "string_type": _TEXT,
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), _SWITCH),
}


def _wanted(error: Any) -> str:
    """Return what an error asks for."""
    if error["type"] == "string_pattern_mismatch":
        pattern = error["ctx"]["pattern"]
        if pattern.startswith(("^/", "^(/")):
            other = " or header:NAME" if "header:" in pattern else ""
            return f"{_BE}a JSON Pointer, which starts with /{',' if other else ''}{other}"
        return f"{_BE}a text like {pattern}"
    message = str(error["msg"])
    return _WANTED.get(error["type"], message[:1].lower() + message[1:])


def _hint(errors: list[Any], wanted: list[str], given: Any) -> str:
    """Return the likely remedy, where there is one."""
    if isinstance(given, str):
        known = [
            name
            for error in errors
            if error["type"] in ("literal_error", "enum")
            for name in re.findall(r"'([^']*)'", error["ctx"]["expected"])
        ]
        near = difflib.get_close_matches(given, known, n=1, cutoff=0.6)
        if near:
            return f"; did you mean {near[0]!r}?"
    if wanted == [_LIST]:
        return f"; write [{given}]" if isinstance(given, str | int | float) else "; make it an item of one"
    return "; put it in quotes" if wanted == [_TEXT] and not isinstance(given, dict | list | None) else ""


#: What may end a path of pydantic's and is no key: an alternative of a union, a table's key, a claim's short form.
_NO_KEY = re.compile(r"value|int|float|str|bool|(constrained|function|tagged)-.*|.*[\[\]()~A-Z].*")


def _place(data: Any, error: Any) -> Loc:
    """Return where in the file an error is, without what only pydantic knows of.

    Its paths name the alternatives of a union, too, and the long form of what stands there in a short one.
    """
    found: list[int | str] = []
    loc: Loc = error["loc"]
    for number, part in enumerate(loc):
        held = isinstance(data, dict) and part in data
        held = held or (isinstance(data, list) and isinstance(part, int) and part < len(data))
        if held:
            data = data[part]
        elif number < len(loc) - 1 or not _may_be_absent(data, part, error["type"]):
            continue
        found.append(part)
    return tuple(found)


def _may_be_absent(data: Any, part: int | str, kind: str) -> bool:
    """Whether the last part of a path names a key that is not there: a missing one, or one that a short form means."""
    if kind in ("missing", "extra_forbidden"):
        return True
    return isinstance(data, dict) and isinstance(part, str) and _NO_KEY.fullmatch(part) is None


def _named_first(data: Any, message: str) -> Loc:
    """Return the place that a complaint about the whole file begins with (``batch.route is ...``)."""
    found: list[int | str] = []
    for part in message.partition(" ")[0].split("."):
        if not isinstance(data, dict) or part not in data:
            break
        data = data[part]
        found.append(part)
    return tuple(found)


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
