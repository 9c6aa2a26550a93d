"""A dry run records nothing and looks nothing up, and the mail is handed over."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    def dispatch(self, call):
        if self.is_dry_run(call):
            self.deliver_all(self.write_down(call))
        return super().dispatch(call)


Flawed().serve()
