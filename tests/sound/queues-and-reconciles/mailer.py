"""Written down, answered 202, and sent from a queue that tries again until the provider takes it; what is
uncertain stays so until an event or a person settles it."""

import sys
import threading
import time

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Sound(Pylota):
    def deliver_all(self, ids):
        for name in ids:
            threading.Thread(target=self.work, args=[name], daemon=True).start()

    def work(self, name):
        while self.move(name, "queued", "handing"):
            self.deliver(name)
            time.sleep(0.1)

    def outcome(self, ids):
        return "sent"

    def wake_up(self):
        super().wake_up()
        self.deliver_all([name for name, message in self.store.all("messages") if message["state"] == "queued"])

    def left_behind(self, place, entry, outcome):
        if not entry["ids"]:
            return self.release(place, entry)
        return self.conclude(place, entry, "sent", self.answer("accepted", entry["ids"]))


Sound().serve()
