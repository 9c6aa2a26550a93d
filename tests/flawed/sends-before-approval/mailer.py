"""A mail that needs approval is sent at once; what waits for the person is a copy."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    def approve(self, call):
        self.own(call)
        self.check_person(call)
        if not self.move(call.name, "pending", "sent"):
            return 409, {"message": "This is no draft any more."}
        self.decided(call.name, self.store.get("messages", call.name))
        return self.launched(call.name)

    def write_down(self, call):
        ids = super().write_down(call)
        if self.needs_approval(call):
            self.deliver(ids[0])
            self.move(ids[0], "sent", "pending")
        return ids


Flawed().serve()
