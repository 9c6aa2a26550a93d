"""A contract that extends another: its file is laid over the other's, and each keeps its own lines.

What is a group in the model (``key``, ``retention``, a route, ...) is merged entry by entry, and so are plain tables of
names (``headers``, ``levels``, the classes of ``answers``). What is one statement is replaced whole: a claim with all
that stands beside its value, the looks of one class of answer, a body template, a list. ``~`` takes an entry out.
"""

from __future__ import annotations

import types
import typing
from typing import Any

from sendtwice.fake_provider.contracts.claims import Claim, Strict
from sendtwice.fake_provider.contracts.model import Contract
from sendtwice.fake_provider.documents import BadFileError, Document, Loc, validate

#: The file and line of everything in a contract that was made of several files.
Places = dict[Loc, tuple[str, int]]

#: A mapping with one of these is a claim in its long form.
_CLAIM = frozenset({"value", "basis", "play", "also"})


def validated(chain: list[Document]) -> Contract:
    """Lay files over one another, the base first, and validate what they say together."""
    base, *others = chain
    data, places = base.data, _places(base, ())
    for over in others:
        if "name" not in over.data:
            raise BadFileError(
                over.path, "is missing; a contract that extends another has its own", line=1, where="name"
            )
        data = _laid_over(Contract, data, over.data, (), over, places)
    last = chain[-1]
    try:
        return validate(Contract, Document(last.path, data))
    except BadFileError as error:
        path, line = _place(error.where, places)
        raise BadFileError(path, error.message, line=line, where=error.where) from None


def _laid_over(kind: Any, base: Any, over: Any, loc: Loc, document: Document, places: Places) -> Any:
    """Return ``base`` with ``over`` laid over it, and note in ``places`` where everything stands now."""
    base, over = _as_group(kind, base), _as_group(kind, over)
    if kind is None or not isinstance(base, dict) or not isinstance(over, dict):
        _take_out(places, loc)
        places.update(_places(document, loc))
        return over
    merged = dict(base)
    for name, value in over.items():
        at = (*loc, name)
        if value is None:
            if name not in merged:
                raise BadFileError(
                    document.path,
                    "there is no such entry to take out; ~ is for what the extended contract has",
                    line=document.line_of(at),
                    where=".".join(map(str, at)),
                )
            del merged[name]
            _take_out(places, at)
        elif name in merged:
            merged[name] = _laid_over(_within(kind, name), merged[name], value, at, document, places)
        else:
            merged[name] = value
            places.update(_places(document, at))
    places.update({at: place for at, place in _places(document, loc).items() if at == loc})
    return merged


def _as_group(kind: Any, given: Any) -> Any:
    """Return a group that is written as one bare claim (``lease: 5``) as what it stands for: its first claim."""
    if not _is_group(kind) or (isinstance(given, dict) and not given.keys() & _CLAIM):
        return given
    return {next(iter(kind.model_fields)): given}


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Strict) and not issubclass(kind, Claim)


def _within(kind: Any, name: str) -> Any:
    """Return what an entry of a group or a table is, when it is merged; None when it is replaced whole."""
    if not _is_group(kind):
        (entry,) = typing.get_args(kind)[1:]
        return entry if _is_group(entry) else None
    field = next((info for key, info in kind.model_fields.items() if name in (key, info.alias)), None)
    return None if field is None else _merged_kind(field.annotation)


def _merged_kind(annotation: Any) -> Any:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        known = [inner for inner in typing.get_args(annotation) if inner is not type(None)]
        return _merged_kind(known[0]) if len(known) == 1 else None
    if _is_group(annotation):
        return annotation
    # A table of anything is a template of a body: half of one over half of another is neither.
    return annotation if typing.get_origin(annotation) is dict and typing.get_args(annotation)[1] is not Any else None


def _places(document: Document, loc: Loc) -> Places:
    return {at: (document.path, line) for at, line in document.lines.items() if at[: len(loc)] == loc}


def _take_out(places: Places, loc: Loc) -> None:
    for at in [at for at in places if at[: len(loc)] == loc]:
        del places[at]


def _place(where: str, places: Places) -> tuple[str, int]:
    """Return the file and line of the deepest known part of ``where``, a path as it is told in an error."""
    named = {".".join(map(str, at)): place for at, place in places.items()}
    while where and where not in named:
        where = where.rpartition(".")[0]
    return named[where]
