"""An instance that starts lets go of every claim that nobody has ended: also of those that another one, which is alive,
is working on."""

import sys

sys.path.insert(0, "../../targets_common")
from instances import Instance
from store import Store
from vendors import Rasket


class Flawed(Instance, Rasket):
    STORE = Store

    def wake_up(self):
        with self.store:
            for place, entry in self.store.all("entries"):
                if entry["state"] == "running":
                    self.release(place, entry)


Flawed().serve()
