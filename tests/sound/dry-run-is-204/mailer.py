"""A dry run is answered 204: all is well, and there is nothing to name."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Sound(Pylota):
    ANSWERS = {**Pylota.ANSWERS, "dry_run": (204, None)}


Sound().serve()
