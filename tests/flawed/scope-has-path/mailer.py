"""Each path has keys of its own, though the contract gives one space to all of them."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    SCOPE = ("tenant", "path")


Flawed().serve()
