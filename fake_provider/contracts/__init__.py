"""Contracts: the model, and one data file per vendor in this folder."""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path

from sendtwice.fake_provider.contracts import layers
from sendtwice.fake_provider.contracts.model import AnswerClass, Basis, Claim, Contract, Level
from sendtwice.fake_provider.documents import BadFileError, Document, load_yaml

__all__ = ["AnswerClass", "Basis", "Claim", "Contract", "Level", "find", "load", "names", "sha256"]

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
    """Read a contract by name or path; one that ``extends`` another says only what differs (:mod:`layers`)."""
    return layers.validated(_chain(find(name, relative_to=relative_to)))


def sha256(contract: Contract) -> str:
    """Return the digest that a result names, so that two runs can be compared."""
    return hashlib.sha256(contract.model_dump_json(by_alias=True).encode()).hexdigest()


def _chain(path: Path) -> list[Document]:
    """Return a contract's file and what it extends, the base first."""
    found: list[Document] = []
    seen: list[Path] = []
    while True:
        document = load_yaml(path)
        if not isinstance(document.data, dict):
            raise BadFileError(str(path), "is not a mapping; a contract starts with 'name:'", line=1)
        found.insert(0, document)
        seen.append(path.resolve())
        base = document.data.get("extends")
        if base is None:
            return found
        path = _base(document, base, path.parent)
        if path.resolve() in seen:
            way = " -> ".join(step.name for step in [*seen, path])
            raise _at_extends(document, f"the contract extends itself ({way}); break the circle")


def _base(document: Document, name: object, folder: Path) -> Path:
    if not isinstance(name, str):
        raise _at_extends(document, "write the name of a shipped contract, or the path of a file")
    try:
        path = find(name, relative_to=folder)
    except BadFileError as error:
        raise _at_extends(document, error.message) from None
    if not path.exists():
        raise _at_extends(document, f"{name!r} does not exist; its path starts at this file's folder")
    return path


def _at_extends(document: Document, message: str) -> BadFileError:
    return BadFileError(document.path, message, line=document.line_of(("extends",)), where="extends")
