"""Acknowledges an event when it has it in memory, and its one sender commits it between two mails: killed before that,
it has lost what nobody sends again. The rest is the reference."""

import queue
import sys

sys.path.insert(0, "../../implementations/mail-worker-python")
from worker import Worker


class Mine(Worker):
    senders = 1
    taken = queue.SimpleQueue()

    def take(self, event_id, message):
        self.taken.put((event_id, message))
        self.wake()

    def answer_one(self):
        while not self.taken.empty():
            super().take(*self.taken.get())
        return super().answer_one()


Mine().run()
