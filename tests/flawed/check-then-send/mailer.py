"""Looks the key up, sends, and only then stores the key. Two requests at once both find nothing and both
send."""

import json
import sys
import uuid

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve

entries = {}  # (tenant, key) -> what became of the mail sent under it


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        message = "Idempotency-Key must be between 1 and 256 characters."
        return error(400, "invalid_idempotency_key", message)
    mail = read_mail(request)
    fingerprint = json.dumps({**request.body, "to": mail["to"]}, sort_keys=True)
    place = (request.tenant, key) if key is not None else object()  # without a key: on its own
    entry = entries.get(place)
    if entry is not None:
        return repeat(entry, fingerprint)
    return send(place, fingerprint, mail)


def repeat(entry, fingerprint):
    if entry["fingerprint"] != fingerprint:
        message = "This key was used with a different payload."
        return error(409, "invalid_idempotent_request", message)
    if entry["state"] == "unknown":
        return outcome_unknown()
    return 200, {"id": entry["id"]}


def send(place, fingerprint, mail):
    try:
        hand_over(mail)
    except Refused as refused:
        return error(422, "validation_error", str(refused))
    except NotAccepted:
        return error(503, "application_error", "The mail was not sent. Try again.")
    except OutcomeUnknown:
        entries.setdefault(place, {"fingerprint": fingerprint, "state": "unknown"})
        return outcome_unknown()
    entry = {"fingerprint": fingerprint, "state": "sent", "id": str(uuid.uuid4())}
    entries.setdefault(place, entry)
    return 200, {"id": entry["id"]}


def outcome_unknown():
    message = "The mail may have been sent. It is not sent again."
    return error(502, "delivery_outcome_unknown", message)


serve({"/emails": post_emails})
