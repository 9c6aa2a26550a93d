"""What a contract says besides its claims: places, paths and names that a caller has to write. Data.

They have no basis: a request cannot be made without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sendtwice.fake_provider.contracts.model import SEND, Contract, Route


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that a contract names; ``read`` returns "" where it names none."""

    title: str
    read: Callable[[Contract], str]


def path_of(route: Route) -> str:
    """Return what a route is asked by."""
    query = "&".join(f"{name}={value}" for name, value in route.query.items())
    return f"{route.method} {route.path}" + (f"?{query}" if query else "")


def _headers(contract: Contract) -> str:
    return ", ".join(name for name in contract.request.headers if name.lower() != "content-type")


def _words(contract: Contract) -> str:
    words = contract.lookup.words if contract.lookup is not None else {}
    return ", ".join(f"{word} for {state}" for state, word in words.items() if word != state)


FACTS: dict[str, Fact] = {
    "request": Fact("a send", lambda c: path_of(c.request)),
    "request.headers": Fact("headers that a send needs", _headers),
    "request.body": Fact("body of a send", lambda c: json.dumps(c.request.body, ensure_ascii=False)),
    "mail.required": Fact("fields that a send needs", lambda c: ", ".join(c.mail.required)),
    "mail.items": Fact("where the mails of a batch stand", lambda c: c.mail.items or ""),
    "dry_run": Fact("a send that stores and sends nothing", lambda c: c.dry_run or ""),
    "dry_run_status": Fact("status of such a send", lambda c: str(c.dry_run_status or "")),
    "key.at": Fact("where the key stands", lambda c: c.key.at),
    "key.also_at": Fact("or else, in this order", lambda c: ", ".join(c.key.also_at)),
    "key.first_sent.at": Fact(
        "where the caller states the time of the first attempt",
        lambda c: c.key.first_sent.at if c.key.first_sent else "",
    ),
    "retention.chosen_at": Fact("where a caller chooses how long a key is kept", lambda c: c.retention.chosen_at or ""),
    "scheduled.at": Fact(
        "where the time of a mail for later stands", lambda c: c.scheduled.at or "" if c.scheduled else ""
    ),
    "lookup.state": Fact("where a message's state stands", lambda c: c.lookup.state if c.lookup else ""),
    "lookup.words": Fact("words for states", _words),
    "events.id": Fact("where an event's id stands", lambda c: c.events.id if c.events else ""),
    "resends.call": Fact(
        "SDK's header for all attempts of a call", lambda c: c.resends.call or "" if c.resends else ""
    ),
    "resends.count": Fact("SDK's header that counts attempts", lambda c: c.resends.count or "" if c.resends else ""),
    "resends.first": Fact("its first count", lambda c: str(c.resends.first) if c.resends and c.resends.count else ""),
    "resends.note": Fact("how the SDK repeats", lambda c: c.resends.note or "" if c.resends else ""),
    "variables": Fact("variables that point SDKs elsewhere", lambda c: ", ".join(c.variables)),
}

#: What a route does, in words.
DOES = {
    "send": "sends",
    "draft": "makes a draft that waits",
    "launch": "approves a draft, which sends it",
    "reject": "rejects a draft",
    "resolve": "settles an unknown outcome by a person",
    "reconcile": "settles an unknown outcome by an event",
    "read": "tells a message's state",
    "nothing": "sends nothing",
}

KEYS = {
    "optional": "optional",
    "required": "required",
    "ignored": "takes none",
    "unknown": "not said",
}


def key_of(contract: Contract, name: str) -> str:
    """Return whether a route takes a key and, where it is not the usual place, where."""
    takes = KEYS[contract.takes_key(name)]
    at = contract.key_at(name)
    elsewhere = at != contract.key.at and contract.takes_key(name) != "ignored"
    return f"{takes}, in {at}" if elsewhere else takes


def routes(contract: Contract) -> Iterator[tuple[str, Route]]:
    """Return every route with its name, the send first."""
    yield SEND, contract.request
    yield from contract.routes.items()
