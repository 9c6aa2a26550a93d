"""Hands a mail over once for each of its recipients, and each time with a blind copy to the house's archive, as the
law wants it. So the archive has two copies of a mail to two people, and each of them has one."""

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
    with lock:
        row = db.execute("SELECT id, fingerprint, state FROM mails WHERE tenant = ? AND key = ?", place).fetchone()
        if row is None:
            db.execute("INSERT INTO mails VALUES (?, ?, ?, ?, 'sending')", (*place, mail_id, fingerprint))
    if row is not None:
        return repeat(fingerprint, *row)
    try:
        for_each(mail)
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


def for_each(mail):
    for n, recipient in enumerate(mail["to"]):
        try:
            hand_over({**mail, "to": [recipient], "bcc": ["archive@house.example"]})
        except (NotAccepted, Refused) as problem:
            if n == 0:
                raise
            raise OutcomeUnknown("some have it and some do not") from problem


def repeat(fingerprint, mail_id, first_fingerprint, state):
    if first_fingerprint != fingerprint:
        return error(409, "invalid_idempotent_request", "This key was used with a different payload.")
    if state == "sending":
        return error(409, "concurrent_idempotent_requests", "The first request is still running.")
    if state == "unknown":
        return error(502, "delivery_outcome_unknown", "The mail may have been sent. It is not sent again.")
    return 200, {"id": mail_id}


def mark(place, state):
    with lock:
        db.execute("UPDATE mails SET state = ? WHERE tenant = ? AND key = ?", (state, *place))


def forget(place):
    with lock:
        db.execute("DELETE FROM mails WHERE tenant = ? AND key = ?", place)


serve({"/emails": post_emails})
