"""A mail API that remembers what it sent in Redis, as it is often written: GET, send, SET."""

import hashlib
import json
import os
import sys

import redis

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve

DAY = 24 * 60 * 60

# Without a handshake: every message to Redis is one of ours.
db = redis.Redis.from_url(
    os.environ["REDIS_URL"], socket_timeout=1, decode_responses=True, protocol=2, driver_info=None
)


def send(request):
    mail = read_mail(request)
    if not request.key:
        return error(400, "missing_idempotency_key", "Idempotency-Key is required.")
    try:
        return send_once(f"sent:{request.tenant}:{request.key}", request.body, mail)
    except redis.RedisError:
        return error(503, "store_unavailable", "Try again.")


def send_once(name, body, mail):
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    known = db.get(name)
    if known is not None:
        known = json.loads(known)
        if known["digest"] != digest:
            return error(422, "idempotency_key_reused", "This key was used for another message.")
        return 200, {"id": known["id"]}, {"Idempotent-Replayed": "true"}
    try:
        sent = hand_over(mail, timeout=1.0)
    except Refused as problem:
        return error(422, "refused_by_provider", str(problem))
    except NotAccepted as problem:
        return error(503, "provider_busy", str(problem))
    except OutcomeUnknown as problem:
        return error(502, "provider_failed", str(problem))
    db.set(name, json.dumps({"digest": digest, "id": sent}), ex=DAY)
    return 200, {"id": sent}


serve({"/v1/messages": send})
