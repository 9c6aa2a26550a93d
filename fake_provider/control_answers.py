"""What an answer that a fault asks for can say beside its status, as the control API is given it.

``retry_after`` is a number of seconds, or ``{"date": 2}`` for a date so many seconds from then; ``location`` sends the
caller on; ``headers`` and ``body`` stand for what the answer would have. Where a body ends is not for a fault to say.
"""

from __future__ import annotations

import json
import re
from typing import Any

from sendtwice.fake_provider.contracts.model import HEADER_NAME
from sendtwice.fake_provider.control_input import BadInputError, is_number
from sendtwice.fake_provider.faults import Place, Verb

FIELDS = ("retry_after", "location", "headers", "body")
_WHERE = ("same", "other")
#: Seconds: a day.
_LONGEST = 86_400.0
#: What says where a body ends is the wire's own.
_FRAMING = ("content-length", "transfer-encoding")
_VALUE = re.compile(r"(?:[!-~\xa0-\xff](?:[ \t!-~\xa0-\xff]*[!-~\xa0-\xff])?)?")


def answer_fields(given: dict[str, Any], place: Place, verb: Verb, stage: str | None) -> dict[str, Any]:
    """Return what a fault's answer says, as fields of a fault."""
    said = [name for name in FIELDS if given.get(name) is not None]
    if not said:
        return {}
    if verb is not Verb.ANSWER:
        raise BadInputError(f'{said[0]} is a part of an answer; write "fault": {{"answer": 503}}, or leave it out')
    if stage is not None:
        raise BadInputError(f"at stage {stage} an answer is a bare status; leave {said[0]} out")
    if place.startswith("webhook."):
        raise BadInputError(f"of an answer at {place} only the status is read; leave {said[0]} out")
    found: dict[str, Any] = {}
    if "retry_after" in said:
        found |= _retry_after(given["retry_after"])
    if "location" in said:
        found["location"] = _location(given["location"])
    if "headers" in said:
        found["headers"] = _headers(given["headers"], said)
    if "body" in said:
        found["body"] = _body(given["body"])
    return found


def _retry_after(given: Any) -> dict[str, Any]:
    as_date = isinstance(given, dict) and set(given) == {"date"}
    seconds = given["date"] if as_date else given
    if not is_number(seconds) or not 0 < seconds <= _LONGEST:
        raise BadInputError(
            f'retry_after must be seconds, more than 0 and at most a day, or {{"date": SECONDS}}, not {given!r}'
        )
    return {"retry_after": float(seconds), "as_date": as_date}


def _location(given: Any) -> str:
    if given not in _WHERE:
        raise BadInputError(
            f"location must be {' or '.join(_WHERE)} (the origin), not {given!r}; another address goes into headers"
        )
    return str(given)


def _headers(given: Any, said: list[str]) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise BadInputError(f"headers must be an object of names and texts, not {given!r}")
    for name, value in given.items():
        if not HEADER_NAME.fullmatch(name):
            raise BadInputError(f"{name!r} is no header name; write Retry-After")
        if not _VALUE.fullmatch(value):
            raise BadInputError(f"the header {name} must be one line of Latin-1 text, not {value!r}")
        if name.lower() in _FRAMING:
            raise BadInputError(f"{name} is written by the wire itself; leave it out, and see cut, lose and garble")
        if name.lower().replace("-", "_") in said:
            raise BadInputError(f"{name} is said twice, in headers and as {name.lower().replace('-', '_')}; keep one")
    return tuple(given.items())


def _body(given: Any) -> str:
    body = given if isinstance(given, str) else json.dumps(given) if isinstance(given, dict | list) else None
    if body is None:
        raise BadInputError(f"body must be text, or an object that is sent as JSON, not {given!r}")
    try:
        body.encode()
    except UnicodeEncodeError:
        raise BadInputError(f"body must be text that UTF-8 can write, not {given!r}") from None
    return body
