"""Contents are compared before it is asked whether the first still runs, where the contract has it the other way
round."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Novu


class Flawed(Novu):
    STATES = ("mismatch", "in_progress", "replay")


Flawed().serve()
