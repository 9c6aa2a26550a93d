"""Works on one message at a time, after the acknowledgement, and answers 503 to whatever comes meanwhile: the
provider sends it again, as it must after anything but a 2xx. Job and send are keyed by the message."""

import json
import os
import sqlite3
import sys
import threading
import time

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, serve, signed

lock = threading.Lock()  # held for every use of db
db = sqlite3.connect(os.environ["STATE"], check_same_thread=False, isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("CREATE TABLE IF NOT EXISTS jobs (message_id TEXT PRIMARY KEY, mail TEXT, state TEXT)")
taken = threading.Event()


def post_webhooks(request):
    if not signed(request, os.environ["WEBHOOK_SECRET"]):
        return error(401, "bad_signature", "The signature does not fit.")
    message = request.body["data"]
    with lock:
        known = db.execute("SELECT 1 FROM jobs WHERE message_id = ?", (message["message_id"],)).fetchone()
        if known:
            return 200, {"ok": True}
        if db.execute("SELECT 1 FROM jobs WHERE state = 'todo'").fetchone():
            return error(503, "busy", "Another message is being answered. Send it again later.")
        mail = {
            "from": "support@house.example",
            "to": [message["from"]],
            "subject": f"Re: {message['subject']}",
            "text": f"We have your message. You wrote: {message['text']}",
        }
        db.execute("INSERT INTO jobs VALUES (?, ?, 'todo')", (message["message_id"], json.dumps(mail)))
    taken.set()
    return 200, {"ok": True}


def work():
    while True:
        with lock:
            job = db.execute("SELECT message_id, mail FROM jobs WHERE state = 'todo'").fetchone()
        if job is None:
            taken.wait(0.2)
            taken.clear()
            continue
        time.sleep(0.3)  # a model writes the answer
        try:
            hand_over(json.loads(job[1]), key=f"reply-to-{job[0]}")
        except (NotAccepted, OutcomeUnknown):
            continue  # again, under the same key
        except Refused as refused:
            if refused.name == "concurrent_idempotent_requests":
                continue
        with lock:
            db.execute("UPDATE jobs SET state = 'done' WHERE message_id = ?", (job[0],))


threading.Thread(target=work, daemon=True).start()
serve({"/webhooks": post_webhooks})
