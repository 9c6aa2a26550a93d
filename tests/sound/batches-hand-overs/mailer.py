"""Answers once the mail is stored, and hands over what has gathered in one call, under the batch's own key. A batch
keeps its mails and its key until the provider says what became of it, over crashes too."""

import http.client
import json
import os
import sqlite3
import sys
import threading
import time
import uuid
from urllib.parse import urlsplit

sys.path.insert(0, "../../targets_common")
from plumbing import error, read_mail, serve

lock = threading.Lock()  # held for every use of db
db = sqlite3.connect(os.environ["STATE"], check_same_thread=False, isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute(
    "CREATE TABLE IF NOT EXISTS mails (id TEXT PRIMARY KEY, tenant TEXT, key TEXT, fingerprint TEXT, mail TEXT,"
    " batch TEXT, UNIQUE (tenant, key))"
)
db.execute("CREATE TABLE IF NOT EXISTS batches (id TEXT PRIMARY KEY, state TEXT)")


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        return error(400, "invalid_idempotency_key", "Idempotency-Key must be between 1 and 256 characters.")
    mail = read_mail(request)
    fingerprint = json.dumps({**request.body, "to": mail["to"]}, sort_keys=True)
    mail_id = str(uuid.uuid4())
    with lock:
        row = db.execute(
            "SELECT id, fingerprint FROM mails WHERE tenant = ? AND key = ?", (request.tenant, key)
        ).fetchone()
        if row is None:
            new = (mail_id, request.tenant, key, fingerprint, json.dumps(mail))
            db.execute("INSERT INTO mails VALUES (?, ?, ?, ?, ?, NULL)", new)
            return 200, {"id": mail_id}
    if row[1] != fingerprint:
        return error(409, "invalid_idempotent_request", "This key was used with a different payload.")
    return 200, {"id": row[0]}


def gather():
    """The batch that is open, or a new one of all that waits; None when nothing does."""
    with lock:
        db.execute("BEGIN IMMEDIATE")
        batch = db.execute("SELECT id FROM batches WHERE state = 'open'").fetchone()
        if batch is None and db.execute("SELECT 1 FROM mails WHERE batch IS NULL").fetchone():
            batch = (str(uuid.uuid4()),)
            db.execute("INSERT INTO batches VALUES (?, 'open')", batch)
            db.execute(
                "UPDATE mails SET batch = ? WHERE id IN (SELECT id FROM mails WHERE batch IS NULL LIMIT 100)", batch
            )
        db.execute("COMMIT")
        if batch is None:
            return None
        mails = db.execute("SELECT mail FROM mails WHERE batch = ? ORDER BY id", batch).fetchall()
    return batch[0], [json.loads(mail) for (mail,) in mails]


def hand_over(batch, mails):
    """Whether the provider has said what becomes of this batch."""
    url = urlsplit(os.environ["MAIL_PROVIDER_URL"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=5)
    headers = {"Authorization": "Bearer re_0000", "Content-Type": "application/json", "Idempotency-Key": batch}
    try:
        connection.request("POST", url.path.rstrip("/") + "/emails/batch", json.dumps(mails), headers)
        response = connection.getresponse()
        response.read()
        return 200 <= response.status < 300 or response.status in (400, 422)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def work():
    while True:
        found = gather()
        if found is not None and hand_over(*found):
            with lock:
                db.execute("UPDATE batches SET state = 'over' WHERE id = ?", found[:1])
        time.sleep(0.1)


threading.Thread(target=work, daemon=True).start()
serve({"/emails": post_emails})
