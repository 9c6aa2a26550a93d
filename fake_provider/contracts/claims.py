"""What a contract is made of: claims, with how each is known.

A claim has a value and a basis: ``documented`` (the vendor's page says so), ``observed`` (seen, not promised) or
``unknown``. Unknown is never judged. In a file a bare value is a documented claim; the word ``unknown`` is an unknown
one; the long form names everything::

    concurrent: {value: refuse, also: [wait], source: "Rasket, section on three behaviours", play: wait}

``also`` lists behaviours that were seen and must not be held against anyone; ``play`` is what the emulator does.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

T = TypeVar("T")


class Basis(StrEnum):
    """How a claim is known."""

    DOCUMENTED = "documented"
    OBSERVED = "observed"
    UNKNOWN = "unknown"


class Level(StrEnum):
    """How much a broken rule weighs; only ``must`` fails a run by default."""

    MUST = "must"
    SHOULD = "should"
    HOLE = "hole"
    OBSERVE = "observe"


class Strict(BaseModel):
    """A part of a file: frozen, and an unknown key in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Claim(Strict, Generic[T]):
    """One promise of a contract, with how it is known and where it is written."""

    value: T | None = None
    also: list[T] = []
    basis: Basis = Basis.DOCUMENTED
    source: str | None = None
    note: str | None = None
    play: T | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, given: Any) -> Any:
        if isinstance(given, Claim):
            return given
        if given is None:
            raise ValueError("is empty; write its value, or unknown")
        if given == "unknown":
            return {"basis": "unknown"}
        if isinstance(given, dict) and given.keys() & {"value", "basis", "play"}:
            return given if "value" in given else {"basis": "unknown", **given}
        return {"value": given}

    @property
    def judged(self) -> bool:
        """Whether the claim is a promise: only documented claims are held against a target."""
        return self.basis is Basis.DOCUMENTED and self.value is not None

    def says(self, value: T) -> bool:
        """Whether the contract promises exactly ``value`` (and tolerates nothing beside it)."""
        return self.judged and self.value == value and not self.also

    def permits(self, value: T) -> bool:
        """Whether ``value`` may happen without breaking this claim."""
        return not self.judged or self.value == value or value in self.also

    def played(self, default: T) -> T:
        """Return what the emulator does."""
        for choice in (self.play, self.value):
            if choice is not None:
                return choice
        return default


def unsaid() -> Any:
    """Return the default of every claim."""
    return Field(default_factory=lambda: Claim(basis=Basis.UNKNOWN))


#: A JSON Pointer (RFC 6901).
Pointer = Annotated[str, Field(pattern=r"^/")]
#: Seconds, up to ten years: what is longer is a slip of the pen.
Seconds = Annotated[float, Field(ge=0, le=315_360_000, allow_inf_nan=False)]
Length = Annotated[int, Field(ge=0)]
