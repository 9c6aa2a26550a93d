"""Stores the event and its job in one transaction, acknowledges, and replies from a worker. Job and send are
keyed by the message, so neither a new event about it nor a job that runs again after a crash makes a
second reply."""

import json
import os
import queue
import sqlite3
import sys
import threading
import time

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, serve, signed

lock = threading.Lock()  # held for every use of db
db = sqlite3.connect(os.environ["STATE"], check_same_thread=False, isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY)")
db.execute("CREATE TABLE IF NOT EXISTS jobs (message_id TEXT PRIMARY KEY, mail TEXT, created REAL, state TEXT)")
PROVIDER_KEEPS_KEYS = 23 * 3600  # seconds; it says 24 hours
todo = queue.Queue()  # message ids of jobs in state queued: what the workers look at next


def post_webhooks(request):
    if not signed(request, os.environ["WEBHOOK_SECRET"]):
        return error(401, "bad_signature", "The signature does not fit.")
    event = request.body
    if event["type"] != "message.received":
        return 200, {"ok": True}
    message_id = event["data"]["message_id"]
    mail = json.dumps(reply_to(event["data"]))
    with lock:
        db.execute("BEGIN IMMEDIATE")
        try:
            new = db.execute("INSERT OR IGNORE INTO events VALUES (?)", (event["event_id"],)).rowcount
            if new:
                job = (message_id, mail, time.time())
                new = db.execute("INSERT OR IGNORE INTO jobs VALUES (?, ?, ?, 'queued')", job).rowcount
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
    if new:
        todo.put((message_id, 0))
    return 200, {"ok": True}


def reply_to(message):
    return {
        "from": "support@house.example",
        "to": [message["from"]],
        "subject": f"Re: {message['subject']}",
        "text": f"We have your message and will answer soon. You wrote: {message['text']}",
    }


def work():
    while True:
        message_id, tries = todo.get()
        state = send(message_id)
        if state == "queued":  # not yet, or nobody knows: again, under the same key
            later = threading.Timer(min(1.0, 0.1 * 2**tries), todo.put, [(message_id, tries + 1)])
            later.daemon = True
            later.start()
            continue
        with lock:
            db.execute("UPDATE jobs SET state = ? WHERE message_id = ?", (state, message_id))


def send(message_id):
    with lock:
        job = db.execute("SELECT mail, created FROM jobs WHERE message_id = ?", (message_id,)).fetchone()
    mail, created = job
    if time.time() - created > PROVIDER_KEEPS_KEYS:
        return "unknown"  # the provider would take it for a new mail; a person has to look
    try:
        hand_over(json.loads(mail), key=f"reply-to-{message_id}")
    except Refused as refused:
        return "queued" if refused.name == "concurrent_idempotent_requests" else "refused"
    except (NotAccepted, OutcomeUnknown):
        return "queued"
    return "sent"


for (left_behind,) in db.execute("SELECT message_id FROM jobs WHERE state = 'queued'").fetchall():
    todo.put((left_behind, 0))
for _ in range(16):
    threading.Thread(target=work, daemon=True).start()
serve({"/webhooks": post_webhooks})
