"""Looks only for finished mails before it inserts its claim: a repeat that comes while the first request
runs hits the UNIQUE constraint, and the caller gets a 500."""

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
    " state TEXT, UNIQUE (tenant, key))"
)
# Whatever was being handed over when the process died: nobody knows.
db.execute("UPDATE mails SET state = 'unknown' WHERE state = 'sending'")


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
            "SELECT id, fingerprint, state FROM mails WHERE tenant = ? AND key = ? AND state != 'sending'",
            (request.tenant, key),
        ).fetchone()  # none where key is NULL: a mail without a key is on its own
        if row is not None:
            return repeat(row, fingerprint)
        db.execute("INSERT INTO mails VALUES (?, ?, ?, ?, 'sending')", (mail_id, request.tenant, key, fingerprint))
    return send(mail_id, mail)


def repeat(row, fingerprint):
    mail_id, first_fingerprint, state = row
    if first_fingerprint != fingerprint:
        message = "This key was used with a different payload."
        return error(409, "invalid_idempotent_request", message)
    if state == "unknown":
        return outcome_unknown()
    return 200, {"id": mail_id}


def send(mail_id, mail):
    try:
        hand_over(mail)
    except Refused as refused:
        with lock:
            db.execute("DELETE FROM mails WHERE id = ?", (mail_id,))
        return error(422, "validation_error", str(refused))
    except NotAccepted:
        with lock:
            db.execute("DELETE FROM mails WHERE id = ?", (mail_id,))
        return error(503, "application_error", "The mail was not sent. Try again.")
    except OutcomeUnknown:
        with lock:
            db.execute("UPDATE mails SET state = 'unknown' WHERE id = ?", (mail_id,))
        return outcome_unknown()
    with lock:
        db.execute("UPDATE mails SET state = 'sent' WHERE id = ?", (mail_id,))
    return 200, {"id": mail_id}


def outcome_unknown():
    message = "The mail may have been sent. It is not sent again."
    return error(502, "delivery_outcome_unknown", message)


serve({"/emails": post_emails})
