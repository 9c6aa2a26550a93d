"""The caller's key is the mail's id, within its tenant: two tenants that number their orders alike have mails of
equal ids, each its own. Nobody sees another's."""

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
    "CREATE TABLE IF NOT EXISTS mails (tenant TEXT, id TEXT, fingerprint TEXT, state TEXT, PRIMARY KEY (tenant, id))"
)
db.execute("UPDATE mails SET state = 'unknown' WHERE state = 'sending'")


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        return error(400, "invalid_idempotency_key", "Idempotency-Key must be between 1 and 256 characters.")
    mail = read_mail(request)
    fingerprint = json.dumps({**request.body, "to": mail["to"]}, sort_keys=True)
    place = (request.tenant, key or str(uuid.uuid4()))
    with lock:
        row = db.execute("SELECT fingerprint, state FROM mails WHERE tenant = ? AND id = ?", place).fetchone()
        if row is None:
            db.execute("INSERT INTO mails VALUES (?, ?, ?, 'sending')", (*place, fingerprint))
    if row is not None:
        return repeat(place, fingerprint, *row)
    try:
        hand_over(mail)
    except Refused as refused:
        forget(place)
        return error(422, "validation_error", str(refused))
    except NotAccepted:
        forget(place)
        return error(503, "application_error", "The mail was not sent. Try again.")
    except OutcomeUnknown:
        mark(place, "unknown")
        return error(502, "delivery_outcome_unknown", "The mail may have been sent. It is not sent again.")
    mark(place, "sent")
    return 200, {"id": place[1]}


def repeat(place, fingerprint, first_fingerprint, state):
    if first_fingerprint != fingerprint:
        return error(409, "invalid_idempotent_request", "This key was used with a different payload.")
    if state == "sending":
        return error(409, "concurrent_idempotent_requests", "The first request is still running.")
    if state == "unknown":
        return error(502, "delivery_outcome_unknown", "The mail may have been sent. It is not sent again.")
    return 200, {"id": place[1]}


def mark(place, state):
    with lock:
        db.execute("UPDATE mails SET state = ? WHERE tenant = ? AND id = ?", (state, *place))


def forget(place):
    with lock:
        db.execute("DELETE FROM mails WHERE tenant = ? AND id = ?", place)


serve({"/emails": post_emails})
