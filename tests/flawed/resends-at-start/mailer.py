"""At its start it sends whatever is not done, and what is unknown is not done."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    def wake_up(self):
        super().wake_up()
        for name, message in self.store.all("messages"):
            if message["state"] == "unknown" and self.move(name, "unknown", "handing"):
                self.deliver(name)


Flawed().serve()
