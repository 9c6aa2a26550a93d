"""A mail that is not complete is refused from the record of its key, where the contract does not say whether it
is."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Sound(Postfleet):
    ORDER = ("auth", "rate_limit", "key", "record", "validation")
    STORES = {**Postfleet.STORES, "validation": "stored", "busy": "stored"}


Sound().serve()
