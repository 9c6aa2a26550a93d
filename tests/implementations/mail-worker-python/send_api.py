"""One attempt to send a mail through an API, and what its answer says about the mail. Nothing is retried here.

Two APIs are known, by the environment variable API: Resend, with the key in a header, and Postfleet, with the key in
the body, where a mail may have to wait for a person's approval.
"""

import contextlib
import email.utils
import http.client
import json
import math
import os
import socket
import threading
import time
from typing import NamedTuple
from urllib.parse import urlsplit

# What an attempt may have come to. After the last two the same request may be made again, under the same key.
SENT = "sent"  # and `detail` is its id
PENDING = "pending"  # it waits for a person's approval: `detail` is the id of the draft
REFUSED = "refused"  # for good: this attempt sent nothing
CONFLICT = "conflict"  # the key stands for another request
NOTHING = "nothing"  # surely nothing was done
UNKNOWN = "unknown"  # it may have been sent, or is being sent


POSTFLEET = os.environ.get("API", "resend") == "postfleet"
PATH = "/api/v1/send" if POSTFLEET else "/emails"
IN_PROGRESS = ("concurrent_idempotent_requests", "idempotency_in_progress")


class Outcome(NamedTuple):
    what: str
    detail: str = ""
    wait: float = 0.0  # seconds that the API asks to wait


def body_of(mail, key):
    """The bytes that ask for a mail, the same for every attempt."""
    if POSTFLEET:
        resolved = {"to": mail["to"][0], "subject": mail["subject"], "text": mail["text"]}
        mail = {"mailbox_id": mail["from"], "client_id": key, **resolved}
    return json.dumps(mail)


def attempt(body, key, timeout):
    """Make one request; `timeout` is for all of it."""
    url = urlsplit(os.environ["API_URL"])
    headers = {
        "Authorization": f"Bearer {os.environ.get('API_KEY', 're_0000')}",
        "Content-Type": "application/json",
        "User-Agent": "mail-worker/1.0",
    }
    if not POSTFLEET:
        headers["Idempotency-Key"] = key
    # A connection for each attempt: one that is kept may be dead, and the HTTP stack then sends again in silence.
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)
    try:
        connection.connect()
    except OSError as problem:
        return Outcome(NOTHING, f"no connection: {problem}")
    try:
        with limited(connection.sock, timeout):
            connection.request("POST", url.path.rstrip("/") + PATH, body, headers)
            response = connection.getresponse()
            return read(response.status, response.headers, response.read())
    except (OSError, http.client.HTTPException) as problem:
        return Outcome(UNKNOWN, f"no whole answer: {problem!r}")
    finally:
        connection.close()


def read(status, headers, raw):
    try:
        answer = dict(json.loads(raw))
    except (ValueError, TypeError):
        answer = {}
    identity, name = str(answer.get("id") or answer.get("draft_id") or ""), answer.get("name") or answer.get("code")
    words = f"{status} {name or ''}".strip()
    wait = retry_after(headers.get("Retry-After"))
    if 200 <= status < 300:
        if not identity:
            return Outcome(UNKNOWN, f"{words}, without an id", wait)
        return Outcome(PENDING if status == 202 else SENT, identity)
    if name in IN_PROGRESS:
        return Outcome(UNKNOWN, words, wait)  # another attempt of ours is on its way
    if status == 409:
        return Outcome(CONFLICT, words)
    if status in (401, 429):
        return Outcome(NOTHING, words, wait)
    if 300 <= status < 500 and status != 408:  # no redirect is followed: the API's address is configured
        return Outcome(REFUSED, words)
    return Outcome(UNKNOWN, words, wait)


def retry_after(value):
    """Seconds from now: the header has them, or a date."""
    if value is None:
        return 0.0
    with contextlib.suppress(ValueError):
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else 0.0
    with contextlib.suppress(ValueError, OverflowError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return 0.0


@contextlib.contextmanager
def limited(sock, seconds):
    """End the connection after some time: the socket's own time limit begins anew with every byte."""

    def end():
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
