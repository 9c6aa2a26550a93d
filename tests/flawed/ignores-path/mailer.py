"""The path is not part of the fingerprint: the same body sent as a reply is taken for the repeat of a new message."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    FINGERPRINT = ("body",)


Flawed().serve()
