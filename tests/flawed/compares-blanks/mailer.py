"""The fingerprint is made of the body's bytes: a proxy that writes the JSON anew makes another request of it."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    def canonical(self, call):
        return call.request.raw.decode("latin-1")


Flawed().serve()
