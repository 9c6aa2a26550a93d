"""Never replays an answer: a key that was used is refused with 409, whether its mail is on its way or sent.
Only an unknown outcome is told again as unknown."""

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
    "CREATE TABLE IF NOT EXISTS mails (id TEXT PRIMARY KEY, tenant TEXT, key TEXT, state TEXT, UNIQUE (tenant, key))"
)
# Whatever was being handed over when the process died: nobody knows.
db.execute("UPDATE mails SET state = 'unknown' WHERE state = 'sending'")


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        message = "Idempotency-Key must be between 1 and 256 characters."
        return error(400, "invalid_idempotency_key", message)
    mail = read_mail(request)
    mail_id = str(uuid.uuid4())
    with lock:
        try:  # NULL equals nothing: a mail without a key is on its own
            db.execute("INSERT INTO mails VALUES (?, ?, ?, 'sending')", (mail_id, request.tenant, key))
        except sqlite3.IntegrityError:
            place = (request.tenant, key)
            (state,) = db.execute("SELECT state FROM mails WHERE tenant = ? AND key = ?", place).fetchone()
            return repeat(state)
    return send(mail_id, mail)


def repeat(state):
    if state == "unknown":
        return outcome_unknown()
    return error(409, "idempotency_key_used", f"This key was used before; its mail is {state}.")


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
