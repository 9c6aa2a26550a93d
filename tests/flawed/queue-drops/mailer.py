"""Answers 202 and sends from a queue. When the provider answers 503, the worker logs it and forgets the
mail."""

import json
import queue
import sys
import threading
import uuid

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve

lock = threading.Lock()
entries = {}  # (tenant, key) -> what became of the mail sent under it
jobs = queue.Queue()


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
        entry = {"fingerprint": fingerprint, "state": "accepted", "id": str(uuid.uuid4())}
        entries[place] = entry
    jobs.put((place, entry, mail))
    return 202, {"id": entry["id"]}


def repeat(entry, fingerprint):
    if entry["fingerprint"] != fingerprint:
        message = "This key was used with a different payload."
        return error(409, "invalid_idempotent_request", message)
    if entry["state"] == "unknown":
        message = "The mail may have been sent. It is not sent again."
        return error(502, "delivery_outcome_unknown", message)
    return 202, {"id": entry["id"]}


def work():
    while True:
        place, entry, mail = jobs.get()
        try:
            hand_over(mail)
        except Refused:
            with lock:
                del entries[place]  # the caller may try again under the same key
        except NotAccepted as problem:
            print(f"mail {entry['id']} failed: {problem}", flush=True)
        except OutcomeUnknown:
            with lock:
                entry["state"] = "unknown"


for _ in range(16):
    threading.Thread(target=work, daemon=True).start()
serve({"/emails": post_emails})
