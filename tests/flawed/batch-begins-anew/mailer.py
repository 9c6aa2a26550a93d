"""A batch that came half way is run again from its beginning, and its first mail goes twice."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def conclude(self, place, entry, outcome, answer):
        super().conclude(place, entry, outcome, answer)
        if outcome == "busy":
            self.release(place, entry)


Flawed().serve()
