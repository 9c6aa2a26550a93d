"""Recognises an event by a hash of what the message says: of two messages with the same subject and text
only the first is answered."""

import hashlib
import os
import sys
import threading

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, serve, signed

lock = threading.Lock()
seen = {}  # hash of a message -> "running" or "done"


def post_webhooks(request):
    if not signed(request, os.environ["WEBHOOK_SECRET"]):
        return error(401, "bad_signature", "The signature does not fit.")
    event = request.body
    if event["type"] != "message.received":
        return 200, {"ok": True}
    message = event["data"]
    content = hashlib.sha256(f"{message['subject']}\n{message['text']}".encode()).hexdigest()
    with lock:
        state = seen.setdefault(content, "new")
        if state == "done":
            return 200, {"ok": True}
        if state == "running":
            return error(409, "in_progress", "This event is being handled.")
        seen[content] = "running"
    try:
        hand_over(reply_to(message))
    except NotAccepted:
        with lock:
            del seen[content]
        return error(503, "try_again", "The reply was not sent.")
    except (Refused, OutcomeUnknown) as problem:
        print(f"no reply to {event['event_id']}: {problem}", flush=True)
    with lock:
        seen[content] = "done"
    return 200, {"ok": True}


def reply_to(message):
    return {
        "from": "support@house.example",
        "to": [message["from"]],
        "subject": f"Re: {message['subject']}",
        "text": f"We have your message and will answer soon. You wrote: {message['text']}",
    }


serve({"/webhooks": post_webhooks})
