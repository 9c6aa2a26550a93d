"""A refused mail leaves its key free, though the contract stores refusals: the repaired mail goes out under the
old key."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Nylas


class Flawed(Nylas):
    STORES = {**Nylas.STORES, "validation": "released"}


Flawed().serve()
