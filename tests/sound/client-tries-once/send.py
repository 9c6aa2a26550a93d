"""Tries once, and says unknown where it does not know: whoever asked may ask again, under the same key."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Once(Caller):
    ATTEMPTS = 1


main(Once)
