"""Remembers what it has answered in memory: after a restart every event is new."""

import sys

sys.path.insert(0, "../../targets_common")
import sqlite3

from inbox import Inbox


class Amnesic(Inbox):
    def __init__(self):
        super().__init__()
        self.db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self.db.execute("CREATE TABLE messages (id TEXT PRIMARY KEY, state TEXT, owner TEXT)")


Amnesic().serve()
