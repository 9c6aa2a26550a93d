"""Who meets the first one in flight is told to wait, and not for how long."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Novu


class Flawed(Novu):
    ANSWERS = {**Novu.ANSWERS, "in_progress": Novu.ANSWERS["in_progress"][:2]}


Flawed().serve()
