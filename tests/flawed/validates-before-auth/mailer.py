"""The mail is looked at before the credential: a stranger learns what is wrong with it."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    ORDER = ("validation", "auth", "rate_limit", "key", "record")
    STATES = ("in_progress", "mismatch", "replay")


Flawed().serve()
