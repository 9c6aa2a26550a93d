"""Of a batch only the first mail is compared: a batch with another end is taken for the repeat."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def canonical(self, call):
        return call.body[:1] if call.batch else super().canonical(call)


Flawed().serve()
