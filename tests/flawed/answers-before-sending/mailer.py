"""Answers 200 before it hands the mail over. When the provider then refuses it, nobody is told: the mail
counts as sent for ever."""

import json
import sys
import threading
import time
import uuid

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve

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
        entry = {"fingerprint": fingerprint, "state": "sent", "id": str(uuid.uuid4())}
        entries[place] = entry
    threading.Thread(target=send, args=(entry, mail), daemon=True).start()
    return 200, {"id": entry["id"]}


def repeat(entry, fingerprint):
    if entry["fingerprint"] != fingerprint:
        message = "This key was used with a different payload."
        return error(409, "invalid_idempotent_request", message)
    if entry["state"] == "unknown":
        message = "The mail may have been sent. It is not sent again."
        return error(502, "delivery_outcome_unknown", message)
    return 200, {"id": entry["id"]}


def send(entry, mail):
    while True:
        try:
            return hand_over(mail)
        except Refused as refused:
            print(f"mail {entry['id']}: {refused}", flush=True)
            return None
        except NotAccepted:
            time.sleep(0.2)
        except OutcomeUnknown:
            with lock:
                entry["state"] = "unknown"
            return None


serve({"/emails": post_emails})
