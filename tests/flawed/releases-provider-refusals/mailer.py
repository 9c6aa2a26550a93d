"""What the mail provider refused is tried again by the next retry, though the contract stores it as the result."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    STORES = {**Postfleet.STORES, "refused": "released"}


Flawed().serve()
