"""Several instances of a careful target (careful.py) on one SQLite file, each of which ends its work before it goes.

Put ``Instance`` before a vendor's class. ``REPLICA`` in the environment is an instance's number.
"""

import os
import signal
import sys

import plumbing
from store import Store

ME = os.environ.get("REPLICA", "1")


class OwnWork(Store):
    """What an instance goes through at its start is what it wrote last itself: the rest is another's, who may live."""

    def put(self, kind, name, doc):
        super().put(kind, name, {**doc, "by": ME} if isinstance(doc, dict) else doc)

    def all(self, kind):
        return [(name, doc) for name, doc in super().all(kind) if doc["by"] == ME]


class Instance:
    STORE = OwnWork

    def __init__(self):
        self.store = self.STORE(os.environ["STATE"])
        self.offset = self.store.get("clock", "offset") or 0.0
        self.wake_up()

    def serve(self):
        plumbing._Server.daemon_threads = False  # then the end of the server waits for what it is doing
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        super().serve()


class Leased(Instance):
    """A claim lapses after LEASE seconds; ``taken_over`` is then the state of a mail that was being handed over."""

    LEASE = 300

    def check_record(self, call):
        with self.store:
            super().check_record(call)
            if call.entry is not None:
                call.entry["claimed"] = self.now()
                self.store.put("entries", call.place, call.entry)

    def has_lapsed(self, entry):
        return entry["state"] == "running" and self.now() - entry["claimed"] > self.LEASE

    def look_up(self, call):
        entry = super().look_up(call)
        if entry is not None and entry["state"] == "open":
            for name in entry["ids"]:
                self.move(name, "handing", self.taken_over)
        return entry
