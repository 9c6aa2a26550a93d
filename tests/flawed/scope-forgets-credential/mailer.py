"""Two services of an account count from 1, each with a credential of its own: the second one is told of a conflict
with the first one's mail."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    SCOPE = ("tenant",)


Flawed().serve()
