"""Renders the mail anew for each attempt, with the time in it: the retry has the key of other content."""

import sys
import time

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    def ask(self, key, body):
        return super().ask(key, self.body(key))

    def fields(self):
        return {**super().fields(), "text": f"{self.text}\n\nSent at {time.time_ns()}."}


main(Flawed)
