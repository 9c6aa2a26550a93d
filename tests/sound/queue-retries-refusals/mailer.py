"""A job queue in its default setting: whatever the provider refuses is tried again as well, because most refusals
come from a setting that somebody mends. Only a hand-over without an outcome is never repeated."""

import json
import os
import queue
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
    "CREATE TABLE IF NOT EXISTS outbox (id TEXT PRIMARY KEY, tenant TEXT, key TEXT, fingerprint TEXT,"
    " mail TEXT, state TEXT, UNIQUE (tenant, key))"
)
jobs = queue.Queue()  # ids of rows in state queued: what the workers look at next


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        message = "Idempotency-Key must be between 1 and 256 characters."
        return error(400, "invalid_idempotency_key", message)
    mail = read_mail(request)
    fingerprint = json.dumps({**request.body, "to": mail["to"]}, sort_keys=True)
    place = (request.tenant, key)
    mail_id = str(uuid.uuid4())
    with lock:
        row = db.execute(
            "SELECT id, fingerprint, state FROM outbox WHERE tenant = ? AND key = ?", place
        ).fetchone()  # none where key is NULL: a mail without a key is on its own
        if row is not None:
            return repeat(row, fingerprint)
        new = (mail_id, *place, fingerprint, json.dumps(mail))
        db.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, 'queued')", new)
    jobs.put((mail_id, 0))
    return 202, {"id": mail_id}


def repeat(row, fingerprint):
    mail_id, first_fingerprint, state = row
    if first_fingerprint != fingerprint:
        message = "This key was used with a different payload."
        return error(409, "invalid_idempotent_request", message)
    if state == "unknown":
        message = "The mail may have been sent. It is not sent again."
        return error(502, "delivery_outcome_unknown", message)
    return 202, {"id": mail_id}


def mark(mail_id, state):
    with lock:
        db.execute("UPDATE outbox SET state = ? WHERE id = ?", (state, mail_id))


def work():
    while True:
        mail_id, tries = jobs.get()
        mark(mail_id, "sending")
        with lock:
            (mail,) = db.execute("SELECT mail FROM outbox WHERE id = ?", (mail_id,)).fetchone()
        try:
            hand_over(json.loads(mail))
        except OutcomeUnknown:
            mark(mail_id, "unknown")
        except (NotAccepted, Refused):
            mark(mail_id, "queued")
            later = threading.Timer(min(1.0, 0.1 * 2**tries), jobs.put, [(mail_id, tries + 1)])
            later.daemon = True
            later.start()
        else:
            mark(mail_id, "sent")


# What the last process left behind: a hand-over without an outcome is unknown, the rest is still to be done.
db.execute("UPDATE outbox SET state = 'unknown' WHERE state = 'sending'")
for (left_behind,) in db.execute("SELECT id FROM outbox WHERE state = 'queued'").fetchall():
    jobs.put((left_behind, 0))
for _ in range(16):
    threading.Thread(target=work, daemon=True).start()
serve({"/emails": post_emails})
