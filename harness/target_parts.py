"""What the tables of a target file are made of: numbers, addresses, headers, each with the sentence that refuses it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sendtwice.fake_provider.contracts.model import HEADER_NAME

#: Seconds, up to a day: nobody waits longer for a test, and infinity is a slip.
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Some = Annotated[Seconds, Field(gt=0)]


def one_line(given: str) -> str:
    """Return a text of one line as it stands, or raise a ValueError."""
    if any(ord(c) < 32 or ord(c) == 127 for c in given):
        raise ValueError(f"{given!r} has a line break or a control character; take it out")
    return given


def _path(given: str) -> str:
    if " " in one_line(given) or not given.startswith("/"):
        raise ValueError(f"{given!r} is no path; write one that starts with / and has %20 for a space")
    return given


def as_pointer(given: str) -> str:
    """Return a JSON Pointer as it stands, or raise a ValueError that says how it is written."""
    if not given.startswith("/"):
        raise ValueError(f"{given!r} is no JSON Pointer; write /{given.removeprefix('$.').replace('.', '/')}")
    return given


def header_name(given: str) -> str:
    """Return the name of a header as it stands, or raise a ValueError that says what it may have in it."""
    if not HEADER_NAME.fullmatch(given):
        raise ValueError(f"{given!r} is no header name; write letters, digits and -")
    return given


def _headers(given: dict[str, str]) -> dict[str, str]:
    for name, value in given.items():
        header_name(name)
        one_line(value)
    return given


def _environment(given: dict[str, str]) -> dict[str, str]:
    for name in given:
        if not name or "=" in name:
            raise ValueError(f"{name!r} is no name of an environment variable; take the = out")
    return given


UrlPath = Annotated[str, AfterValidator(_path)]
Pointer = Annotated[str, AfterValidator(as_pointer)]
Headers = Annotated[dict[str, str], AfterValidator(_headers)]
Environment = Annotated[dict[str, str], AfterValidator(_environment)]


class Strict(BaseModel):
    """A part of a target file: an unknown key in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
