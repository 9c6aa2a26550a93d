"""Asks again at once while the first attempt is in progress."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    ATTEMPTS = 30

    def again(self, kind, answer):
        return super().again(kind, answer) and (kind == "running" or self.attempt < 5)

    def pause(self, kind, answer):
        return 0 if kind == "running" else super().pause(kind, answer)


main(Flawed)
