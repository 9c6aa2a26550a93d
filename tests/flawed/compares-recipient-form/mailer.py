"""One recipient as a text and as a list of one are two contents here."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    def resolved(self, value):
        return value


Flawed().serve()
