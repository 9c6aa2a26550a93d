"""A key that was used on one path is a conflict on another, though each path has keys of its own."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    SCOPE = ("tenant",)


Flawed().serve()
