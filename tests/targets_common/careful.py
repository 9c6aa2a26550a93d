"""A send API that keeps what its constants say, in one place for each decision: what a flaw gets wrong, it overrides.

Standard library only, and nothing of the project under test: no contract file is read here. The constants of a vendor
stand in vendors.py. One process, one lock, one SQLite file; mails are handed over before the answer is given.

An entry is what is known under a key: ``running`` while its mails are handed over, ``kept`` while it may not be known
what became of them, ``open`` when some of a batch are still to be handed over, ``waiting`` until a person decides, and
``done`` with the answer that is replayed. A message is one mail: ``pending``, ``queued``, ``handing``, and then
``sent``, ``refused``, ``unknown`` or ``rejected``.
"""

import json
import os
import re
import time
import uuid

from afterwards import Afterwards
from plumbing import Answer, NotAccepted, OutcomeUnknown, Refused, hand_over, serve
from store import Store


class Call:
    """One request, and what is found out about it on the way."""

    def __init__(self, request, route, name=None):
        self.request, self.route, self.name, self.body = request, route, name, request.body
        token = request.headers.get("Authorization", "").partition(" ")[2]
        self.tenant, _, rest = token.partition(":")
        credential, _, environment = rest.partition(":")
        self.credential, self.environment = credential or "main", environment or "live"
        self.batch = isinstance(self.body, list)
        self.key = self.place = self.entry = None
        self.mails = []


