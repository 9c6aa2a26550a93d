"""What is told to whoever writes a test: one line, with the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class SendtwiceError(Exception):
    """Something that sendtwice was asked for cannot be done, or must not happen; its text is one line."""


@contextmanager
def one_line() -> Iterator[None]:
    """Turn mistakes in files and settings into :class:`SendtwiceError`."""
    from sendtwice.fake_provider.documents import BadFileError  # noqa: PLC0415  # it brings yaml and pydantic
    from sendtwice.harness.errors import HarnessError  # noqa: PLC0415

    try:
        yield
    except (BadFileError, HarnessError) as error:
        raise SendtwiceError(" ".join(str(error).split())) from None
