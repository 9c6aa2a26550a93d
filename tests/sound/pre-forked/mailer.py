"""Four processes share one port and one SQLite file; each takes one request at a time. What two of them may want at
once is settled by the database alone."""

import http.server
import json
import os
import sqlite3
import sys
import uuid

sys.path.insert(0, "../../targets_common")
import plumbing
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail

db = sqlite3.connect(os.environ["STATE"], timeout=30, isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute(
    "CREATE TABLE IF NOT EXISTS mails (tenant TEXT, key TEXT, id TEXT, fingerprint TEXT, state TEXT,"
    " PRIMARY KEY (tenant, key))"
)
db.execute("UPDATE mails SET state = 'unknown' WHERE state = 'sending'")


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        return error(400, "invalid_idempotency_key", "Idempotency-Key must be between 1 and 256 characters.")
    mail = read_mail(request)
    fingerprint = json.dumps({**request.body, "to": mail["to"]}, sort_keys=True)
    mail_id = str(uuid.uuid4())
    place = (request.tenant, key if key is not None else f" {mail_id}")
    row = None
    try:
        db.execute("INSERT INTO mails VALUES (?, ?, ?, ?, 'sending')", (*place, mail_id, fingerprint))
    except sqlite3.IntegrityError:
        row = db.execute("SELECT id, fingerprint, state FROM mails WHERE tenant = ? AND key = ?", place).fetchone()
        if row is None:  # it was given up in between
            return error(409, "concurrent_idempotent_requests", "The first request is just ending.")
    if row is not None:
        return repeat(fingerprint, *row)
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
    return 200, {"id": mail_id}


def repeat(fingerprint, mail_id, first_fingerprint, state):
    if first_fingerprint != fingerprint:
        return error(409, "invalid_idempotent_request", "This key was used with a different payload.")
    if state == "sending":
        return error(409, "concurrent_idempotent_requests", "The first request is still running.")
    if state == "unknown":
        return error(502, "delivery_outcome_unknown", "The mail may have been sent. It is not sent again.")
    return 200, {"id": mail_id}


def mark(place, state):
    db.execute("UPDATE mails SET state = ? WHERE tenant = ? AND key = ?", (state, *place))


def forget(place):
    db.execute("DELETE FROM mails WHERE tenant = ? AND key = ?", place)


# http.server has no pre-fork: the socket is bound once, and each child serves it for itself.
server = http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), plumbing._Handler, bind_and_activate=False)
server.request_queue_size = 128
server.server_bind()
server.server_activate()
server.routes = {"/emails": post_emails}
db.close()
for _ in range(3):
    if os.fork() == 0:
        break
db = sqlite3.connect(os.environ["STATE"], timeout=30, isolation_level=None)
server.serve_forever(poll_interval=0.05)
