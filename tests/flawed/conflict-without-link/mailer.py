"""A conflict has no link to what explains it."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    ANSWERS = {**Rasket.ANSWERS, "conflict": Rasket.ANSWERS["conflict"][:2]}


Flawed().serve()
