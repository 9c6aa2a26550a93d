"""Keys are kept for ever, though they are to end after a day: an intended new send is swallowed."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    RETENTION = None


Flawed().serve()
