"""A mail API that remembers what it sent in PostgreSQL, as it is often written: look up, send, insert."""

import hashlib
import json
import os
import sys

import psycopg

sys.path.insert(0, "../../targets_common")
from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve
from pool import Pool

TABLE = """
CREATE TABLE IF NOT EXISTS sent (
    tenant text, key text, PRIMARY KEY (tenant, key),
    request_hash text NOT NULL,
    message text NOT NULL
)
"""
LOOK_UP = "SELECT request_hash, message FROM sent WHERE tenant = %s AND key = %s"
INSERT = "INSERT INTO sent (tenant, key, request_hash, message) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"

db = Pool(os.environ["DATABASE_URL"])


def send(request):
    mail = read_mail(request)
    if not request.key:
        return error(400, "missing_idempotency_key", "Idempotency-Key is required.")
    try:
        return send_once(request.tenant, request.key, request.body, mail)
    except psycopg.OperationalError:
        return error(503, "store_unavailable", "Try again.")


def send_once(tenant, key, body, mail):
    request_hash = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    known = db.run(LOOK_UP, [tenant, key])
    if known and known[0]["request_hash"] != request_hash:
        return error(422, "idempotency_key_reused", "This key was used for another message.")
    if known:
        return 200, {"id": known[0]["message"]}, {"Idempotent-Replayed": "true"}
    try:
        message = hand_over(mail, timeout=1.0)
    except Refused as problem:
        return error(422, "refused_by_provider", str(problem))
    except NotAccepted as problem:
        return error(503, "provider_busy", str(problem))
    except OutcomeUnknown as problem:
        return error(502, "provider_failed", str(problem))
    db.run(INSERT, [tenant, key, request_hash, message])
    return 200, {"id": message}


db.wait()
db.run(TABLE)
serve({"/v1/messages": send})
