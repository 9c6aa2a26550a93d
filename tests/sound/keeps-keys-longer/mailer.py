"""Keys are kept for two months, where one is promised and no end is named; the time counts from the result."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Sound(Pylota):
    RETENTION, COUNTS_FROM = 60 * 86400, "done"


Sound().serve()
