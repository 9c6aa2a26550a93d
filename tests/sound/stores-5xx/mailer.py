"""Stores the first answer of a request whatever it was, a failure as well, and gives it to every repeat for
ever. A caller that was told of a failure needs a new key."""

import json
import os
import sqlite3
import sys
import threading
import uuid

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve

lock = threading.Lock()  # held for every use of db
db = sqlite3.connect(os.environ["STATE"], check_same_thread=False, isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute(
    "CREATE TABLE IF NOT EXISTS mails (id TEXT PRIMARY KEY, tenant TEXT, key TEXT, fingerprint TEXT,"
    " answer TEXT, UNIQUE (tenant, key))"
)
UNKNOWN = error(502, "delivery_outcome_unknown", "The mail may have been sent. It is not sent again.")
# Whatever was being handed over when the process died: nobody knows.
db.execute("UPDATE mails SET answer = ? WHERE answer IS NULL", (json.dumps(UNKNOWN),))


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        message = "Idempotency-Key must be between 1 and 256 characters."
        return error(400, "invalid_idempotency_key", message)
    mail = read_mail(request)
    fingerprint = json.dumps({**request.body, "to": mail["to"]}, sort_keys=True)
    mail_id = str(uuid.uuid4())
    with lock:
        row = db.execute(
            "SELECT fingerprint, answer FROM mails WHERE tenant = ? AND key = ?", (request.tenant, key)
        ).fetchone()  # none where key is NULL: a mail without a key is on its own
        if row is not None:
            return repeat(row, fingerprint)
        db.execute("INSERT INTO mails VALUES (?, ?, ?, ?, NULL)", (mail_id, request.tenant, key, fingerprint))
    answer = send(mail_id, mail)
    with lock:
        db.execute("UPDATE mails SET answer = ? WHERE id = ?", (json.dumps(answer), mail_id))
    return answer


def repeat(row, fingerprint):
    first_fingerprint, answer = row
    if first_fingerprint != fingerprint:
        message = "This key was used with a different payload."
        return error(409, "invalid_idempotent_request", message)
    if answer is None:
        message = "The first request with this key is still running."
        return error(409, "concurrent_idempotent_requests", message)
    return json.loads(answer)


def send(mail_id, mail):
    try:
        hand_over(mail)
    except Refused as refused:
        return error(422, "validation_error", str(refused))
    except NotAccepted:
        return error(503, "application_error", "The mail was not sent. Use a new key.")
    except OutcomeUnknown:
        return UNKNOWN
    return 200, {"id": mail_id}


serve({"/emails": post_emails})
