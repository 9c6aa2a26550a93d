"""What a test asks for: its marker, then pytest's settings, then the project's own target file.

The marker of a function adds to those of its class and its module. Nothing heavy is loaded here: it is read while tests
are collected.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sendtwice.harness.nearest import nearest
from sendtwice.harness.testing.errors import SendtwiceError

#: What the marker takes, besides the seconds of ``[target.timing]``.
_KNOWN = (
    *("contract", "scenarios", "exclude", "role", "told", "known", "timeout", "mails"),
    *("dialect", "env", "allow"),
)
#: Seconds that only the code's owner knows: as in ``[target.timing]`` of a target file.
TIMING = (
    *("answers_within", "delivers_within", "retries_for", "provider_timeout", "lease", "grace", "attempt_timeout"),
    "max_attempts",
)
_TOLD = ("sent", "not_sent", "unknown")
_TEXTS = ("contract", "role", "mails", "dialect")
_LISTS = ("scenarios", "exclude", "env", "allow")
_MAPPINGS = ("told", "known")
_SHIPPED_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Choice:
    """What one test asks for."""

    test: str
    contract: str | None = None
    scenarios: tuple[str, ...] = ("client.*",)
    exclude: tuple[str, ...] = ()
    told: Mapping[type[BaseException], str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)
    timing: Mapping[str, float] = field(default_factory=dict)
    timeout: float = 60.0
    mails: str | None = None
    dialect: str = "generic"
    env: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()

    def needed_contract(self) -> str:
        """Return the contract, or raise the error that says how to name one."""
        if self.contract is None:
            raise SendtwiceError(
                f'{self.test} names no contract: write @pytest.mark.sendtwice(contract="resend"), or '
                'sendtwice_contract = resend in pytest\'s settings, or contract = "resend" under [target] in '
                'sendtwice.toml ([tool.sendtwice.target] in pyproject.toml); "universal" if it is not written down'
            )
        return self.contract


def choice(node: pytest.Item) -> Choice:
    """Return what a test asks for; a mistake in its marker is a :class:`SendtwiceError`."""
    given: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("sendtwice"))):
        if marker.args:
            raise SendtwiceError(f"{node.name}: the marker sendtwice takes names only: contract=..., scenarios=...")
        given |= marker.kwargs
    for name in given:
        if name not in (*_KNOWN, *TIMING):
            raise SendtwiceError(
                f"{node.name}: the marker sendtwice has no {name!r}; {nearest(name, [*_KNOWN, *TIMING])}"
            )
    if given.get("role", "client") != "client":
        raise SendtwiceError(
            f"{node.name}: a test plays role client, code that sends; for role {given['role']} write a target file and "
            "use sendtwice run"
        )
    _check_types(given, node.name)
    config = node.config
    project = _project(config.rootpath)
    contract = given.get("contract") or config.getini("sendtwice_contract") or None
    return Choice(
        test=node.name,
        contract=_placed(contract, node.path.parent, config.rootpath) if contract else project.get("contract"),
        scenarios=_several(given.get("scenarios", "client.*")),
        exclude=_several(given.get("exclude", ())),
        told=_told(given.get("told", {}), node.name),
        known=dict(given.get("known", {})),
        timing={name: given[name] for name in TIMING if name in given},
        timeout=given.get("timeout", 60.0),
        mails=given.get("mails"),
        dialect=given.get("dialect") or config.getini("sendtwice_dialect") or project.get("dialect") or "generic",
        env=(*config.getini("sendtwice_env"), *_several(given.get("env", ()))),
        allow=(*config.getini("sendtwice_allow"), *_several(given.get("allow", ()))),
    )


def _check_types(given: Mapping[str, Any], test: str) -> None:
    """Raise :class:`SendtwiceError` for a value that cannot be meant."""
    for name, value in given.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in _TEXTS:
            good, wanted = value is None or isinstance(value, str), "a text"
        elif name in _LISTS:
            listed = [value] if isinstance(value, str) else value
            good = isinstance(listed, list | tuple) and all(isinstance(one, str) for one in listed)
            wanted = "a text, or a list of texts"
        elif name in _MAPPINGS:
            good, wanted = isinstance(value, Mapping), "a mapping"
            good = good and (name == "told" or all(isinstance(one, str) for item in value.items() for one in item))
        else:
            good, wanted = number, "a number"
        if not good:
            raise SendtwiceError(f"{test}: the marker's {name} is {wanted}, not {value!r}")


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _told(given: Mapping[Any, Any], test: str) -> Mapping[type[BaseException], str]:
    for kind, word in given.items():
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise SendtwiceError(f"{test}: told maps exceptions, such as TimeoutError, not {kind!r}")
        if word not in _TOLD:
            raise SendtwiceError(f"{test}: told says sent, not_sent or unknown of {kind.__name__}, not {word!r}")
    return dict(given)


def _placed(contract: str, *folders: Path) -> str:
    """Return a contract's name as it is, and a file's as a whole path: beside the test, or at the project's root."""
    if not contract.endswith(_SHIPPED_SUFFIXES):
        return contract
    return str(next((folder / contract for folder in folders if (folder / contract).exists()), folders[0] / contract))


def _project(root: Path) -> dict[str, str]:
    """Return the contract and the dialect that the project's target file names."""
    for path, table in ((root / "sendtwice.toml", ()), (root / "pyproject.toml", ("tool", "sendtwice"))):
        if not path.exists():
            continue
        try:
            data: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SendtwiceError(f"{path.name}: {error}") from None
        for part in (*table, "target"):
            data = data.get(part, {}) if isinstance(data, dict) else {}
        if isinstance(data, dict) and data:
            provider = data.get("provider", {})
            found = {"contract": data.get("contract"), "dialect": provider.get("dialect")}
            return {name: _placed(str(value), path.parent) for name, value in found.items() if value}
    return {}
