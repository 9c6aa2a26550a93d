"""Attempts that a vendor's own SDK makes by itself: which belong together, and which one of them this is.

A caller that sends once may be seen twice, because the library under it tries again. Where a vendor's SDKs tell of that
on the wire, the contract names the headers (``resends``), and attempts of one call can be told from calls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.messages import Request

_NUMBER = re.compile(r"\d{1,9}")


@dataclass(frozen=True, slots=True)
class Resend:
    """``call`` is the same for all attempts of one call; ``number`` counts them from 0, as far as they say so."""

    call: str | None = None
    number: int | None = None


def resend_of(contract: Contract, request: Request) -> Resend | None:
    """Return which attempt of which call a request is; None where the contract or the request does not say."""
    rules = contract.resends
    if rules is None:
        return None
    call = request.header(rules.call) if rules.call else None
    counted = _NUMBER.search(request.header(rules.count) or "") if rules.count else None
    number = max(int(counted[0]) - rules.first, 0) if counted else None
    return None if call is None and number is None else Resend(call, number)


def notes(contract: Contract, request: Request) -> dict[str, str | int | None]:
    """Return what is noted of a request beside its mail: ``call`` and ``resend``, where the contract has them."""
    found = resend_of(contract, request)
    return {} if found is None else {"call": found.call, "resend": found.number}
