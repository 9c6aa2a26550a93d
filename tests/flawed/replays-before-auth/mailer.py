"""The record of the key is looked up before the credential: whoever knows a key gets its answer."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    ORDER = ("key", "record", "auth", "rate_limit", "validation")
    STATES = ("in_progress", "mismatch", "replay")


Flawed().serve()
