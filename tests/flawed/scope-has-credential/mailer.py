"""Each credential has keys of its own, though the contract gives one space to the whole team: after a rotation the
retry is a second mail."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    SCOPE = ("tenant", "credential")


Flawed().serve()
