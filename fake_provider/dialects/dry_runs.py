"""Requests that only ask whether they would be taken: sandbox and test modes, in which nothing is sent."""

from __future__ import annotations

from typing import Any

from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.messages import Request

_YES = ("true", "yes", "1", "on")


def asked(contract: Contract, request: Request, body: Any) -> bool:
    """Whether a request asks for nothing to be sent, at the place that its contract names for that."""
    if contract.dry_run is None:
        return False
    carrier, _, name = contract.dry_run.partition(":")
    value = request.query.get(name) if carrier == "query" else pointers.get(body, name)
    return value is True or (isinstance(value, str) and value.lower() in _YES)
