"""Calls the provider once for each recipient and writes down what became of each. A repeat goes on with
those that were certainly not sent, and with nobody else."""

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
    " outcomes TEXT, running INTEGER, UNIQUE (tenant, key))"
)
# The outcomes of a mail: recipient -> waiting, sending, sent, refused, unknown.
for left_id, left_outcomes in db.execute("SELECT id, outcomes FROM mails WHERE running").fetchall():
    # Whoever was being sent to when the process died: nobody knows.
    known = {to: "unknown" if was == "sending" else was for to, was in json.loads(left_outcomes).items()}
    db.execute("UPDATE mails SET outcomes = ?, running = 0 WHERE id = ?", (json.dumps(known), left_id))


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        message = "Idempotency-Key must be between 1 and 256 characters."
        return error(400, "invalid_idempotency_key", message)
    mail = read_mail(request)
    fingerprint = json.dumps({**request.body, "to": mail["to"]}, sort_keys=True)
    place = (request.tenant, key)
    with lock:
        row = db.execute(
            "SELECT id, fingerprint, outcomes, running FROM mails WHERE tenant = ? AND key = ?", place
        ).fetchone()  # none where key is NULL: a mail without a key is on its own
        if row is None:
            mail_id, outcomes = str(uuid.uuid4()), dict.fromkeys(mail["to"], "waiting")
            new = (mail_id, *place, fingerprint, json.dumps(outcomes))
            db.execute("INSERT INTO mails VALUES (?, ?, ?, ?, ?, 1)", new)
        else:
            mail_id, first_fingerprint, outcomes, running = row
            if first_fingerprint != fingerprint:
                message = "This key was used with a different payload."
                return error(409, "invalid_idempotent_request", message)
            if running:
                message = "The first request with this key is still running."
                return error(409, "concurrent_idempotent_requests", message)
            outcomes = json.loads(outcomes)
            db.execute("UPDATE mails SET running = 1 WHERE id = ?", (mail_id,))
    for recipient, outcome in outcomes.items():
        if outcome not in ("sent", "unknown"):
            note(mail_id, outcomes, recipient, "sending")
            note(mail_id, outcomes, recipient, send({**mail, "to": [recipient]}))
    return finish(mail_id, outcomes)


def note(mail_id, outcomes, recipient, outcome):
    outcomes[recipient] = outcome
    with lock:
        db.execute("UPDATE mails SET outcomes = ? WHERE id = ?", (json.dumps(outcomes), mail_id))


def send(mail):
    try:
        hand_over(mail)
    except Refused:
        return "refused"
    except NotAccepted:
        return "waiting"
    except OutcomeUnknown:
        return "unknown"
    return "sent"


def finish(mail_id, outcomes):
    seen = set(outcomes.values())
    with lock:
        if seen & {"sent", "unknown"}:
            db.execute("UPDATE mails SET running = 0 WHERE id = ?", (mail_id,))
        else:  # nothing of it left the house: the key is free
            db.execute("DELETE FROM mails WHERE id = ?", (mail_id,))
    if "unknown" in seen:
        return error(502, "delivery_outcome_unknown", f"Some may have got the mail: {outcomes}")
    if "waiting" in seen:
        return error(503, "application_error", f"Not sent to all. Try again with the same key: {outcomes}")
    if "refused" in seen:
        return error(422, "validation_error", f"The provider refused recipients: {outcomes}")
    return 200, {"id": mail_id}


serve({"/emails": post_emails})
