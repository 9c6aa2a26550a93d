"""A worker that answers mail: a signed event comes in, becomes a job, then an operation, then one mail.

Each boundary has an identity of its own, and a step that is done twice is found to be done by it:

    the event         its id, in the transaction that enqueues the job, before it is acknowledged
    the message       its id is in the key of the job: however many events tell of it, it is answered once
    the operation     the key of the job, or whatever a caller of POST /operations names; the first words stand
    the send          a key derived from the operation, stored with the bytes that it stands for

Between two transactions this program may die at any instant. What it had leased comes back when the lease lapses, and
an attempt whose end nobody has seen is made again under the same key, with the same bytes: the API says what became
of it. That ends before the API forgets its keys, and after so many attempts; then the outcome is unknown, for good,
unless every attempt surely did nothing.
"""

import hashlib
import json
import os
import sys
import threading
import time
import uuid
from urllib.parse import unquote

import send_api
from send_api import CONFLICT, NOTHING, PENDING, REFUSED, SENT, UNKNOWN
from store import open_store

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../targets_common"))
from plumbing import error, serve, signed

FROM = "support@house.example"
HTTP_STATUS = {"sent": 200, "not_sent": 422, "pending": 202, "unknown": 202, "queued": 202}

CLAIM_EVENT = """
INSERT INTO events (event_id, received_at) VALUES (:event_id, :now) ON CONFLICT DO NOTHING RETURNING event_id
"""
ENQUEUE = "INSERT INTO jobs (operation, message) VALUES (:operation, :message) ON CONFLICT DO NOTHING"
DUE_JOB = "SELECT * FROM jobs WHERE done = 0 AND leased_until <= :now ORDER BY operation LIMIT 1"
LEASE_JOB = "UPDATE jobs SET leased_until = :until WHERE operation = :operation"
END_JOB = "UPDATE jobs SET done = 1 WHERE operation = :operation"

STORE = """
INSERT INTO operations (operation, request_hash, body, send_key)
VALUES (:operation, :request_hash, :body, :send_key) ON CONFLICT (operation) DO NOTHING
"""
FIND = "SELECT * FROM operations WHERE operation = :operation"
DUE = """
SELECT * FROM operations WHERE state = 'queued' AND due_at <= :now AND leased_until <= :now ORDER BY due_at LIMIT 1
"""
BEGIN = """
UPDATE operations SET owner = :owner, leased_until = :until, attempts = attempts + 1, maybe_sent = 1,
    first_at = coalesce(first_at, :now)
WHERE operation = :operation
"""
END = """
UPDATE operations SET state = :state, detail = :detail, maybe_sent = :maybe_sent, due_at = :due_at, owner = NULL,
    leased_until = 0
WHERE operation = :operation AND owner = :owner
"""
GIVE_UP = "UPDATE operations SET state = :state WHERE operation = :operation"
NEXT = """
SELECT min(at) AS at FROM (
    SELECT CASE WHEN due_at > leased_until THEN due_at ELSE leased_until END AS at
    FROM operations WHERE state = 'queued'
    UNION ALL SELECT leased_until FROM jobs WHERE done = 0
) AS waiting
"""


def seconds(name, default):
    return float(os.environ.get(name, default))


