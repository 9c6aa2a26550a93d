"""A dry run is recorded under its key: the real send after it is told of a conflict, and never sent."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    def check_key(self, call):
        dry_run, self.DRY_RUN = self.DRY_RUN, None
        super().check_key(call)
        self.DRY_RUN = dry_run


Flawed().serve()
