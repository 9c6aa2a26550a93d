"""An API with a shape of its own: POST /v2/mail/dispatch, the key as `client_ref` in the body, 201 for a
mail that was sent and errors under `error`."""

import json
import os
import sqlite3
import sys
import threading
import uuid

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, hand_over, serve

lock = threading.Lock()  # held for every use of db
db = sqlite3.connect(os.environ["STATE"], check_same_thread=False, isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute(
    "CREATE TABLE IF NOT EXISTS mails (id TEXT PRIMARY KEY, tenant TEXT, key TEXT, fingerprint TEXT,"
    " state TEXT, UNIQUE (tenant, key))"
)
# Whatever was being handed over when the process died: nobody knows.
db.execute("UPDATE mails SET state = 'unknown' WHERE state = 'sending'")


def problem(status, code):
    return status, {"error": {"code": code}}


def dispatch(request):
    body = request.body if isinstance(request.body, dict) else {}
    key, recipient = body.get("client_ref"), body.get("recipient")
    if key is not None and not (isinstance(key, str) and 1 <= len(key) <= 256 and key.isprintable()):
        return problem(400, "bad_client_ref")
    address = recipient.get("email") if isinstance(recipient, dict) else None
    title, content = body.get("title"), body.get("content")
    if not all(isinstance(part, str) and part for part in (address, title, content)):
        return problem(422, "incomplete")
    if "@" not in address:
        return problem(422, "bad_address")
    mail = {"from": "hello@house.example", "to": [address], "subject": title, "text": content}
    fingerprint = json.dumps(body, sort_keys=True)
    mail_id = str(uuid.uuid4())
    with lock:
        row = db.execute(
            "SELECT id, fingerprint, state FROM mails WHERE tenant = ? AND key = ?", (request.tenant, key)
        ).fetchone()  # none where key is NULL: a mail without a key is on its own
        if row is not None:
            return repeat(row, fingerprint)
        db.execute("INSERT INTO mails VALUES (?, ?, ?, ?, 'sending')", (mail_id, request.tenant, key, fingerprint))
    return send(mail_id, mail)


def repeat(row, fingerprint):
    mail_id, first_fingerprint, state = row
    if first_fingerprint != fingerprint:
        return problem(409, "client_ref_has_other_content")
    if state == "sending":
        return problem(409, "dispatch_running")
    if state == "unknown":
        return problem(502, "outcome_unknown")
    return 201, {"data": {"id": mail_id}}


def send(mail_id, mail):
    try:
        hand_over(mail)
    except Refused:
        with lock:
            db.execute("DELETE FROM mails WHERE id = ?", (mail_id,))
        return problem(422, "refused")
    except NotAccepted:
        with lock:
            db.execute("DELETE FROM mails WHERE id = ?", (mail_id,))
        return problem(503, "try_again")
    except OutcomeUnknown:
        with lock:
            db.execute("UPDATE mails SET state = 'unknown' WHERE id = ?", (mail_id,))
        return problem(502, "outcome_unknown")
    with lock:
        db.execute("UPDATE mails SET state = 'sent' WHERE id = ?", (mail_id,))
    return 201, {"data": {"id": mail_id}}


serve({"/v2/mail/dispatch": dispatch})