class Careful(Afterwards):
    """Every decision is a method; a vendor is a set of constants."""

    ROUTES = ()  # (method, pattern of the path, name of the method below)
    ORDER = ("auth", "rate_limit", "key", "validation", "record")
    STATES = ("mismatch", "in_progress", "replay")  # the order in which a record is looked at
    KEY = "header:Idempotency-Key"
    KEY_REQUIRED, KEY_MIN, KEY_MAX, KEY_PATTERN, EMPTY_KEY = False, 1, 256, None, "invalid"
    SCOPE = ("tenant",)
    FINGERPRINT, FIELDS = ("body", "path"), None
    KEEPS_FIELD_ORDER, DROPS_EMPTY = False, True
    # What becomes of a key after what came of its first request: stored, released, kept, waiting.
    STORES = {"sent": "stored", "pending": "waiting", "refused": "stored", "busy": "released", "unknown": "kept"}
    REPLAYS_AS = {}  # status of a first answer -> status of its replay
    MARKER_HEADERS, MARKER_FIELDS, KEY_ECHO = {}, {}, None
    RETENTION, COUNTS_FROM = None, "received"
    MATCHED_WITHIN = 1800
    BATCH_MAX = 100
    DRY_RUN = None  # a parameter of the query
    APPROVES = None  # the mailbox whose mails wait for a person
    ANSWERS = {}  # kind -> (status, body[, headers]); {id} is the message's

    def __init__(self):
        self.store = Store(os.environ["STATE"])
        self.offset = self.store.get("clock", "offset") or 0.0
        self.wake_up()

    def serve(self):
        serve(self.respond)

    def now(self):
        return time.time() + self.offset

    def clock(self, call):
        self.offset += float(call.body["advance"])
        self.store.put("clock", "offset", self.offset)
        return 200, {}

    def respond(self, request):
        for method, pattern, does in (*self.ROUTES, ("POST", "/clock", "clock")):
            found = re.fullmatch(pattern, request.path)
            if found and method == request.method:
                call = Call(request, pattern, *found.groups())
                return self.finished(call, self.attempt(call, getattr(self, does)))
        return 404, {"message": "There is no such path."}

    def attempt(self, call, does):
        try:
            return does(call)
        except Answer as answer:
            return answer.status, answer.body, answer.headers

    def finished(self, call, answer):
        status, body, headers = (*answer, {})[:3]
        echo = {self.KEY_ECHO: call.key.encode().decode("latin-1")} if self.KEY_ECHO and call.key else {}
        return status, body, {**headers, **echo}

    def answer(self, kind, ids=(), batch=False):
        status, body, *headers = self.ANSWERS[kind]
        if batch and kind == "accepted":
            states = [self.store.get("messages", name)["state"] for name in ids]
            body = {"data": [{"id": name, "status": state} for name, state in zip(ids, states, strict=True)]}
        text = json.dumps(body).replace("{id}", ids[0] if ids else "")
        return status, json.loads(text), dict(*headers)

    def refuse(self, kind):
        raise Answer(*self.answer(kind))

    # -- a send -----------------------------------------------------------------------------------------------------

    def send(self, call):
        for check in self.ORDER:
            try:
                getattr(self, f"check_{check}")(call)
            except Answer as refusal:
                self.settle(call, check, (refusal.status, refusal.body, refusal.headers))
                raise
        return self.dispatch(call)

    def check_auth(self, call):
        if not call.tenant or call.credential == "unauthorized":
            self.refuse("unauthorized")

    def check_rate_limit(self, call):
        if call.credential in ("rate-limited", "over-quota"):
            self.refuse("rate_limited")

    def check_key(self, call):
        if self.is_dry_run(call):
            return
        call.key = self.key_of(call)
        if call.key == "" and self.EMPTY_KEY == "absent":
            call.key = None
        if call.key is None and self.KEY_REQUIRED:
            self.refuse("key_missing")
        if call.key is not None and not self.is_good(call.key):
            self.refuse("key_invalid")

    def key_of(self, call):
        carrier, _, name = self.KEY.partition(":")
        if carrier == "body":
            return call.body.get(name) if isinstance(call.body, dict) else None
        lines = call.request.headers.get_all(name, [])
        if len(lines) > 1:
            self.refuse("key_invalid")
        return lines[0].strip(" \t").encode("latin-1").decode("utf-8", "replace") if lines else None

    def is_good(self, key):
        if not isinstance(key, str) or not self.KEY_MIN <= len(key) <= self.KEY_MAX:
            return False
        return self.KEY_PATTERN is None or re.fullmatch(self.KEY_PATTERN, key, re.DOTALL) is not None

    def is_dry_run(self, call):
        return self.DRY_RUN is not None and f"{self.DRY_RUN}=true" in call.request.query

    def check_validation(self, call):
        bodies = call.body if call.batch else [call.body]
        if not bodies or len(bodies) > self.BATCH_MAX:
            self.refuse("refused")
        call.mails = [mail for mail in map(self.read, bodies) if self.is_complete(mail) or self.refuse("refused")]

    def read(self, body):
        """Return the mail that a body asks for: from, to, subject, text."""
        body = body if isinstance(body, dict) else {}
        to = body.get("to") or []
        mail = {name: body.get(name) for name in ("from", "subject", "text")}
        return {**mail, "to": to if isinstance(to, list) else [to]}

    def is_complete(self, mail):
        texts = [*mail["to"], mail["from"], mail["subject"], mail["text"]]
        return bool(mail["to"]) and all(isinstance(t, str) and t for t in texts) and all("@" in t for t in mail["to"])

    def check_record(self, call):
        """Claim the key in one write, or be answered from what is recorded under it."""
        if call.key is None:
            return
        call.place = self.place(call)
        with self.store:
            entry = self.look_up(call)
            if entry is not None and entry["state"] == "open":
                self.repeat_mismatch(call, entry)
            elif entry is not None:
                self.repeat(call, entry)
            fresh = {"fingerprint": self.fingerprint(call), "ids": [], "received": self.now(), "done": None}
            call.entry = {**(entry or fresh), "state": "running", "batch": call.batch, "claim": str(uuid.uuid4())}
            self.store.put("entries", call.place, call.entry)

    def place(self, call):
        parts = {"tenant": call.tenant, "credential": call.credential, "environment": call.environment}
        parts |= {"mailbox": self.mailbox(call), "path": call.request.path}
        return json.dumps([*(parts[part] for part in self.scope(call)), call.key])

    def scope(self, call):
        return self.SCOPE

    def mailbox(self, call):
        return self.read(call.body[0] if call.batch and call.body else call.body)["from"]

    def fingerprint(self, call):
        parts = {"path": call.request.path, "body": self.canonical(call)}
        return json.dumps([parts[part] for part in self.FINGERPRINT], sort_keys=not self.KEEPS_FIELD_ORDER)

    def canonical(self, call):
        """Return what of a body counts; how its bytes were written does not."""
        if call.batch or not isinstance(call.body, dict):
            return call.body
        carrier, _, name = self.KEY.partition(":")
        counted = {k: v for k, v in call.body.items() if carrier != "body" or k != name}
        if self.DROPS_EMPTY:
            counted = {k: v for k, v in counted.items() if v is not None}
        return counted if self.FIELDS is None else [self.resolved(counted.get(field)) for field in self.FIELDS]

    def resolved(self, value):
        return value[0] if isinstance(value, list) and len(value) == 1 else value

    def look_up(self, call):
        entry = self.store.get("entries", call.place)
        if entry is not None and self.is_forgotten(entry):
            self.store.drop("entries", call.place)
            return None
        if entry is not None and self.has_lapsed(entry):
            return {**entry, "state": "open"}
        return entry

    def is_forgotten(self, entry):
        since = entry[self.COUNTS_FROM]
        if self.RETENTION is None or since is None or entry["state"] == "running":
            return False
        return self.now() - since >= self.RETENTION

    def has_lapsed(self, entry):
        """Whether a claim is to be taken over: never, for its owner runs as long as this process does."""
        return False

    def repeat(self, call, entry):
        for state in self.STATES:
            getattr(self, f"repeat_{state}")(call, entry)

    def repeat_mismatch(self, call, entry):
        if entry["fingerprint"] != self.fingerprint(call):
            self.refuse("conflict")

    def repeat_in_progress(self, call, entry):
        if entry["state"] in ("running", "kept"):
            self.refuse("in_progress")

    def repeat_replay(self, call, entry):
        raise Answer(*self.replayed(entry))

    def replayed(self, entry):
        status, body, headers = entry["answer"]
        if isinstance(body, dict):
            body = {**body, **self.MARKER_FIELDS}
        return self.REPLAYS_AS.get(status, status), body, {**headers, **self.MARKER_HEADERS}

    # -- messages ---------------------------------------------------------------------------------------------------

    def dispatch(self, call):
        if self.is_dry_run(call):
            return self.answer("dry_run")
        with self.store:
            ids = call.entry["ids"] if call.entry and call.entry["ids"] else self.write_down(call)
            if call.entry:
                call.entry["ids"] = ids
                self.store.put("entries", call.place, call.entry)
        self.deliver_all(ids)
        outcome = self.outcome(ids)
        answer = self.answer(self.named(outcome), ids, call.batch)
        self.settle(call, outcome, answer)
        return answer

    def write_down(self, call):
        ids = []
        for mail in call.mails:
            ids.append(str(uuid.uuid4()))
            state = "pending" if self.needs_approval(call) else "queued"
            message = {"tenant": call.tenant, "place": call.place, "mail": mail, "state": state, "at": self.now()}
            self.store.put("messages", ids[-1], message)
        return ids

    def needs_approval(self, call):
        return self.APPROVES is not None and self.mailbox(call) == self.APPROVES

    def deliver_all(self, ids):
        for name in ids:
            if self.move(name, "queued", "handing"):
                self.deliver(name)

    def move(self, name, before, after):
        """Take a message from one state to another, unless somebody else has."""
        with self.store:
            message = self.store.get("messages", name)
            if message is None or message["state"] != before:
                return False
            self.store.put("messages", name, {**message, "state": after})
            return True

    def deliver(self, name, again="queued"):
        """Hand a message over once; ``again`` is its state when it was surely not taken."""
        try:
            hand_over(self.mail_for_provider(self.store.get("messages", name)["mail"]))
            state = "sent"
        except Refused:
            state = "refused"
        except NotAccepted:
            state = again
        except OutcomeUnknown:
            state = "unknown"
        with self.store:
            message = self.store.get("messages", name)
            told = message.get("told") and state == "unknown"
            self.store.put("messages", name, {**message, "state": "sent" if told else state})

    def mail_for_provider(self, mail):
        return mail

    def outcome(self, ids):
        states = [self.store.get("messages", name)["state"] for name in ids]
        for state, outcome in (("unknown", "unknown"), ("queued", "busy"), ("pending", "pending")):
            if state in states:
                return outcome
        return "refused" if set(states) == {"refused"} else "sent"

    def named(self, outcome):
        return {"sent": "accepted", "refused": "provider_refused", "busy": "failed"}.get(outcome, outcome)

    def settle(self, call, outcome, answer):
        """Store the answer under the key, or let go of it."""
        if call.entry is None:
            return
        with self.store:
            current = self.store.get("entries", call.place)
            if current is None or current["claim"] != call.entry["claim"]:
                return
            self.conclude(call.place, call.entry, outcome, answer)

    def conclude(self, place, entry, outcome, answer):
        states = {self.store.get("messages", name)["state"] for name in entry["ids"]}
        policy = self.STORES.get(outcome, "released")
        if len(entry["ids"]) > 1 and "queued" in states and states != {"queued"}:
            state = "open"
        elif policy == "released":
            return self.release(place, entry)
        else:
            state = {"stored": "done"}.get(policy, policy)
        self.store.put("entries", place, {**entry, "state": state, "done": self.now(), "answer": answer})
        return None

    def release(self, place, entry):
        self.store.drop("entries", place)

    def wake_up(self):
        """What the last process left behind: a hand-over without an outcome is unknown; the rest was never begun."""
        with self.store:
            for name, message in self.store.all("messages"):
                if message["state"] == "handing":
                    self.store.put("messages", name, {**message, "state": "unknown"})
            for place, entry in self.store.all("entries"):
                if entry["state"] == "running":
                    outcome = self.outcome(entry["ids"]) if entry["ids"] else "busy"
                    self.left_behind(place, entry, outcome)

    def left_behind(self, place, entry, outcome):
        if outcome == "busy" and all(self.store.get("messages", n)["state"] == "queued" for n in entry["ids"]):
            self.release(place, entry)
        else:
            self.conclude(place, entry, outcome, self.answer(self.named(outcome), entry["ids"], entry["batch"]))
