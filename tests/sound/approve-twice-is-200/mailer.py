"""Whoever approves what has been approved is told so with 200, and nothing more is sent."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Sound(Postfleet):
    def approve(self, call):
        self.own(call)
        self.check_person(call)
        if self.store.get("messages", call.name)["state"] in ("handing", "sent", "unknown"):
            return self.launched(call.name)
        return super().approve(call)


Sound().serve()
