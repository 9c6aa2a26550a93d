"""The last mail of a batch is written down and never handed over; the answer names it."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def deliver_all(self, ids):
        if len(ids) > 1:
            self.move(ids[-1], "queued", "sent")
        super().deliver_all(ids)


Flawed().serve()
