"""A failure that surely sent nothing is stored for good: the mail can never be sent under its key."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    STORES = {**Rasket.STORES, "busy": "stored"}


Flawed().serve()
