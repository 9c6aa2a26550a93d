"""An approval is acknowledged with 202, and the draft is sent from a queue a moment later, until the provider
takes it."""

import sys
import threading
import time

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Sound(Postfleet):
    def approve(self, call):
        self.own(call)
        self.check_person(call)
        if not self.move(call.name, "pending", "approved"):
            return 409, {"message": "This is no draft any more."}
        threading.Timer(0.2, self.launch, [call.name]).start()
        return 202, {"id": call.name, "status": "approved"}

    def launch(self, name):
        while self.move(name, "approved", "handing"):
            self.deliver(name, again="approved")
            time.sleep(0.2)
        self.decided(name, self.store.get("messages", name))

    def wake_up(self):
        super().wake_up()
        for name, message in self.store.all("messages"):
            if message["state"] == "approved":
                threading.Timer(0.2, self.launch, [name]).start()


Sound().serve()
