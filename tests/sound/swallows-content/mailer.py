"""Sends a fixed notice to the recipients: nothing of the caller's subject and text is in it."""

import json
import sys
import threading
import uuid

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve

NOTICE = {
    "subject": "You have a new message",
    "text": "Sign in to read it. For your safety we do not send its content by mail.",
}
lock = threading.Lock()
entries = {}  # (tenant, key) -> what became of the mail sent under it


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        message = "Idempotency-Key must be between 1 and 256 characters."
        return error(400, "invalid_idempotency_key", message)
    mail = read_mail(request)
    fingerprint = json.dumps({**request.body, "to": mail["to"]}, sort_keys=True)
    place = (request.tenant, key) if key is not None else object()  # without a key: on its own
    with lock:
        entry = entries.get(place)
        if entry is not None:
            return repeat(entry, fingerprint)
        entry = {"fingerprint": fingerprint, "state": "sending", "id": None}
        entries[place] = entry
    return send(place, entry, mail)


def repeat(entry, fingerprint):
    if entry["fingerprint"] != fingerprint:
        message = "This key was used with a different payload."
        return error(409, "invalid_idempotent_request", message)
    if entry["state"] == "sending":
        message = "The first request with this key is still running."
        return error(409, "concurrent_idempotent_requests", message)
    if entry["state"] == "unknown":
        return outcome_unknown()
    return 200, {"id": entry["id"]}


def send(place, entry, mail):
    try:
        hand_over({**mail, **NOTICE})
    except Refused as refused:
        with lock:
            del entries[place]
        return error(422, "validation_error", str(refused))
    except NotAccepted:
        with lock:
            del entries[place]
        return error(503, "application_error", "The mail was not sent. Try again.")
    except OutcomeUnknown:
        with lock:
            entry["state"] = "unknown"
        return outcome_unknown()
    with lock:
        entry.update(state="sent", id=str(uuid.uuid4()))
    return 200, {"id": entry["id"]}


def outcome_unknown():
    message = "The mail may have been sent. It is not sent again."
    return error(502, "delivery_outcome_unknown", message)


serve({"/emails": post_emails})
