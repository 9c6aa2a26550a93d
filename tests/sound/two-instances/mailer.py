"""Two instances on one SQLite file (WAL, BEGIN IMMEDIATE): a claim is written where both see it. One that starts goes
through what it left behind itself, and one that is asked to end does so when its work is done."""

import sys

sys.path.insert(0, "../../targets_common")
from instances import Instance
from vendors import Rasket


class Sound(Instance, Rasket):
    pass


Sound().serve()
