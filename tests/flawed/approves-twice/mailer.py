"""Whether a draft may be sent is read before it is sent and written after it: two people who approve at once send
it twice."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    def take_to_send(self, name):
        return self.store.get("messages", name)["state"] == "pending"


Flawed().serve()
