"""Stores what came in and acknowledges with 202; a process of its own does the work (worker.py)."""

import json
import sys

sys.path.insert(0, "../../targets_common")
from inbox import plain, reply_to
from jobs import database
from plumbing import error, serve

db, lock = database()


def post_webhooks(request):
    if not plain(request.headers, request.raw, name="X-Signature", prefix=""):
        return error(401, "bad_signature", "The signature does not fit.")
    event = request.body
    if event["type"] != "message.received":
        return error(400, "unknown_type", "Only messages are answered here.")
    mail = json.dumps(reply_to(event["data"]))
    with lock:
        db.execute("INSERT OR IGNORE INTO jobs VALUES (?, ?, 'todo', 0)", (event["data"]["message_id"], mail))
    return 202, {"ok": True}


serve({"/webhooks": post_webhooks})
