"""A repeat that comes while the first request runs waits for it and is then answered like any repeat. If the
first one certainly failed, one of those waiting becomes the first."""

import json
import sys
import threading
import uuid

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve

changed = threading.Condition()  # held for every access to entries
entries = {}  # (tenant, key) -> what became of the mail sent under it


def post_emails(request):
    key = request.key
    if key is not None and not 1 <= len(key) <= 256:
        message = "Idempotency-Key must be between 1 and 256 characters."
        return error(400, "invalid_idempotency_key", message)
    mail = read_mail(request)
    fingerprint = json.dumps({**request.body, "to": mail["to"]}, sort_keys=True)
    place = (request.tenant, key) if key is not None else object()  # without a key: on its own
    with changed:
        while (entry := entries.get(place)) is not None:
            if entry["fingerprint"] != fingerprint or entry["state"] != "sending":
                return repeat(entry, fingerprint)
            changed.wait()
        entry = {"fingerprint": fingerprint, "state": "sending", "id": None}
        entries[place] = entry
    return send(place, entry, mail)


def repeat(entry, fingerprint):
    if entry["fingerprint"] != fingerprint:
        message = "This key was used with a different payload."
        return error(409, "invalid_idempotent_request", message)
    if entry["state"] == "unknown":
        return outcome_unknown()
    return 200, {"id": entry["id"]}


def send(place, entry, mail):
    try:
        hand_over(mail)
    except Refused as refused:
        settle(place, None)
        return error(422, "validation_error", str(refused))
    except NotAccepted:
        settle(place, None)
        return error(503, "application_error", "The mail was not sent. Try again.")
    except OutcomeUnknown:
        settle(place, {**entry, "state": "unknown"})
        return outcome_unknown()
    sent = {**entry, "state": "sent", "id": str(uuid.uuid4())}
    settle(place, sent)
    return 200, {"id": sent["id"]}


def settle(place, entry):
    """Put the entry where all see it, or free the key, and wake those who wait."""
    with changed:
        if entry is None:
            del entries[place]
        else:
            entries[place] = entry
        changed.notify_all()


def outcome_unknown():
    message = "The mail may have been sent. It is not sent again."
    return error(502, "delivery_outcome_unknown", message)


serve({"/emails": post_emails})
