"""Whether a draft may be sent is read before it is sent and written after it: two people who approve at once send
it twice."""

import sys
import time

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    def take_to_send(self, name):
        waits = self.store.get("messages", name)["state"] == "pending"
        time.sleep(0.05)  # the mailbox and its quota are looked up
        return waits


Flawed().serve()
