"""A mail API on a table of operations in PostgreSQL: claimed, then sending, then done or unknown.

An operation is claimed under its key before anything else, for the length of a lease, by an owner of its own; the
claim is a transaction of its own, and so is every further step, each on the condition that the owner is still the
owner. A claim that lapses before `sending` is taken over by the next request, and the old owner then sends nothing;
after it the outcome is unknown, for good, unless the owner still writes it. Every statement may run twice for its
owner: what PostgreSQL answered, and nobody heard, is found again.
"""

import hashlib
import json
import os
import sys
import uuid

import psycopg
from psycopg.types.json import Jsonb

sys.path.insert(0, "../../targets_common")
from plumbing import Answer, NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve
from pool import Pool

PROVIDER_TIMEOUT = 1.0  # far shorter than the lease

TABLE = """
CREATE TABLE IF NOT EXISTS operations (
    tenant text, key text, PRIMARY KEY (tenant, key),
    request_hash text NOT NULL,
    state text NOT NULL DEFAULT 'claimed' CHECK (state IN ('claimed', 'sending', 'unknown', 'done')),
    owner uuid NOT NULL,
    leased_until timestamptz NOT NULL DEFAULT now() + interval '90 seconds',
    status int, body jsonb  -- the first answer, once it is known
)
"""
# One who finds a lapsed claim, with nothing handed over, becomes its owner.
CLAIM = """
INSERT INTO operations AS known (tenant, key, request_hash, owner)
VALUES (%(tenant)s, %(key)s, %(request_hash)s, %(owner)s)
ON CONFLICT (tenant, key) DO UPDATE SET owner = excluded.owner, leased_until = excluded.leased_until
    WHERE known.state = 'claimed' AND known.leased_until < now() AND known.request_hash = excluded.request_hash
RETURNING owner
"""
FIND = """
SELECT request_hash, state, owner, leased_until > now() AS leased, status, body
FROM operations WHERE tenant = %(tenant)s AND key = %(key)s
"""
BEGIN = """
UPDATE operations SET state = 'sending'
WHERE tenant = %(tenant)s AND key = %(key)s AND owner = %(owner)s AND state IN ('claimed', 'sending')
RETURNING owner
"""
FINISH = """
UPDATE operations SET state = %(state)s, status = %(status)s, body = %(body)s
WHERE tenant = %(tenant)s AND key = %(key)s AND owner = %(owner)s
"""
RELEASE = "DELETE FROM operations WHERE tenant = %(tenant)s AND key = %(key)s AND owner = %(owner)s"

db = Pool(os.environ["DATABASE_URL"])


class Operation:
    def __init__(self, tenant, key, body):
        request_hash = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        self.values = {"tenant": tenant, "key": key, "request_hash": request_hash, "owner": uuid.uuid4()}

    def run(self, statement, **more):
        return db.run(statement, {**self.values, **more}, tries=2)

    def begin(self):
        """Claim the operation and note that it is being sent; raises Answer when it is not this request's to send."""
        if not self.run(CLAIM):
            self.answer_unless_mine()
        if not self.run(BEGIN):
            raise Answer(*in_progress())  # the lease lapsed, and another has taken over

    def answer_unless_mine(self):
        found = self.run(FIND)
        if not found:  # released in between
            raise Answer(*in_progress())
        known = found[0]
        if known["owner"] == self.values["owner"]:
            return
        if known["request_hash"] != self.values["request_hash"]:
            raise Answer(*error(422, "idempotency_key_reused", "This key was used for another message."))
        if known["state"] == "done":
            raise Answer(known["status"], known["body"], {"Idempotent-Replayed": "true"})
        if known["state"] == "unknown" or (known["state"] == "sending" and not known["leased"]):
            raise Answer(*unknown())
        raise Answer(*in_progress())

    def finish(self, state, status=None, body=None):
        self.run(FINISH, state=state, status=status, body=Jsonb(body))

    def release(self):
        self.run(RELEASE)


def in_progress():
    return *error(409, "operation_in_progress", "This operation is in progress."), {"Retry-After": "1"}


def unknown():
    return error(504, "outcome_unknown", "Nobody knows whether the message was sent.")


def send(request):
    tenant = request.tenant.removeprefix("Bearer ")
    if not tenant:
        return error(401, "unauthorized", "Authorization is required.")
    key = checked_key(request)
    mail = read_mail(request)
    operation = Operation(tenant, key, request.body)
    try:
        operation.begin()
    except psycopg.OperationalError:
        return error(503, "store_unavailable", "Nothing was sent. Try again.")
    try:
        return deliver(operation, mail)
    except psycopg.OperationalError:
        return unknown()  # the outcome is not written: what this caller is told, the next one is told as well


def deliver(operation, mail):
    try:
        status, body = 200, {"id": hand_over(mail, timeout=PROVIDER_TIMEOUT)}
    except Refused as problem:
        status, body = error(422, "refused_by_provider", str(problem))
    except NotAccepted as problem:
        operation.release()
        return error(503, "provider_busy", str(problem))
    except OutcomeUnknown:
        operation.finish("unknown")
        return unknown()
    operation.finish("done", status, body)
    return status, body


def checked_key(request):
    key = request.key
    if key is None:
        raise Answer(*error(400, "missing_idempotency_key", "Idempotency-Key is required."))
    if not 1 <= len(key) <= 255 or not all("!" <= c <= "~" for c in key):
        raise Answer(*error(400, "invalid_idempotency_key", "Idempotency-Key is 1 to 255 visible characters of ASCII."))
    return key


db.wait()
db.run(TABLE)
serve({"/v1/messages": send})
