"""Claims a key in memory and writes it to the database only once the provider has answered. Killed in
between, it comes back without a trace of the mail, and the retry sends it again."""

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
running = {}  # (tenant, key) -> (id, fingerprint, "sending")


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        message = "Idempotency-Key must be between 1 and 256 characters."
        return error(400, "invalid_idempotency_key", message)
    mail = read_mail(request)
    fingerprint = json.dumps({**request.body, "to": mail["to"]}, sort_keys=True)
    mail_id = str(uuid.uuid4())
    if key is None:
        return send(mail_id, mail)[:2]
    place = (request.tenant, key)
    with lock:
        row = (
            running.get(place)
            or db.execute("SELECT id, fingerprint, state FROM mails WHERE tenant = ? AND key = ?", place).fetchone()
        )
        if row is not None:
            return repeat(row, fingerprint)
        running[place] = (mail_id, fingerprint, "sending")
    status, body, state = send(mail_id, mail)
    with lock:
        if state is not None:
            db.execute("INSERT INTO mails VALUES (?, ?, ?, ?, ?)", (mail_id, *place, fingerprint, state))
        del running[place]
    return status, body


def repeat(row, fingerprint):
    mail_id, first_fingerprint, state = row
    if first_fingerprint != fingerprint:
        message = "This key was used with a different payload."
        return error(409, "invalid_idempotent_request", message)
    if state == "sending":
        message = "The first request with this key is still running."
        return error(409, "concurrent_idempotent_requests", message)
    if state == "unknown":
        return outcome_unknown()
    return 200, {"id": mail_id}


def send(mail_id, mail):
    """The answer, and the state to store if the key is to be kept."""
    try:
        hand_over(mail)
    except Refused as refused:
        return *error(422, "validation_error", str(refused)), None
    except NotAccepted:
        return *error(503, "application_error", "The mail was not sent. Try again."), None
    except OutcomeUnknown:
        return *outcome_unknown(), "unknown"
    return 200, {"id": mail_id}, "sent"


def outcome_unknown():
    message = "The mail may have been sent. It is not sent again."
    return error(502, "delivery_outcome_unknown", message)


serve({"/emails": post_emails})
