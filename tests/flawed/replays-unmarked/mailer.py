"""A replay looks like a first answer: the declared marker is missing."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    MARKER_HEADERS = {}


Flawed().serve()
