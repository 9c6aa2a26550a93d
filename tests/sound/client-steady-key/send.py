"""Makes the key from the operation, so that every attempt and every process has the same one, builds the
body once, and waits as it is told. It says unknown whenever a request may have got through."""

import email.utils
import http.client
import json
import os
import sys
import time
from urllib.parse import urlsplit

SENT, NOT_SENT, UNKNOWN = 0, 1, 75
WAIT = ("rate_limit_exceeded", "concurrent_idempotent_requests")
ATTEMPTS = 6


class NoConnection(Exception):
    """The request was certainly not sent."""


def post(key, body):
    """One attempt: status, headers and the JSON object that came back."""
    url = urlsplit(os.environ["API_URL"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=5)
    headers = {
        "Authorization": f"Bearer {os.environ.get('API_KEY', 'key')}",
        "Content-Type": "application/json",
        "User-Agent": "acme-shop/1.0",
        "Idempotency-Key": key,
    }
    try:
        connection.connect()
    except OSError as problem:
        raise NoConnection from problem
    try:
        connection.request("POST", url.path.rstrip("/") + "/emails", body, headers)
        response = connection.getresponse()
        return response.status, response.headers, dict(json.loads(response.read()))
    finally:
        connection.close()


def pause(retry_after, attempt):
    """Seconds to wait: what the server asks for, within reason, or a growing pause."""
    if retry_after is not None:
        try:
            return min(30.0, max(0.0, float(retry_after)))
        except ValueError:
            pass
        try:
            until = email.utils.parsedate_to_datetime(retry_after).timestamp()
            return min(30.0, max(0.0, until - time.time()))
        except ValueError:
            pass
    return min(5.0, 0.1 * 2**attempt)


def send(operation, to, subject, text):
    body = json.dumps({"from": "shop@house.example", "to": [to], "subject": subject, "text": text})
    key = f"shop-{operation}-mail"  # the key names the work: all attempts and processes share it
    may_be_sent = False
    wait = 0.0
    for attempt in range(ATTEMPTS):
        time.sleep(wait)
        wait = pause(None, attempt)
        try:
            status, headers, answer = post(key, body)
        except NoConnection:
            continue
        except (OSError, http.client.HTTPException, ValueError, TypeError):
            may_be_sent = True  # no answer, or a cut one
            continue
        if status == 200 and answer.get("id"):
            return SENT
        if status == 202:
            return UNKNOWN  # somebody else decides now; asking again changes nothing
        name = answer.get("name")
        if status >= 500 or 200 <= status < 400:
            may_be_sent = True
        elif name == "concurrent_idempotent_requests":
            may_be_sent = True
        elif name not in WAIT:
            return UNKNOWN if may_be_sent else NOT_SENT
        wait = pause(headers.get("Retry-After"), attempt)
    return UNKNOWN if may_be_sent else NOT_SENT


sys.exit(send(*(os.environ[name] for name in ("OPERATION", "TO", "SUBJECT", "TEXT"))))
