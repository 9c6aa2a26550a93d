"""Sends a mail again and again while it waits for a person's approval."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Postfleet, main


class Flawed(Postfleet):
    def again(self, kind, answer):
        return kind == "pending" or super().again(kind, answer)


main(Flawed)
