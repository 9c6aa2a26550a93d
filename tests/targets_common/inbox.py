"""A careful consumer, and the ways in which an event is signed.

It answers a message that came in with one mail, before it acknowledges. Each of its decisions is a method of its own,
so that a program in tests/flawed can take one of them otherwise and leave the rest as it is.
"""

import base64
import hashlib
import hmac
import os
import sqlite3
import threading
import time
import uuid

from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, serve

SECRET = os.environ["WEBHOOK_SECRET"]
TOLERANCE = 300  # seconds
OK = 200, {"ok": True}


def standard(headers, raw, start="webhook", tolerance=TOLERANCE):
    """Standard Webhooks; Svix has the same under names of its own."""
    sent_at = headers.get(f"{start}-timestamp", "")
    if not _recent(sent_at, tolerance):
        return False
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    content = f"{headers.get(f'{start}-id', '')}.{sent_at}.".encode("latin-1") + raw
    expected = "v1," + base64.b64encode(_digest(key, content)).decode()
    return _among(expected, headers.get(f"{start}-signature", "").split())


def stripe(headers, raw, tolerance=TOLERANCE):
    """Stripe: the time and the signatures in one header."""
    parts = [part.partition("=") for part in headers.get("Stripe-Signature", "").split(",")]
    sent_at = next((value for name, _, value in parts if name == "t"), "")
    if not _recent(sent_at, tolerance):
        return False
    expected = _digest(SECRET.encode(), sent_at.encode() + b"." + raw).hex()
    return _among(expected, [value for name, _, value in parts if name == "v1"])


def plain(headers, raw, name="X-Hub-Signature-256", prefix="sha256="):
    """The body alone, in a header of one's choice."""
    return _among(prefix + _digest(SECRET.encode(), raw).hex(), [headers.get(name, "")])


def _digest(key, content):
    return hmac.new(key, content, hashlib.sha256).digest()


def _recent(sent_at, tolerance):
    return sent_at.isascii() and sent_at.isdigit() and abs(time.time() - int(sent_at)) <= tolerance


def _among(expected, given):
    return any(hmac.compare_digest(expected.encode(), one.encode("utf-8", "replace")) for one in given)


def reply_to(message):
    return {
        "from": "support@house.example",
        "to": [message["from"]],
        "subject": f"Re: {message['subject']}",
        "text": f"We have your message and will answer soon. You wrote: {message['text']}",
    }


class Inbox:
    """Claims the message in one write, sends, notes what came of it, and acknowledges."""

    def __init__(self):
        self.lock = threading.Lock()  # held for every use of db
        self.db = sqlite3.connect(os.environ["STATE"], check_same_thread=False, isolation_level=None, timeout=10)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS messages (id TEXT PRIMARY KEY, state TEXT, owner TEXT)")
        self.owner = str(uuid.uuid4())  # of this process; another one's claim is a dead one's

    def believes(self, request):
        return standard(request.headers, request.raw)

    def known_as(self, event):
        """What tells one business event from another."""
        return event["data"]["message_id"]

    def claim(self, name):
        """ "mine": to be done now; "running": somebody does it; "done": as far as it will ever be."""
        with self.lock:
            new = self.db.execute(
                "INSERT OR IGNORE INTO messages VALUES (?, 'sending', ?)", (name, self.owner)
            ).rowcount
            if new:
                return "mine"
            state, owner = self.db.execute("SELECT state, owner FROM messages WHERE id = ?", (name,)).fetchone()
        if state == "sending" and owner != self.owner:
            return self.left_behind(name)
        return "running" if state == "sending" else "done"

    def left_behind(self, name):
        """Who was killed while it sent may have sent: nobody knows, and a person has to look."""
        self.note(name, "unknown")
        return "done"

    def note(self, name, state):
        with self.lock:
            self.db.execute("INSERT OR REPLACE INTO messages VALUES (?, ?, ?)", (name, state, self.owner))

    def release(self, name):
        with self.lock:
            self.db.execute("DELETE FROM messages WHERE id = ?", (name,))

    def post(self, request):
        if not self.believes(request):
            return error(401, "bad_signature", "The signature does not fit.")
        event = request.body
        if event["type"] != "message.received":
            return OK
        name = self.known_as(event)
        claim = self.claim(name)
        if claim == "running":
            return error(409, "in_progress", "This message is being answered.")
        return OK if claim == "done" else self.answer(name, event["data"])

    def answer(self, name, message):
        try:
            self.send(name, reply_to(message))
        except NotAccepted:
            self.release(name)
            return error(503, "try_again", "The reply was not sent.")
        except Refused as problem:
            self.note(name, f"refused: {problem}")
        except OutcomeUnknown:
            return self.unknown(name)
        else:
            self.note(name, "sent")
        return OK

    def send(self, name, mail):
        hand_over(mail)

    def unknown(self, name):
        self.note(name, "unknown")
        return OK

    def serve(self):
        serve({"/webhooks": self.post})
