"""Tries again whatever happened, at an API that takes no key."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Postmark, main


class Flawed(Postmark):
    def again(self, kind, answer):
        return kind in ("busy", "open")


main(Flawed)
