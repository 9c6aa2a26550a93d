"""Keys are taken out after an hour, where a day is promised: a retry in the evening is a second mail."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    RETENTION = 3600


Flawed().serve()
