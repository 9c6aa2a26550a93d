"""The key is required for a new message, and nobody asks for it when one is forwarded."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    def check_key(self, call):
        if self.key_of(call) is not None or call.request.path != "/forward":
            super().check_key(call)


Flawed().serve()
