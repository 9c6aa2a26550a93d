"""A key guards what has been sent, and a draft has not: each repeat makes another draft, and two lie before the
person."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    STORES = {**Postfleet.STORES, "pending": "released"}


Flawed().serve()
