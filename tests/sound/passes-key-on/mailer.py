"""Hands every mail over under a key of its own that the provider knows. So a lost answer, and a crash, are
followed by the same mail under the same key, until the provider says what became of it."""

import json
import os
import sqlite3
import sys
import threading
import time
import uuid

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve

PROVIDER_KEEPS_KEYS = 23 * 3600  # seconds; it says 24 hours
lock = threading.Lock()  # held for every use of db
db = sqlite3.connect(os.environ["STATE"], check_same_thread=False, isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute(
    "CREATE TABLE IF NOT EXISTS mails (id TEXT PRIMARY KEY, tenant TEXT, key TEXT, fingerprint TEXT,"
    " mail TEXT, created REAL, state TEXT, UNIQUE (tenant, key))"
)
# The states: sending (a thread is on it), open (it may have been sent, and no thread is on it), sent.
db.execute("UPDATE mails SET state = 'open' WHERE state = 'sending'")


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        message = "Idempotency-Key must be between 1 and 256 characters."
        return error(400, "invalid_idempotency_key", message)
    mail = json.dumps(read_mail(request))
    fingerprint = json.dumps({**request.body, "to": json.loads(mail)["to"]}, sort_keys=True)
    place = (request.tenant, key)
    new_id = str(uuid.uuid4())
    with lock:
        row = db.execute(
            "SELECT id, fingerprint, state FROM mails WHERE tenant = ? AND key = ?", place
        ).fetchone()  # none where key is NULL: a mail without a key is on its own
        if row is None:
            new = (new_id, *place, fingerprint, mail, time.time())
            db.execute("INSERT INTO mails VALUES (?, ?, ?, ?, ?, ?, 'sending')", new)
    if row is None:
        return send(new_id, may_be_sent=False)
    mail_id, first_fingerprint, state = row
    if first_fingerprint != fingerprint:
        message = "This key was used with a different payload."
        return error(409, "invalid_idempotent_request", message)
    if state == "sent":
        return 200, {"id": mail_id}
    if not take(mail_id):
        message = "The first request with this key is still running."
        return error(409, "concurrent_idempotent_requests", message)
    return send(mail_id, may_be_sent=True)


def take(mail_id):
    """Make an open mail ours; False if another thread was faster."""
    with lock:
        taken = db.execute("UPDATE mails SET state = 'sending' WHERE id = ? AND state = 'open'", (mail_id,))
        return taken.rowcount == 1


def send(mail_id, may_be_sent):
    with lock:
        mail, created = db.execute("SELECT mail, created FROM mails WHERE id = ?", (mail_id,)).fetchone()
    for pause in (0.1, 0.3, 0.9, 0):
        if time.time() - created > PROVIDER_KEEPS_KEYS:
            break  # the provider would take it for a new mail
        try:
            hand_over(json.loads(mail), key=f"mail-{mail_id}")
        except Refused as refused:
            # Once a hand-over was lost, no refusal of a later one says anything about it.
            if not may_be_sent and refused.name != "concurrent_idempotent_requests":
                forget(mail_id)
                return error(422, "validation_error", str(refused))
            may_be_sent = True
        except NotAccepted:
            if not may_be_sent:
                forget(mail_id)
                return error(503, "application_error", "The mail was not sent. Try again.")
        except OutcomeUnknown:
            may_be_sent = True
        else:
            mark(mail_id, "sent")
            return 200, {"id": mail_id}
        time.sleep(pause)
    mark(mail_id, "open")
    return error(502, "delivery_outcome_unknown", "The mail may have been sent. Ask again with the same key.")


def forget(mail_id):
    with lock:
        db.execute("DELETE FROM mails WHERE id = ?", (mail_id,))


def mark(mail_id, state):
    with lock:
        db.execute("UPDATE mails SET state = ? WHERE id = ?", (state, mail_id))


def resume(left_open):
    for (mail_id,) in left_open:
        if take(mail_id):
            send(mail_id, may_be_sent=True)


left_open = db.execute("SELECT id FROM mails WHERE state = 'open'").fetchall()
threading.Thread(target=resume, args=(left_open,), daemon=True).start()
serve({"/emails": post_emails})
