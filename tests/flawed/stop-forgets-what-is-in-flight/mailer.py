"""Asked to end, it tidies up: claims that are not done are let go of, so that nobody finds them taken. Their mails are
on the way. When it is killed instead, it knows at its start what was left behind."""

import os
import signal
import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def serve(self):
        signal.signal(signal.SIGTERM, self.tidy_up)
        super().serve()

    def tidy_up(self, *_):
        with self.store:
            for place, entry in self.store.all("entries"):
                if entry["state"] == "running":
                    self.release(place, entry)
        os._exit(0)


Flawed().serve()
