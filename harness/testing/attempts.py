"""What a test sees of a request that its API got."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from sendtwice.fake_provider.attempts import Attempt as Noted


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request that the API got, and what it answered.

    ``status`` and ``answer`` (its class: ``accepted``, ``conflict``, ...) are of the answer that it had; whether that
    was ``sent``, or lost on the way, is another question. ``headers`` are in lower case.
    """

    number: int
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    key: str | None
    to: tuple[str, ...]
    subject: str | None
    status: int | None
    answer: str | None
    sent: bool

    @property
    def json(self) -> Any:
        """The body as JSON; None when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @classmethod
    def of(cls, noted: Noted) -> Self:
        """Return what a test sees of an attempt."""
        return cls(
            noted.number,
            noted.method,
            noted.path,
            dict(noted.headers),
            noted.body,
            noted.key,
            noted.mail.recipients if noted.mail is not None else (),
            noted.mail.subject if noted.mail is not None else None,
            noted.status,
            noted.answer,
            noted.sent,
        )
