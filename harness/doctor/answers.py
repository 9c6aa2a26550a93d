"""What an answer says, read from its bytes: in words, beside the words for what it should say.

Nothing here knows how the answers were made; a date is a date, gzip is read to its end or not, and a chunk is counted.
"""

from __future__ import annotations

import contextlib
import email.utils
import gzip
import json
import time
from collections.abc import Iterator

from sendtwice.fake_provider.faults import Fault, Place, Verb

#: What a garbled answer holds.
GARBLED = {
    "html": "a page of HTML",
    "empty": "an empty body",
    "half": "half of its JSON",
    "gzip": "half of its gzip",
}
#: What a fault puts in the place of an answer's own.
_HEADER, _BODY = ("X-Doctor", "was here"), "a body of its own"


def answers_of(*places: Place) -> Iterator[Fault]:
    """Return answers that say more than a status."""
    for place in places:
        for seconds, as_date in ((2.0, False), (0.5, False), (2.0, True)):
            yield Fault(place, Verb.ANSWER, 503, retry_after=seconds, as_date=as_date)
        for where in ("same", "other"):
            yield Fault(place, Verb.ANSWER, 307, location=where)
        yield Fault(place, Verb.ANSWER, 503, headers=(_HEADER,), body=_BODY)


def in_words(answer: bytes) -> str:
    """Say what the body of a whole answer holds."""
    headers, body = _read(answer)
    if not body:
        return "an empty body"
    if headers.get("content-encoding") == "gzip":
        try:
            gzip.decompress(body)
        except EOFError:
            return "half of its gzip"
        return "the whole of its gzip"
    if headers.get("content-type") == "text/html" and body.startswith(b"<!DOCTYPE html>"):
        return "a page of HTML"
    try:
        json.loads(body)
    except ValueError:
        return "half of its JSON" if body.startswith((b"{", b"[")) else "a body that is no JSON"
    return "whole JSON"


def chunks(data: bytes, whole: bytes) -> tuple[str, str]:
    """Say what came of an answer in chunks, and what should have come of the ``whole``, which is in one piece."""
    headers, body = _read(data)
    given, last = 0, False
    with contextlib.suppress(ValueError):
        while body:
            size, _, rest = body.partition(b"\r\n")
            given, last, body = given + int(size, 16), int(size, 16) == 0, rest[int(size, 16) + 2 :]
    framed = headers.get("transfer-encoding") == "chunked" and "content-length" not in headers
    length = len(_read(whole)[1])
    return (
        f"{given} of {length} bytes{' in chunks' if framed else ''}, {'and the last' if last else 'without the last'}",
        f"{(length + 1) // 2} of {length} bytes in chunks, without the last",
    )


def more_of(fault: Fault, answer: bytes, since: float) -> tuple[str, str]:
    """Say what an answer says beside its status, and what it should; it was asked for at ``since``, by the clock."""
    headers, body = _read(answer)
    seen, should = [], []
    if fault.retry_after is not None:
        told = headers.get("retry-after")
        should.append(f"Retry-After: {'a date' if fault.as_date else f'{fault.retry_after:g}'}")
        seen.append(f"Retry-After: {_date(told, fault.retry_after, since) if fault.as_date else told}")
    if fault.location is not None:
        should.append(f"Location: http://{'x' if fault.location == 'same' else 'localhost'}/emails")
        seen.append(f"Location: {headers.get('location')}")
    for name, value in fault.headers:
        should.append(f"{name}: {value}")
        seen.append(f"{name}: {headers.get(name.lower())}")
    if fault.body is not None:
        should.append(fault.body)
        seen.append(body.decode(errors="replace"))
    return "".join(f", {one}" for one in seen), "".join(f", {one}" for one in should)


def _date(told: str | None, seconds: float, since: float) -> str | None:
    """Say whether it is a date that asks for so long, rounded up to a second, from a moment between then and now."""
    try:
        at = email.utils.parsedate_to_datetime(told or "").timestamp()
    except ValueError:
        return told
    return "a date" if since + seconds <= at < time.time() + seconds + 1 else f"a date {at - since:.1f} s on"


def _read(answer: bytes) -> tuple[dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.lower(): value.strip() for name, _, value in fields}, body
