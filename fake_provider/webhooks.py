"""Events out: what they say, and how they are signed where nothing else is asked for (Standard Webhooks 1.0).

How they are seen through is in :mod:`emulator.outbox`, how they get on the wire in :mod:`webhook_wire`, and the other
ways of signing in :mod:`signatures`.

What is signed is ``id.timestamp.body``, so neither can be changed on the way.  A redelivery keeps its id,
because that is how a consumer knows it, and gets a fresh timestamp and signature, because an old one must
be rejected.

Payloads are data: a JSON file in ``payloads/`` or of the user, with ``{placeholders}`` in its texts.
"""

from __future__ import annotations

import copy
import difflib
import hmac
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sendtwice.fake_provider.documents import BadFileError, read_text
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.emulator.outbox import OutEvent
from sendtwice.fake_provider.signatures import Scheme, make_secret

__all__ = [
    "BadSignatureError",
    "check_secret",
    "event_body",
    "fill",
    "make_secret",
    "names",
    "payload",
    "sign",
    "verify",
]

PAYLOADS = Path(__file__).resolve().parent / "payloads"
TOLERANCE = 300.0

_STANDARD = Scheme("standard")
_LAST_SECOND = 253_402_300_799.0  # of the year 9999, as far as a date can be written
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
#: What a payload may say: ``operation`` and ``message_id`` stand for one business event, whatever the ``event_id``;
#: ``mail_id`` is the id of the mail that an event tells of, as its provider answered it; ``created`` is ``now`` in
#: seconds.
KNOWN = frozenset({"event_id", "message_id", "mail_id", "operation", "from", "to", "subject", "text", "now", "created"})


class BadSignatureError(Exception):
    """A webhook that must not be believed; its text says why."""


def sign(secret: str, number: str, timestamp: float, body: bytes) -> dict[str, str]:
    """Return the headers that make ``body`` the webhook ``number`` (its id) of this second."""
    return _STANDARD.sign(secret, number, timestamp, body)


def event_body(event: OutEvent, place: str) -> bytes:
    """Return what the API says of an event; ``place`` is the JSON Pointer to its id."""
    when = datetime.fromtimestamp(min(event.created, _LAST_SECOND), UTC).isoformat(timespec="milliseconds")
    body: dict[str, Any] = {"type": event.type, "created_at": when.replace("+00:00", "Z"), "data": event.data}
    body = copy.deepcopy(body)
    pointers.put(body, place, event.id)
    return json.dumps(body, separators=(",", ":")).encode()


def check_secret(secret: str) -> None:
    """Raise :class:`BadFileError` unless something can be signed with it."""
    try:
        _STANDARD.check_secret(secret)
    except ValueError as error:
        raise BadFileError("webhook-secret", str(error)) from None


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now: float, tolerance: float = TOLERANCE) -> None:
    """Raise :class:`BadSignatureError` unless this was signed with ``secret``, and lately.

    ``tolerance`` is how many seconds its timestamp may be away from ``now``.
    """
    given = {name.lower(): value for name, value in headers.items()}
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        if not given.get(name):
            raise BadSignatureError(f"{name} is missing")
    stamp = given["webhook-timestamp"]
    if not (stamp.isascii() and stamp.isdecimal()):
        raise BadSignatureError(f"webhook-timestamp is {stamp!r}, not a number of seconds")
    if abs(now - int(stamp)) > tolerance:
        raise BadSignatureError(f"webhook-timestamp is more than {tolerance:g} seconds away")
    expected = sign(secret, given["webhook-id"], int(stamp), body)["webhook-signature"]
    # Several signatures stand side by side while a secret is being changed.
    if not any(hmac.compare_digest(expected.encode(), s.encode()) for s in given["webhook-signature"].split()):
        raise BadSignatureError("no signature is right for this body")


def payload(name: str, *, relative_to: Path | None = None) -> Any:
    """Read a payload template: a shipped one by its name, or a JSON file."""
    if name.endswith(".json") or "/" in name:
        path = Path(name) if relative_to is None or Path(name).is_absolute() else relative_to / name
    else:
        path = PAYLOADS / f"{name}.json"
        shipped = sorted(found.stem for found in PAYLOADS.glob("*.json"))
        if name not in shipped:
            near = difflib.get_close_matches(name, shipped, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"shipped: {', '.join(shipped)}; or give a file"
            raise BadFileError("event", f"{name!r} is not a shipped payload; {hint}")
    try:
        template = json.loads(read_text(path))
    except ValueError as error:
        raise BadFileError(str(path), f"is not valid JSON ({error}); mend it there") from None
    for found in _placeholders(template):
        if found not in KNOWN:
            near = difflib.get_close_matches(found, KNOWN, n=1)
            hint = f"did you mean {{{near[0]}}}?" if near else f"known: {', '.join(sorted(KNOWN))}"
            raise BadFileError(str(path), f"{{{found}}} is not a placeholder; {hint}")
    return template


def names(template: Any) -> frozenset[str]:
    """Return the placeholders of a template."""
    return frozenset(_placeholders(template))


def fill(template: Any, values: Mapping[str, str]) -> Any:
    """Return the template with its placeholders filled; one without a value stays as it is."""
    if isinstance(template, dict):
        return {name: fill(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [fill(item, values) for item in template]
    if isinstance(template, str):
        return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)
    return copy.copy(template)


def _placeholders(template: Any) -> list[str]:
    if isinstance(template, dict):
        return [found for value in template.values() for found in _placeholders(value)]
    if isinstance(template, list):
        return [found for item in template for found in _placeholders(item)]
    return _PLACEHOLDER.findall(template) if isinstance(template, str) else []
