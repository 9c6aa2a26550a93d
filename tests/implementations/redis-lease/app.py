"""A mail API on Redis: a claim that lapses, and an operation that only the owner of the claim may move on.

`claim:NAME` is the lease: SET NX PX, its value the owner's token and the request's hash. `operation:NAME` is what is
known of the mail: `sending` from just before it is handed over, then `done` or `unknown`. Both scripts below are
compare-and-set on the token, so an owner whose lease has lapsed neither begins a hand-over nor writes over another's
outcome. What lapses before `sending` is taken over by the next request; what lapses after it is unknown, for good.
Every command may be sent again by its owner: a lost answer of Redis claims or writes nothing twice.
"""

import hashlib
import json
import os
import sys
import uuid

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

sys.path.insert(0, "../../targets_common")
from plumbing import Answer, NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve

LEASE = 90  # seconds; far longer than PROVIDER_TIMEOUT
PROVIDER_TIMEOUT = 1.0
STORE_TIMEOUT = 1.0
RETENTION = 24 * 60 * 60

# An operation is begun by who has the claim, once: 1 when it is this owner's now.
BEGIN = """
local operation = redis.call('GET', KEYS[2])
if operation then
    return cjson.decode(operation).token == ARGV[1] and 1 or 0
end
local claim = redis.call('GET', KEYS[1])
if not claim or cjson.decode(claim).token ~= ARGV[1] then
    return 0
end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1
"""
# The outcome is the owner's to write, and with it the claim ends. An empty one frees the key.
FINISH = """
local operation = redis.call('GET', KEYS[2])
if not operation or cjson.decode(operation).token ~= ARGV[1] then
    return 0
end
if ARGV[2] == '' then
    redis.call('DEL', KEYS[2])
else
    redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
end
local claim = redis.call('GET', KEYS[1])
if claim and cjson.decode(claim).token == ARGV[1] then
    redis.call('DEL', KEYS[1])
end
return 1
"""

db = redis.Redis.from_url(
    os.environ["REDIS_URL"],
    socket_timeout=STORE_TIMEOUT,
    socket_connect_timeout=STORE_TIMEOUT,
    retry=Retry(NoBackoff(), 1),
    decode_responses=True,
    protocol=2,  # without a handshake: every message to Redis is one of ours
    driver_info=None,
)


class Operation:
    def __init__(self, name, request_hash):
        self.claim, self.record = f"claim:{name}", f"operation:{name}"
        self.token, self.hash = str(uuid.uuid4()), request_hash

    def written(self, **what):
        return json.dumps({"token": self.token, "hash": self.hash, **what})

    def begin(self):
        """Claim the operation and note that it is being sent; raises Answer when it is not this request's to send."""
        self.answer_if_known()
        mine = self.written()
        if not db.set(self.claim, mine, nx=True, px=LEASE * 1000) and db.get(self.claim) != mine:
            self.answer_if_known()
            raise Answer(*in_progress())
        sending = self.written(state="sending")
        if not db.eval(BEGIN, 2, self.claim, self.record, self.token, sending, RETENTION):
            self.answer_if_known()
            raise Answer(*in_progress())

    def answer_if_known(self):
        record, claim = (value and json.loads(value) for value in db.mget(self.record, self.claim))
        known = record or claim
        if known and known["hash"] != self.hash:
            raise Answer(*error(422, "idempotency_key_reused", "This key was used for another message."))
        if record and record["state"] == "done":
            raise Answer(record["status"], record["body"], {"Idempotent-Replayed": "true"})
        if record and (record["state"] == "unknown" or not claim):
            raise Answer(*unknown())

    def finish(self, **outcome):
        outcome = self.written(**outcome) if outcome else ""
        db.eval(FINISH, 2, self.claim, self.record, self.token, outcome, RETENTION)


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
    request_hash = hashlib.sha256(json.dumps(request.body, sort_keys=True).encode()).hexdigest()
    operation = Operation(json.dumps([tenant, key]), request_hash)
    try:
        operation.begin()
    except redis.RedisError:
        return error(503, "store_unavailable", "Nothing was sent. Try again.")
    try:
        return deliver(operation, mail)
    except redis.RedisError:
        return unknown()  # the outcome is not written: what this caller is told, the next one is told as well


def deliver(operation, mail):
    try:
        status, body = 200, {"id": hand_over(mail, timeout=PROVIDER_TIMEOUT)}
    except Refused as problem:
        status, body = error(422, "refused_by_provider", str(problem))
    except NotAccepted as problem:
        operation.finish()
        return error(503, "provider_busy", str(problem))
    except OutcomeUnknown:
        operation.finish(state="unknown")
        return unknown()
    operation.finish(state="done", status=status, body=body)
    return status, body


def checked_key(request):
    key = request.key
    if key is None:
        raise Answer(*error(400, "missing_idempotency_key", "Idempotency-Key is required."))
    if not 1 <= len(key) <= 255 or not all("!" <= c <= "~" for c in key):
        raise Answer(*error(400, "invalid_idempotency_key", "Idempotency-Key is 1 to 255 visible characters of ASCII."))
    return key


serve({"/v1/messages": send})
