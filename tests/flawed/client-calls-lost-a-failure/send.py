"""Tries once, and calls an attempt without an answer a failure."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import NOT_SENT, SENT, Caller, main


class Flawed(Caller):
    ATTEMPTS = 1

    def says(self, kind):
        return SENT if kind == "sent" else NOT_SENT


main(Flawed)
