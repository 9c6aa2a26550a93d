"""A field that is there and null counts: a client that writes null for what it has not is told of a conflict."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    DROPS_EMPTY = False


Flawed().serve()
