"""Follows a redirect to wherever it leads, with its key and its credential."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    def follows(self, url, place):
        return True


main(Flawed)
