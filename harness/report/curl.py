"""The same failure without sendtwice: curl lines, where plain sequential sends are all that it takes.

A scenario that needs a held message, a lost answer, a kill or two requests at once cannot be shown with
curl; then there are no lines, rather than lines that show nothing. The unique part of a key is another for
each paste (``$RUN``, of the same length), since the target has seen the scenario's own; the address is a
variable, since a target that sendtwice started is gone by then.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from sendtwice.harness.history import Event, Kind
from sendtwice.harness.redact import Redactor

#: What curl cannot do: after one of these the lines would tell another story.
_BEYOND_CURL = {
    Kind.FIRED,
    Kind.CRASH,
    Kind.RESTART,
    Kind.DIED,
    Kind.OVERLAP,
    Kind.CALL,
    Kind.WEBHOOK_REQUEST,
}
#: Headers that curl writes itself, or that only fit the connection they were on.
_CURLS_OWN = {
    "host",
    "content-length",
    "connection",
    "accept-encoding",
    "accept",
    "transfer-encoding",
}
#: The unique part of the keys that the harness makes: see ``live.Names``.
_TOKEN = re.compile(r"(?i)\bst-k[a-z0-9]{11}")
_MOST = 6
_LONGEST = 4000


def curl_lines(events: Sequence[Event], redactor: Redactor) -> list[str]:
    """Return shell lines, or none where they would not show the failure."""
    if any(event.kind in _BEYOND_CURL for event in events):
        return []
    requests = [event for event in events if event.kind is Kind.CLIENT_REQUEST]
    ends = {event.attempt: event for event in events if event.kind is Kind.ENDED}
    keys = {e.attempt: e.data.get("key") for e in events if e.kind is Kind.ATTEMPT}
    if not 1 <= len(requests) <= _MOST:
        return []
    if not all(_request(event).get("url") for event in requests):
        return []  # role client: the requests are the target's own
    for event, following in zip(requests, [*requests[1:], None], strict=True):
        end = ends.get(event.attempt)
        if end is None or end.data.get("outcome") != "answered":
            return []
        if following is not None and following.seq < end.seq:
            return []
    first = _request(requests[0])
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(str(first.get("url", ""))))
    lines = [f"URL={shlex.quote(redactor.text(origin))} RUN=$(date +%s)    # the address of your target"]
    for event in requests:
        line = _line(_request(event), keys.get(event.attempt), redactor)
        if line is None:
            return []
        lines.append(f"{line}    # {event.attempt}")
    return lines


def _request(event: Event) -> Mapping[str, Any]:
    found = event.data.get("request", event.data)
    return found if isinstance(found, Mapping) else {}


def _line(request: Mapping[str, Any], key: Any, redactor: Redactor) -> str | None:
    body = request.get("body") or ""
    if isinstance(body, bytes):
        try:
            body = body.decode()
        except UnicodeDecodeError:
            return None
    parts = urlsplit(str(request.get("url", "")))
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    words = [
        "curl",
        "-i",
        "-X",
        str(request.get("method", "POST")),
        _fresh(f'"$URL{_in_quotes(redactor.text(path))}"', "${RUN}"),
    ]
    for name, value in _headers(request):
        if name.lower() in _CURLS_OWN:
            continue
        if key and value != key and str(key) in value:
            return None  # a header that was sent twice: the history shows both values in one
        if value == "":
            words += ["-H", f"'{name};'"]  # curl drops a header that is given without a value
        else:
            words += ["-H", _fresh(f'"{name}: {redactor.shell(name, value)[1:-1]}"', "${RUN}")]
    if body:
        words += ["-d", _fresh(shlex.quote(redactor.text(body)), "'\"${RUN}\"'")]
    line = " ".join(words)
    return line if len(line) <= _LONGEST and line.isprintable() else None


def _fresh(word: str, run: str) -> str:
    """Put ten digits of the clock in the place of a key's own token; its case and length stay."""
    return _TOKEN.sub(lambda match: match[0][:4] + ("X" if match[0].isupper() else "x") + run, word)


def _headers(request: Mapping[str, Any]) -> list[tuple[str, str]]:
    headers = request.get("headers") or {}
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(str(name), str(value)) for name, value in pairs]


def _in_quotes(text: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", text)
