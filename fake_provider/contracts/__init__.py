"""Contracts: the model, and one data file per vendor in this folder."""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path
from typing import Any

from sendtwice.fake_provider.contracts.model import AnswerClass, Basis, Claim, Contract, Level
from sendtwice.fake_provider.documents import BadFileError, Document, load_yaml, validate

__all__ = ["AnswerClass", "Basis", "Claim", "Contract", "Level", "load", "names", "sha256"]

FOLDER = Path(__file__).resolve().parent


def names() -> list[str]:
    """Return the names of the shipped contracts."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(name: str, *, relative_to: Path | None = None) -> Path:
    """Return the file of a shipped contract, or of one that is named by its path."""
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = Path(name)
        return path if path.is_absolute() or relative_to is None else relative_to / path
    path = FOLDER / f"{name}.yaml"
    if not path.exists():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"shipped: {', '.join(names())}; or give a file"
        raise BadFileError("contract", f"{name!r} is not a shipped contract; {hint}")
    return path


def load(name: str, *, relative_to: Path | None = None) -> Contract:
    """Read a contract by name or path; one that ``extends`` another says only what differs."""
    return validate(Contract, _merged(find(name, relative_to=relative_to), ()))


def sha256(contract: Contract) -> str:
    """Return the digest that a result names, so that two runs can be compared."""
    return hashlib.sha256(contract.model_dump_json(by_alias=True).encode()).hexdigest()


def _merged(path: Path, seen: tuple[Path, ...]) -> Document:
    document = load_yaml(path)
    if not isinstance(document.data, dict):
        raise BadFileError(str(path), "is not a mapping; a contract starts with 'name:'", line=1)
    base_name = document.data.get("extends")
    if not isinstance(base_name, str):
        return document
    if path in seen:
        raise BadFileError(str(path), "extends itself; break the circle", line=document.line_of(("extends",)))
    base = _merged(find(base_name, relative_to=path.parent), (*seen, path))
    return Document(document.path, _overlay(base.data, document.data), document.lines)


def _overlay(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict) and not over.keys() & {"value", "basis", "status"}:
        return {**base, **{key: _overlay(base.get(key), value) for key, value in over.items()}}
    return over
