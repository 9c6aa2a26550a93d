"""The credential that asked for a mail may approve it as well."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    def check_person(self, call):
        pass


Flawed().serve()
