"""Sends the reply and acknowledges the event after that, without a memory of events: the same event
delivered again, for instance because the acknowledgement was lost, is a second reply."""

import os
import sys

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, serve, signed


def post_webhooks(request):
    if not signed(request, os.environ["WEBHOOK_SECRET"]):
        return error(401, "bad_signature", "The signature does not fit.")
    event = request.body
    if event["type"] != "message.received":
        return 200, {"ok": True}
    try:
        hand_over(reply_to(event["data"]))
    except NotAccepted:
        return error(503, "try_again", "The reply was not sent.")
    except (Refused, OutcomeUnknown) as problem:
        print(f"no reply to {event['event_id']}: {problem}", flush=True)
    return 200, {"ok": True}


def reply_to(message):
    return {
        "from": "support@house.example",
        "to": [message["from"]],
        "subject": f"Re: {message['subject']}",
        "text": f"We have your message and will answer soon. You wrote: {message['text']}",
    }


serve({"/webhooks": post_webhooks})
