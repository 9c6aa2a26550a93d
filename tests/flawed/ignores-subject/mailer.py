"""The subject is not part of the fingerprint: another subject under a used key is answered as the repeat."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def canonical(self, call):
        counted = super().canonical(call)
        return counted if call.batch else {name: value for name, value in counted.items() if name != "subject"}


Flawed().serve()
