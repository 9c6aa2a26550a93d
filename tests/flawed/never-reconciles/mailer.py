"""The provider's events are acknowledged and never matched: an unknown outcome stays so for ever."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    def means(self, event, message):
        return False


Flawed().serve()
