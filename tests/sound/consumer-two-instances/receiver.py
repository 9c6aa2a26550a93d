"""Two instances on one database, behind Stripe's signature: the claim is a row, and the send has a key that the send
API knows, so whoever comes after one that died sends again."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox, stripe
from plumbing import Refused, error, hand_over


class Instance(Inbox):
    def __init__(self):
        super().__init__()
        self.mine = set()

    def believes(self, request):
        return stripe(request.headers, request.raw)

    def claim(self, name):
        with self.lock:
            if name in self.mine:
                return "running"
            done = self.db.execute("SELECT state FROM messages WHERE id = ?", (name,)).fetchone()
            if done:
                return "done"
            self.mine.add(name)
            return "mine"

    def answer(self, name, message):
        try:
            return super().answer(name, message)
        finally:
            self.mine.discard(name)

    def send(self, name, mail):
        try:
            hand_over(mail, key=f"reply-to-{name}")
        except Refused as refused:
            if refused.name == "concurrent_idempotent_requests":
                raise NotYet from None
            raise

    def unknown(self, name):
        return error(503, "try_again", "Nobody knows yet; the same key will tell.")

    def post(self, request):
        try:
            return super().post(request)
        except NotYet:
            return error(409, "in_progress", "Another instance is answering this message.")


class NotYet(Exception):
    """The other instance has the key."""


Instance().serve()