class Worker:
    API_KEEPS_KEYS = 23 * 3600  # it says 24 hours
    LONGEST_PAUSE = 60.0
    LOOK_AGAIN = 0.5  # for what another instance did
    senders = 4

    def __init__(self):
        self.timeout = seconds("ATTEMPT_TIMEOUT", 10)
        self.lease = seconds("LEASE", 30)  # longer than an attempt
        self.pause = seconds("RETRY_PAUSE", 1)
        self.attempts = int(os.environ.get("MAX_ATTEMPTS", 8))  # of one operation
        self.answers_within = seconds("ANSWERS_WITHIN", 30)
        self.store = open_store(os.environ["DATABASE"])
        self.changed, self.changes = threading.Condition(), 0

    # -- what identifies a thing, and what is sent -----------------------------------------------------------------

    def job_of(self, event_id, message):
        return f"message:{message['message_id']}:auto-reply:v1"

    def send_key_of(self, operation):
        return "mail-" + hashlib.sha256(operation.encode()).hexdigest()[:40]

    def write(self, message):
        """The answer to a message. A model may write it: it is asked once, and its words are stored."""
        text = f"We have your message and will answer soon. You wrote: {message['text']}"
        return {"from": FROM, "to": [message["from"]], "subject": f"Re: {message['subject']}", "text": text}

    # -- the webhook -----------------------------------------------------------------------------------------------

    def post_webhook(self, request):
        if not signed(request, os.environ["WEBHOOK_SECRET"]):
            return error(401, "bad_signature", "The signature does not fit.")
        if request.body["type"] == "message.received":
            self.take(request.headers["webhook-id"], request.body["data"])
        return 200, {"ok": True}

    def take(self, event_id, message):
        with self.store.transaction() as run:
            if run(CLAIM_EVENT, event_id=event_id, now=time.time()):
                run(ENQUEUE, operation=self.job_of(event_id, message), message=json.dumps(message))
        self.wake()

    def answer_one(self):
        """Turn one job into an operation; False when there is none."""
        with self.store.transaction() as run:
            jobs = run(DUE_JOB + self.store.SKIP_LOCKED, now=time.time())
            if not jobs:
                return False
            run(LEASE_JOB, operation=jobs[0]["operation"], until=time.time() + self.lease)
        operation = jobs[0]["operation"]
        mail = self.write(json.loads(jobs[0]["message"]))
        with self.store.transaction() as run:
            self.keep(run, operation, mail)
            run(END_JOB, operation=operation)
        self.wake()
        return True

    # -- operations ------------------------------------------------------------------------------------------------

    def post_operation(self, request):
        body = request.body
        fields = ("operation", "to", "subject", "text")
        if not isinstance(body, dict) or not all(isinstance(body.get(name), str) and body[name] for name in fields):
            return error(400, "validation_error", f"Required: {', '.join(fields)}.")
        mail = {"from": FROM, "to": [body["to"]], "subject": body["subject"], "text": body["text"]}
        with self.store.transaction() as run:
            self.keep(run, body["operation"], mail)
            known = run(FIND, operation=body["operation"])[0]
        self.wake()
        if known["request_hash"] != hash_of(mail):
            return error(409, "operation_conflict", "This operation has other content.")
        if request.headers.get("Prefer") == "respond-async":
            return 202, shown(known)
        return self.end_of(body["operation"])

    def get_operation(self, operation):
        known = self.find(operation)
        return (200, shown(known)) if known else error(404, "not_found", "No such operation.")

    def keep(self, run, operation, mail):
        """Store what is to be sent, unless it is known what is: then that stands."""
        key = self.send_key_of(operation)
        body = send_api.body_of(mail, key)
        run(STORE, operation=operation, request_hash=hash_of(mail), body=body, send_key=key)

    def find(self, operation):
        with self.store.transaction() as run:
            return next(iter(run(FIND, operation=operation)), None)

    def end_of(self, operation):
        """Wait for the end of an operation, for some time."""
        deadline = time.monotonic() + self.answers_within
        while True:
            seen = self.changes
            known = self.find(operation)
            if known["state"] != "queued" or time.monotonic() > deadline:
                break
            self.sleep(self.LOOK_AGAIN, seen)
        return HTTP_STATUS[known["state"]], shown(known)

    # -- sending ---------------------------------------------------------------------------------------------------

    def send_one(self):
        """Make one attempt of one operation that is due; False when there is none."""
        owner = str(uuid.uuid4())
        with self.store.transaction() as run:
            now = time.time()
            due = run(DUE + self.store.SKIP_LOCKED, now=now)
            if not due:
                return False
            operation = due[0]
            enough = self.enough(operation, now)
            if enough:
                run(GIVE_UP, operation=operation["operation"], state=given_up(operation["maybe_sent"]))
            else:
                run(BEGIN, operation=operation["operation"], owner=owner, until=now + self.lease, now=now)
        if not enough:
            self.end(operation, owner, self.attempt(operation))
        self.wake()
        return True

    def enough(self, operation, at):
        """Whether no attempt is to be made at a time any more."""
        first_at = operation["first_at"] or at
        return operation["attempts"] >= self.attempts or at > first_at + self.API_KEEPS_KEYS

    def attempt(self, operation):
        return send_api.attempt(operation["body"], operation["send_key"], self.timeout)

    def end(self, operation, owner, outcome):
        """Note what an attempt came to, if it is still ours: when the lease has lapsed, another one asks the API."""
        state, maybe_sent = self.after(operation["maybe_sent"], outcome)
        due_at = time.time() + max(self.wait_of(outcome), self.pause_after(operation["attempts"]))
        operation = {**operation, "attempts": operation["attempts"] + 1}
        if state == "queued" and self.enough(operation, due_at):
            state = given_up(maybe_sent)
        with self.store.transaction() as run:
            run(
                END,
                operation=operation["operation"],
                owner=owner,
                state=state,
                detail=outcome.detail,
                maybe_sent=maybe_sent,
                due_at=due_at,
            )

    def after(self, maybe_sent, outcome):
        """The operation's state after an attempt, and whether it may have been sent by now."""
        if outcome.what in (SENT, PENDING):
            return outcome.what, 1
        if outcome.what == REFUSED:
            return given_up(maybe_sent), maybe_sent
        if outcome.what == CONFLICT:
            return "unknown", maybe_sent  # what the key stands for is another mail, or ours in other words
        assert outcome.what in (NOTHING, UNKNOWN)
        return "queued", maybe_sent if outcome.what == NOTHING else 1

    def wait_of(self, outcome):
        return outcome.wait

    def pause_after(self, attempts):
        return min(self.LONGEST_PAUSE, self.pause * 2**attempts)

    # -- the program -----------------------------------------------------------------------------------------------

    def wake(self):
        with self.changed:
            self.changes += 1
            self.changed.notify_all()

    def sleep(self, pause, seen):
        """Wait, unless something has changed since it was looked at."""
        with self.changed:
            self.changed.wait_for(lambda: self.changes != seen, pause)

    def work(self):
        while True:
            seen = self.changes
            try:
                if self.answer_one() or self.send_one():
                    continue
                pause = self.until_next()
            except Exception as problem:  # of the store, or of one message: what was leased comes back
                print(f"to be done again: {problem!r}", flush=True)
                pause = self.LOOK_AGAIN
            self.sleep(pause, seen)

    def until_next(self):
        with self.store.transaction() as run:
            at = run(NEXT)[0]["at"]
        return self.LOOK_AGAIN if at is None else min(self.LOOK_AGAIN, max(0.01, at - time.time()))

    def handle(self, request):
        try:
            if request.method == "POST" and request.path == "/webhooks":
                return self.post_webhook(request)
            if request.method == "POST" and request.path == "/operations":
                return self.post_operation(request)
            if request.method == "GET" and request.path.startswith("/operations/"):
                return self.get_operation(unquote(request.path.removeprefix("/operations/")))
        except self.store.Unavailable:
            return error(503, "store_unavailable", "Nothing is known. Try again.")
        return error(404, "not_found", "No such path.")

    def run(self):
        for _ in range(self.senders):
            threading.Thread(target=self.work, daemon=True).start()
        serve(self.handle)


def hash_of(mail):
    return hashlib.sha256(json.dumps(mail, sort_keys=True).encode()).hexdigest()


def given_up(maybe_sent):
    return "unknown" if maybe_sent else "not_sent"


def shown(known):
    return {name: known[name] for name in ("operation", "state", "detail", "attempts")}


if __name__ == "__main__":
    Worker().run()
