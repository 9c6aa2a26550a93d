"""Of two that come at the same instant each sees the other's claim, both take theirs back, and both are told to
wait."""

import collections
import sys
import time

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    waiting = collections.Counter()

    def check_record(self, call):
        place = call.key and self.place(call)
        if place and not self.store.get("entries", place):
            self.waiting[place] += 1
            time.sleep(0.05)
            alone = self.waiting[place] == 1
            time.sleep(0.05)
            self.waiting[place] -= 1
            if not alone:
                self.refuse("in_progress")
        super().check_record(call)


Flawed().serve()
