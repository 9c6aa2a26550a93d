"""Notes a message as answered and does the work after that: where the work fails, the event that comes again is taken
for a repeat, and nobody is answered."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox


class Hasty(Inbox):
    def claim(self, name):
        claim = super().claim(name)
        if claim == "mine":
            self.note(name, "sent")
        return claim

    def release(self, name):
        pass  # it is noted


Hasty().serve()
