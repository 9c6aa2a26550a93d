"""A rejected draft can still be approved, and goes out."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    def take_to_send(self, name):
        return super().take_to_send(name) or self.move(name, "rejected", "handing")


Flawed().serve()
