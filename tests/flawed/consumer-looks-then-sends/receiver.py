"""Looks whether a message was answered, answers it, and notes that: two deliveries at once both find nothing."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox


class Racer(Inbox):
    def claim(self, name):
        with self.lock:
            known = self.db.execute("SELECT 1 FROM messages WHERE id = ?", (name,)).fetchone()
        return "done" if known else "mine"


Racer().serve()
