"""Escapes count as they are written, and only they: a letter written as an escape makes another request."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    def canonical(self, call):
        return [super().canonical(call), call.request.raw.count(b"\\u")]


Flawed().serve()
