"""Acknowledges at once and does the work from a queue in memory: killed in between, it loses what it has taken."""

import queue
import sys
import threading
import time

sys.path.insert(0, "../../targets_common")
from inbox import OK, Inbox


class Forgetful(Inbox):
    def __init__(self):
        super().__init__()
        self.todo = queue.Queue()
        for _ in range(16):
            threading.Thread(target=self.work, daemon=True).start()

    def answer(self, name, message):
        self.note(name, "queued")
        self.todo.put((name, message))
        return OK

    def work(self):
        while True:
            name, message = self.todo.get()
            while super().answer(name, message) != OK:
                time.sleep(1)  # the send API is busy


Forgetful().serve()
