"""A repeat is answered 200, where the first was answered 202 and the contract promises the same."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    REPLAYS_AS = {202: 200}


Flawed().serve()
