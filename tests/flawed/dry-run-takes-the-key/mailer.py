"""A dry run is recorded under its key: the real send after it is told of a conflict, and never sent."""

import sys
import threading

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    checking = threading.local()

    def check_key(self, call):
        self.checking.the_key = True
        try:
            super().check_key(call)
        finally:
            self.checking.the_key = False

    def is_dry_run(self, call):
        return not getattr(self.checking, "the_key", False) and super().is_dry_run(call)


Flawed().serve()
