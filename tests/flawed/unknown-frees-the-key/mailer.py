"""When nobody knows what became of a mail, its key is let go: the next retry is a second mail."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    STORES = {**Postfleet.STORES, "unknown": "released"}


Flawed().serve()
